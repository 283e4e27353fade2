"""The search arm's productivity: ``defect_density`` and ``defects_per_1k_executions``.

The interval is over the searched seed inputs: one with five defects comes and goes as a whole. Nothing bounds how many defects a seed input
may have, so that the imaginary one of the upper end is a guess: it has five more than any that was seen.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from gate.metrics.evidence import Evidence
from gate.metrics.measured import measured, missing
from gate.metrics.reweighting import reweighted_ratio
from gate.result import Metric

__all__ = ["defect_density", "defects_per_1k_executions"]

_MORE_THAN_SEEN = 5


def defect_density(evidence: Evidence, confidence: float) -> Metric:
    """Distinct confirmed defects of the search arm per device-hour of searching."""
    hours = evidence.search_device_seconds / 3600
    return _rate("defect_density", evidence, hours, confidence, {"device_hours": hours})


def defects_per_1k_executions(evidence: Evidence, confidence: float) -> Metric:
    """Distinct confirmed defects of the search arm per thousand search executions."""
    executions = evidence.search_executions
    return _rate("defects_per_1k_executions", evidence, executions / 1000, confidence, {"executions": float(executions)})


def _rate(name: str, evidence: Evidence, effort: float, confidence: float, extra: dict[str, float]) -> Metric:
    if not (evidence.search_executions > 0 and effort > 0):
        return missing(name, "the search arm ran no mutant", n=0, evidence=evidence)
    counts = Counter(defect.seed_id for defect in evidence.defects)
    seeds = sorted({*evidence.searched_seed_ids, *counts})
    if not seeds:
        return missing(name, "the search arm had no seed input to start from", n=0, evidence=evidence)
    total = len(evidence.defects)
    per_seed = np.array([float(counts[seed]) for seed in seeds])
    worst = float(per_seed.max()) + _MORE_THAN_SEEN
    lower, upper = reweighted_ratio(per_seed, np.ones_like(per_seed), confidence, best=(0.0, 1.0), worst=(worst, 1.0))
    scaled = (lower * len(seeds) / effort, upper * len(seeds) / effort)
    extra = {"defects": float(total), **extra}
    return measured(name, total / effort, n=len(seeds), interval=scaled, confidence=confidence, extra=extra)
