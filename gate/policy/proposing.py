"""Limits that models known to be good would meet: what each of them needs, and a proposal for every rule about the model."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Literal

from gate.metrics.catalogue import CATALOGUE, COUNT, SEVERITY, MetricSpec
from gate.metrics.next_value import Bound, upper_bound
from gate.policy.schema import Policy, Rule
from gate.policy.threshold import Threshold
from gate.result import Metric, Paired

__all__ = ["Key", "MetricAt", "Proposal", "in_force", "propose"]

Key = Literal["fail", "max_rise", "max_drop"]
MetricAt = Callable[[str, float], Metric]  # of one model: a metric by its name, with intervals at a confidence

# A model that does one of these is no good one, however many do.
_FAULTS = ("preflight_faults", "crashes", "hangs", "nonfinite_outputs", "backend_disagreements")
_STANDARD = 0.95
_DIGITS = 2
_LEFT = "left as it is"


@dataclass(frozen=True)
class Proposal:
    """One limit of one rule."""

    rule: str
    key: Key
    metric: str
    now: str  # as the policy has it
    seen: tuple[float, ...]  # the metric, or its change, of every model that has it; of sliced rules in the worst slice
    limit: str | None  # as a policy writes it; None: left as it is
    warn: str | None  # a new warning limit, where the old one would lie behind the new limit; "" removes it
    looser: bool  # than the policy's
    method: str  # where the number comes from, or why the limit is left as it is

    @property
    def in_words(self) -> str:
        """Least, median and greatest value seen."""
        if not self.seen:
            return "no value seen"
        least, middle, most = min(self.seen), statistics.median(self.seen), max(self.seen)
        return f"seen {least:.4g} to {most:.4g}, median {middle:.4g}, in {len(self.seen)} models"


@dataclass(frozen=True)
class _Need:
    """What one model came to under one rule, and the limit that it would just hold under."""

    value: float
    limit: float


def propose(policy: Policy, models: Sequence[MetricAt], *, false_block: float) -> tuple[Proposal, ...]:
    """One proposal for every limit of a rule about the model that can block; rules about the evidence are never touched.

    A limit is one under which the next good model does not hold with a chance of at most ``false_block`` divided by the number of limits:
    together they then stop a good model in at most ``false_block`` of the cases, however much the rules have to do with each other. With
    a confidence, a model holds when its whole interval does, so that also those count which would be left open.

    Args:
        policy: whose rules are calibrated.
        models: known to be good.
        false_block: chance that a good model is not let through, at most, over all limits together.
    """
    limits = [(rule, key) for rule in policy.rules if rule.kind == "quality" for key in _keys(rule)]
    movable = [(rule, key, _needs(rule, key, models)) for rule, key in limits]
    counted = sum(_why_left(rule, key, needs) is None for rule, key, needs in movable)
    return tuple(_proposal(rule, key, needs, false_block / max(counted, 1)) for rule, key, needs in movable)


def _keys(rule: Rule) -> tuple[Key, ...]:
    keys: list[Key] = ["fail"] if rule.fail is not None else []
    if rule.compare is not None:
        keys.append("max_rise" if rule.compare.max_rise is not None else "max_drop")
    return tuple(keys)


@dataclass(frozen=True)
class _Needs:
    """What the models that have a value came to."""

    found: tuple[_Need, ...]
    of: int  # models
    reason: str  # why one of the others has none; empty where nothing was recorded


def _needs(rule: Rule, key: Key, models: Sequence[MetricAt]) -> _Needs:
    metrics = [metric_at(rule.metric, rule.confidence or _STANDARD) for metric_at in models]
    found = [_need(rule, key, metric) for metric in metrics]
    reasons = [(metric.reason if key == "fail" else metric.paired_reason) or _too_few(rule, metric) for metric in metrics]
    return _Needs(tuple(need for need in found if need is not None), len(models), next(filter(None, reasons), "").rstrip("."))


def _too_few(rule: Rule, metric: Metric) -> str | None:
    if rule.slice is not None or metric.value is None or metric.n is None or metric.n >= (rule.min_samples or 0):
        return None
    return f"{metric.n} samples, and the rule needs {rule.min_samples}: give a larger budget"


def _need(rule: Rule, key: Key, metric: Metric) -> _Need | None:
    """None where the metric has no value, or too few samples."""
    if metric.value is None:
        return None
    parts = [metric] if rule.slice is None else list(metric.slices.get(rule.slice.by, {}).values())
    ends = [
        need
        for part in parts
        if part.value is not None and (part.n or 0) >= (rule.min_samples or 0)
        if (need := _of_part(rule, key, part)) is not None
    ]
    upper = key != "fail" or (rule.fail is not None and rule.fail.upper)
    return (max if upper else min)(ends, key=lambda need: need.limit, default=None)


def _of_part(rule: Rule, key: Key, part: Metric) -> _Need | None:
    if key == "fail":
        assert rule.fail is not None
        assert part.value is not None
        end = (part.upper if rule.fail.upper else part.lower) if rule.confidence is not None else part.value
        return None if end is None else _Need(part.value, end)
    assert rule.compare is not None
    return None if part.paired is None else _of_pair(part.paired, key, relative=rule.compare.relative, whole=rule.confidence is not None)


def _of_pair(paired: Paired, key: Key, *, relative: bool, whole: bool) -> _Need | None:
    change = paired.relative if relative else paired.rise
    lower, upper = (paired.relative_lower, paired.relative_upper) if relative else (paired.lower, paired.upper)
    if change is None:
        return None
    way = 1 if key == "max_rise" else -1
    end = (upper if way > 0 else lower) if whole else change
    if end is None and relative and paired.confidence is not None:
        end = way * math.inf  # nothing bounds the ratio: leaving such models out would leave out the worst
    return None if end is None else _Need(way * change, max(0.0, way * end))


def _why_left(rule: Rule, key: Key, needs: _Needs) -> str | None:
    """Why a limit is left as it is; None where one is proposed."""
    if rule.metric in _FAULTS:
        return f"{_LEFT}: a model with this fault is no good one"
    if len(needs.found) < max(2, math.ceil(needs.of / 2)):
        why = f" ({needs.reason})" if needs.reason else ""
        return f"{_LEFT}: only {len(needs.found)} of {needs.of} models have a value for it{why}"
    if any(math.isinf(need.limit) for need in needs.found):
        return f"{_LEFT}: of some good models nothing bounds the change; more judged seed inputs do, or an absolute limit"
    spec = CATALOGUE[rule.metric]
    if key == "fail" and _bounded(spec):
        assert rule.fail is not None
        ends = [need.limit for need in needs.found]
        if (rule.fail.upper and max(ends) >= 1) or (not rule.fail.upper and min(ends) <= 0):
            return f"{_LEFT}: good models reach every value, so no limit tells them apart; more judged seed inputs narrow the intervals"
    return None


def _bounded(spec: MetricSpec) -> bool:
    return spec.is_share or spec.unit == SEVERITY


def _proposal(rule: Rule, key: Key, needs: _Needs, error: float) -> Proposal:
    seen = tuple(need.value for need in needs.found)
    now = _now(rule, key)
    left = _why_left(rule, key, needs)
    if left is not None:
        return Proposal(rule.id, key, rule.metric, now, seen, None, None, False, left)
    spec, ends = CATALOGUE[rule.metric], [need.limit for need in needs.found]
    bound = upper_bound(ends, error, share=False) if key != "fail" or rule.fail is None else _bound(rule.fail, spec, ends, error)
    if bound is None:
        return Proposal(
            rule.id, key, rule.metric, now, seen, None, None, False, f"{_LEFT}: all models came to the same, so their spread is unknown"
        )
    if key != "fail":
        assert rule.compare is not None
        before = rule.compare.max_rise if key == "max_rise" else rule.compare.max_drop
        written = _rounded(bound.value, up=True, whole=False, near_one=False)
        return Proposal(rule.id, key, rule.metric, now, seen, written, None, float(written) > (before or 0), _method(bound, rule))
    assert rule.fail is not None
    fail = _limit(rule.fail, spec, bound.value)
    if fail is None:
        why = f"{_LEFT}: the bound lies beyond every value there is; more models, or more judged seed inputs, bring it down"
        return Proposal(rule.id, key, rule.metric, now, seen, None, None, False, why)
    looser = fail.limit > rule.fail.limit if fail.upper else fail.limit < rule.fail.limit
    return Proposal(rule.id, key, rule.metric, now, seen, fail.text, _warn(rule, spec, fail, seen), looser, _method(bound, rule))


def _now(rule: Rule, key: Key) -> str:
    if key == "fail":
        assert rule.fail is not None
        return rule.fail.text
    assert rule.compare is not None
    amount = rule.compare.max_rise if key == "max_rise" else rule.compare.max_drop
    return f"{amount:g}"


def _method(bound: Bound, rule: Rule) -> str:
    ends = f"of the {rule.confidence * 100:.12g} % intervals' worse ends: " if rule.confidence is not None else ""
    return ends + bound.method


def _bound(limit: Threshold, spec: MetricSpec, ends: Sequence[float], error: float) -> Bound | None:
    """In the direction in which the limit is breached; of a share turned round where less is the breach."""
    share = _bounded(spec)
    if limit.upper:
        return upper_bound(ends, error, share=share)
    if share:
        turned = upper_bound([1 - end for end in ends], error, share=True)
        return turned and Bound(1 - turned.value, turned.method)
    highest = max(ends)
    turned = upper_bound([highest - end for end in ends], error, share=False)
    return turned and Bound(highest - turned.value, turned.method)


def _limit(old: Threshold, spec: MetricSpec, bound: float) -> Threshold | None:
    """The bound with sensible digits, on the side where the models hold; None where the metric can't reach beyond it."""
    whole, near_one = spec.unit == COUNT, _bounded(spec) and bound > 0.5
    text = _rounded(bound, up=old.upper, whole=whole, near_one=near_one)
    if old.comparison in (">=", "<=") and float(text) == bound:
        step = 1 if whole else 10.0 ** -len(text.partition(".")[2])
        text = _rounded(bound + (step if old.upper else -step), up=old.upper, whole=whole, near_one=near_one)
    try:
        return Threshold.parse(f"{old.comparison} {text}", spec)
    except ValueError:
        return None


