"""Boxes of splicing: as large as said, from where it is said, the same in any batch, and held to their share of the area."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gate.domains.chains import Chains
from gate.domains.image.domain import ImageDomain
from gate.domains.image.limits import Domain
from gate.domains.image.recipe import Step

LIMITS = Domain.model_validate({"splicing": {"block_copy": 0.1, "splice": 0.1}})
SHAPES = [(28, 28, 1), (33, 47, 3), (5, 64, 3)]
NAMES = ("block_copy", "splice")


def pictures(count: int, shape: tuple[int, int, int], dtype: Any, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)
    return x if dtype == np.uint8 else (x / np.float32(255)).astype(np.float32)


def domain_of(shape: tuple[int, int, int], dtype: Any, limits: Domain = LIMITS) -> ImageDomain:
    return ImageDomain(limits, shape, dtype, (0.0, 255.0) if dtype == np.uint8 else (0.0, 1.0))


def spliced(
    domain: ImageDomain, name: str, x: np.ndarray, others: np.ndarray, severities: Any, draws: Any = None
) -> tuple[np.ndarray, Any]:
    count = len(x)
    given = np.broadcast_to(np.asarray(severities, dtype=np.float64), (count,)).copy()
    draws = np.arange(count, dtype=np.int64) if draws is None else draws
    takes = domain.takes_donors(name)
    steps = domain.splice_steps(name, given, draws, [f"seed-{row}" for row in range(count)] if takes else None)
    return domain.splice(x, steps, others if takes else None), steps


def changed(made: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.asarray((made != x).any(axis=3))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_but_the_box_changes_and_it_keeps_to_its_share_of_the_area(shape: tuple[int, int, int], dtype: Any, name: str) -> None:
    domain = domain_of(shape, dtype)
    x, others = pictures(50, shape, dtype), pictures(50, shape, dtype, seed=1)
    kept = x.copy()
    before = np.zeros(50)
    for severity in (0.0, 0.01, 0.25, 0.5, 0.75, 1.0):
        made, steps = spliced(domain, name, x, others, severity)
        assert made.dtype == dtype
        assert made.shape == x.shape
        assert np.isfinite(made).all()
        assert made.min() >= x.min()
        assert made.max() <= max(x.max(), others.max())
        cells = changed(made, x)
        most = max(1, int(severity * 0.1 * shape[0] * shape[1] + 1e-9)) if severity else 0
        assert cells.sum(axis=(1, 2)).max() <= most
        for row, step in enumerate(steps):
            box = step.parameters
            outside = cells[row].copy()
            outside[box["y"] : box["y"] + box["height"], box["x"] : box["x"] + box["width"]] = False
            assert not outside.any()
            assert Step.from_json(step.to_json()) == step
        distance = np.abs(made.astype(np.float64) - x).reshape(50, -1).mean(axis=1)
        assert distance.mean() >= before.mean()
        before = distance
    assert before.mean() > 0
    assert np.array_equal(x, kept)
    assert {step.parameters["soft"] for step in steps} == {True, False}
    sides = [(step.parameters["height"], step.parameters["width"]) for step in steps]
    assert len(set(sides)) > 1


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_a_hard_box_shows_its_source_and_a_soft_one_fades_into_it(dtype: Any) -> None:
    shape = (28, 28, 3)
    domain = domain_of(shape, dtype)
    x, others = pictures(40, shape, dtype), pictures(40, shape, dtype, seed=1)
    for name in NAMES:
        made, steps = spliced(domain, name, x, others, 1.0)
        for row, step in enumerate(steps):
            box = step.parameters
            inside = (slice(box["y"], box["y"] + box["height"]), slice(box["x"], box["x"] + box["width"]))
            if name == "splice":
                source = others[row][inside]
                assert box["donor"] == f"seed-{row}"
            else:
                source = x[row, box["from_y"] : box["from_y"] + box["height"], box["from_x"] : box["from_x"] + box["width"]]
            if not box["soft"]:
                np.testing.assert_array_equal(made[row][inside], source)
                continue
            low, high = np.minimum(source, x[row][inside]), np.maximum(source, x[row][inside])
            assert ((low <= made[row][inside]) & (made[row][inside] <= high)).all()
            middle = (box["height"] // 2, box["width"] // 2)
            np.testing.assert_array_equal(made[row][inside][middle], source[middle])
            assert (made[row][inside][0, 0] != source[0, 0]).any()


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_is_the_same_in_any_batch_and_order(name: str) -> None:
    shape = (17, 23, 3)
    domain = domain_of(shape, np.uint8)
    x, others = pictures(30, shape, np.uint8), pictures(30, shape, np.uint8, seed=1)
    severities, draws = np.linspace(0.05, 1, 30), np.arange(30, dtype=np.int64) * 7
    whole, _ = spliced(domain, name, x, others, severities, draws)
    again, _ = spliced(domain, name, x[::-1], others[::-1], severities[::-1], draws[::-1].copy())
    np.testing.assert_array_equal(again[::-1], whole)
    for row in (0, 13, 29):
        alone, _ = spliced(domain, name, x[row : row + 1], others[row : row + 1], severities[row : row + 1], draws[row : row + 1])
        np.testing.assert_array_equal(alone[0], whole[row])
    other, _ = spliced(domain, name, x, others, severities, draws + 1)
    assert (other != whole).any()


def test_a_limit_of_nothing_or_of_less_than_a_pixel_leaves_an_operator_out() -> None:
    def names(block_copy: float | None, splice: float | None) -> tuple[str, ...]:
        return domain_of((8, 8, 1), np.uint8, Domain.model_validate({"splicing": {"block_copy": block_copy, "splice": splice}})).splicing

    assert names(0.1, 0.1) == NAMES
    assert names(None, 0.1) == ("splice",)
    assert names(0.1, 0.0) == ("block_copy",)
    assert names(0.015, 1 / 64) == ("splice",)
    natural = domain_of((8, 8, 1), np.uint8).natural
    assert not set(NAMES) & set(natural)
    assert {domain_of((8, 8, 1), np.uint8).family(name) for name in NAMES} == {"splicing"}


@pytest.mark.parametrize("recipes", ["by column", "one by one"])
def test_a_splice_that_changes_more_than_its_share_is_not_valid(recipes: str) -> None:
    shape = (20, 20, 3)
    domain = domain_of(shape, np.uint8)
    x = pictures(3, shape, np.uint8)
    _, steps = spliced(domain, "splice", x, x, 1.0)
    made = x.copy()
    for row, pixels in enumerate((40, 41, 1)):
        cells = made[row].reshape(-1, 3)
        cells[:pixels, row % 3] ^= 1
    chains: Any = Chains.none(3).then(np.arange(3), steps, None)
    chains = chains if recipes == "by column" else [tuple(chain) for chain in chains]
    assert [None if code < 0 else domain.reasons[code] for code in domain.check(made, x, chains)] == [None, "area", None]
    # What natural steps have moved shows no more what the splice added; there it is kept where it is made.
    moved = domain.step("brightness", 0.5, 1)
    mixed = [(moved, step) for step in steps]
    assert (domain.check(made, x, mixed) < 0).all()
    twice = [(step, step) for step in steps]
    assert {domain.reasons[code] for code in domain.check(x, x, twice)} == {"chain_length"}
    off = domain_of(shape, np.uint8, Domain.model_validate({"splicing": {"splice": None}}))
    assert {off.reasons[code] for code in off.check(x, x, chains)} == {"operator_off"}
