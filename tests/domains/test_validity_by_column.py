"""Validity of whole batches: the same answers as recipe by recipe, and no recipe made on the way; the bounds over whole chains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gate.domains.chains import Chains, Steps
from gate.domains.image.domain import ImageDomain
from gate.domains.image.limits import Domain
from gate.domains.image.recipe import Step
from gate.domains.image.validity import REASONS, check
from gate.domains.model_operators import MODEL_OPERATORS

RANGE = (0.0, 255.0)


def domain_of(**limits: Any) -> ImageDomain:
    return ImageDomain(Domain.model_validate(limits), (16, 16, 1), np.uint8, RANGE)


def pictures(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(60, 200, (count, 16, 16, 1), dtype=np.uint8)


def chains_of(domain: ImageDomain, count: int, seed: int) -> tuple[np.ndarray, Chains]:
    """Mutants of one to four steps, some too severe, some too long, some with the model's help."""
    random = np.random.default_rng(seed)
    made = domain.natural
    begun = [random.integers(len(made), size=int(random.integers(3))) for _ in range(count)]
    parents = [tuple(domain.step(made[int(one)], 0.2, 1) for one in which) for which in begun]
    lengths = np.array([len(parent) for parent in parents])
    chains = Chains(parents, (), lengths, 0.2 * lengths, np.zeros(count, dtype=np.int64))
    for _ in range(2):
        rows = np.flatnonzero(random.random(count) < 0.6)
        severities = random.random(len(rows)) * 0.8
        steps = domain.steps(random.integers(len(made), size=len(rows)), severities, random.integers(9, size=len(rows)))
        chains = chains.then(rows, steps, severities)
    for name in domain.model_bounds:
        rows = np.flatnonzero(random.random(count) < 0.15)
        chains = chains.then(rows, domain.model_steps(name, np.zeros(len(rows), dtype=np.int64)), None)
    seeds = pictures(count, seed)
    noise = random.integers(-20, 21, seeds.shape) * (random.random((count, 1, 1, 1)) < 0.8)
    flat = (random.random(count) < 0.1).reshape(-1, 1, 1, 1)
    mutants = np.where(flat, 128, np.clip(seeds.astype(int) + noise, 0, 255)).astype(np.uint8)
    return mutants, chains


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rules", [{}, {"pixel_distance": 0.05}, {"similarity": 0.985}], ids=str)
def test_a_batch_by_column_gets_the_reasons_of_its_recipes(seed: int, rules: dict[str, float]) -> None:
    domain = domain_of(chain=rules, adversarial={"carlini_wagner": 0.02})
    seeds = pictures(300, seed)
    mutants, chains = chains_of(domain, 300, seed)
    found = domain.check(mutants, seeds, chains)
    np.testing.assert_array_equal(found, domain.check(mutants, seeds, [chains[row] for row in range(300)]))
    names = {domain.reasons[code] for code in found.tolist() if code >= 0}
    assert {"chain_length", "chain_severity", "distance", *rules} <= names
    assert (found < 0).any()


class _Untouchable(Steps):
    def __getitem__(self, row: Any) -> Any:
        raise AssertionError("a step was made")


def test_no_step_and_no_recipe_is_made_to_look_at_a_batch() -> None:
    domain = domain_of()
    seeds = pictures(64)
    severities = np.full(64, 0.5)
    steps = domain.steps(np.arange(64) % len(domain.natural), severities, np.arange(64))
    closed = _Untouchable(steps.names, steps.operators, steps.severities, steps.draws, steps.parameters, None)
    assert (domain.check(seeds, seeds, Chains.none(64).then(np.arange(64), closed, severities)) < 0).all()
    helped = domain.model_steps("pgd", np.arange(64))
    closed = _Untouchable(helped.names, helped.operators, helped.severities, helped.draws, helped.parameters, None)
    assert (domain.check(seeds, seeds, Chains.none(64).then(np.arange(64), closed, None)) < 0).all()


