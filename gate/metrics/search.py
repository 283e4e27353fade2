"""The search arm's productivity: ``defect_density`` and ``defects_per_1k_executions``.

The bootstrap draws the searched seed inputs again: a seed input with five defects comes and goes as a whole. Where all seed inputs
have the same number of defects (usually none), the exact interval of a Poisson count stands in.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from gate.metrics.evidence import Evidence
from gate.metrics.intervals import Interval, exact_count, seed_bootstrap
from gate.metrics.measured import measured, missing
from gate.randomness import generator
from gate.result import Metric

__all__ = ["defect_density", "defects_per_1k_executions"]


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
    # The same draws for both metrics: they are one count over two efforts.
    interval = _of_total(per_seed, total, confidence, generator(evidence.seed, "bootstrap", "defects"))
    extra = {"defects": float(total), **extra}
    scaled = (interval[0] / effort, interval[1] / effort)
    return measured(name, total / effort, n=len(seeds), interval=scaled, confidence=confidence, extra=extra)


def _of_total(per_seed: np.ndarray, total: int, confidence: float, rng: np.random.Generator) -> Interval:
    interval = seed_bootstrap(per_seed, np.ones_like(per_seed), confidence, rng)
    if interval is None:
        return exact_count(total, confidence)
    return interval[0] * len(per_seed), interval[1] * len(per_seed)
