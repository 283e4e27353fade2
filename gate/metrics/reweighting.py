"""Intervals of means and ratios over seed inputs, from all the ways in which the seed inputs might weigh.

A bootstrap draws the seed inputs again and again and looks at the spread. Two things go wrong with it where failures are rare: what was
not drawn into the sample can never come up, so that three failing seed inputs among 190 are taken for more than they tell, and a tail as
thin as an allowance for many rules asks for needs draws beyond number. So, first, the seed inputs get random weights in place of random
counts (the Bayesian bootstrap: Dirichlet weights, all ways of weighing being alike), whose distribution can be computed and need not be
drawn. And, second, one imaginary seed input more stands among them: for the upper end the worst there could be, for the lower end the best.

For zeros and ones this is Clopper and Pearson's exact interval, and where all observations agree it is the exact bound on how many may not.
That it holds for every distribution between the ends was conjectured by Gaffke and is not proven; no exception is known, and
``benchmarks/intervals.py`` looks for one.

The weights are gamma variables over their sum, so a weighted mean lies above r where the sum of (value - r) times its gamma variable is
positive. The chance of that is an integral over the characteristic function, along a path through the saddle point, where the trapezoidal
rule is accurate to rounding.

Sources: D. B. Rubin, "The Bayesian bootstrap", Annals of Statistics 9 (1981). N. Gaffke, "Three test statistics for a nonparametric
one-sided hypothesis on the mean of a nonnegative variable", Mathematical Methods of Statistics 14 (2005). E. Learned-Miller and P. S.
Thomas, "A new confidence interval for the mean of a bounded random variable" (2019). M. Phan, P. S. Thomas and E. Learned-Miller,
"Towards practical mean bounds for small samples", ICML (2021). S. O. Rice, "Distribution of quadratic forms in normal random variables:
evaluation by numerical integration", SIAM Journal on Scientific and Statistical Computing 1 (1980), for the path.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from gate.metrics.intervals import Interval, exact_share

__all__ = ["Interval", "reweighted_mean", "reweighted_ratio"]

Floats = NDArray[np.float64]

_STEP = 0.15  # of the stretched variable in which the path is walked; halved until nothing changes
_HALVINGS = 8
_PART = 3.0  # walked before looking whether the rest matters
_END = 36.0  # far enough out for the heaviest tail, that of a single observation
_BEND = 4.0  # the most that the path bends
_STRAIGHT = 0.05  # less of a bend is none
_CLIMB = 4.0  # the most that the integrand may rise above where the path began; beyond, the path passes near a pole
_AGREE = 1e-4  # between one step and twice that; the error of the former is about the square of it
_NEGLIGIBLE = 1e-17
_NEVER = -1e3  # stands for the logarithm of zero
_TOLERANCE = 1e-11
_FAR = 1.5  # a normal spread's multiple, within which the end mostly lies
_BEYOND = 1e12  # ratios above are not told apart from infinity
_KEPT = 8_192  # intervals remembered: small slices are often alike


def reweighted_mean(values: Floats, confidence: float, *, support: Interval = (0.0, 1.0)) -> Interval:
    """Interval of the mean of n >= 1 independent observations, with equal error on both sides.

    Args:
        values: float64 [n], one per seed input.
        confidence: strictly between 0 and 1.
        support: the least and the greatest value that an observation can have.

    Raises:
        ValueError: the confidence is out of range, there is no value, or one lies outside the support or is not a number.
    """
    least, greatest = support
    values = np.asarray(values, dtype=np.float64)
    if not ((values >= least) & (values <= greatest)).all():
        raise ValueError("an observation lies outside its support")
    scaled = (values - least) / (greatest - least)
    if len(scaled) and ((scaled == 0) | (scaled == 1)).all():  # the same numbers, sooner
        lower, upper = exact_share(int(scaled.sum()), len(scaled), confidence)
        return least + lower * (greatest - least), least + upper * (greatest - least)
    lower, upper = reweighted_ratio(scaled, np.ones(len(values)), confidence, best=(0.0, 1.0), worst=(1.0, 1.0))
    return least + lower * (greatest - least), least + upper * (greatest - least)


def reweighted_ratio(parts: Floats, wholes: Floats, confidence: float, *, best: Interval, worst: Interval) -> Interval:
    """Interval of E[part] / E[whole] over n >= 1 seed inputs, with equal error on both sides.

    Args:
        parts: float64 [n], none negative.
        wholes: float64 [n], none negative.
        confidence: strictly between 0 and 1.
        best: part and whole of the imaginary seed input that stands for the least ratio there may be.
        worst: of the one that stands for the greatest. Its whole may be 0: the upper end is infinite where nothing bounds the ratio.

    Raises:
        ValueError: the confidence is out of range, or there is no seed input, or one that is negative or not a number.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence lies strictly between 0 and 1, not at {confidence!r}")
    pairs = np.stack([parts, wholes], axis=1).astype(np.float64)
    if not len(pairs) or not (pairs >= 0).all():
        raise ValueError("an interval needs at least one seed input, and none of them negative")
    distinct, counts = np.unique(pairs, axis=0, return_counts=True)
    return _interval(distinct.tobytes(), counts.astype(np.float64).tobytes(), confidence, best, worst)