def test_steps_of_a_foreign_domain_are_looked_at_by_column_too() -> None:
    lenient, seeds = domain_of(), pictures(4)
    strict = domain_of(weather={"fog": None})
    which = np.array([lenient.natural.index(name) for name in ("fog", "rain", "fog", "rain")])
    chains = Chains.none(4).then(np.arange(4), lenient.steps(which, np.full(4, 0.5), np.arange(4)), np.full(4, 0.5))
    assert [REASONS[code] if code >= 0 else None for code in strict.check(seeds, seeds, chains)] == ["operator_off", None] * 2
    given = Chains.none(2).then(np.arange(2), [Step("warp", 0.1, 0, {}), Step("rain", 1.2, 0, {})], np.array([0.1, 1.2]))
    assert [REASONS[code] for code in strict.check(seeds[:2], seeds[:2], given)] == ["unknown_operator", "severity"]


def reason(recipe: tuple[Step, ...], mutant: np.ndarray, seed: np.ndarray, **chain: float) -> str | None:
    return check(mutant, seed, [recipe], Domain.model_validate({"chain": chain}), RANGE).reasons[0]


def test_many_values_may_change_a_little_or_few_by_any_amount() -> None:
    seed = pictures(1)
    size = seed.size
    step = (Step("fog", 0.5, 0, {}),)
    few, many = int(0.02 * size), int(0.02 * size) + 1
    for changed, by, expected in ((few, 55, None), (many, 50, None), (many, 51, "pixel_distance"), (size, 50, None)):
        mutant = seed.reshape(1, -1).copy()
        mutant[0, :changed] += np.uint8(by)
        assert reason(step, mutant.reshape(seed.shape), seed, pixel_distance=0.2) == expected, (changed, by)
    mutant = seed.copy()
    mutant[0, :4] = 255
    assert reason(step, mutant, seed) is None
    assert reason(step, mutant, seed, pixel_distance=0.2, few_pixels=0.9) is None


def test_moved_pixels_are_not_compared_wherever_in_the_recipe_they_moved() -> None:
    domain = domain_of(chain={"pixel_distance": 0.1, "similarity": 0.9})
    seed = pictures(1)
    moved = seed[:, ::-1].copy()
    turn, fog = domain.step("rotation", 0.2, 1), domain.step("fog", 0.2, 1)
    for recipe, expected in (((fog,), "pixel_distance"), ((turn, fog), None), ((fog, turn), None)):
        code = domain.check(moved, seed, [recipe])[0]
        assert (None if code < 0 else domain.reasons[code]) == expected
        parent = Chains([recipe], (), np.array([len(recipe)]), np.array([0.2]), np.array([0]))
        assert domain.check(moved, seed, parent)[0] == code


def test_a_picture_that_has_lost_its_structure_is_not_valid_where_the_policy_asks() -> None:
    seed = pictures(1)
    step = (Step("gaussian_noise", 0.5, 0, {}),)
    noise = pictures(1, seed=9)
    assert reason(step, noise, seed) is None
    assert reason(step, noise, seed, similarity=0.5) == "similarity"
    assert reason(step, (seed // 2 + 50).astype(np.uint8), seed, similarity=0.5) is None


@pytest.mark.parametrize("name", sorted(name for name, one in MODEL_OPERATORS.items() if one.norm == "l2"))
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_attacks_in_the_euclidean_norm_are_brought_to_their_bound_and_held_to_it(name: str, dtype: type) -> None:
    top = 255.0 if dtype is np.uint8 else 1.0
    domain = ImageDomain(Domain.model_validate({"adversarial": {name: 0.02}}), (16, 16, 3), dtype, (0.0, top))
    random = np.random.default_rng(1)
    parents = (random.uniform(0.2, 0.8, (6, 16, 16, 3)) * top).astype(dtype)
    wild = random.normal(0, 2, parents.shape) * top
    wild[4] = np.nan
    wild[5] = parents[5]
    wild[5, 0, 0, 0] = 0  # one value by far, which the norm allows
    made = domain.bound(wild, parents, name)
    assert made.dtype == dtype
    sizes = np.sqrt(np.square((made.astype(np.float64) - parents) / top).reshape(6, -1).mean(axis=1))
    assert (sizes <= 0.02 * (1 + 1e-6)).all()
    assert (sizes[:4] > 0.015).all()
    np.testing.assert_array_equal(made[5], wild[5].astype(dtype))
    recipe = (domain.model_step(name, 0),)
    assert recipe[0].parameters == {"l2": 0.02}
    assert domain.valid(made, parents, [recipe] * 6).all()
    beyond = parents.copy()
    beyond += np.asarray(0.03 * top).astype(dtype)
    assert {domain.reasons[code] for code in domain.check(beyond, parents, [recipe] * 6)} == {"distance"}
