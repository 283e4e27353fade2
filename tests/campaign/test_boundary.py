"""Once coverage has stalled the search goes for defects: more of them for the same executions, spread over seed inputs and families."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from known_model import Scene, reads_stripes

from gate.campaign.batch import Batch, Outcome
from gate.campaign.boundary import WAYS
from gate.campaign.margin_lines import RESOLUTION, Lines, Proposal, gaps
from gate.domains.chains import Chains
from gate.domains.image.limits import Domain
from gate.domains.model_operators import MODEL_OPERATORS

SEARCH_ALONE = {"judging": 0.0, "random": 0.0, "noise": 0.0}


def fades(x: np.ndarray) -> np.ndarray:
    """The stripes; the darker a picture the more it looks like the next class, the lighter the more like the one after that."""
    raw = reads_stripes(x)
    light = x.reshape(len(x), -1).mean(axis=1) / 255
    rows, best = np.arange(len(x)), raw.argmax(axis=1)
    raw[rows, (best + 1) % 4] += 150 * np.maximum(0, 0.26 - light)
    raw[rows, (best + 2) % 4] += 150 * np.maximum(0, light - 0.40)
    return raw


def stalled(on_stall: str, seed: int = 0, **options: Any) -> Scene:
    """A campaign in which nothing new is ever covered."""
    given = {"executions": 700, "seeds": 120, "gradients": False, "steerable": False, "shares": SEARCH_ALONE, **options}
    made = Scene(fades, campaign_seed=seed, coverage={"stall": 100, "on_stall": on_stall}, **given)
    made.worker.covers = False
    return made


def test_after_freezing_the_same_executions_find_more_distinct_defects_than_going_on_for_coverage() -> None:
    ratios = []
    for seed in range(10):
        went_on = stalled("continue", seed).run().objectives
        hunted = stalled("freeze", seed).run().objectives["defects"]
        assert set(went_on) == {"coverage"}
        assert hunted.executions >= 450
        ratios.append((hunted.defects / hunted.executions) / (went_on["coverage"].defects / went_on["coverage"].executions))
    assert sum(ratio > 1 for ratio in ratios) >= 9
    assert np.median(ratios) > 1.5


def test_what_each_objective_was_given_adds_up_to_the_search_and_the_steps_tell_it() -> None:
    made = stalled("freeze", shares={"judging": 0.2, "random": 0.05, "noise": 0.02})
    outcome = made.run()
    searched, spent = outcome.counts["search"], outcome.objectives.values()
    assert list(outcome.objectives) == ["coverage", "defects"]
    for what in ("executions", "model_calls", "findings", "defects"):
        assert sum(getattr(one, what) for one in spent) == getattr(searched, what)
    steps = [event for event in made.events if event["event"] == "step"]
    for event in steps:
        assert (event["objective"] is None) == (event["arm"] != "search")
    assert {event["objective"] for event in steps} == {None, "coverage", "defects"}


def test_the_search_goes_on_to_other_seed_inputs_instead_of_finding_the_same_again() -> None:
    found: list[Any] = []
    made = stalled("freeze", confirm=lambda finding: found.append(finding) or True)  # type: ignore[func-returns-value]
    made.run()
    assert len({finding.seed for finding in found}) >= 90
    # Of one seed input and family at most one try in a step, beside the bisection of what has failed already.
    family = made.domain.family
    for batch in along_lines(stalled("freeze")):
        assert isinstance(batch.recipes, Chains)
        limit = batch.recipes.severities == 1.0
        tried = [(int(batch.seeds[row]), family(batch.recipes.names(row)[0])) for row in np.flatnonzero(limit).tolist()]
        assert len(tried) == len(set(tried))


def hunts(made: Scene) -> list[Batch]:
    """What was proposed for defects in a campaign, but for mutants of entries."""
    seen: list[Batch] = []
    original = made.search._boundary.propose

    def propose(step: int, count: int) -> Batch | None:
        batch = original(step, count)
        if batch is not None:
            assert len(batch.x) <= count
            seen.append(batch)
        return batch

    made.search._boundary.propose = propose  # type: ignore[method-assign]
    made.run()
    assert seen
    return seen


def along_lines(made: Scene) -> list[Batch]:
    return [batch for batch in hunts(made) if batch.kept is None]


def test_what_it_proposes_is_recorded_so_that_it_can_be_made_again_and_keeps_within_the_policy() -> None:
    limits = Domain.model_validate({"chain": {"length": 3, "severity": 0.6}})
    made = stalled("freeze", limits=limits)
    for batch in along_lines(made):
        for row in range(0, len(batch.x), 7):
            recipe = batch.recipes[row]
            assert len(recipe) == 1
            assert 0 < recipe[0].severity <= 0.6
            np.testing.assert_array_equal(made.domain.replay(made.seeds.x[batch.seeds[row]], recipe), batch.x[row])


@pytest.mark.parametrize("gradients", [False, True])
def test_the_same_campaign_seed_hunts_alike(gradients: bool) -> None:
    one, other = (hunts(stalled("freeze", 5, gradients=gradients)) for _ in range(2))
    assert [batch.x.tobytes() for batch in one] == [batch.x.tobytes() for batch in other]


# Lines.


def lines_over(domain: Any, count: int = 12) -> tuple[Lines, np.ndarray, np.ndarray]:
    labels = np.arange(count) % 4
    probabilities = np.full((count, 4), 0.02)
    probabilities[np.arange(count), labels] = 0.94
    families = np.arange(len(domain.natural))
    return Lines(domain.natural, families, labels, probabilities, 1.0), labels, probabilities


def ran(domain: Any, proposal: Proposal, labels: np.ndarray, fails_from: float) -> tuple[Batch, Outcome]:
    """Every line fails from one severity on; up to there the margin falls in proportion."""
    count = len(proposal.seeds)
    steps = domain.steps(proposal.operators, proposal.severities, proposal.draws)
    chains = Chains.none(count).then(np.arange(count), steps, proposal.severities)
    gap = np.log(0.94 / 0.02) * (1 - proposal.severities / fails_from)
    own = labels[proposal.seeds]
    raw = np.zeros((count, 4))
    raw[np.arange(count), own] = gap
    probabilities = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    failed = proposal.severities >= fails_from
    predicted = np.where(failed, (own + 1) % 4, own)
    x = np.zeros((count, 8, 8, 1), dtype=np.uint8)
    batch = Batch("search", 0, x, proposal.seeds, chains, np.ones(count, dtype=bool), 0, proposal.operators)
    return batch, Outcome(probabilities, predicted, np.where(failed, 0, -1), np.zeros(count))


def test_between_what_holds_and_what_fails_the_boundary_is_found_to_the_resolution() -> None:
    domain = Scene(gradients=False).domain
    lines, labels, _ = lines_over(domain)
    random = np.random.default_rng(0)
    lines.take(*ran(domain, Proposal(np.arange(12), np.zeros(12, dtype=np.int64), np.full(12, 0.2), np.arange(12)), labels, 0.37))
    for _ in range(60):
        proposal = lines.propose(16, random)
        if proposal is None:
            break
        lines.take(*ran(domain, proposal, labels, 0.37))
    assert np.isfinite(lines.failed).all()
    assert (lines.failed >= 0.37).all()
    assert (lines.failed <= 0.37 + RESOLUTION).all()


def test_a_straight_line_to_the_boundary_is_gone_to_its_end_at_once() -> None:
    domain = Scene(gradients=False).domain
    lines, labels, _ = lines_over(domain)
    few = Proposal(np.arange(12), np.zeros(12, dtype=np.int64), np.full(12, 0.2), np.arange(12))
    lines.take(*ran(domain, few, labels, 0.7))
    proposal = lines.propose(12, np.random.default_rng(0))
    assert proposal is not None
    on = proposal.operators == 0
    assert on.sum() >= 8
    np.testing.assert_array_equal(proposal.draws[on], proposal.seeds[on])  # the same line
    np.testing.assert_allclose(proposal.severities[on], 0.77, atol=0.01)  # a tenth beyond where it meets the boundary


def test_once_a_seed_input_has_failed_by_a_family_that_family_is_left_alone() -> None:
    domain = Scene(gradients=False).domain
    lines, labels, _ = lines_over(domain)
    random = np.random.default_rng(0)
    everything = Proposal(np.arange(12), np.full(12, 3), np.full(12, 1.0), np.arange(12))
    lines.take(*ran(domain, everything, labels, 0.99))
    for _ in range(30):
        proposal = lines.propose(64, random)
        if proposal is None:
            break
        on = proposal.operators == 3
        assert (proposal.severities[on] < 1.0).all()  # bisections
        lines.take(*ran(domain, proposal, labels, 0.99))


def test_an_output_that_is_not_finite_teaches_nothing() -> None:
    domain = Scene(gradients=False).domain
    lines, labels, _ = lines_over(domain)
    few = Proposal(np.arange(12), np.zeros(12, dtype=np.int64), np.full(12, 0.2), np.arange(12))
    batch, outcome = ran(domain, few, labels, 0.7)
    lines.take(batch, Outcome(np.full((12, 4), np.nan), np.full(12, -1), np.zeros(12, dtype=np.int64), np.zeros(12)))
    assert lines.propose(12, np.random.default_rng(0)) is None
    assert np.isinf(lines.failed).all()
    lines.take(batch, outcome)
    assert lines.propose(12, np.random.default_rng(0)) is not None


def test_gaps_are_differences_of_logits_however_sure_the_model_is() -> None:
    probabilities = np.array([[1.0 - 1e-12, 1e-12], [0.25, 0.75], [1.0, 0.0]])
    found = gaps(probabilities, np.zeros(3, dtype=np.int64))
    np.testing.assert_allclose(found[:2], [27.6, -np.log(3)], atol=0.05)
    assert np.isfinite(found[2])
    assert found[2] > 600


# Descents, as the search takes part in them.


def test_descents_are_held_to_the_bound_whatever_the_worker_says() -> None:
    made = stalled("freeze", gradients=True, executions=2000, cheat=lambda x: 255 - x)
    descents = [batch for batch in hunts(made) if batch.kept is not None]
    assert descents
    bound = made.domain.model_bounds["pgd"] * 255
    for batch in descents:
        assert not batch.valid.any()  # what was cut back is not what ran
        parents = np.stack([made.domain.replay(made.seeds.x[s], r[:-1]) for s, r in zip(batch.seeds, batch.recipes, strict=True)])
        assert np.abs(batch.x.astype(float) - parents).max() <= bound
        assert {recipe[-1].operator for recipe in batch.recipes} == {"pgd"}


def test_without_gradients_or_where_the_policy_switches_it_off_there_are_no_descents() -> None:
    assert MODEL_OPERATORS["pgd"].needs == "gradients"
    for made in (stalled("freeze"), stalled("freeze", gradients=True, limits=Domain.model_validate({"adversarial": {"pgd": None}}))):
        made.run()
        assert "descend" not in [name for name, _, _ in made.worker.calls]
        assert made.search._boundary.weights[WAYS.index("descents")] == 0.0


def test_a_pair_that_came_to_nothing_is_given_up_and_another_follows() -> None:
    made = stalled("freeze", gradients=True, executions=4000, seeds=20)
    made.run()
    asked = [(given["x"], given["labels"], given["targets"]) for name, _, given in made.worker.calls if name == "descend"]
    pairs = [(x.tobytes(), int(target)) for xs, _, targets in asked for x, target in zip(xs, targets, strict=True)]
    assert len(pairs) > 16  # more than one step of them
    assert len(pairs) == len(set(pairs))  # twice only from another input
    assert all((labels != targets).all() for _, labels, targets in asked)


def test_descents_go_for_the_nearest_pairs_first() -> None:
    made = stalled("freeze", gradients=True, executions=2000, seeds=20)
    made.run()
    first = next(given for name, _, given in made.worker.calls if name == "descend")
    known = {x.tobytes(): row for row, x in enumerate(made.seeds.x)}
    rows = [known[x.tobytes()] for x in first["x"]]
    logits = np.log(made.seeds.probabilities)
    apart = logits[np.arange(20), made.seeds.labels][:, None] - logits
    apart[np.arange(20), made.seeds.labels] = np.inf
    np.testing.assert_allclose(apart[rows, first["targets"]], np.sort(apart, axis=None)[: len(rows)])
