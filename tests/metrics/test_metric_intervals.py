"""Intervals against independent formulas, and how often they contain the truth in simulated campaigns."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gate.metrics.intervals import exact_quantile, exact_share, seed_bootstrap
from gate.metrics.reweighting import reweighted_mean, reweighted_ratio

CASES = [(0, 1), (1, 1), (0, 10), (10, 10), (3, 10), (17, 50), (34, 100), (1, 1000), (999, 1000)]
CONFIDENCES = (0.5, 0.8, 0.95, 0.99, 0.9999, 0.99999)


@pytest.mark.parametrize(("successes", "n"), CASES)
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_the_exact_share_agrees_with_scipy(successes: int, n: int, confidence: float) -> None:
    expected = stats.binomtest(successes, n).proportion_ci(confidence, method="exact")
    assert exact_share(successes, n, confidence) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1.0, math.nan])
def test_a_confidence_out_of_range_is_refused(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence"):
        exact_share(1, 2, confidence)
    with pytest.raises(ValueError, match="confidence"):
        reweighted_mean(np.array([0.5]), confidence)


@pytest.mark.parametrize("n", [5, 20, 60, 190, 1000])
def test_a_share_s_interval_never_contains_the_truth_less_often_than_it_says(n: int) -> None:
    k = np.arange(n + 1)
    bounds = np.array([exact_share(int(count), n, 0.95) for count in k])
    for truth in (0.001, 0.005, 0.02, 0.0037, 0.1, 0.25, 0.5, 0.77, 0.999):
        inside = (bounds[:, 0] <= truth) & (truth <= bounds[:, 1])
        assert stats.binom.pmf(k, n, truth)[inside].sum() >= 0.95  # exact, no simulation


@pytest.mark.parametrize(("successes", "n"), CASES)
@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_reweighting_zeros_and_ones_gives_the_exact_interval_of_a_share(successes: int, n: int, confidence: float) -> None:
    values = (np.arange(n) < successes).astype(float)
    assert reweighted_mean(values, confidence) == pytest.approx(exact_share(successes, n, confidence), rel=1e-7, abs=1e-12)
    # Away from the ends of the range nothing takes a short way: the same numbers have to come out of the integral.
    apart = reweighted_ratio(values, np.full(n, 2.0), confidence, best=(0.0, 2.0), worst=(1.0, 2.0))
    assert apart == pytest.approx(tuple(end / 2 for end in exact_share(successes, n, confidence)), rel=1e-7, abs=1e-12)


@pytest.mark.parametrize("n", [3, 30, 190])
def test_reweighting_agrees_with_drawing_the_weights(n: int) -> None:
    rng = np.random.default_rng(n)
    values = rng.binomial(8, rng.beta(0.3, 2, n)) / 8
    weights = rng.dirichlet(np.ones(n + 1), 60_000)
    drawn = np.quantile(weights @ np.append(values, 0.0), 0.025), np.quantile(weights @ np.append(values, 1.0), 0.975)
    lower, upper = reweighted_mean(values, 0.95)
    assert (lower, upper) == pytest.approx(drawn, abs=0.03 * (upper - lower))


def test_reweighting_a_ratio_agrees_with_drawing_the_weights() -> None:
    rng = np.random.default_rng(1)
    wholes = rng.geometric(0.3, 40).astype(float)
    parts = rng.binomial(wholes.astype(int), 0.3).astype(float)
    most = wholes.max()
    weights = rng.dirichlet(np.ones(41), 60_000)
    below = weights @ np.append(wholes, most)
    drawn = np.quantile(weights @ np.append(parts, 0) / below, 0.025), np.quantile(weights @ np.append(parts, most) / below, 0.975)
    assert reweighted_ratio(parts, wholes, 0.95, best=(0.0, most), worst=(most, most)) == pytest.approx(drawn, abs=0.005)


def test_many_alike_seed_inputs_do_not_upset_the_integral() -> None:
    """The bulk of the weights lies far on the other side of the limit asked about, where a path chosen carelessly crosses huge terms."""
    values = np.repeat([0.0, 0.5, 1.0], [980, 10, 10])
    weights = np.random.default_rng(0).dirichlet([980, 10, 11], 400_000)
    lower, upper = reweighted_mean(values, 0.95)
    assert upper == pytest.approx(np.quantile(weights @ [0, 0.5, 1], 0.975), rel=0.005)
    assert 0.008 < lower < 0.015 < upper < 0.025
    # Here a bent path would pass near the pole of the 988.
    differences = np.repeat([-1.0, 0.0, 1.0], [1, 988, 11])
    weights = np.random.default_rng(0).dirichlet([1, 988, 11, 1], 400_000)
    lower, upper = reweighted_mean(differences, 0.95, support=(-1.0, 1.0))
    assert upper == pytest.approx(np.quantile(weights @ [-1, 0, 1, 1], 0.975), rel=0.005)
    assert lower == pytest.approx(np.quantile(weights @ [-1, 0, 1, -1], 0.025), abs=5e-5)


@pytest.mark.parametrize("n", [1, 5, 40])
def test_equal_observations_are_no_certainty(n: int) -> None:
    """A bootstrap would have no width; the bound says what n observations can exclude."""
    other = 1 - 0.025 ** (1 / n)
    assert reweighted_mean(np.zeros(n), 0.95) == pytest.approx((0, other))
    assert reweighted_mean(np.ones(n), 0.95) == pytest.approx((1 - other, 1))
    assert reweighted_mean(np.full(n, 0.25), 0.95) == pytest.approx((0.25 * (1 - other), 0.25 * (1 - other) + other))


def test_values_that_can_not_be_are_refused() -> None:
    for values in ([], [1.5], [-0.1], [math.nan]):
        with pytest.raises(ValueError, match=r"observation|seed input"):
            reweighted_mean(np.array(values), 0.95)


def _cover(draw: object, truth: float, n: int, trials: int = 300) -> float:
    assert callable(draw)
    rng = np.random.default_rng(n)
    inside = 0
    for _ in range(trials):
        lower, upper = reweighted_mean(draw(rng, n), 0.95)
        inside += lower <= truth <= upper
    return inside / trials


@pytest.mark.parametrize("n", [5, 60, 190])
def test_the_interval_of_a_mean_holds_where_failures_are_rare_clustered_or_unequal(n: int) -> None:
    """At 300 trials the standard error is 1.3 points; benchmarks/intervals.py has more of both."""
    slack = 0.02
    # Seed inputs differ: each has its own failure rate, so that mutants of one seed input are alike.
    assert _cover(lambda rng, n: rng.binomial(8, rng.beta(0.5, 2.0, n)) / 8, 0.2, n) >= 0.95 - slack
    assert _cover(lambda rng, n: rng.binomial(8, rng.beta(0.04, 1.96, n)) / 8, 0.02, n) >= 0.95 - slack
    # One in a hundred fails always, a third now and then: a sample without the former has to allow for it.
    assert _cover(lambda rng, n: rng.choice([0, 0.125, 1], n, p=[0.69, 0.3, 0.01]), 0.0475, n) >= 0.95 - slack


def test_a_percentile_bootstrap_would_not_hold_there() -> None:
    """So the test above can tell."""
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(200):
        values = rng.binomial(8, rng.beta(0.04, 1.96, 60)) / 8
        lower, upper = seed_bootstrap(values, np.ones(60), 0.95, rng, resamples=500) or (0.0, 0.0)
        inside += lower <= 0.02 <= upper
    assert inside / 200 < 0.85


def test_ignoring_that_mutants_of_one_seed_input_are_alike_would_be_noticed() -> None:
    """The interval over seed inputs is wider than one which takes every mutant for an observation of its own."""
    rng = np.random.default_rng(1)
    shares = rng.binomial(8, rng.beta(0.3, 1.2, 200)) / 8
    lower, upper = reweighted_mean(shares, 0.95)
    naive = exact_share(round(shares.sum() * 8), 1600, 0.95)
    assert upper - lower > 1.5 * (naive[1] - naive[0])


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 0.125, 0.2, 0.5, 0.875, 1.0]), min_size=1, max_size=60),
    st.lists(st.floats(0.3, 0.99999), min_size=2, max_size=2, unique=True).map(sorted),
)
def test_an_interval_contains_those_of_lower_confidence(values: list[float], confidences: list[float]) -> None:
    array = np.array(values)
    narrow, wide = (reweighted_mean(array, confidence) for confidence in confidences)
    assert wide[0] <= narrow[0] + 1e-9
    assert narrow[1] <= wide[1] + 1e-9
    assert narrow[0] - 1e-9 <= array.mean() <= narrow[1] + 1e-9
    narrow, wide = (exact_quantile(array, 5, confidence, support=(0.0, 1.0)) for confidence in confidences)
    assert wide[0] <= narrow[0] <= narrow[1] <= wide[1]
    successes = int((array > 0.3).sum())
    narrow, wide = (exact_share(successes, len(array), confidence) for confidence in confidences)
    assert wide[0] <= narrow[0] <= narrow[1] <= wide[1]


def test_the_multinomial_bootstrap_has_the_spread_of_the_plain_one() -> None:
    values = np.random.default_rng(3).integers(0, 9, 60) / 8
    lower, upper = seed_bootstrap(values, np.ones(60), 0.95, np.random.default_rng(0), resamples=20_000) or (0, 0)
    plain = np.random.default_rng(5).choice(values, (20_000, 60)).mean(axis=1)
    assert (lower, upper) == pytest.approx(tuple(np.quantile(plain, [0.025, 0.975])), abs=0.006)


@pytest.mark.parametrize("n", [1, 10, 80, 400])
def test_the_quantile_interval_covers_at_least_what_it_says(n: int) -> None:
    rng = np.random.default_rng(n)
    inside = 0
    for _ in range(400):
        lower, upper = exact_quantile(rng.random(n), 5, 0.95, support=(0.0, 1.0))
        inside += lower <= 0.05 <= upper
    assert inside / 400 >= 0.93  # at least 95 % in truth; standard error 1.1 points


def test_the_quantile_interval_of_few_values_reaches_the_ends() -> None:
    assert exact_quantile(np.array([0.4]), 5, 0.95, support=(0.0, 1.0)) == (0.0, 1.0)
