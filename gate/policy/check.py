"""Does a policy make sense? Findings about a policy that loads: rules that can never fail or pass, that contradict each other, that wait
for what the policy never measures, and waivers that excuse nothing.

What a file must look like is the schema's business, see ``load``; this looks at what the rules would do.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

from gate.campaign.budget import executions_of
from gate.campaign.canary_kinds import LEAST_EACH
from gate.metrics.catalogue import CATALOGUE, MetricSpec
from gate.policy import wording
from gate.policy.check_compare import about_comparison
from gate.policy.check_pairs import contradictions
from gate.policy.check_waivers import about_waivers
from gate.policy.finding import Finding
from gate.policy.load import LoadedPolicy
from gate.policy.schema import Policy, Rule
from gate.policy.threshold import Threshold
from gate.policy.within_reach import JUDGED, extremes, samples, values
from gate.result import Metric

__all__ = ["Finding", "check"]

# Metrics of which too little and too much can both be worth a rule; of any other a limit against its direction blocks what is good.
_EITHER_WAY = ("defect_density", "defects_per_1k_executions", "coverage_gain", "coverage_gain_per_iteration", "long_tail_hit_rate")
_STANDARD = 0.95


@dataclass(frozen=True)
class _Source:
    """What a metric is measured by, and the key that switches it off."""

    key: str
    off: bool
    state: str = "0"  # how the key stands then


def check(loaded: LoadedPolicy, *, today: datetime.date) -> tuple[Finding, ...]:
    """All findings, errors first, each with the place in the file.

    Args:
        loaded: a policy that loads.
        today: decides which waivers are in force.
    """
    found = [finding for rule in loaded.policy.rules for finding in _about_rule(rule, loaded)]
    found += contradictions(loaded)
    found += _about_all(loaded)
    found += about_waivers(loaded, today=today)
    order = ("error", "warning", "note")
    return tuple(sorted(found, key=lambda finding: order.index(finding.level)))


# ---------------------------------------------------------------------------------------------------------------------------------
# One rule


def _about_rule(rule: Rule, loaded: LoadedPolicy) -> Iterator[Finding]:
    source = _switched_off(rule.metric, loaded.policy)
    if source is not None:
        yield _never_measured(rule, source, loaded)
        return
    spec = CATALOGUE[rule.metric]
    yield from _without_positive(rule, loaded)
    yield from _without_baseline(rule, loaded)
    yield from about_comparison(rule, loaded)
    for key in ("fail", "warn"):
        limit = getattr(rule, key)
        if limit is not None:
            yield from _against_direction(rule, key, limit, spec, loaded)
            yield from _always_breached(rule, key, limit, spec, loaded)
    if rule.fail is not None and rule.warn is not None and _cover_all(rule.fail, rule.warn):
        yield Finding(
            "warning",
            rule.id,
            f"Every value either fails ({rule.fail.text}) or warns ({rule.warn.text}), so the rule is never just met.",
            loaded.place("rules", rule.id, "warn"),
            "Move one of the limits, or remove warn.",
        )
    yield from _not_worse_at_all(rule, loaded)
    yield from _too_few_samples(rule, loaded)
    yield from _never_settled(rule, loaded)


def _switched_off(metric: str, policy: Policy) -> _Source | None:
    """What would have to be measured for a metric, where the policy does not."""
    arms, marks = policy.arms, policy.domain.marks
    sources = {
        **dict.fromkeys(JUDGED, _Source("arms.judging", arms.judging == 0)),
        "canary_recall": _canaries(policy),
        "universal_mark_rate": _Source("arms.marks", arms.marks == 0),
        "backend_disagreements": _Source("arms.probes", arms.probes == 0),
    }
    source = sources.get(metric)
    if metric == "universal_mark_rate" and not any(marks.model_dump().values()):
        source = _Source("domain.marks", True, "off")
    return source if source is not None and source.off else None


def _canaries(policy: Policy) -> _Source:
    """Whether the share pays for the search for one planted fault, where the policy has a budget in executions of its own."""
    given = None if policy.budget is None else policy.budget.executions
    paid = None if given is None else executions_of(policy.arms.canaries, given)
    if policy.arms.canaries and paid is not None and paid < LEAST_EACH:
        state = f"{policy.arms.canaries:g}: of {given:,} executions that is {paid}, and a fault is searched for with {LEAST_EACH} at least"
        return _Source("arms.canaries", True, state)
    return _Source("arms.canaries", policy.arms.canaries == 0)


def _never_measured(rule: Rule, source: _Source, loaded: LoadedPolicy) -> Finding:
    where = loaded.place("rules", rule.id, "metric")
    start = f"{rule.metric} is never measured, because {source.key} is {source.state}"
    hint = f"Give {source.key} a {'value above 0' if source.state in ('0', 'off') else 'larger share'}, or remove the rule."
    match rule.on_missing:
        case "skip":
            return Finding("warning", rule.id, f"{start}; the rule is always skipped.", where, hint)
        case "fail":
            return Finding("error", rule.id, f"{start}; the rule always fails, as its on_missing says.", where, hint)
        case "inconclusive":
            return Finding("error", rule.id, f"{start}; the verdict can never be pass.", where, hint)


def _without_positive(rule: Rule, loaded: LoadedPolicy) -> Iterator[Finding]:
    if rule.metric == "missed_positive_rate" and not loaded.policy.positive:
        yield Finding(
            "note",
            rule.id,
            f"The policy names no positive classes, so {rule.metric} has no value until one that extends it does.",
            loaded.place("rules", rule.id, "metric"),
            "Write the classes that must not be missed: positive: [crack].",
        )


def _without_baseline(rule: Rule, loaded: LoadedPolicy) -> Iterator[Finding]:
    if (
        rule.compare is not None or rule.metric in ("negative_flip_rate", "flips_per_mistake")
    ) and "on_missing" not in rule.model_fields_set:
        key = "compare" if rule.compare is not None else "metric"
        yield Finding(
            "warning",
            rule.id,
            "The rule needs a baseline, and does not say what happens in a run without one: the verdict stays open.",
            loaded.place("rules", rule.id, key),
            "Say on_missing: inconclusive where every run must have a baseline, or on_missing: skip.",
        )


def _against_direction(rule: Rule, key: str, limit: Threshold, spec: MetricSpec, loaded: LoadedPolicy) -> Iterator[Finding]:
    if limit.upper == spec.higher_is_worse or spec.name in _EITHER_WAY:
        return
    better = "lower" if spec.higher_is_worse else "higher"
    turned = {">": "<", ">=": "<=", "<": ">", "<=": ">="}[limit.comparison]
    says = f"{key} states the breach, and of {spec.name} {better} values are the better ones: {limit.text!r} is breached by good models."
    yield Finding(
        "error" if key == "fail" else "warning",
        rule.id,
        says,
        loaded.place("rules", rule.id, key),
        f'Write {key}: "{turned} {limit.text.lstrip("<>= ")}".',
    )


def _always_breached(rule: Rule, key: str, limit: Threshold, spec: MetricSpec, loaded: LoadedPolicy) -> Iterator[Finding]:
    """The parser refuses limits that no value breaches; these are the ones that every value does."""
    least, most = values(rule.metric, loaded.policy)
    best = least if limit.upper else most
    if limit.holds(best):
        return
    reach = f"{rule.metric} is never {'less' if limit.upper else 'more'} than {wording.number(best, spec)}"
    budget = " with the policy's own budget" if rule.metric == "executions" and not limit.upper else ""
    what = "the rule can never hold" if key == "fail" else "the rule always warns"
    yield Finding(
        "error" if key == "fail" else "warning",
        rule.id,
        f"{reach}{budget}, so {key}: {limit.text!r} is always breached and {what}.",
        loaded.place("rules", rule.id, key),
        "Give a limit that a model can meet.",
    )


def _cover_all(fail: Threshold, warn: Threshold) -> bool:
    """Whether two limits in opposite directions leave no value between them."""
    if fail.upper == warn.upper:
        return False
    upper, lower = (fail, warn) if fail.upper else (warn, fail)
    return _gap_is_empty(upper, lower)


def _gap_is_empty(upper: Threshold, lower: Threshold) -> bool:
    if upper.limit != lower.limit:
        return upper.limit < lower.limit
    return not (upper.holds(upper.limit) and lower.holds(lower.limit))


def _not_worse_at_all(rule: Rule, loaded: LoadedPolicy) -> Iterator[Finding]:
    """An interval has some width, so that not even a copy of the baseline is surely not worse than it."""
    if rule.compare is None or rule.confidence is None or 0 not in (rule.compare.max_rise, rule.compare.max_drop):
        return
    yield Finding(
        "warning",
        rule.id,
        "With a confidence and no change allowed, the rule holds only for a model that is surely better than the baseline.",
        loaded.place("rules", rule.id, "compare"),
        "Allow a small change, or leave out the confidence.",
    )


def _too_few_samples(rule: Rule, loaded: LoadedPolicy) -> Iterator[Finding]:
    most = samples(rule.metric, loaded.policy)
    if rule.min_samples is None or most is None:
        return
    where, hint = loaded.place("rules", rule.id, "min_samples"), "Lower min_samples, or raise budget.executions or the arm's share."
    short = f"min_samples is {rule.min_samples:,}, and there are {most[1]}"
    if rule.min_samples > most[0]:
        if rule.slice is not None and rule.on_missing == "skip":
            yield Finding("warning", rule.id, f"{short}: always skipped.", where, hint)
        else:
            yield Finding("error", rule.id, f"{short}: never decided.", where, hint)
    elif rule.slice is not None and rule.slice.by in ("class", "half") and 2 * rule.min_samples > most[0]:
        yield Finding("warning", rule.id, f"{short}: no two slices can have so many.", where, hint)


def _never_settled(rule: Rule, loaded: LoadedPolicy) -> Iterator[Finding]:
    """Whether an interval from as many samples as there can be could lie beyond the limit, and on its good side."""
    policy = loaded.policy
    early = policy.decide == "early" and rule.kind == "quality"
    most, ends = samples(rule.metric, policy), extremes(rule.metric, policy, rule.confidence or _STANDARD)
    if rule.fail is None or most is None or ends is None or (rule.confidence is None and not early):
        return
    decisions = _decisions(rule.fail, ends)
    among = f"of {most[1]}, the {(rule.confidence or _STANDARD) * 100:.12g} % interval"
    where = loaded.place("rules", rule.id, "fail" if rule.confidence is None else "confidence")
    hint = "Lower the confidence, move the limit, or raise budget.executions or the arm's share."
    if rule.confidence is None:
        if "holds" not in decisions:
            says = f"The policy decides early, and this rule never lets it: {among} reaches over {rule.fail.text!r} even at the best value."
            yield Finding("warning", rule.id, says, where, hint)
    elif not decisions & {"holds", "breached"}:
        yield Finding("error", rule.id, f"The rule is always inconclusive: {among} is too wide for {rule.fail.text!r}.", where, hint)
    elif "holds" not in decisions:
        yield Finding(
            "error", rule.id, f"The rule can never hold: {among} reaches over {rule.fail.text!r} even at the best value.", where, hint
        )
    elif "breached" not in decisions:
        yield Finding(
            "error", rule.id, f"The rule can never fail: {among} reaches over {rule.fail.text!r} even at the worst value.", where, hint
        )
    else:
        yield from _never_alone(rule, loaded)


def _decisions(limit: Threshold, ends: tuple[Metric, Metric]) -> set[str]:
    return {limit.decide(end.lower, end.upper) for end in ends if end.lower is not None and end.upper is not None}


def _never_alone(rule: Rule, loaded: LoadedPolicy) -> Iterator[Finding]:
    """Whether the breach of one rule survives that several are judged."""
    assert rule.fail is not None
    assert rule.confidence is not None
    if rule.on_breach != "fail":
        return
    weighed = [one for one in loaded.policy.rules if one.confidence is not None and one.on_breach == "fail"]
    tests = sum((one.fail is not None) + (one.compare is not None) for one in weighed)
    ends = extremes(rule.metric, loaded.policy, 1 - (1 - rule.confidence) / tests)
    if ends is None or "breached" in _decisions(rule.fail, ends):
        return
    yield Finding(
        "warning",
        rule.id,
        f"The rule can't fail alone: with the policy's {tests} limits on intervals allowed for, none lies beyond {rule.fail.text!r}.",
        loaded.place("rules", rule.id, "confidence"),
        "Raise budget.executions or the arm's share, or have fewer rules with a confidence.",
    )


# ---------------------------------------------------------------------------------------------------------------------------------
# The policy as a whole


def _about_all(loaded: LoadedPolicy) -> Iterator[Finding]:
    policy = loaded.policy
    blocking = [rule for rule in policy.rules if rule.on_breach == "fail" and (rule.fail is not None or rule.compare is not None)]
    where = loaded.place("rules")
    if not blocking:
        yield Finding("warning", None, "No rule can make a run fail.", where, "Give at least one rule fail, with on_breach: fail.")
    elif all(rule.on_missing == "skip" for rule in blocking):
        yield Finding(
            "warning",
            None,
            "Every rule that can make a run fail is skipped where its metric is missing, so a run that measured none of them can't fail.",
            where,
            "Leave on_missing: skip to rules that need what not every run has, such as a long-tail set.",
        )
