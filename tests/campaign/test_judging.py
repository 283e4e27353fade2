"""The judging arm draws blindly: the same mutants of the same seed inputs for any model, in whole seed inputs."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from known_model import Scene, fails_in_the_dark, images, reads_stripes

from gate.campaign.judging import JudgingArm, blind_steps
from gate.corpus.export import half_of
from gate.domains.image.domain import ImageDomain
from gate.domains.image.image_set import sample_ids
from gate.domains.image.limits import Domain
from gate.errors import PolicyError
from gate.randomness import key

DOMAIN = ImageDomain(Domain(), (8, 8, 1), np.uint8, (0.0, 255.0))
FAMILIES = ("geometry", "photometry", "blur", "noise", "weather", "compression", "occlusion")
OFF = {family: dict.fromkeys(type(getattr(Domain(), family)).model_fields) for family in FAMILIES}


def drawn(
    rows: np.ndarray, *, seed: int = 5, at_most: int = 40, count: int = 24
) -> list[tuple[str, tuple[bytes, ...], tuple[object, ...]]]:
    """(identity, its mutants, their steps) in the order in which the arm takes the seed inputs ``rows`` of one file."""
    x, y = images(count)
    ids = sample_ids(x, y)
    own = [ids[row] for row in rows]
    arm = JudgingArm(DOMAIN, x[rows], own, 4, seed)
    found = []
    step = 0
    while (batch := arm.propose(step, at_most)) is not None:
        step += 1
        for start in range(0, len(batch.x), 4):
            assert len(set(batch.seeds[start : start + 4])) == 1
            mutants = tuple(mutant.tobytes() for mutant in batch.x[start : start + 4])
            found.append((own[int(batch.seeds[start])], mutants, tuple(r[0].to_json() for r in batch.recipes[start : start + 4])))
    return [(identity, mutants, tuple(map(str, steps))) for identity, mutants, steps in found]


def test_every_seed_input_has_its_turn_once_with_an_equal_number_of_mutants() -> None:
    taken = drawn(np.arange(24))
    assert len({identity for identity, _, _ in taken}) == len(taken) == 24
    assert all(len(mutants) == 4 for _, mutants, _ in taken)


def test_neither_the_order_in_the_file_nor_the_step_size_changes_anything() -> None:
    usual = drawn(np.arange(24))
    assert drawn(np.random.default_rng(1).permutation(24)) == usual
    assert drawn(np.arange(24), at_most=4) == usual
    assert drawn(np.arange(24), at_most=11) == usual


def test_a_picture_that_stands_several_times_in_the_data_is_one_observation() -> None:
    x, y = images(24)
    again = np.concatenate([np.arange(24), np.repeat(np.arange(6), 9)])
    for order in (again, np.random.default_rng(2).permutation(again)):
        arm = JudgingArm(DOMAIN, x[order], sample_ids(x[order], y[order]), 4, 5)
        batch = arm.propose(0, 10_000)
        assert batch is not None
        taken = [x[order][seed].tobytes() for seed in batch.seeds[::4]]
        assert len(set(taken)) == len(taken) == 24
        usual = [bytes(row) for row in batch.x[:8].reshape(8, -1)]
        assert usual == [mutant for _, mutants, _ in drawn(np.arange(24))[:2] for mutant in mutants]


def test_a_model_that_starts_from_fewer_seed_inputs_is_judged_on_the_others_alike() -> None:
    kept = np.array([row for row in range(24) if row not in (3, 7, 20)])
    fewer = drawn(kept)
    here = {identity for identity, _, _ in fewer}
    assert fewer == [one for one in drawn(np.arange(24)) if one[0] in here]


def test_another_campaign_seed_gives_another_order_and_other_recipes() -> None:
    one, other = drawn(np.arange(24)), drawn(np.arange(24), seed=6)
    assert [identity for identity, _, _ in one] != [identity for identity, _, _ in other]
    by_identity = {identity: steps for identity, _, steps in other}
    assert not any(by_identity[identity] == steps for identity, _, steps in one)


def test_the_order_says_nothing_about_the_class() -> None:
    _, y = images(40)
    x, _ = images(40)
    places = np.zeros(4)
    for seed in range(60):
        order = JudgingArm(DOMAIN, x, sample_ids(x, y), 1, seed)._order
        places += np.bincount(y[order[:8]], minlength=4)
    assert places.min() > 90  # 120 each in the mean


def test_the_same_whatever_the_model_answers() -> None:
    proposals = []
    for model in (reads_stripes, fails_in_the_dark, lambda x: np.full((len(x), 4), np.nan, np.float32)):
        made = Scene(model, executions=400)
        made.run()
        batches = [arrays["x"].tobytes() for name, asked, arrays in made.worker.calls if name == "run" and asked["arm"] is None]
        proposals.append((batches, [(row.seed, row.operators, row.severities, row.valid) for row in made.judging.rows]))
    assert proposals[0] == proposals[1] == proposals[2]
    assert len(proposals[0][1]) == 15


def test_part_of_a_seed_input_is_never_judged() -> None:
    x, y = images(8)
    arm = JudgingArm(DOMAIN, x, sample_ids(x, y), 8, 0)
    assert arm.propose(0, 7) is None
    batch = arm.propose(0, 23)
    assert batch is not None
    assert len(batch.x) == 16
    batch = arm.propose(1, 1000)
    assert batch is not None
    assert len(batch.x) == 48
    assert arm.propose(2, 1000) is None


def test_every_operator_and_all_severities_are_drawn_evenly() -> None:
    steps = list(blind_steps(DOMAIN, np.array([key(0, "judging", f"s-{row}") for row in range(250)], dtype=np.uint64), 8))
    counts = {name: sum(step.operator == name for step in steps) for name in DOMAIN.natural}
    assert min(counts.values()) > 20  # 41 each in the mean, 49 operators
    severities = np.array([step.severity for step in steps])
    assert severities.min() > 0
    assert severities.max() <= 1
    np.testing.assert_allclose(np.quantile(severities, [0.25, 0.5, 0.75]), [0.25, 0.5, 0.75], atol=0.04)


def test_recipes_make_the_same_bytes_again() -> None:
    x, y = images(6)
    batch = JudgingArm(DOMAIN, x, sample_ids(x, y), 8, 3).propose(0, 1000)
    assert batch is not None
    for mutant, seed, recipe in zip(batch.x, batch.seeds, batch.recipes, strict=True):
        np.testing.assert_array_equal(DOMAIN.replay(x[seed], recipe), mutant)


def test_what_failed_is_noted_slot_by_slot_and_an_invalid_mutant_never_fails() -> None:
    made = Scene(
        lambda x: np.roll(reads_stripes(x), 1, axis=1), executions=400, limits=Domain.model_validate({"chain": {"contrast_kept": 0.9}})
    )
    made.run()
    rows = made.judging.rows
    assert any(not valid for row in rows for valid in row.valid)
    assert any(valid for row in rows for valid in row.valid)
    for row in rows:
        assert row.failed == row.valid  # this model is wrong about everything
        assert len(row.operators) == len(row.severities) == len(row.predicted) == 8


@pytest.mark.parametrize("half", ["a", "b"])
def test_one_half_of_the_seed_inputs_can_be_judged_alone(half: Literal["a", "b"]) -> None:
    x, y = images(24)
    ids = sample_ids(x, y)
    arm = JudgingArm(DOMAIN, x, ids, 2, 5, half=half)
    taken: list[int] = []
    while (batch := arm.propose(0, 10)) is not None:
        taken += batch.seeds[::2].tolist()
    assert {ids[seed] for seed in taken} == {identity for identity in ids if half_of(identity) == half}
    whole = [identity for identity, _, _ in drawn(np.arange(24)) if half_of(identity) == half]
    assert [ids[seed] for seed in taken] == whole  # in the same order as among all


def test_a_policy_without_natural_operators_is_refused() -> None:
    x, y = images(4)
    nothing = ImageDomain(Domain.model_validate(OFF), (8, 8, 1), np.uint8, (0.0, 255.0))
    assert nothing.natural == ()
    with pytest.raises(PolicyError, match="no natural operator"):
        JudgingArm(nothing, x, sample_ids(x, y), 8, 0)
