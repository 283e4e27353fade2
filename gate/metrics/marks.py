"""``universal_mark_rate``: how many inputs one small mark moves to one class."""

from __future__ import annotations

from gate.metrics.evidence import Evidence
from gate.metrics.intervals import exact_share
from gate.metrics.measured import measured, missing
from gate.result import Metric

__all__ = ["universal_mark_rate"]


def universal_mark_rate(evidence: Evidence, confidence: float) -> Metric:
    """The largest share of held-out seed inputs which one of the marks measured moves to its class.

    It is the largest of several, so the exact interval of each mark is taken at the confidence that all of them hold together
    (Bonferroni), and the interval reaches from the largest lower to the largest upper end.
    """
    name = "universal_mark_rate"
    rows = [row for row in evidence.marks if row.inputs]
    if not rows:
        return missing(name, evidence.marks_reason or "no marks were searched for", n=0, evidence=evidence)
    each = 1 - (1 - confidence) / len(rows)
    intervals = [exact_share(row.moved, row.inputs, each) for row in rows]
    best = max(rows, key=lambda row: row.moved / row.inputs)
    return measured(
        name,
        best.moved / best.inputs,
        n=best.inputs,
        interval=(max(lower for lower, _ in intervals), max(upper for _, upper in intervals)),
        confidence=confidence,
        extra={"marks": float(len(rows))},
    )
