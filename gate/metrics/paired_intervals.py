"""Intervals of how much more the candidate fails than the baseline on the same inputs, one seed input (or sample) being one observation.

Both ways to look are here: at the end, and at every moment (``anytime``), for campaigns that may stop as soon as the case is clear. Neither
is ever without width: two models that agree on n inputs may differ on others, and the ends then are those of an exact bound.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gate.metrics.reweighting import Interval, reweighted_mean, reweighted_ratio
from gate.metrics.sequences import mean_sequence, ratio_sequence

__all__ = ["paired_mean", "relative_rise"]

Floats = NDArray[np.float64]


def paired_mean(differences: Floats, confidence: float, *, anytime: bool = False) -> Interval:
    """Interval of the mean difference, within [-1, 1].

    Args:
        differences: float64 [n], n >= 1, each in [-1, 1]: candidate less baseline, by seed input; -1, 0 and 1 for shares (as McNemar has
            them), anything between for means. In the blind order where ``anytime`` is set.
        confidence: strictly between 0 and 1.
        anytime: valid at every moment instead of after a fixed number.

    Raises:
        ValueError: the confidence is out of range, there is no difference, or one is out of range or not a number.
    """
    if not len(differences):
        raise ValueError("an interval needs at least one difference")
    support = (-1.0, 1.0)
    return (mean_sequence if anytime else reweighted_mean)(differences, confidence, support=support)


def relative_rise(candidate: Floats, baseline: Floats, confidence: float, *, anytime: bool = False) -> Interval:
    """Interval of E[candidate] / E[baseline] - 1, at least -1; the upper end is infinite where the baseline may be free of failures.

    Args:
        candidate: float64 [n], n >= 1, each in [0, 1]: what each seed input contributes to the metric.
        baseline: float64 [n], in the same order.
        confidence: strictly between 0 and 1.
        anytime: as for ``paired_mean``.

    Raises:
        ValueError: as for ``paired_mean``.
    """
    if not len(candidate):
        raise ValueError("an interval needs at least one pair")
    if anytime:
        lower, upper = ratio_sequence(candidate, baseline, confidence)
    else:
        lower, upper = reweighted_ratio(candidate, baseline, confidence, best=(0.0, 1.0), worst=(1.0, 0.0))
    return lower - 1, upper - 1
