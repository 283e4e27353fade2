"""Confidence sequences: intervals that hold at every moment at once, so that looking at them while they narrow costs nothing.

An ordinary 95 % interval is wrong in one look of twenty. Who looks after every observation and stops when a limit is left behind will be
wrong far more often. The intervals here are wrong *at any time* with probability at most 1 - confidence, whenever and why ever one stops,
for independent observations of a bounded range and any distribution inside it.

How: for every candidate value a gambler bets, one observation after the other, that the truth lies above it, and a second one that it lies
below. Where the candidate is the truth, neither game is better than fair, and the chance that a gambler's capital ever reaches 2 / (1 -
confidence) times what it began with is at most (1 - confidence) / 2 (Ville's inequality). Candidates against which a capital has reached
that are left out, for good (the running intersection). A capital is spread over a fixed grid of bets, from bold ones that settle clear
cases soon to timid ones that settle close cases late. The first gambler's capital falls as the candidate rises and the second's grows, so
that what is left is an interval.

Source: I. Waudby-Smith and A. Ramdas, "Estimating means of bounded random variables by betting", JRSS-B 86 (2024): hedged capital, with the
mixture over a grid of bets of their section 4. J. Ville, "Étude critique de la notion de collectif" (1939).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from gate.metrics.intervals import Interval

__all__ = ["Interval", "mean_sequence", "quantile_sequence", "ratio_sequence"]

Floats = NDArray[np.float64]

# Shares of the capital at stake, each given an equal part of it. All of it (1) settles observations at an end of the range, such as a model
# without a failure, as fast as can be; the least one is of use from some 100,000 observations on.
_STAKES: Floats = np.concatenate([2.0 ** -np.arange(12.0, 0.0, -1.0), [0.75, 1.0]])
_LEAST = 1e-12  # candidates below are not told apart from zero
_TOLERANCE = 1e-7  # of the logarithm of a bound
_KEPT = 4_096  # intervals remembered: small slices are often alike
_SHORT = 1_024  # observations: longer ones are hardly ever alike, and remembering them would take hundreds of megabytes


def mean_sequence(values: Floats, confidence: float, *, support: Interval = (0.0, 1.0)) -> Interval:
    """Interval of the mean after all n observations, valid at any stopping time.

    Args:
        values: float64 [n], independent observations in the blind order in which they came; n may be 0.
        confidence: strictly between 0 and 1.
        support: the least and the greatest value that an observation can have.

    Raises:
        ValueError: the confidence is out of range, or a value lies outside the support or is not a number.

    Where the running intersection is empty, which has at most the probability of an error, the interval reaches over the gap.
    """
    least, greatest = support
    scaled = (np.asarray(values, dtype=np.float64) - least) / (greatest - least)
    _check(scaled, confidence)
    mean = _mean if len(scaled) <= _SHORT else _mean.__wrapped__
    lower, upper = mean(np.ascontiguousarray(scaled).tobytes(), confidence)
    return least + lower * (greatest - least), least + upper * (greatest - least)


def ratio_sequence(parts: Floats, wholes: Floats, confidence: float) -> Interval:
    """Interval of E[part] / E[whole] after all n pairs, valid at any stopping time; the upper end is infinite where nothing bounds it.

    Args:
        parts: float64 [n], each between 0 and 1, in the blind order.
        wholes: float64 [n], each between 0 and 1: the other half of each pair.

    Raises:
        ValueError: as for ``mean_sequence``.
    """
    parts, wholes = np.asarray(parts, dtype=np.float64), np.asarray(wholes, dtype=np.float64)
    _check(parts, confidence)
    _check(wholes, confidence)
    goal = _goal(confidence)
    lower = _left_behind(parts, wholes, goal)
    inverse = _left_behind(wholes, parts, goal)
    return _ordered(lower, 1 / inverse if inverse > 0 else math.inf)


def quantile_sequence(values: Floats, percent: int, confidence: float, *, support: Interval = (0.0, 1.0)) -> Interval:
    """Interval of a quantile after all n observations, valid at any stopping time and for any distribution, steps included.

    A candidate q is the quantile only if values up to q come at least, and values below q at most, so often as ``percent`` says; both are
    means of zeros and ones, against which the gamblers bet. Only the true q must survive, so that no allowance for their number is needed.

    Args:
        values: float64 [n], in the blind order; n may be 0.
        percent: 1 to 99.
        support: the least and the greatest value that an observation can have: the ends where no observation bounds the quantile.

    Raises:
        ValueError: as for ``mean_sequence``.

    Source of such sequences: S. R. Howard and A. Ramdas, "Sequential estimation of quantiles with applications to A/B testing and best-arm
    identification", Bernoulli 28 (2022). Theirs hold for all quantiles at once; this one holds for one, which is narrower.
    """
    values = np.asarray(values, dtype=np.float64)
    least, greatest = support
    _check((values - least) / (greatest - least), confidence)
    goal, share = _goal(confidence), percent / 100
    ordered = np.unique(values)

    def too_few_up_to(index: int) -> bool:
        """Whether so few values lie at or below this one that the quantile must lie above."""
        return _capital((values > ordered[index]).astype(np.float64), 1 - share) >= goal

    def too_many_below(index: int) -> bool:
        return _capital((values < ordered[index]).astype(np.float64), share) >= goal

    # Between two neighbouring values nothing changes, so that the ends are values seen; below the first and above the last, all or none
    # of the values lie below a candidate, which may be too many or too few as well.
    above = _first(len(ordered), lambda index: not too_few_up_to(index))
    below = _first(len(ordered), too_many_below)
    all_of_them = np.ones(len(values))
    lower = least if above == 0 and _capital(all_of_them, 1 - share) < goal else float(ordered[above])
    upper = greatest if below == len(ordered) and _capital(all_of_them, share) < goal else float(ordered[below - 1])
    return _ordered(lower, upper)


@lru_cache(maxsize=_KEPT)
def _mean(scaled: bytes, confidence: float) -> Interval:
    values: Floats = np.frombuffer(scaled, dtype=np.float64)
    goal, ones = _goal(confidence), np.ones(len(values))
    return _ordered(_left_behind(values, ones, goal), 1 - _left_behind(1 - values, ones, goal))


def _left_behind(parts: Floats, wholes: Floats, goal: float) -> float:
    """The greatest r such that some capital, staked on E[part] > r E[whole], has ever reached the goal; 0 where there is none."""
    if not (parts > 0).any():
        return 0.0
    pairs, which = np.unique(np.stack([parts, wholes], axis=1), axis=0, return_inverse=True)
    which = which.reshape(-1)

    def surplus(log_ratio: float) -> float:
        factors = 1 + _STAKES * (pairs[:, :1] / math.exp(log_ratio) - pairs[:, 1:])
        return _best(factors, which) - goal

    low, high = math.log(_LEAST), 0.0
    if surplus(low) <= 0:
        return 0.0
    while surplus(high) > 0:  # a ratio may be greater than one
        if high > -low:
            return math.exp(high)
        low, high = high, high + 5.0
    root = float(optimize.brentq(surplus, low, high, xtol=_TOLERANCE, rtol=4 * np.finfo(np.float64).eps))
    return math.exp(root - _TOLERANCE)


def _capital(outcomes: Floats, share: float) -> float:
    """Logarithm of the most that was ever won by betting that zeros and ones are one more often than ``share``, 0 < share < 1."""
    return _best(1 + _STAKES * (np.array([[0.0], [1.0]]) / share - 1), outcomes.astype(np.intp))


def _best(factors: Floats, which: NDArray[np.intp]) -> float:
    """Logarithm of the highest capital over time, which begins at 1. ``factors``: [distinct observations, stakes], none below 0."""
    if not len(which):
        return 0.0
    with np.errstate(divide="ignore"):  # a gambler who staked everything and lost is out of the game
        steps = np.log(np.maximum(factors, 0.0))
    logs = np.cumsum(steps[which], axis=0)
    most = logs.max(axis=1)
    capital = most + np.log(np.exp(logs - np.maximum(most, -1e300)[:, None]).mean(axis=1))
    return max(0.0, float(capital.max()))


def _first(count: int, holds: Callable[[int], bool]) -> int:
    """The first index for which a condition holds that holds for all later ones too; ``count`` where it holds for none."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _goal(confidence: float) -> float:
    """Logarithm of the capital at which a candidate is given up."""
    return math.log(2 / (1 - confidence))


def _ordered(lower: float, upper: float) -> Interval:
    return min(lower, upper), max(lower, upper)


def _check(scaled: Floats, confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence lies strictly between 0 and 1, not at {confidence!r}")
    if not ((scaled >= 0) & (scaled <= 1)).all():
        raise ValueError("an observation lies outside its support")