def _rounded(value: float, *, up: bool, whole: bool, near_one: bool) -> str:
    """Two significant digits, of the distance from 1 where ``near_one``; away from the good side, so that what held goes on holding."""
    exact = Decimal(repr(round(value, 12)))
    direction = ROUND_CEILING if up else ROUND_FLOOR
    if whole:
        return str(int(exact.to_integral_value(direction)))
    size = 1 - exact if near_one else exact
    decimals = _DIGITS if size <= 0 else min(max(_DIGITS - 1 - size.adjusted(), 0), 9)
    written = f"{exact.quantize(Decimal(1).scaleb(-decimals), direction):f}"
    return written.rstrip("0").rstrip(".") if "." in written else written


def _warn(rule: Rule, spec: MetricSpec, fail: Threshold, seen: Sequence[float]) -> str | None:
    """A new warning limit where the old one would never show: the furthest value that a good model was seen at, or none."""
    if rule.warn is None or not rule.warn.out_of_reach_behind(fail):
        return None
    new = _limit(rule.warn, spec, (max if rule.warn.upper else min)(seen))
    return "" if new is None or new.out_of_reach_behind(fail) else new.text


def in_force(policy: Policy, proposals: Sequence[Proposal]) -> Policy:
    """The policy with the limits proposed."""
    rules = []
    for rule in policy.rules:
        spec = CATALOGUE[rule.metric]
        for proposal in proposals:
            if proposal.rule != rule.id or proposal.limit is None:
                continue
            if proposal.key == "fail":
                rule = rule.model_copy(update={"fail": Threshold.parse(proposal.limit, spec)})
            elif rule.compare is not None:
                compare = rule.compare.model_copy(update={proposal.key: float(proposal.limit)})
                rule = rule.model_copy(update={"compare": compare})
            if proposal.warn is not None:
                rule = rule.model_copy(update={"warn": Threshold.parse(proposal.warn, spec) if proposal.warn else None})
        rules.append(rule)
    return policy.model_copy(update={"rules": tuple(rules)})
