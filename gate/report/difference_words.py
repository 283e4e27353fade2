"""A difference of two runs in the words that the terminal and the page share."""

from __future__ import annotations

from gate.report.difference import CAUSE_STATUSES, CauseChange, Change, CoverageChange, Difference, MetricChange, RuleChange
from gate.report.numbers import amount, confidence, interval, is_share, points, share
from gate.result import Defect, Metric, Result, RuleResult

__all__ = [
    "NOTES",
    "change_in_words",
    "coverage_in_words",
    "defect_in_words",
    "moved",
    "rule_value",
    "sizes_in_words",
    "summary",
    "tone",
    "value_in_words",
]

NOTES = (
    "Real change: the two intervals do not overlap. Within noise: they do, so that chance alone may have moved the value. The rule is "
    "strict, and among many values one in a hundred or so still crosses it by luck.",
    "Fixed: B replayed A's defects and none of this root cause recurs. Not found again: B's search met it no more, which proves nothing.",
)

_TONES = {"better": "pass", "worse": "fail", "real change": "warn"}


def value_in_words(metric: Metric | None) -> str:
    """A metric's value with its interval; why there is none where there is none."""
    if metric is None:
        return "not measured"
    if metric.value is None:
        return f"none: {metric.reason}" if metric.reason else "none"
    between = interval(metric.lower, metric.upper, metric.unit, None).removesuffix(" (interval)")
    return f"{amount(metric.value, metric.unit)}{f' ({between})' if between else ''}"


def rule_value(rule: RuleResult | None) -> str:
    """What decided a rule."""
    if rule is None:
        return "not in the policy"
    shown = "no value" if rule.value is None else amount(rule.value, rule.unit)
    return f"{shown} of {rule.slice}" if rule.slice is not None else shown


def moved(change: MetricChange | RuleChange) -> str:
    """How far a value went, with its sign; empty where that means nothing."""
    before, after = change.before, change.after
    if before is None or after is None or before.value is None or after.value is None or before.unit != after.unit:
        return ""
    if isinstance(before, RuleResult) and isinstance(after, RuleResult) and (before.metric, before.slice) != (after.metric, after.slice):
        return ""
    gap = after.value - before.value
    if gap == 0:
        return "0"
    size = points(abs(gap)) if before.unit == "share" else amount(abs(gap), before.unit)
    return f"{'+' if gap > 0 else '-'}{size}"


def change_in_words(change: MetricChange | RuleChange) -> str:
    """``better, real change``; ``worse, within noise``; ``same``; empty where it is not known."""
    if isinstance(change, RuleChange) and change.moved_status is not None:
        before, after = change.moved_status
        return ", ".join(part for part in (f"{change.change}: {before} became {after}", change.certainty) if part)
    word = "" if change.change == "unknown" else change.change
    return ", ".join(part for part in (word, change.certainty) if part)


def tone(change: Change) -> str:
    """The colour of a change: ``pass``, ``fail`` or ``note``."""
    return _TONES.get(change, "note")


def sizes_in_words(cause: CauseChange) -> str:
    """How many defects of it A and B have."""
    before, after = cause.sizes
    return f"{before:,} → {after:,}"


def coverage_in_words(change: CoverageChange, side: tuple[float, float] | None) -> str:
    """Of the seeds alone and at the end."""
    if side is None:
        return "not measured"
    first, last = (share(value) if is_share(change.kind) else amount(value, "") for value in side)
    return f"{first} → {last}"


def defect_in_words(result: Result, defect: Defect) -> str:
    """``four read as nine (93.0 %)``."""
    true = "a probe" if defect.label is None else result.class_name(defect.label)
    if defect.predicted is None:
        return f"{true}: {defect.detail or defect.oracle.replace('_', ' ')}"
    sure = "" if defect.confidence_after is None else f" ({confidence(defect.confidence_after)})"
    return f"{true} read as {result.class_name(defect.predicted)}{sure}"


def summary(difference: Difference) -> str:
    """Root causes by status, in one line."""
    words = {"remains": "still there", "back": "back again"}
    parts = [f"{count} {words.get(status, status)}" for status in CAUSE_STATUSES if (count := difference.count(status))]
    return f"Root causes: {', '.join(parts)}." if parts else "Neither run found a root cause."
