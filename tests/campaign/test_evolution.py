"""Evolution finds what chance does not, makes ordinary recipes, and never needs an answer before it is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from known_model import Scene, images, reads_stripes

from gate.campaign.batch import Batch, Outcome
from gate.campaign.evolution import FEW, GENERATIONS, MEMBERS, PATIENCE, Evolution
from gate.corpus.corpus import Corpus
from gate.domains.image.domain import ImageDomain
from gate.domains.image.limits import Domain

OPERATORS = ("brightness", "contrast", "gamma")
OPTIMUM = (0.62, 0.23, 0.4)
NEAR = 0.045  # summed distance from the optimum at which the class changes
EXECUTIONS = 1_200


def limits(**chain: Any) -> Domain:
    """Three operators and no other."""
    kept = {
        family: {name: value if name in OPERATORS else None for name, value in fields.items()}
        for family, fields in Domain().model_dump().items()
        if family != "chain"
    }
    return Domain.model_validate({**kept, "chain": {"length": 3, "severity": 2.0, "contrast_kept": 0.0, **chain}})


class Ground:
    """Seed inputs, and an entry of the corpus with all three operators at which populations begin."""

    def __init__(self, seed: int = 0, **chain: Any) -> None:
        self.x, self.y = images(8)
        self.domain = ImageDomain(limits(**chain), self.x.shape[1:], np.uint8, (0.0, 255.0))
        self.corpus = Corpus(self.x)
        recipe = tuple(self.domain.step(name, 0.1, place) for place, name in enumerate(OPERATORS))
        self.entry = len(self.corpus)
        self.corpus.add_all(
            self.domain.replay(self.x[0], recipe)[None],
            np.zeros(1, dtype=np.int64),
            [recipe],
            lengths=np.array([3]),
            severities=np.array([0.3]),
            new_items=np.ones(1),
            margins=np.ones(1),
            open_=np.ones(1, dtype=bool),
            step=0,
        )
        self.evolution = Evolution(self.domain, self.corpus, self.y, campaign_seed=seed)

    def propose(self, step: int, count: int = 64, objective: Any = "defects", entry: int | None = None) -> Batch:
        begun = self.entry if entry is None else entry
        batch = self.evolution.propose(
            step, count, objective=objective, choose=lambda places, _: np.full(places, begun), weights=np.ones(len(OPERATORS)) / 3
        )
        assert batch is not None
        return batch


def apart(batch: Batch) -> np.ndarray:
    """[N]: summed distance of the severities from the optimum."""
    found = np.zeros((len(batch.x), 3))
    for row, recipe in enumerate(batch.recipes):
        for step in recipe:
            found[row, OPERATORS.index(step.operator)] += step.severity
    return np.asarray(np.abs(found - OPTIMUM).sum(axis=1))


def answered(batch: Batch, labels: np.ndarray, new_items: np.ndarray | None = None) -> Outcome:
    """The nearer to the optimum, the less sure; beyond ``NEAR`` of it, another class."""
    rows, away = np.arange(len(batch.x)), apart(batch)
    label = labels[batch.seeds]
    odds = np.exp(-8 * (away - NEAR))
    probabilities = np.zeros((len(batch.x), 4))
    probabilities[rows, label] = 1 / (1 + odds)
    probabilities[rows, (label + 1) % 4] = odds / (1 + odds)
    complaint = np.where(away < NEAR, 0, -1)
    covered = np.zeros(len(batch.x)) if new_items is None else new_items
    return Outcome(probabilities, np.where(away < NEAR, (label + 1) % 4, label), complaint, covered)


def finds(seed: int) -> bool:
    ground, step = Ground(seed), 0
    waiting: list[Batch] = []
    while step * 64 < EXECUTIONS:
        waiting.append(ground.propose(step))
        step += 1
        if (apart(waiting[-1]) < NEAR).any():
            return True
        if len(waiting) == 2:  # as in a campaign: the next step is proposed before the last is known
            batch = waiting.pop(0)
            assert ground.evolution.take(batch, answered(batch, ground.y))
    return False


def by_luck(seed: int) -> bool:
    """All three operators in every chain, each severity drawn evenly: more than the random arm has."""
    severities = np.random.default_rng(seed).random((EXECUTIONS, 3))
    severities = severities[severities.sum(axis=1) <= 2.0]
    return bool((np.abs(severities - OPTIMUM).sum(axis=1) < NEAR).any())


def test_evolution_finds_a_combination_of_severities_that_luck_does_not() -> None:
    assert sum(finds(seed) for seed in range(10)) >= 9
    assert sum(by_luck(seed) for seed in range(10)) <= 2


def test_trials_are_ordinary_recipes_within_the_chains_bound_with_draws_of_their_population() -> None:
    ground = Ground(severity=1.0)
    populations: dict[tuple[int, int], set[int]] = {}
    for step in range(8):
        batch = ground.propose(step)
        assert batch.operators is not None
        for row, (mutant, seed, recipe) in enumerate(zip(batch.x, batch.seeds, batch.recipes, strict=True)):
            np.testing.assert_array_equal(ground.domain.replay(ground.x[seed], recipe), mutant)
            assert 1 <= len(recipe) <= 3
            assert all(0 < one.severity <= 1 for one in recipe)
            assert sum(one.severity for one in recipe) <= 1 + 1e-9
            assert ground.domain.natural[batch.operators[row]] == recipe[-1].operator
            for one in recipe:
                place = (row // MEMBERS, OPERATORS.index(one.operator))
                known = populations.setdefault(place, set())
                # A draw is taken over from a member; none is made up on the way.
                assert step == 0 or one.draw in known
                if step == 0:
                    known.add(one.draw)
        if step == 0:  # operators that the first trials leave out have draws as well
            for place in populations:
                populations[place] |= set(ground.evolution._groups[0].draws[place[0], :, place[1]].tolist())
                trials = ground.evolution._groups[0].trials
                assert trials is not None
                populations[place] |= set(trials.draws[place[0], :, place[1]].tolist())
        assert ground.evolution.take(batch, answered(batch, ground.y))
        if ground.evolution._groups[0].over.any():
            break
    assert step >= 3


def test_what_a_step_teaches_is_not_needed_for_the_next_one() -> None:
    def third(of_second: float) -> bytes:
        ground = Ground()
        first, second = ground.propose(0), ground.propose(1)
        ground.evolution.take(first, answered(first, ground.y))
        third = ground.propose(2)
        ground.evolution.take(second, answered(second, ground.y, np.full(64, of_second)))
        assert ground.propose(3).x.tobytes() != third.x.tobytes()
        return third.x.tobytes()

    assert third(0.0) == third(5.0)


def test_the_same_seed_gives_the_same_trials_and_another_gives_others() -> None:
    def made(seed: int) -> list[bytes]:
        ground = Ground(seed)
        batches = []
        for step in range(4):
            batches.append(ground.propose(step))
            ground.evolution.take(batches[-1], answered(batches[-1], ground.y))
        return [batch.x.tobytes() for batch in batches]

    assert made(1) == made(1)
    assert made(1) != made(2)


def begun(ground: Ground, answer: Callable[[Batch], Outcome], steps: int, objective: Any) -> list[int]:
    """The steps in which populations began."""
    found: list[int] = []

    def choose(places: int, _: np.random.Generator) -> np.ndarray:
        found.append(step)
        return np.full(places, ground.entry)

    for step in range(steps):
        batch = ground.evolution.propose(step, 64, objective=objective, choose=choose, weights=np.ones(3) / 3)
        assert batch is not None
        ground.evolution.take(batch, answer(batch))
    return found


def same(batch: Batch, labels: np.ndarray, new_items: float = 0.0, complaint: int = -1) -> Outcome:
    """One answer to all."""
    label = labels[batch.seeds]
    probabilities = np.full((len(batch.x), 4), 0.1)
    probabilities[np.arange(len(batch.x)), label] = 0.7
    return Outcome(probabilities, label, np.full(len(batch.x), complaint), np.full(len(batch.x), new_items))


def test_a_population_makes_way_when_nothing_gets_better_or_it_is_old_or_has_found_a_defect() -> None:
    ground = Ground()
    # The first members are better than none.
    assert begun(ground, lambda batch: same(batch, ground.y), 2 * PATIENCE + 3, "coverage") == [0, PATIENCE + 1, 2 * PATIENCE + 2]
    ground = Ground()
    assert begun(ground, lambda batch: same(batch, ground.y, new_items=1.0), GENERATIONS + 1, "coverage") == [0, GENERATIONS]
    ground = Ground()
    assert begun(ground, lambda batch: same(batch, ground.y, complaint=0), 3, "defects") == [0, 1, 2]
    # While coverage is wanted a finding is no reason to stop.
    ground = Ground()
    assert begun(ground, lambda batch: same(batch, ground.y, 1.0, complaint=0), 3, "coverage") == [0]


def test_what_covered_more_stays_but_not_for_ever() -> None:
    ground = Ground()
    first = ground.propose(0, objective="coverage")
    ground.evolution.take(first, same(first, ground.y, new_items=8.0))
    group = ground.evolution._groups[0]
    kept = group.severities.copy()
    for step, items in ((1, 3.0), (2, 1.0)):  # less than half, less than a quarter
        batch = ground.propose(step, objective="coverage")
        ground.evolution.take(batch, same(batch, ground.y, new_items=items))
        np.testing.assert_array_equal(group.severities, kept)
    batch = ground.propose(3, objective="coverage")
    ground.evolution.take(batch, same(batch, ground.y, new_items=2.0))
    assert (group.severities != kept).any()
    assert (group.covered == 2.0).all()


def test_a_trial_that_is_not_valid_never_takes_the_place_of_one_that_is() -> None:
    # Half of the contrast must be left, which strong steps of the operator contrast do not leave.
    ground = Ground(contrast_kept=0.75, severity=3.0)
    seen = np.zeros(2, dtype=np.int64)
    for step in range(6):
        batch = ground.propose(step)
        group = ground.evolution._groups[0]
        before = np.isfinite(group.nearness) & (group.generations > 0)[:, None] & ~group.over[:, None]
        # What is not valid would be misclassified, and is no use all the same.
        outcome = answered(batch, ground.y)
        outcome.probabilities[~batch.valid] = 0.25
        ground.evolution.take(batch, outcome)
        assert np.isfinite(group.nearness)[before].all()
        wrong = ~batch.valid.reshape(group.nearness.shape)
        assert (group.ages[wrong & before] > 0).all()
        seen += [int((wrong & before).sum()), int((~wrong).sum())]
    assert seen.min() > 5


def test_a_step_without_room_for_a_population_is_none_for_evolution() -> None:
    ground = Ground()
    assert ground.evolution.propose(0, FEW - 1, objective="defects", choose=lambda n, _: np.full(n, 0), weights=np.ones(3) / 3) is None
    assert len(ground.propose(1, FEW + 3).x) == FEW
    ground = Ground()
    assert len(ground.propose(0, 40).x) == 2 * MEMBERS
    # Later steps may be larger or smaller.
    for step, (room, rows) in enumerate(((100, 96), (20, 16), (64, 64)), start=1):
        batch = ground.propose(step, room)
        assert len(batch.x) == rows
        ground.evolution.take(batch, answered(batch, ground.y))


def test_a_population_may_begin_at_a_seed_input_and_ends_in_its_own_chain() -> None:
    ground = Ground()
    batch = ground.propose(0, entry=3)
    assert (batch.seeds == 3).all()
    for start in range(0, 64, MEMBERS):
        used = {step.operator for recipe in batch.recipes[start : start + MEMBERS] for step in recipe}
        assert len(used) == 2


@pytest.mark.parametrize(("gradients", "least", "most"), [(True, 0.02, 0.3), (False, 0.35, 0.7)])
def test_as_long_as_no_way_has_paid_evolution_gets_its_half_where_nothing_can_be_climbed_and_little_elsewhere(
    gradients: bool, least: float, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Scene(reads_stripes, executions=3000, gradients=gradients)
    made.worker.covers = False
    batches: list[Batch] = []
    propose = made.search.propose

    def proposing(step: int, count: int) -> Batch:
        batches.append(propose(step, count))
        return batches[-1]

    monkeypatch.setattr(made.search, "propose", proposing)
    made.run()
    evolved = [batch for batch in batches if batch.entries is None and batch.kept is None]
    assert least < len(evolved) / len(batches) < most
    # What they cost is counted, and they are executions as any others.
    assert made.campaign.outcome.counts["search"].executions == sum(len(batch.x) for batch in batches)


def test_what_evolution_finds_first_does_not_hide_from_the_others_which_operators_pay() -> None:
    found: set[tuple[str, str, str, int, str]] = set()

    def confirm(finding: Any) -> bool:
        found.add(finding.key)
        return True

    # In this campaign evolution is the one that covers what the dark shows first.
    Scene(executions=3000, campaign_seed=3, gradients=False, confirm=confirm).run()
    assert len([key for key in found if key[0] == "search"]) >= 30
