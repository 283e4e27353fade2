"""All metrics of the catalogue from one campaign's evidence."""

from __future__ import annotations

from collections.abc import Callable

from gate.metrics.accuracy import clean_accuracy, long_tail_accuracy
from gate.metrics.canaries import canary_recall
from gate.metrics.catalogue import CATALOGUE
from gate.metrics.costly_errors import confident_error_rate, missed_positive_rate
from gate.metrics.counts import (
    backend_disagreements,
    crashes,
    executions,
    flaky_findings,
    hangs,
    nonfinite_outputs,
    preflight_faults,
    root_causes,
)
from gate.metrics.coverage_gain import coverage_gain, coverage_gain_per_iteration
from gate.metrics.evidence import Evidence
from gate.metrics.flips import flips_per_mistake, negative_flip_rate
from gate.metrics.judging import defect_rate, mutant_failure_rate, robust_margin_p05
from gate.metrics.long_tail_hits import long_tail_hit_rate
from gate.metrics.marks import universal_mark_rate
from gate.metrics.paired import beside_baseline
from gate.metrics.regression import regression_rate
from gate.metrics.search import defect_density, defects_per_1k_executions
from gate.result import Metric

__all__ = ["compute", "measure"]

_MEASURES: dict[str, Callable[[Evidence, float], Metric]] = {
    "defect_density": defect_density,
    "defects_per_1k_executions": defects_per_1k_executions,
    "defect_rate": defect_rate,
    "mutant_failure_rate": mutant_failure_rate,
    "confident_error_rate": confident_error_rate,
    "missed_positive_rate": missed_positive_rate,
    "coverage_gain": coverage_gain,
    "coverage_gain_per_iteration": coverage_gain_per_iteration,
    "long_tail_hit_rate": long_tail_hit_rate,
    "regression_rate": regression_rate,
    "clean_accuracy": clean_accuracy,
    "long_tail_accuracy": long_tail_accuracy,
    "negative_flip_rate": negative_flip_rate,
    "flips_per_mistake": flips_per_mistake,
    "robust_margin_p05": robust_margin_p05,
    "root_causes": root_causes,
    "crashes": crashes,
    "hangs": hangs,
    "nonfinite_outputs": nonfinite_outputs,
    "flaky_findings": flaky_findings,
    "preflight_faults": preflight_faults,
    "executions": executions,
    "universal_mark_rate": universal_mark_rate,
    "backend_disagreements": backend_disagreements,
    "canary_recall": canary_recall,
}


def compute(evidence: Evidence, *, confidence: float = 0.95) -> dict[str, Metric]:
    """Every metric of the catalogue, in its order; one that could not be computed has value None and a reason.

    The same evidence and confidence give the same numbers: nothing is drawn by lot.

    Args:
        evidence: what the campaign left behind.
        confidence: of the intervals, strictly between 0 and 1.

    Raises:
        ValueError: ``confidence`` is out of range.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence lies strictly between 0 and 1, not at {confidence!r}")
    return {name: measure(name, evidence, confidence) for name in CATALOGUE}


def measure(name: str, evidence: Evidence, confidence: float) -> Metric:
    """One metric of the catalogue; see ``compute``, which gives them all."""
    return beside_baseline(name, _MEASURES[name](evidence, confidence), evidence, confidence)
