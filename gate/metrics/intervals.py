"""Confidence intervals: two-sided, at a confidence strictly between 0 and 1, with equal error on both sides.

Shares and percentiles have exact ones here. For means and ratios over seed inputs see ``reweighting``, for intervals that hold at every
moment ``sequences``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

__all__ = ["Interval", "exact_quantile", "exact_share", "seed_bootstrap"]

Interval = tuple[float, float]

RESAMPLES = 2_000
_CELLS = 4_000_000  # numbers drawn at a time, which bounds the memory to about 32 MB


def _tail(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence lies strictly between 0 and 1, not at {confidence!r}")
    return (1 - confidence) / 2


def exact_share(successes: int, n: int, confidence: float) -> Interval:
    """Exact interval of a share of ``n`` >= 1 independent observations; never covers less than it says.

    Source: C. J. Clopper and E. S. Pearson, Biometrika 26 (1934).
    """
    tail = _tail(confidence)
    lower = 0.0 if successes == 0 else float(special.betaincinv(successes, n - successes + 1, tail))
    upper = 1.0 if successes == n else float(special.betaincinv(successes + 1, n - successes, 1 - tail))
    return lower, upper


def exact_quantile(values: NDArray[np.float64], percent: int, confidence: float, *, support: Interval) -> Interval:
    """Distribution-free interval of a quantile from order statistics; ends at the support's end where no order statistic reaches.

    Args:
        values: [n], n >= 1, one per observation.
        percent: the quantile, 1 to 99.
        support: the least and greatest value possible.

    Source: H. A. David and H. N. Nagaraja, "Order Statistics", 3rd edition, section 7.1.
    """
    tail = _tail(confidence)
    n = len(values)
    ordered = np.sort(values)
    below = special.bdtr(np.arange(n + 1, dtype=np.float64), n, percent / 100)  # P(at most k of n lie under the quantile)
    first = int(np.searchsorted(below, tail))  # rank from 1; 0 means that no order statistic is low enough
    last = int(np.searchsorted(below, 1 - tail)) + 1
    lower = support[0] if first == 0 else float(ordered[first - 1])
    upper = support[1] if last > n else float(ordered[last - 1])
    return lower, upper


def seed_bootstrap(
    parts: NDArray[np.float64], wholes: NDArray[np.float64], confidence: float, rng: np.random.Generator, *, resamples: int = RESAMPLES
) -> Interval | None:
    """Percentile interval of ``sum(parts) / sum(wholes)`` with whole seed inputs drawn again with replacement.

    Equal seed inputs are interchangeable, so the number of times that each distinct (part, whole) comes up is drawn, which is one
    multinomial draw per resample: the same distribution at a fraction of the cost.

    Args:
        parts: [n], n >= 1.
        wholes: [n], each more than zero; ones for a mean.

    Returns:
        None where every seed input has the same ratio, so that the bootstrap can say nothing about its spread.

    Source: B. Efron and R. J. Tibshirani, "An Introduction to the Bootstrap", chapter 13.
    """
    tail = _tail(confidence)
    n = len(parts)
    distinct, times = np.unique(np.stack([parts, wholes], axis=1), axis=0, return_counts=True)
    ratios = distinct[:, 0] / distinct[:, 1]
    if ratios.min() == ratios.max():
        return None
    statistics = np.empty(resamples)
    step = max(1, _CELLS // len(distinct))
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        totals = rng.multinomial(n, times / n, size=stop - start) @ distinct
        statistics[start:stop] = totals[:, 0] / totals[:, 1]
    lower, upper = np.quantile(statistics, [tail, 1 - tail])
    return float(lower), float(upper)