@lru_cache(maxsize=_KEPT)
def _interval(distinct: bytes, counts: bytes, confidence: float, best: Interval, worst: Interval) -> Interval:
    pairs: Floats = np.frombuffer(distinct, dtype=np.float64).reshape(-1, 2)
    times: Floats = np.append(np.frombuffer(counts, dtype=np.float64), 1.0)
    goal = math.log((1 - confidence) / 2)
    upper = _greatest(np.vstack([pairs, worst]), times, goal)
    # The lower end is the upper end of the inverse ratio, upside down.
    inverse = _greatest(np.vstack([pairs, best])[:, ::-1], times, goal)
    return 0.0 if inverse == math.inf else 1 / inverse, upper


def _greatest(pairs: Floats, times: Floats, goal: float) -> float:
    """The ratio that the weighted one exceeds with the probability exp(goal); infinite where there is no such."""
    parts, wholes = pairs[:, 0], pairs[:, 1]
    if not (parts > 0).any():
        return 0.0
    if not (wholes > 0).any():
        return math.inf
    tail, root = _Tail(times), math.sqrt(-2 * goal)

    def surplus(ratio: float) -> float:
        """Nearly a straight line in the ratio, as the root of a logarithm of a normal tail is."""
        return root - math.sqrt(-2 * tail(parts - ratio * wholes))

    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(wholes > 0, parts / wholes, np.where(parts > 0, math.inf, math.nan))
    low, high = float(np.nanmin(ratios)), float(np.nanmax(ratios))
    if low == high:
        return low
    whole = float(times @ wholes)
    centre = float(times @ parts) / whole
    guess = centre + _FAR * root * math.sqrt(float(times @ (parts - centre * wholes) ** 2)) / whole
    if guess < high:
        low, high = (low, guess) if surplus(guess) <= 0 else (guess, high)
    if high == math.inf:
        high = max(1.0, 2 * low)
        while surplus(high) > 0:
            high *= 2
            if high > _BEYOND:
                return math.inf
    if low < centre < high and surplus(centre) > 0:
        low = centre
    return float(optimize.brentq(surplus, low, high, xtol=_TOLERANCE, rtol=1e-12))


class _Tail:
    """Logarithm of the probability that a sum of scaled gamma variables is positive, for one scaling after the other."""

    def __init__(self, times: Floats) -> None:
        self._times = times  # [D] shapes

    def __call__(self, scales: Floats) -> float:
        """``scales``: [D]."""
        top = float(scales.max())
        if top <= 0:
            return _NEVER
        if float(scales.min()) >= 0:
            return 0.0
        if float(self._times @ scales) > 0:  # the other side is the smaller one, or at least the one that the path is made for
            other = self(-scales)
            return math.log1p(-math.exp(other)) if other < 0 else _NEVER
        scaled = scales / top  # the sign of the sum stays; the nearest pole is at 1
        saddle, width, bend = self._saddle(scaled)
        while (area := self._area(scaled, saddle, width, bend)) is None:
            bend = bend / 2 if abs(bend) > _STRAIGHT else 0.0
        start = -float(self._times @ np.log(1 - scaled * saddle)) - math.log(saddle)
        return min(0.0, start + math.log(area)) if area > 0 else _NEVER

    def _area(self, scaled: Floats, saddle: float, width: float, bend: float) -> float | None:
        """The integral, over what the integrand is at the saddle point; None where the path climbs, so that the sum would be of huge terms.

        A straight path (``bend`` 0) never climbs: along it each factor of the integrand falls.
        """
        step = _STEP
        for _ in range(_HALVINGS):
            area, coarse, count = 0.0, 0.0, round(_PART / step)
            for start in range(0, round(_END / step), count):
                at = np.arange(start, start + count) * step
                sinh, cosh = np.sinh(at), np.cosh(at)
                path = saddle + width * (1j * sinh + bend * (cosh - 1))
                logs = -(self._times @ np.log(1 - scaled[:, None] * path)) - np.log(path)
                if not start:
                    first = float(logs[0].real)
                rise = logs.real - first
                if bend and float(rise.max()) > _CLIMB:
                    return None
                terms = (np.exp(logs - first) * width * (1j * cosh + bend * sinh)).imag
                if not start:
                    terms[0] /= 2
                area += float(terms.sum())
                coarse += 2 * float(terms[::2].sum())
                if math.exp(float(rise[-1])) * width * float(cosh[-1]) < _NEGLIGIBLE * abs(area):
                    break
            if abs(area - coarse) <= _AGREE * abs(area):
                break
            step /= 2
        return area * step / math.pi

    def _saddle(self, scaled: Floats) -> tuple[float, float, float]:
        """The saddle point of the integrand on the real line, how wide the integrand is there, and how its path of steepest descent bends.

        Any point between 0 and the pole, and any bend, would give the same integral; these need the fewest nodes.
        """
        low, high, at = 0.0, 1.0, 0.5
        for _ in range(60):
            shares = scaled / (1 - scaled * at)
            slope = float(self._times @ shares) - 1 / at
            curve = float(self._times @ shares**2) + 1 / at**2
            if slope > 0:
                high = at
            else:
                low = at
            if abs(slope) < 1e-2 * math.sqrt(curve):
                break
            at -= slope / curve
            if not low < at < high:
                at = (low + high) / 2
        third = 2 * float(self._times @ shares**3) - 2 / at**3
        width = 1 / math.sqrt(curve)
        return at, width, min(max(third * width / (3 * curve), -_BEND), _BEND)
