"""Judges metrics by a policy: one status and one sentence for each rule, one verdict for all.

See ``judgement`` for how the rules' outcomes become the verdict.
"""

from __future__ import annotations

import datetime
import functools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from gate.metrics.catalogue import CATALOGUE, MetricSpec
from gate.policy import wording
from gate.policy.judgement import WORST_FIRST, Judgement, judge
from gate.policy.schema import Policy, Rule, Waiver
from gate.policy.threshold import Threshold
from gate.policy.waivers import cover
from gate.result import Metric, ModelInfo, RootCause, RuleResult, Status

__all__ = ["evaluate"]


def evaluate(
    policy: Policy,
    metrics: Mapping[str, Metric],
    *,
    today: datetime.date,
    candidate: ModelInfo,
    root_causes: Iterable[RootCause] = (),
    advisory: bool = False,
    metrics_at: Callable[[float], Mapping[str, Metric]] | None = None,
) -> Judgement:
    """Judges a run.

    A rule breaches when the value is not on the good side of ``fail``. With ``confidence`` the whole interval decides, and where the
    limit lies inside it the rule is inconclusive. ``warn`` goes by the point value always, for a warning blocks nothing. Below
    ``min_samples`` the rule is inconclusive. In a sliced rule the slices with enough samples are judged one by one and the worst one
    speaks; where none has enough, the metric counts as missing. A comparison with a baseline counts as missing, because no baseline
    is measured.

    Args:
        metrics: by name, with slices.
        today: decides which waivers are in force.
        candidate: waivers may be for some models only.
        root_causes: of the run; waivers may be for some root causes only.
        advisory: turns the exit code of fail and inconclusive into 0.
        metrics_at: gives the metrics with intervals at a confidence, for rules whose confidence is not that of ``metrics``.
    """
    run = _Run(policy, metrics, today, candidate, tuple(cause.id for cause in root_causes), metrics_at and functools.cache(metrics_at))
    rules = tuple(_result(rule, run) for rule in policy.rules)
    return judge(rules, metrics, advisory=advisory)


@dataclass(frozen=True)
class _Run:
    policy: Policy
    metrics: Mapping[str, Metric]
    today: datetime.date
    candidate: ModelInfo
    root_causes: tuple[str, ...]
    metrics_at: Callable[[float], Mapping[str, Metric]] | None

    def metric(self, rule: Rule) -> Metric | None:
        found = self.metrics.get(rule.metric)
        if found is None or rule.confidence is None or self.metrics_at is None or found.confidence in (None, rule.confidence):
            return found
        return self.metrics_at(rule.confidence).get(rule.metric)


@dataclass(frozen=True)
class _Found:
    """What one rule, or one slice of it, came to."""

    status: Status
    text: str
    next_step: str = ""
    metric: Metric | None = None
    slice_name: str | None = None
    waivers: tuple[Waiver, ...] = ()


def _result(rule: Rule, run: _Run) -> RuleResult:
    spec = CATALOGUE[rule.metric]
    metric = run.metric(rule)
    found = _absolute(rule, spec, metric, run)
    if rule.compare is not None and found.status is not Status.SKIPPED:
        found = _with_comparison(rule, found)
    shown = found.metric if found.metric is not None else metric
    finite = shown is not None and _finite(shown)
    limit = rule.fail or rule.warn
    return RuleResult(
        id=rule.id,
        metric=rule.metric,
        kind=rule.kind,
        status=found.status,
        value=shown.value if shown is not None and finite else None,
        lower=shown.lower if shown is not None and finite else None,
        upper=shown.upper if shown is not None and finite else None,
        confidence=shown.confidence if shown is not None and finite else None,
        unit=spec.unit,
        threshold="" if limit is None else limit.text,
        warn=rule.warn.text if rule.warn is not None else None,
        slice=found.slice_name,
        waiver="; ".join(f"{w.owner}, until {w.expires}: {w.reason}" for w in found.waivers) or None,
        explanation=found.text,
        next_step=found.next_step,
        meaning=spec.meaning,
    )


