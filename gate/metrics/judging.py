"""The judging arm's metrics: ``defect_rate``, ``mutant_failure_rate``, ``robust_margin_p05``.

Where the run decides early, all intervals are sequences, which hold at every moment. One seed input is one observation; see
``judged_sample`` for those that are left out (they are counted in ``extra``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gate.metrics.evidence import Evidence
from gate.metrics.intervals import Interval, exact_quantile
from gate.metrics.judged_sample import SeedInput, nothing, sample, sliced
from gate.metrics.measured import judged_share, measured
from gate.metrics.reweighting import reweighted_mean
from gate.metrics.sequences import mean_sequence, quantile_sequence
from gate.result import Metric

__all__ = ["defect_rate", "mutant_failure_rate", "robust_margin_p05", "weak_margin"]

_PERCENT = 5


def defect_rate(evidence: Evidence, confidence: float) -> Metric:
    """Share of seed inputs with at least one valid natural mutant that changes the prediction; exact interval."""
    name = "defect_rate"
    found = sample(evidence)
    if not found.seeds:
        return nothing(name, evidence, found)

    def of(seeds: Sequence[SeedInput]) -> Metric:
        return judged_share(name, [seed.failing > 0 for seed in seeds], confidence, evidence)

    return of(found.seeds).model_copy(update={"slices": sliced(evidence, found.seeds, of), "extra": found.left_out})


def mutant_failure_rate(evidence: Evidence, confidence: float) -> Metric:
    """Mean over seed inputs of the share of valid mutants that change the prediction; interval over seed inputs, by reweighting them."""
    name = "mutant_failure_rate"
    found = sample(evidence)
    if not found.seeds:
        return nothing(name, evidence, found)

    def of(seeds: Sequence[SeedInput]) -> Metric:
        shares = np.array([seed.failing / len(seed.mutants) for seed in seeds])
        interval = (mean_sequence if evidence.decide == "early" else reweighted_mean)(shares, confidence)
        return measured(name, float(shares.mean()), n=len(seeds), interval=interval, confidence=confidence)

    extra = {**found.left_out, "mutants": float(sum(len(seed.mutants) for seed in found.seeds))}
    return of(found.seeds).model_copy(update={"slices": sliced(evidence, found.seeds, of), "extra": extra})


def weak_margin(margins: NDArray[np.float64], confidence: float, *, anytime: bool) -> tuple[float, Interval]:
    """The 5th percentile of margins by seed input, float64 [n], n >= 1, each 0 to 1; and its interval, a sequence where ``anytime``."""
    rank = -(-len(margins) * _PERCENT // 100)  # in integers: 0.05 * 140 rounds up to more than 7
    interval = (quantile_sequence if anytime else exact_quantile)(margins, _PERCENT, confidence, support=(0.0, 1.0))
    return float(np.sort(margins)[rank - 1]), interval


def robust_margin_p05(evidence: Evidence, confidence: float) -> Metric:
    """5th percentile over seed inputs of the smallest severity (0 to 1) that changes the prediction.

    A seed input that never fails counts as 1. The percentile is the least value which at least 5 % of the seed inputs do not exceed, so it
    is always the severity of a real mutant; interval from order statistics, or a sequence.
    """
    name = "robust_margin_p05"
    found = sample(evidence)
    if not found.seeds:
        return nothing(name, evidence, found)

    def of(seeds: Sequence[SeedInput]) -> Metric:
        margins = np.array([min((m.severity for m in seed.mutants if m.failed), default=1.0) for seed in seeds])
        value, interval = weak_margin(margins, confidence, anytime=evidence.decide == "early")
        return measured(name, value, n=len(margins), interval=interval, confidence=confidence)

    return of(found.seeds).model_copy(update={"slices": sliced(evidence, found.seeds, of), "extra": found.left_out})
