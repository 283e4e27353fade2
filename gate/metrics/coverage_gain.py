"""``coverage_gain`` and ``coverage_gain_per_iteration``: how hard the search looked. One campaign gives one value, so no interval."""

from __future__ import annotations

from gate.metrics.evidence import CoverageEvidence, Evidence
from gate.metrics.measured import measured, missing
from gate.result import Metric

__all__ = ["coverage_gain", "coverage_gain_per_iteration"]


def coverage_gain(evidence: Evidence, confidence: float) -> Metric:
    """Final minus initial valid coverage of the policy's criterion, 0 to 1."""
    name = "coverage_gain"
    found = _reported(evidence)
    if isinstance(found, str):
        return missing(name, found, n=evidence.search_executions, evidence=evidence)
    return measured(name, found.final - found.initial, n=evidence.search_executions, extra={"initial": found.initial, "final": found.final})


def coverage_gain_per_iteration(evidence: Evidence, confidence: float) -> Metric:
    """The gain over the first 1,000 executions of the search (all, when fewer), divided by their number, which is ``n``."""
    name = "coverage_gain_per_iteration"
    found = _reported(evidence)
    if isinstance(found, str):
        return missing(name, found, n=0, evidence=evidence)
    if found.first <= 0:
        return missing(name, "the search arm ran no mutant", n=0, evidence=evidence)
    return measured(name, (found.after_first - found.initial) / found.first, n=found.first)


def _reported(evidence: Evidence) -> CoverageEvidence | str:
    if evidence.search_executions <= 0:
        return "the search arm ran no mutant"
    if evidence.criterion is None:
        return "no coverage criterion was measured"
    found = evidence.coverage.get(evidence.criterion)
    if found is None:
        measured_ones = ", ".join(sorted(evidence.coverage)) or "none"
        return f"the policy reports the criterion {evidence.criterion}, which this run did not measure (measured: {measured_ones})"
    if found.kind != "share":
        what = "counts patterns" if found.kind == "count" else "is a statistic"
        return f"{evidence.criterion} {what} and has no share to gain; measure a criterion that has one, such as kmnc (coverage.criteria)"
    return found
