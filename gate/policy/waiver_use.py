"""What became of each waiver in a run: whether it excused anything, and if not, why. One that excuses nothing any more should go."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Mapping, Sequence

from gate.policy.evaluate import evaluate
from gate.policy.schema import Policy, Rule, Waiver
from gate.policy.waivers import as_recorded, is_for
from gate.result import Metric, ModelInfo, RootCause, Status, WaiverUse

__all__ = ["waiver_uses"]

_At = Callable[[float], Mapping[str, Metric]]


def waiver_uses(
    policy: Policy,
    metrics: Mapping[str, Metric],
    *,
    today: datetime.date,
    candidate: ModelInfo,
    root_causes: Sequence[RootCause] = (),
    metrics_at: _At | None = None,
) -> tuple[WaiverUse, ...]:
    """One for each waiver of the policy, in its order.

    A waiver is used where its rule, or the slice that it is for, is not kept and the waiver excuses that. It is looked at apart from the
    other slices, because a rule tells of its worst slice alone.

    Args:
        policy: that judged the run.
        metrics: of the run; as for ``evaluate``.
        today: decides which waivers are in force.
        candidate: waivers may be for some models only.
        root_causes: of the run.
        metrics_at: as for ``evaluate``.
    """
    at = None if metrics_at is None else functools.cache(metrics_at)
    rules = {rule.id: rule for rule in policy.rules}

    def state(waiver: Waiver) -> str:
        if waiver.expires < today:
            return "expired"
        if not is_for(waiver, candidate):
            return "another_model"
        rule = rules[waiver.rule]
        for name in _slices(rule, waiver, metrics):
            alone = policy.model_copy(update={"rules": (rule,), "waivers": tuple(w for w in policy.waivers if w.rule == rule.id)})
            (outcome,) = evaluate(
                alone,
                _only(metrics, rule, name),
                today=today,
                candidate=candidate,
                root_causes=root_causes,
                metrics_at=None if at is None else functools.partial(_only_at, at, rule, name),
            ).rules
            if outcome.status is Status.WAIVED and as_recorded(waiver) in (outcome.waiver or ""):
                return "used"
        return "unused"

    return tuple(
        WaiverUse(
            rule=waiver.rule,
            slice=waiver.slice,
            root_cause=waiver.root_cause,
            model=waiver.model,
            reason=waiver.reason,
            owner=waiver.owner,
            expires=str(waiver.expires),
            state=state(waiver),  # type: ignore[arg-type]
            as_of=str(today),
        )
        for waiver in policy.waivers
    )


def _slices(rule: Rule, waiver: Waiver, metrics: Mapping[str, Metric]) -> Sequence[str | None]:
    """The slices that a waiver may excuse; None stands for the rule as a whole."""
    if rule.slice is None or (waiver.slice is None and waiver.root_cause is None):
        return (None,)  # one for every slice and cause excuses whichever is the worst
    if waiver.slice is not None:
        return (waiver.slice,)
    metric = metrics.get(rule.metric)
    return () if metric is None else tuple(metric.slices.get(rule.slice.by, {}))


def _only(metrics: Mapping[str, Metric], rule: Rule, name: str | None) -> dict[str, Metric]:
    """The rule's metric alone, with one slice."""
    metric = metrics.get(rule.metric)
    if metric is None:
        return {}
    if rule.slice is None or name is None:
        return {rule.metric: metric}
    by = rule.slice.by
    kept = {part: value for part, value in metric.slices.get(by, {}).items() if part == name}
    return {rule.metric: metric.model_copy(update={"slices": {**metric.slices, by: kept}})}


def _only_at(at: _At, rule: Rule, name: str | None, confidence: float) -> dict[str, Metric]:
    return _only(at(confidence), rule, name)