def _absolute(rule: Rule, spec: MetricSpec, metric: Metric | None, run: _Run) -> _Found:
    if metric is None:
        return _missing(rule, spec, "it is not among the metrics of this run")
    if metric.value is None:
        return _missing(rule, spec, (metric.reason or "no reason was recorded").rstrip("."), metric)
    if rule.slice is None:
        return _one(rule, spec, metric, None, run)
    return _worst_slice(rule, spec, metric, run)


def _finite(metric: Metric) -> bool:
    return all(bound is None or math.isfinite(bound) for bound in (metric.value, metric.lower, metric.upper))


def _missing(rule: Rule, spec: MetricSpec, reason: str, metric: Metric | None = None) -> _Found:
    start = f"{rule.metric} could not be computed: {reason}"
    match rule.on_missing:
        case "skip":
            return _Found(Status.SKIPPED, f"{start}; the policy skips the rule then.", spec.to_measure, metric)
        case "fail":
            return _Found(Status.FAIL, f"{start}; the policy counts that as a breach.", spec.to_measure, metric)
        case "inconclusive":
            return _Found(Status.INCONCLUSIVE, f"{start}; the policy needs it.", spec.to_measure, metric)


def _worst_slice(rule: Rule, spec: MetricSpec, metric: Metric, run: _Run) -> _Found:
    assert rule.slice is not None
    slices = metric.slices.get(rule.slice.by, {})
    if not slices:
        return _missing(rule, spec, f"it has no slices by {rule.slice.by} in this run", metric)
    needed = rule.min_samples or 1
    judged = [
        _one(rule, spec, part, name, run) for name, part in sorted(slices.items()) if part.value is not None and (part.n or 0) >= needed
    ]
    if not judged:
        return _missing(rule, spec, f"none of the {len(slices)} slices by {rule.slice.by} has the {needed} samples needed", metric)
    direction = rule.fail or rule.warn
    assert direction is not None

    def badness(found: _Found) -> tuple[int, float]:
        value = found.metric.value if found.metric is not None and found.metric.value is not None else math.nan
        return WORST_FIRST.index(found.status), -value if direction.upper else value

    worst = min(judged, key=badness)
    left_out = len(slices) - len(judged)
    if not left_out:
        return worst
    was, has = ("slice was", "has") if left_out == 1 else ("slices were", "have")
    return replace(worst, text=f"{worst.text} {left_out} {was} left out because {'it' if left_out == 1 else 'they'} {has} too few samples.")


def _one(rule: Rule, spec: MetricSpec, metric: Metric, slice_name: str | None, run: _Run) -> _Found:
    """One value that is there: enough samples, then fail, then warn, then what waivers say."""
    if not _finite(metric):
        return _Found(Status.ERROR, f"{rule.metric} is not a number, so the rule can't be judged.", "Report this as a bug of the gate.")
    value = metric.value
    assert value is not None
    name = rule.metric
    if slice_name is not None and rule.slice is not None:
        name = f"{rule.metric} of the {rule.slice.by.replace('_', ' ')} {wording.name_of(slice_name)}"
    if rule.min_samples is not None and (metric.n is None or metric.n < rule.min_samples):
        seen = wording.value_of(metric, value, spec)
        text = f"{name} is {seen}, from {metric.n or 0:,} samples; {rule.min_samples:,} are needed to judge it."
        return _Found(Status.INCONCLUSIVE, text, spec.to_measure, metric, slice_name)
    decision = _decision(rule, metric, value)
    if decision == "no interval":
        level = f"{(rule.confidence or 0) * 100:g} %"
        text = f"{name} is {wording.number(value, spec)}, but it has no {level} interval, which this rule is decided on."
        return _Found(Status.ERROR, text, "Compute the metrics at the rule's confidence.", metric, slice_name)
    if decision == "holds":
        return _held(rule, spec, metric, name, slice_name)
    assert rule.fail is not None
    text = _sentence(name, metric, value, rule.fail, spec, decision)
    if decision == "breached":
        status = Status.FAIL if rule.on_breach == "fail" else Status.INCONCLUSIVE
        step = spec.next_step
        if status is Status.INCONCLUSIVE:
            text += " By on_breach that leaves the verdict open."
    else:
        status, step = Status.INCONCLUSIVE, spec.to_measure
    return _waived(rule, _Found(status, text, step, metric, slice_name), decision, run)


