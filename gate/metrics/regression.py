"""``regression_rate``: earlier confirmed defects that recur, over all earlier confirmed defects."""

from __future__ import annotations

from collections import Counter

from gate.metrics.evidence import Evidence
from gate.metrics.measured import missing, share
from gate.result import Metric

__all__ = ["regression_rate"]


def regression_rate(evidence: Evidence, confidence: float) -> Metric:
    """Wilson interval over the earlier defects; ``extra`` counts by what recurred (file, seed, fresh), slices by root cause."""
    name = "regression_rate"
    earlier = evidence.regression
    if earlier is None:
        return missing(name, evidence.regression_reason or "no earlier run was given", evidence=evidence)
    if not earlier.recurs:
        return missing(name, "the earlier run has no confirmed defect", n=0, evidence=evidence)
    totals: Counter[str] = Counter()
    recurring: Counter[str] = Counter()
    for defect, how in earlier.recurs.items():
        cause = earlier.root_cause.get(defect)
        if cause is not None:
            totals[cause] += 1
            recurring[cause] += how is not None
    slices = {cause: share(name, recurring[cause], totals[cause], confidence) for cause in sorted(totals)}
    ways = Counter(how for how in earlier.recurs.values() if how is not None)
    whole = share(name, sum(ways.values()), len(earlier.recurs), confidence, slices={"root_cause": slices})
    return whole.model_copy(update={"extra": {how: float(ways[how]) for how in ("file", "seed", "fresh")}})
