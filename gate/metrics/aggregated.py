"""The judging arm's evidence with another share of the answers to a mutant that must fail for it to count as failing."""

from __future__ import annotations

from gate.campaign.repeated import Aggregate, least_failures
from gate.metrics.evidence import Evidence, JudgedSeed

__all__ = ["aggregated"]

_REASON = "the baseline's answers to each mutant were put together in another way than this policy asks for; run the gate under this policy"


def aggregated(evidence: Evidence, aggregate: Aggregate) -> Evidence:
    """The same evidence with ``failed``, and what a mutant is read as, by another aggregate.

    Of the baseline only what its answers came to is known, so what it made of the judged mutants is left out.
    """
    if aggregate == evidence.judging_aggregate or evidence.judging_repeat == 1:
        return evidence
    least = least_failures(evidence.judging_repeat, aggregate)
    update: dict[str, object] = {"judged": tuple(_seed(row, least) for row in evidence.judged), "judging_aggregate": aggregate}
    if evidence.baseline is not None:
        update["baseline"] = evidence.baseline.model_copy(update={"judged": {}, "reason": _REASON})
    return evidence.model_copy(update=update)


def _seed(row: JudgedSeed, least: int) -> JudgedSeed:
    failed = tuple(valid and failures >= least for valid, failures in zip(row.valid, row.failures, strict=True))
    predicted, confidence = list(row.predicted), list(row.confidence)
    for slot, (fails, failed_before) in enumerate(zip(failed, row.failed, strict=True)):
        if fails and not failed_before:
            predicted[slot], confidence[slot] = row.failing_predicted[slot], row.failing_confidence[slot]
        elif failed_before and not fails:
            # Some answer was right. How sure the model was of it is not kept, and no metric asks.
            predicted[slot], confidence[slot] = row.label, 0.0
    return row.model_copy(update={"failed": failed, "predicted": tuple(predicted), "confidence": tuple(confidence)})
