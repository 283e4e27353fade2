"""How far the next of several alike models may go: bounds from the values of those seen, and how much so few can promise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from gate.metrics.intervals import exact_share

__all__ = ["Bound", "models_needed", "share_below_highest", "upper_bound"]


@dataclass(frozen=True)
class Bound:
    """A value that the next one exceeds with at most some chance."""

    value: float
    method: str  # in words


def upper_bound(values: Sequence[float], error: float, *, share: bool) -> Bound | None:
    """What the next value, exchangeable with the ones seen, exceeds with a chance of at most ``error``.

    Among k + 1 exchangeable values each is equally likely to be among the j highest, so the next one exceeds the j-th highest of k with a
    chance of at most j / (k + 1): where k is large enough for that to be at most ``error``, the bound rests on nothing else. Otherwise it
    takes the values for normal on a scale that makes their spread steady (arcsine of the root for shares, the root for others), where
    mean + t * s * sqrt(1 + 1 / k) is the bound, t the quantile of Student's t with k - 1 degrees of freedom; it is never below the highest
    value seen.

    Args:
        values: at least one; between 0 and 1 where ``share``, else not negative.
        error: strictly between 0 and 1.
        share: whether the values are shares.

    Returns:
        None where there are too few for the first, and the second knows no spread: one value, or all alike.

    Sources: H. A. David and H. N. Nagaraja, "Order Statistics", 3rd edition, section 7.3 (prediction intervals); W. Q. Meeker, G. J. Hahn
    and L. A. Escobar, "Statistical Intervals", 2nd edition, section 4.8; F. J. Anscombe, Biometrika 35 (1948), for the scales.
    """
    ordered = sorted(values, reverse=True)
    count = len(ordered)
    rank = math.floor(error * (count + 1) + 1e-9)
    if rank >= 1:
        place = "the highest" if rank == 1 else f"number {rank} from the top"
        return Bound(ordered[rank - 1], f"{place} of {count} values seen (order statistics)")
    if ordered[0] == ordered[-1]:
        return None
    seen = np.arcsin(np.sqrt(np.asarray(ordered))) if share else np.sqrt(np.asarray(ordered))
    t = float(special.stdtrit(count - 1, 1 - error))
    scaled = float(seen.mean()) + t * float(seen.std(ddof=1)) * math.sqrt(1 + 1 / count)
    bound = math.sin(min(scaled, math.pi / 2)) ** 2 if share else scaled * scaled
    return Bound(
        max(bound, ordered[0]), f"prediction bound from {count} values seen, taken for normal on the {'arcsine' if share else 'root'} scale"
    )


def share_below_highest(count: int, confidence: float) -> float:
    """The share of all alike models which, with that confidence, does not exceed the highest value of ``count`` >= 1 seen.

    Source: S. S. Wilks, "Determination of sample sizes for setting tolerance limits", Annals of Mathematical Statistics 12 (1941).
    """
    return float((1 - confidence) ** (1 / count))


def models_needed(rate: float, confidence: float) -> int:
    """How many good models, none of them blocked, show by the exact interval that such blocks are no more frequent than ``rate``."""
    count = max(1, math.floor(math.log((1 - confidence) / 2) / math.log1p(-rate)) - 1)
    while exact_share(0, count, confidence)[1] > rate:
        count += 1
    return count
