"""``regression_rate``: earlier confirmed defects that recur, over all earlier confirmed defects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from gate.metrics.evidence import Evidence
from gate.metrics.measured import missing, share
from gate.result import Metric

__all__ = ["regression_rate"]


def regression_rate(evidence: Evidence, confidence: float) -> Metric:
    """Exact interval over the earlier defects; ``extra`` counts by what recurred (file, seed, fresh), and root causes that look memorised.

    Slices by root cause, and by half of the seed inputs: what recurs among defects that were exported for training says less than what
    recurs among the others.
    """
    name = "regression_rate"
    earlier = evidence.regression
    if earlier is None:
        return missing(name, evidence.regression_reason or "no earlier run was given", evidence=evidence)
    if not earlier.recurs:
        return missing(name, "the earlier run has no confirmed defect", n=0, evidence=evidence)

    def by(group_of: Mapping[str, str]) -> dict[str, Metric]:
        totals: Counter[str] = Counter()
        recurring: Counter[str] = Counter()
        for defect, how in earlier.recurs.items():
            group = group_of.get(defect)
            if group is not None:
                totals[group] += 1
                recurring[group] += how is not None
        return {group: share(name, recurring[group], totals[group], confidence) for group in sorted(totals)}

    slices = {"root_cause": by(earlier.root_cause), "half": by(earlier.half)}
    ways = Counter(how for how in earlier.recurs.values() if how is not None)
    whole = share(name, sum(ways.values()), len(earlier.recurs), confidence, slices=slices)
    extra = {how: float(ways[how]) for how in ("file", "seed", "fresh")}
    memorised = sum(word == "memorised" for word in earlier.became.values())
    return whole.model_copy(update={"extra": extra | ({"memorised": float(memorised)} if memorised else {})})