def _decision(rule: Rule, metric: Metric, value: float) -> str:
    if rule.fail is None:
        return "holds"
    if rule.confidence is None:
        return "breached" if rule.fail.breached(value) else "holds"
    if metric.lower is None or metric.upper is None or metric.confidence != rule.confidence:
        return "no interval"
    return rule.fail.decide(metric.lower, metric.upper)


def _held(rule: Rule, spec: MetricSpec, metric: Metric, name: str, slice_name: str | None) -> _Found:
    value = metric.value
    assert value is not None
    if rule.warn is not None and rule.warn.breached(value):
        text = _sentence(name, metric, value, rule.warn, spec, "breached", kind="warning limit")
        return _Found(Status.WARN, text, spec.next_step, metric, slice_name)
    limit = rule.fail or rule.warn
    assert limit is not None
    kind = "limit" if rule.fail is not None else "warning limit"
    return _Found(Status.PASS, _sentence(name, metric, value, limit, spec, "holds", kind=kind), "", metric, slice_name)


def _sentence(name: str, metric: Metric, value: float, limit: Threshold, spec: MetricSpec, decision: str, *, kind: str = "limit") -> str:
    start = f"{name} is {wording.value_of(metric, value, spec, apart_from=limit.limit)}"
    shown = f"the {kind} of {wording.limit(limit, spec)}"
    if decision == "undecided":
        return f"{start}; {shown} lies inside the interval, so the evidence decides neither way."
    if decision == "holds":
        return (
            f"{start}, as {shown} allows."
            if value == limit.limit
            else f"{start}, within {shown} by {wording.distance(value, limit, spec)}."
        )
    if value == limit.limit:
        return f"{start}, which is {shown} itself; it must stay {'below' if limit.upper else 'above'} it."
    return f"{start}, {'over' if limit.upper else 'under'} {shown} by {wording.distance(value, limit, spec)}."


def _waived(rule: Rule, found: _Found, decision: str, run: _Run) -> _Found:
    """Applies waivers. One also covers an undecided rule: whichever way it would go, it would not block."""
    said = cover(
        run.policy.waivers,
        rule.id,
        slice_name=found.slice_name,
        model=run.candidate,
        root_causes=_behind(rule, found, run),
        today=run.today,
    )
    if said.by:
        who = " and ".join(f"{w.owner} until {w.expires} ({w.reason.rstrip('.')})" for w in said.by)
        either = " whichever way it would go" if decision == "undecided" else ""
        return replace(found, status=Status.WAIVED, text=f"{found.text} Waived{either} by {who}.", waivers=said.by)
    text = found.text
    for waiver in said.expired:
        text += f" The waiver by {waiver.owner} ({waiver.reason.rstrip('.')}) expired on {waiver.expires}, so the rule counts again."
    if said.uncovered:
        more = " …" if len(said.uncovered) > 3 else ""
        text += f" A waiver covers some of its root causes, but not {', '.join(said.uncovered[:3])}{more}."
    return replace(found, text=text)


def _behind(rule: Rule, found: _Found, run: _Run) -> tuple[str, ...]:
    """Root causes behind a breach: those that recur where the metric tells them apart, else all of the run."""
    parts = found.metric.slices.get("root_cause") if found.metric is not None else None
    if parts:
        return tuple(name for name, part in parts.items() if part.value)
    return run.root_causes


def _with_comparison(rule: Rule, found: _Found) -> _Found:
    """The absolute limit's outcome, and the comparison's by ``on_missing``: the worse of the two."""
    reason = "The comparison with the baseline is missing: this version of the gate measures no baseline in the run"
    step = "Remove compare from the rule, or set on_missing: skip."
    match rule.on_missing:
        case "skip":
            return replace(found, text=f"{found.text} {reason}; the policy skips it.")
        case "fail":
            mine = _Found(Status.FAIL, f"{reason}; the policy counts that as a breach.", step)
        case "inconclusive":
            mine = _Found(Status.INCONCLUSIVE, f"{reason}; the policy needs it.", step)
    if WORST_FIRST.index(mine.status) < WORST_FIRST.index(found.status):
        return replace(found, status=mine.status, text=f"{mine.text} {found.text}", next_step=step, waivers=())
    return replace(found, text=f"{found.text} {mine.text}")
