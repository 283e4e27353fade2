"""Which mutants count as valid: golden cases of every reason."""

from __future__ import annotations

import numpy as np
import pytest

from gate.domains.image.limits import Domain
from gate.domains.image.natural import NaturalOperators
from gate.domains.image.recipe import Recipe, Step
from gate.domains.image.validity import REASONS, check, valid

RANGE = (0.0, 255.0)


def seed_inputs(count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, 8, 8, 1), dtype=np.uint8)


def step(operator: str, severity: float = 0.5) -> Step:
    return Step(operator, severity, 1, {})


def reason_of(recipe: Recipe, *, mutant: np.ndarray | None = None, domain: Domain | None = None) -> str | None:
    seed = seed_inputs(1)
    return check(seed if mutant is None else mutant, seed, [recipe], domain or Domain(), RANGE).reasons[0]


@pytest.mark.parametrize(
    ("recipe", "reason"),
    [
        ((step("rotation", 1.0),), None),
        ((step("rotation", 0.3), step("fog", 0.3), step("jpeg", 0.4)), None),
        ((step("rotation", 1.01),), "severity"),
        ((step("rotation", -0.1),), "severity"),
        ((step("rotation", float("nan")),), "severity"),
        ((step("warp", 0.1),), "unknown_operator"),
        ((step("rotation", 0.6), step("fog", 0.6)), "chain_severity"),
        (tuple(step("rotation", 0.1) for _ in range(4)), "chain_length"),
        ((step("rotation", 0.9), step("pgd", 1.0)), None),
        ((step("pgd", 1.0), step("fgsm", 1.0)), "chain_length"),
        ((), None),
    ],
)
def test_a_recipe_is_held_against_the_domain(recipe: Recipe, reason: str | None) -> None:
    assert reason_of(recipe) == reason


def test_three_thirds_are_not_more_than_one() -> None:
    assert reason_of((step("rotation", 0.1), step("fog", 0.2), step("rain", 0.7))) is None
    thirds = Domain.model_validate({"chain": {"severity": 0.3}})
    assert reason_of((step("rotation", 0.1), step("fog", 0.1), step("rain", 0.1)), domain=thirds) is None


def test_an_operator_that_the_policy_switches_off_is_not_valid() -> None:
    domain = Domain.model_validate({"geometry": {"rotation": None}, "adversarial": {"pgd": 0.0}})
    assert reason_of((step("rotation", 0.1),), domain=domain) == "operator_off"
    assert reason_of((step("pgd"),), domain=domain) == "operator_off"
    assert reason_of((step("fgsm"),), domain=domain) is None


@pytest.mark.parametrize("operator", ["fgsm", "pgd", "coverage_gradient"])
def test_attacks_alone_stay_within_their_bound_of_the_seed_input(operator: str) -> None:
    share = {"fgsm": 0.03, "pgd": 0.03, "coverage_gradient": 0.06}[operator]
    most = int(share * 255)
    seed = np.full((1, 8, 8, 1), 100, np.uint8)
    seed[0, :, ::2] = 140
    for distance, expected in ((most, None), (most + 1, "distance")):
        mutant = seed.copy()
        mutant[0, 3, 3, 0] += distance
        assert check(mutant, seed, [(step(operator),)], Domain(), RANGE).reasons == (expected,)
        # After a natural step only the parent shows what the attack added.
        assert check(mutant, seed, [(step("fog", 0.1), step(operator))], Domain(), RANGE).reasons == (None,)


def test_a_recipe_without_steps_must_be_the_seed_input_itself() -> None:
    mutant = seed_inputs(1)
    mutant[0, 0, 0, 0] ^= 1
    assert reason_of((), mutant=mutant) == "distance"


def test_a_picture_that_has_lost_its_contrast_is_not_valid() -> None:
    seed = seed_inputs(1)
    mean = seed.mean()
    for kept, expected in ((0.35, None), (0.25, "contrast")):
        mutant = np.rint(mean + kept * (seed - mean)).astype(np.uint8)
        assert reason_of((step("contrast", 1.0),), mutant=mutant) == expected
    assert reason_of((step("fog", 1.0),), mutant=np.full_like(seed, 255)) == "contrast"


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.01, 1.01])
def test_values_that_no_file_may_hold_are_not_valid(value: float) -> None:
    seed = np.random.default_rng(1).random((1, 6, 6, 3), dtype=np.float32)
    mutant = seed.copy()
    mutant[0, 2, 2, 1] = value
    assert check(mutant, seed, [(step("fog", 0.5),)], Domain(), (0, 1)).reasons == ("value_range",)


def test_the_end_of_the_range_is_inside_it_in_the_precision_of_the_files() -> None:
    seed = np.linspace(0, 0.1, 36, dtype=np.float32).reshape(1, 6, 6, 1)
    assert float(seed.max()) > 0.1
    assert check(seed, seed, [(step("fog", 0.5),)], Domain(), (0.0, 0.1)).reasons == (None,)


def test_reasons_are_counted_by_name_and_batches_agree_with_single_samples() -> None:
    seeds = seed_inputs(6)
    mutants = seeds.copy()
    mutants[1] = 7
    recipes: list[Recipe] = [(step("fog"),), (step("fog"),), (step("fog", 2.0),), (step("nope"),), (step("fog", 2.0),), (step("rain"),)]
    result = check(mutants, seeds, recipes, Domain(), RANGE)
    assert result.valid.tolist() == [True, False, False, False, False, True]
    assert result.counts == {"contrast": 1, "severity": 2, "unknown_operator": 1}
    assert set(result.counts) <= set(REASONS)
    alone = [bool(valid(mutants[i : i + 1], seeds[i : i + 1], recipes[i : i + 1], Domain(), RANGE)[0]) for i in range(6)]
    assert alone == result.valid.tolist()


def test_more_samples_than_are_looked_at_in_one_go_keep_their_order() -> None:
    seeds = np.random.default_rng(2).integers(0, 256, (40, 256, 256, 3), dtype=np.uint8)
    mutants = seeds.copy()
    mutants[[3, 22, 39]] = 128
    found = valid(mutants, seeds, [(step("fog"),)] * 40, Domain(), RANGE)
    assert np.flatnonzero(~found).tolist() == [3, 22, 39]


def test_no_mutants_are_no_error() -> None:
    empty = np.empty((0, 8, 8, 1), np.uint8)
    assert valid(empty, empty, [], Domain(), RANGE).shape == (0,)


def test_most_single_steps_of_every_operator_on_ordinary_pictures_are_valid() -> None:
    random = np.random.default_rng(4)
    seeds = np.clip(random.normal(128, 50, (8, 16, 16, 3)), 0, 255).astype(np.uint8)
    operators = NaturalOperators(Domain(), seeds.shape[1:], np.uint8, RANGE)
    for name in operators.names:
        steps = [operators.step(name, 0.5, draw) for draw in range(8)]
        found = valid(operators.apply(seeds, steps), seeds, [(one,) for one in steps], Domain(), RANGE)
        assert found.mean() >= 0.5, name
