"""``canary_recall``: how many of the faults planted on purpose the search finds."""

from __future__ import annotations

from gate.metrics.evidence import Evidence
from gate.metrics.intervals import exact_share
from gate.metrics.measured import measured, missing
from gate.result import Metric

__all__ = ["canary_recall"]


def canary_recall(evidence: Evidence, confidence: float) -> Metric:
    """Found over searched for, with the exact interval, for there are few; ``extra`` has the executions that the searches took in all."""
    name = "canary_recall"
    tried = evidence.canaries
    if not tried:
        return missing(name, evidence.canaries_reason or "no fault was planted", n=0, evidence=evidence)
    found = sum(one.found for one in tried)
    interval = exact_share(found, len(tried), confidence)
    extra = {"executions": float(sum(one.executions for one in tried))}
    return measured(name, found / len(tried), n=len(tried), interval=interval, confidence=confidence, extra=extra)
