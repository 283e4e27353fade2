"""Sequences hold however often one looks, and paired intervals never take agreement for certainty."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from gate.metrics import sequences
from gate.metrics.intervals import exact_share
from gate.metrics.paired_intervals import paired_mean, relative_rise
from gate.metrics.sequences import mean_sequence, quantile_sequence, ratio_sequence

Floats = NDArray[np.float64]


def won(values: Floats, candidate: float) -> float:
    """The most that a capital on fourteen stakes ever comes to, played out bet by bet."""
    best, purses = 1.0, [1 / 14] * 14
    stakes = [2.0**-k for k in range(12, 0, -1)] + [0.75, 1.0]
    for value in values:
        purses = [purse * (1 + stake * (value / candidate - 1)) for purse, stake in zip(purses, stakes, strict=True)]
        best = max(best, sum(purses))
    return best


@pytest.mark.parametrize("values", [[0, 1, 0, 0, 1, 0, 0, 0], [0.125, 0.5, 0.25, 0.5, 0.5], [1.0] * 12, [0.0] * 12])
def test_the_ends_are_where_a_capital_once_reached_its_goal(values: list[float]) -> None:
    array = np.array(values, dtype=np.float64)
    lower, upper = mean_sequence(array, 0.9)
    if lower > 0:
        assert won(array, lower * 0.999) >= 20 >= won(array, lower * 1.001)
    if upper < 1:
        assert won(1 - array, (1 - upper) * 0.999) >= 20 >= won(1 - array, (1 - upper) * 1.001)
    assert (lower > 0, upper < 1) == (array.sum() > 0, array.sum() < len(array))


def excluded(
    draw: Callable[[np.random.Generator], Floats], truth: float, of: Callable[[Floats], tuple[float, float]], trials: int
) -> float:
    """How often some interval on the way excludes the truth: the last one is what all have in common."""
    wrong = 0
    for trial in range(trials):
        lower, upper = of(draw(np.random.default_rng(trial)))
        wrong += not lower - 1e-9 <= truth <= upper + 1e-9
    return wrong / trials


MOST = 0.05 + 3 * math.sqrt(0.05 * 0.95 / 200)  # of 200 trials


@pytest.mark.parametrize("truth", [0.005, 0.05, 0.5])
def test_a_share_at_its_limit_is_seldom_taken_for_beyond_it_however_often_one_looks(truth: float) -> None:
    assert excluded(lambda rng: (rng.random(500) < truth) * 1.0, truth, lambda x: mean_sequence(x, 0.95), 200) <= MOST


def test_a_skewed_mean_at_its_limit_is_neither() -> None:
    def draw(rng: np.random.Generator) -> Floats:
        return rng.choice([0, 0.125, 1], 500, p=[0.945, 0.05, 0.005])

    assert excluded(draw, 0.05 / 8 + 0.005, lambda x: mean_sequence(x, 0.95), 200) <= MOST


def test_equal_models_seldom_differ_however_often_one_looks() -> None:
    def draw(rng: np.random.Generator) -> Floats:
        return rng.choice([-1.0, 0.0, 1.0], 500, p=[0.02, 0.96, 0.02])

    assert excluded(draw, 0.0, lambda x: paired_mean(x, 0.95, anytime=True), 200) <= MOST


@pytest.mark.parametrize("steps", [False, True])
def test_a_percentile_at_its_limit_is_seldom_taken_for_beyond_it(steps: bool) -> None:
    def draw(rng: np.random.Generator) -> Floats:
        return rng.choice([0.05, 0.2, 1.0], 600, p=[0.04, 0.03, 0.93]) if steps else rng.random(600)

    assert excluded(draw, 0.2 if steps else 0.05, lambda x: quantile_sequence(x, 5, 0.95), 200) <= MOST


def test_an_ordinary_interval_looked_at_as_often_is_wrong_many_times_as_often() -> None:
    """So the tests above can tell."""
    wrong = 0
    for trial in range(200):
        seen = np.cumsum(np.random.default_rng(trial).random(800) < 0.2)
        n = np.arange(1, 801)
        low, high = stats.beta.ppf(0.025, np.maximum(seen, 1e-9), n - seen + 1), stats.beta.ppf(0.975, seen + 1, np.maximum(n - seen, 1e-9))
        wrong += bool(((low > 0.2) | (high < 0.2)).any())
    assert wrong / 200 > 0.2


@settings(deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=50), st.integers(0, 50), st.floats(0.3, 0.99999), st.floats(0.3, 0.99999))
def test_what_was_left_out_once_stays_out_and_more_confidence_leaves_out_less(
    values: list[float], first: int, one: float, other: float
) -> None:
    array = np.array(values, dtype=np.float64)
    wide, narrow = (mean_sequence(array, level) for level in (max(one, other), min(one, other)))
    before = mean_sequence(array[:first], max(one, other))
    if narrow[0] < array.mean() < narrow[1] if len(array) else True:  # the intersection is not empty
        assert wide[0] <= narrow[0] + 1e-9
        assert narrow[1] <= wide[1] + 1e-9
        assert before[0] <= wide[0] + 1e-9
        assert wide[1] <= before[1] + 1e-9
        quantiles = [quantile_sequence(array, 5, level) for level in (max(one, other), min(one, other))]
        assert quantiles[0][0] <= quantiles[1][0]
        assert quantiles[1][1] <= quantiles[0][1]


def test_without_an_observation_nothing_is_known() -> None:
    none = np.zeros(0)
    assert mean_sequence(none, 0.95) == (0.0, 1.0)
    assert mean_sequence(none, 0.95, support=(-1, 1)) == (-1.0, 1.0)
    assert quantile_sequence(none, 5, 0.95) == (0.0, 1.0)
    assert ratio_sequence(none, none, 0.95) == (0.0, math.inf)


def test_a_sequence_costs_width_and_not_more_than_twice() -> None:
    for n in (60, 190, 1000):
        for share in (0.0, 0.02, 0.1, 0.5):
            values = np.random.default_rng(n).permutation((np.arange(n) < share * n) * 1.0)
            lower, upper = mean_sequence(values, 0.95)
            low, high = exact_share(int(values.sum()), n, 0.95)
            assert high - low < upper - lower < 2 * (high - low)


def test_the_range_can_be_any() -> None:
    values = np.random.default_rng(0).random(100)
    lower, upper = mean_sequence(values, 0.95)
    assert mean_sequence(2 * values - 1, 0.95, support=(-1.0, 1.0)) == pytest.approx((2 * lower - 1, 2 * upper - 1), abs=1e-6)


def test_the_percentile_lies_between_values_that_were_seen_or_at_the_ends() -> None:
    few = np.full(20, 0.3)
    assert quantile_sequence(few, 5, 0.95) == (0.0, 0.3)  # nothing says that no lower value comes
    many = np.full(300, 0.3)
    assert quantile_sequence(many, 5, 0.95) == (0.3, 0.3)
    mixed = np.random.default_rng(0).permutation(np.repeat([0.1, 0.4, 1.0], [60, 60, 480]))
    assert quantile_sequence(mixed, 5, 0.95) == (0.1, 0.1)
    assert quantile_sequence(mixed, 19, 0.95) == (0.4, 1.0)
    assert quantile_sequence(mixed, 15, 0.99999) == (0.1, 1.0)


@pytest.mark.parametrize("bad", [1.2, -0.1, math.nan])
def test_what_lies_outside_the_range_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="outside"):
        mean_sequence(np.array([0.5, bad]), 0.95)
    with pytest.raises(ValueError, match="outside"):
        quantile_sequence(np.array([0.5, bad]), 5, 0.95)
    with pytest.raises(ValueError, match="outside"):
        paired_mean(np.array([0.5, 2.0 if bad > 0 else math.nan]), 0.95)


@pytest.mark.parametrize("anytime", [False, True])
def test_two_models_that_agree_on_every_input_may_differ_on_others(anytime: bool) -> None:
    lower, upper = paired_mean(np.zeros(190), 0.95, anytime=anytime)
    assert -lower == pytest.approx(upper, abs=1e-6)
    assert upper == pytest.approx(1 - 0.025 ** (1 / 190)) if not anytime else 0.025 < upper < 0.04


def test_rare_flips_are_counted_exactly() -> None:
    differences = np.zeros(190)
    differences[[7, 80]] = 1.0
    lower, upper = paired_mean(differences, 0.95)
    # Were no input better, the upper end would be that of 2 in 190.
    assert upper == pytest.approx(exact_share(2, 190, 0.95)[1])
    assert lower < 0 < upper
    differences[:12] = 1.0
    assert paired_mean(differences, 0.95)[0] > 0


def test_the_interval_of_a_difference_holds_where_models_seldom_differ() -> None:
    inside = 0
    for trial in range(400):
        rng = np.random.default_rng(trial)
        lower, upper = paired_mean(rng.choice([-1.0, 0.0, 1.0], 190, p=[0.005, 0.98, 0.015]), 0.95)
        inside += lower <= 0.01 <= upper
    assert inside / 400 >= 0.94


@pytest.mark.parametrize("anytime", [False, True])
def test_a_relative_rise_compares_shares_and_is_open_where_the_baseline_may_never_fail(anytime: bool) -> None:
    rng = np.random.default_rng(0)
    baseline = (rng.random(600) < 0.2) * 1.0
    candidate = np.maximum(baseline, rng.random(600) < 0.1)
    lower, upper = relative_rise(candidate, baseline, 0.95, anytime=anytime)
    assert 0.1 < lower < candidate.sum() / baseline.sum() - 1 < upper < 1.2
    same = relative_rise(baseline, baseline, 0.95, anytime=anytime)
    assert same[0] < 0 < same[1]
    assert relative_rise(candidate, np.zeros(600), 0.95, anytime=anytime)[1] == math.inf
    assert relative_rise(np.zeros(600), baseline, 0.95, anytime=anytime)[0] == -1.0
    nothing = relative_rise(np.zeros(600), np.zeros(600), 0.95, anytime=anytime)
    assert nothing == (-1.0, math.inf)
    with pytest.raises(ValueError, match="at least one"):
        relative_rise(np.zeros(0), np.zeros(0), 0.95, anytime=anytime)


def test_only_short_sequences_are_remembered() -> None:
    """Thousands of long ones would take hundreds of megabytes."""
    rng = np.random.default_rng(23)
    sequences._mean.cache_clear()
    for n in (20, 5_000, 20_000):
        mean_sequence((rng.random(n) < 0.1).astype(np.float64), 0.95)
    assert sequences._mean.cache_info().currsize == 1
