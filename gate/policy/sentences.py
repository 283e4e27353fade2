"""What a rule says for itself: value, interval, limit and distance, in one sentence or two."""

from __future__ import annotations

from gate.metrics.catalogue import MetricSpec
from gate.policy import wording
from gate.policy.looks import Decision, Look
from gate.policy.schema import Compare
from gate.policy.threshold import Threshold
from gate.result import Metric, Paired

__all__ = ["about_change", "about_limit", "about_warning", "allowance", "without_known"]


def allowance(tests: int, confidence: float) -> str:
    """Why a breach at the rule's own confidence does not count: ``37 rules and slices are allowed for (99.86 %)``."""
    return f"{tests:,} rules and slices are allowed for ({wording.level(confidence)})"


def about_limit(name: str, metric: Metric, look: Look, spec: MetricSpec, decision: Decision, unsettled: str | None = None) -> str:
    """A metric beside ``fail``. ``unsettled``: beyond the limit at the rule's own confidence, but not with all limits allowed for."""
    return _beside(name, metric, look.value, look.threshold, spec, decision, "limit", unsettled)


def about_warning(name: str, metric: Metric, warn: Threshold, spec: MetricSpec) -> str:
    """A metric beside ``warn``, which goes by the point value."""
    assert metric.value is not None
    return _beside(name, metric, metric.value, warn, spec, "breached" if warn.breached(metric.value) else "holds", "warning limit", None)


def _beside(
    name: str,
    metric: Metric,
    value: float,
    limit: Threshold,
    spec: MetricSpec,
    decision: Decision,
    kind: str,
    unsettled: str | None,
) -> str:
    start = f"{name} is {wording.value_of(metric, value, spec, apart_from=limit.limit)}"
    shown = f"the {kind} of {wording.limit(limit, spec)}"
    gap = wording.distance(value, limit, spec)
    if unsettled is not None:
        return f"{start}, beyond {shown} by {gap} at {wording.level(metric.confidence or 0.5)}, but not once {unsettled}."
    if decision == "undecided":
        return f"{start}; {shown} lies inside the interval, so the evidence decides neither way."
    if decision == "holds":
        return f"{start}, as {shown} allows." if value == limit.limit else f"{start}, within {shown} by {gap}."
    if value == limit.limit:
        return f"{start}, which is {shown} itself; it must stay {'below' if limit.upper else 'above'} it."
    return f"{start}, {'over' if limit.upper else 'under'} {shown} by {gap}."


def about_change(
    name: str,
    paired: Paired,
    look: Look,
    compare: Compare,
    spec: MetricSpec,
    decision: Decision,
    unsettled: str | None = None,
) -> str:
    """A metric beside the baseline's on the same inputs."""
    change = wording.change_of(look.value, look.lower, look.upper, look.confidence, spec, relative=compare.relative)
    was, now = wording.number(paired.baseline, spec), wording.number(paired.candidate, spec, apart_from=paired.baseline)
    start = (
        f"On the {paired.n:,} inputs that both models were run on, {name} is {was} for the baseline and {now} for the candidate: {change}"
    )
    allowed = f"the {wording.allowed_change(compare, spec)} that is allowed"
    gap = wording.gap(look.distance, spec, relative=compare.relative)
    if unsettled is not None:
        return f"{start}, beyond {allowed} by {gap} at {wording.level(look.confidence or 0.5)}, but not once {unsettled}."
    if decision == "undecided":
        return f"{start}; {allowed} lies inside the interval, so the evidence decides neither way."
    if look.distance == 0:
        return f"{start}, just {allowed}."
    return f"{start}, {'within' if decision == 'holds' else 'beyond'} {allowed} by {gap}."


def without_known(look: Look, spec: MetricSpec) -> str:
    """That a rule holds once the failures that the baseline has too are left out."""
    shown = Metric(value=look.value, lower=look.lower, upper=look.upper, confidence=look.confidence, n=look.n, unit=spec.unit)
    value = wording.value_of(shown, look.value, spec, apart_from=look.threshold.limit)
    return (
        f"The baseline has these failures too: without them it is {value}, which the limit of {wording.limit(look.threshold, spec)} "
        "allows, so this only warns."
    )
