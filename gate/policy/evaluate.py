"""Judges metrics by a policy: one status and one sentence for each rule, one verdict for all.

A rule asks one or two things of the metric, or of each of its slices: that it stay within ``fail``, and that it not get worse than the
baseline's by more than ``compare`` allows. ``looks`` puts a number beside a limit, ``holm`` says which breaches count with all of them
allowed for, ``sentences`` puts it into words, and ``judgement`` makes the verdict out of what the rules came to.
"""

from __future__ import annotations

import datetime
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from gate.metrics.catalogue import CATALOGUE, MetricSpec
from gate.policy import sentences, wording
from gate.policy.holm import Allowance, allowed_for, step_down
from gate.policy.judgement import WORST_FIRST, Judgement, judge
from gate.policy.looks import Decision, Look, at_limit, beside_baseline, excused, holds_excused
from gate.policy.more_samples import to_decide, to_reach
from gate.policy.schema import Policy, Rule, Waiver
from gate.policy.showing import Case, evidence_for
from gate.policy.waivers import as_recorded, cover
from gate.result import Defect, Metric, ModelInfo, Multiplicity, Paired, RootCause, RuleResult, Status

__all__ = ["evaluate"]

_BUG = "Report this as a bug of the gate."
_NO_BASELINE = "no baseline was given"
_GIVE_BASELINE = "Name the version in production with --baseline."


def evaluate(
    policy: Policy,
    metrics: Mapping[str, Metric],
    *,
    today: datetime.date,
    candidate: ModelInfo,
    root_causes: Iterable[RootCause] = (),
    defects: Sequence[Defect] = (),
    classes: Sequence[str] = (),
    advisory: bool = False,
    metrics_at: Callable[[float], Mapping[str, Metric]] | None = None,
) -> Judgement:
    """Judges a run.

    A limit is breached when the value is not on its good side. With ``confidence`` it is breached when the whole interval lies beyond it,
    kept when none of it does, and open otherwise; and a breach that would make the run fail must hold with all limits of the policy that
    are decided so allowed for (``holm``). ``warn`` goes by the point value always, for a warning blocks nothing. Below ``min_samples`` the
    rule is inconclusive. In a sliced rule the slices with enough samples are judged one by one and the worst one speaks; where none has
    enough, the metric counts as missing. Where the limit is not kept, but would be without the failures that the baseline has too on the
    same inputs, the rule only warns, unless the policy counts these.

    Args:
        metrics: by name, with slices.
        today: decides which waivers are in force.
        candidate: waivers may be for some models only.
        root_causes: of the run; waivers may be for some root causes only.
        defects: of the run; each rule names those that show it.
        classes: names of the model's classes, by which the defects of a slice are found.
        advisory: turns the exit code of fail and inconclusive into 0.
        metrics_at: gives the metrics with intervals at a confidence, for rules whose confidence is not that of ``metrics``, and for
            breaches with all limits allowed for.
    """
    causes = tuple(root_causes)
    run = _Run(
        policy=policy,
        metrics=metrics,
        today=today,
        candidate=candidate,
        root_causes=tuple(cause.id for cause in causes),
        case=Case(policy, defects, causes, classes),
        metrics_at=metrics_at and functools.cache(metrics_at),
    )
    run.allow_for_all()
    rules = tuple(_result(position, rule, run) for position, rule in enumerate(policy.rules))
    return judge(rules, metrics, advisory=advisory, multiplicity=run.multiplicity)


@dataclass(frozen=True)
class _Test:
    """One limit of one rule, in one slice of it."""

    rule: int  # position in the policy
    slice_name: str | None
    against: Literal["limit", "baseline"]


@dataclass
class _Run:
    policy: Policy
    metrics: Mapping[str, Metric]
    today: datetime.date
    candidate: ModelInfo
    root_causes: tuple[str, ...]
    case: Case
    metrics_at: Callable[[float], Mapping[str, Metric]] | None
    allowance: Allowance[_Test] = field(default_factory=lambda: Allowance(0, {}, 1))

    def metric(self, rule: Rule, confidence: float | None = None) -> Metric | None:
        """With the interval of a confidence, by default the rule's own."""
        wanted = confidence if confidence is not None else rule.confidence
        found = self.metrics.get(rule.metric)
        if found is None or wanted is None or self.metrics_at is None or found.confidence in (None, wanted):
            return found
        return self.metrics_at(wanted).get(rule.metric)

    def look(self, test: _Test, confidence: float) -> Look | None:
        """One limit beside the interval of a confidence."""
        rule = self.policy.rules[test.rule]
        metric = self.metric(rule, confidence)
        if metric is not None and rule.slice is not None:
            metric = metric.slices.get(rule.slice.by, {}).get(test.slice_name or "")
        return None if metric is None else _look(rule, metric, test.against)

    def allow_for_all(self) -> None:
        """Settles which breaches count: those of rules with a confidence that would make the run fail."""
        confidences = {
            test: rule.confidence
            for position, rule in enumerate(self.policy.rules)
            if rule.confidence is not None and rule.on_breach == "fail"
            for test in self._tests(position, rule)
        }
        self.allowance = step_down(confidences, self._beyond)

    def _tests(self, position: int, rule: Rule) -> Iterator[_Test]:
        metric = self.metric(rule)
        if metric is None or metric.value is None:
            return
        for name, part in _parts(rule, metric):
            for against in ("limit", "baseline"):
                look = _look(rule, part, against)
                if look is not None and look.finite and _enough(rule, look) and look.decide(rule.confidence) != "no interval":
                    yield _Test(position, name, against)

    def _beyond(self, test: _Test, confidence: float) -> bool:
        look = self.look(test, confidence)
        return look is not None and look.finite and look.decide(confidence) == "breached"

    @property
    def multiplicity(self) -> Multiplicity | None:
        """What is said of it; None where no rule is decided on an interval."""
        at = [rule.confidence for rule in self.policy.rules if rule.confidence is not None and rule.on_breach == "fail"]
        return Multiplicity(tests=self.allowance.tests, error=round(1 - min(at), 12)) if self.allowance.tests else None


@dataclass(frozen=True)
class _Found:
    """What one rule, or one slice of it, came to."""

    status: Status
    text: str
    next_step: str = ""
    metric: Metric | None = None
    slice_name: str | None = None
    waivers: tuple[Waiver, ...] = ()
    distance: float | None = None  # from the limit that speaks, in the metric's unit
    known: bool = False
    adjusted: float | None = None


def _parts(rule: Rule, metric: Metric) -> list[tuple[str | None, Metric]]:
    """What is judged one by one: the metric itself, or its slices in the order of their names."""
    if rule.slice is None:
        return [(None, metric)]
    return [(name, part) for name, part in sorted(metric.slices.get(rule.slice.by, {}).items()) if part.value is not None]


def _look(rule: Rule, metric: Metric, against: str) -> Look | None:
    if against == "limit":
        return at_limit(rule, metric)
    return None if rule.compare is None or metric.paired is None else beside_baseline(rule.compare, metric.paired)


def _enough(rule: Rule, look: Look) -> bool:
    return rule.min_samples is None or look.n >= rule.min_samples


def _result(position: int, rule: Rule, run: _Run) -> RuleResult:
    spec = CATALOGUE[rule.metric]
    metric = run.metric(rule)
    found = _outcome(position, rule, spec, metric, run)
    shown = found.metric if found.metric is not None else metric
    numbers = shown if shown is not None and _finite(shown) else None
    comparison = None if rule.compare is None else wording.comparison(rule.compare, spec)
    limit = rule.fail or rule.warn
    judged = found.status is not Status.SKIPPED and numbers is not None and numbers.value is not None
    evidence = evidence_for(rule, run.case, slice_name=found.slice_name, metric=metric) if judged else ((), 0)
    return RuleResult(
        id=rule.id,
        metric=rule.metric,
        kind=rule.kind,
        status=found.status,
        value=None if numbers is None else numbers.value,
        lower=None if numbers is None else numbers.lower,
        upper=None if numbers is None else numbers.upper,
        confidence=None if numbers is None else numbers.confidence,
        unit=spec.unit,
        threshold=limit.text if limit is not None else comparison or "",
        warn=rule.warn.text if rule.warn is not None else None,
        slice=found.slice_name,
        waiver="; ".join(map(as_recorded, found.waivers)) or None,
        explanation=found.text,
        next_step=found.next_step,
        meaning=spec.meaning,
        distance=found.distance,
        paired=numbers.paired if numbers is not None and (rule.compare is not None or found.known) else None,
        compare=comparison,
        known=found.known,
        adjusted=found.adjusted,
        evidence=evidence[0],
        evidence_count=evidence[1],
    )


def _outcome(position: int, rule: Rule, spec: MetricSpec, metric: Metric | None, run: _Run) -> _Found:
    if metric is None:
        return _missing(rule, spec, "it is not among the metrics of this run")
    if metric.value is None:
        return _missing(rule, spec, (metric.reason or "no reason was recorded").rstrip("."), metric)
    if rule.slice is None:
        limit = _against_limit(position, rule, spec, metric, None, run)
        return _both(rule, limit, _against_baseline(position, rule, spec, metric, None, run), _why_not_compared(rule, metric))
    return _worst_slice(position, rule, spec, metric, run)


def _finite(metric: Metric) -> bool:
    paired = metric.paired
    numbers = [metric.value, metric.lower, metric.upper]
    numbers += [] if paired is None else [value for value in dict(paired).values() if isinstance(value, float)]
    return all(number is None or math.isfinite(number) for number in numbers)


def _missing(rule: Rule, spec: MetricSpec, reason: str, metric: Metric | None = None) -> _Found:
    start = f"{rule.metric} could not be computed: {reason}"
    return _by_on_missing(rule, start, spec.to_measure, metric, what="the rule")


def _by_on_missing(rule: Rule, start: str, step: str, metric: Metric | None, *, what: str) -> _Found:
    match rule.on_missing:
        case "skip":
            return _Found(Status.SKIPPED, f"{start}; the policy skips {what} then.", step, metric)
        case "fail":
            return _Found(Status.FAIL, f"{start}; the policy counts that as a breach.", step, metric)
        case "inconclusive":
            return _Found(Status.INCONCLUSIVE, f"{start}; the policy needs it.", step, metric)


def _why_not_compared(rule: Rule, metric: Metric) -> str:
    """Why a metric has no change against the baseline to be judged; asked only where it has none."""
    if metric.paired is None:
        return (metric.paired_reason or _NO_BASELINE).rstrip(".")
    if rule.compare is not None and rule.compare.relative and metric.paired.relative is None:
        return "the baseline's value is 0, and a share of that says nothing"
    return f"the change has no {wording.level(rule.confidence or 0.5)} interval, which this rule is decided on"


def _both(rule: Rule, limit: _Found | None, baseline: _Found | None, why_not: str) -> _Found:
    """The outcomes of a rule's limit and of its comparison: the worse one speaks first, and both are said."""
    if rule.compare is not None and baseline is None:
        step = _GIVE_BASELINE if why_not == _NO_BASELINE else CATALOGUE[rule.metric].to_measure
        what = "the comparison" if limit is not None else "the rule"
        baseline = _by_on_missing(rule, f"{rule.metric} could not be compared with the baseline: {why_not}", step, None, what=what)
    if limit is None or baseline is None:
        only = limit if limit is not None else baseline
        assert only is not None  # the schema asks for one of fail, warn and compare
        return only
    worse, other = sorted((limit, baseline), key=lambda found: WORST_FIRST.index(found.status))
    shown = worse if worse.metric is not None else replace(worse, metric=other.metric, slice_name=other.slice_name)
    return replace(shown, text=f"{worse.text} {other.text}")


def _worst_slice(position: int, rule: Rule, spec: MetricSpec, metric: Metric, run: _Run) -> _Found:
    assert rule.slice is not None
    by = rule.slice.by
    slices = metric.slices.get(by, {})
    if not slices:
        return _missing(rule, spec, f"it has no slices by {by} in this run", metric)
    judged: list[_Found] = []
    alone: list[_Found] = []  # judged by the limit, but not compared with the baseline
    reasons: list[str] = []
    for name, part in _parts(rule, metric):
        limit = _against_limit(position, rule, spec, part, name, run)
        baseline = _against_baseline(position, rule, spec, part, name, run)
        if rule.compare is not None and baseline is None:
            reasons.append(_why_not_compared(rule, part))
        if limit is not None and baseline is None and rule.compare is not None:
            alone.append(limit)
        elif limit is not None or baseline is not None:
            judged.append(_both(rule, limit, baseline, ""))
    needed = rule.min_samples or 1
    if rule.compare is not None and not judged:
        why = (
            reasons[0] if len(set(reasons)) == 1 and metric.paired is None else f"no slice by {by} has the {needed} samples needed of both"
        )
        worst = min(alone, key=_badness) if alone else None
        return replace(_both(rule, worst, None, why), metric=metric if worst is None else worst.metric)
    judged += alone
    if not judged:
        return _missing(rule, spec, f"none of the {len(slices)} slices by {by} has the {needed} samples needed", metric)
    worst = min(judged, key=_badness)
    text = worst.text
    left_out = len(slices) - len(judged)
    if left_out:
        was, has = ("slice was", "it has") if left_out == 1 else ("slices were", "they have")
        text += f" {left_out} {was} left out because {has} too few samples."
    if alone:
        was, has = ("slice was", "it has") if len(alone) == 1 else ("slices were", "they have")
        text += f" {len(alone)} {was} not compared with the baseline because {has} too few samples of both."
    return replace(worst, text=text)


def _badness(found: _Found) -> tuple[int, float]:
    return WORST_FIRST.index(found.status), -math.inf if found.distance is None else found.distance


def _named(rule: Rule, slice_name: str | None) -> str:
    if slice_name is None or rule.slice is None:
        return rule.metric
    return f"{rule.metric} of the {rule.slice.by.replace('_', ' ')} {wording.name_of(slice_name)}"


def _few(rule: Rule, spec: MetricSpec, metric: Metric, text: str, n: int, slice_name: str | None, run: _Run) -> _Found:
    assert rule.min_samples is not None
    step = to_reach(rule.metric, rule.min_samples, n, run.policy, judged=_judged(run)) or spec.to_measure
    return _Found(Status.INCONCLUSIVE, f"{text}; {rule.min_samples:,} are needed to judge it.", step, metric, slice_name)


def _judged(run: _Run) -> int | None:
    metric = run.metrics.get("defect_rate")
    return None if metric is None else metric.n


def _against_limit(position: int, rule: Rule, spec: MetricSpec, metric: Metric, slice_name: str | None, run: _Run) -> _Found | None:
    """``fail`` and ``warn`` of a value that is there; None where the rule has neither, or the slice too few samples."""
    if rule.fail is None and rule.warn is None:
        return None
    if not _finite(metric):
        return _Found(Status.ERROR, f"{rule.metric} is not a number, so the rule can't be judged.", _BUG, metric, slice_name)
    value = metric.value
    assert value is not None
    name = _named(rule, slice_name)
    look = at_limit(rule, metric)
    n = metric.n or 0
    if (rule.min_samples is not None and n < rule.min_samples) or (slice_name is not None and n < 1):
        if slice_name is not None:
            return None
        text = f"{name} is {wording.value_of(metric, value, spec)}, from {n:,} samples"
        few = _few(rule, spec, metric, text, n, slice_name, run)
        return few if look is None else replace(few, distance=look.distance)
    if look is None:
        return _held(rule, spec, metric, name, slice_name, None)
    test = _Test(position, slice_name, "limit")
    decision, unsettled, adjusted, decided_on = _decided(rule, look, test, run)
    if decision == "no interval":
        asked = wording.level(allowed_for(rule.confidence or 0.5, run.allowance.open) if unsettled else rule.confidence or 0.5)
        text = f"{name} is {wording.number(value, spec)}, but it has no {asked} interval, which this rule is decided on."
        return _Found(Status.ERROR, text, "Compute the metrics at the rule's confidence.", metric, slice_name, distance=look.distance)
    if decision == "holds":
        return _held(rule, spec, metric, name, slice_name, look)
    text = sentences.about_limit(name, metric, look, spec, decision, unsettled)
    found = _Found(Status.FAIL, text, spec.next_step, metric, slice_name, distance=look.distance, adjusted=adjusted)
    without = excused(rule, metric)
    if without is not None and _enough(rule, without) and holds_excused(rule, without):
        return replace(found, status=Status.WARN, text=f"{text} {sentences.without_known(without, spec)}", known=True, adjusted=None)
    guess = to_decide(rule.metric, spec, decided_on, run.policy, judged=_judged(run), sliced=slice_name is not None)
    return _blocking(rule, spec, found, decision, guess, run)


def _against_baseline(position: int, rule: Rule, spec: MetricSpec, metric: Metric, slice_name: str | None, run: _Run) -> _Found | None:
    """``compare``; None where the rule has none, it can't be told, or the slice has too few inputs that both models were run on."""
    paired = metric.paired
    if rule.compare is None or paired is None:
        return None
    if not _finite(metric):
        text = f"{rule.metric} or its change against the baseline is not a number, so the rule can't be judged."
        return _Found(Status.ERROR, text, _BUG, metric, slice_name)
    look = beside_baseline(rule.compare, paired)
    if look is None:
        return None
    name = _named(rule, slice_name)
    if not _enough(rule, look) or look.n < 1:
        if slice_name is not None or look.n < 1:
            return None
        text = f"{name} was compared with the baseline's on {look.n:,} inputs"
        return _few(rule, spec, metric, text, look.n, slice_name, run)
    decision, unsettled, adjusted, decided_on = _decided(rule, look, _Test(position, slice_name, "baseline"), run)
    if decision == "no interval" and unsettled is None:
        return None
    if decision == "no interval":  # beyond what is allowed at the rule's own confidence: that is no comparison to leave out
        asked = wording.level(allowed_for(rule.confidence or 0.5, run.allowance.open))
        text = f"{name} is compared with the baseline's, but the change has no {asked} interval, which a breach is decided on."
        return _Found(Status.ERROR, text, "Compute the metrics at the rule's confidence.", metric, slice_name)
    text = sentences.about_change(name, paired, look, rule.compare, spec, decision, unsettled)
    distance = _in_unit(look, rule, paired)
    if decision == "holds":
        return _Found(Status.PASS, text, "", metric, slice_name, distance=distance)
    found = _Found(Status.FAIL, text, spec.next_step, metric, slice_name, distance=distance, adjusted=adjusted)
    guess = to_decide(rule.metric, spec, decided_on, run.policy, judged=_judged(run), sliced=slice_name is not None, changed=True)
    return _blocking(rule, spec, found, decision, guess, run)


def _in_unit(look: Look, rule: Rule, paired: Paired) -> float:
    return look.distance * paired.baseline if rule.compare is not None and rule.compare.relative else look.distance


def _decided(rule: Rule, look: Look, test: _Test, run: _Run) -> tuple[Decision, str | None, float | None, Look]:
    """The decision with all limits allowed for.

    Returns:
        It; where a breach at the rule's own confidence does not count, why not; the confidence of the breach, where that is another than
        the rule's own; and the look whose interval would have to narrow for another decision.
    """
    decision = look.decide(rule.confidence)
    if decision != "breached" or rule.confidence is None or rule.on_breach != "fail":
        return decision, None, None, look
    settled = run.allowance.breached.get(test)
    if settled is not None:
        return decision, None, settled if settled != rule.confidence else None, look
    level = allowed_for(rule.confidence, run.allowance.open)
    wider = run.look(test, level)
    said = sentences.allowance(run.allowance.tests, level)
    if wider is None or wider.decide(level) == "no interval":
        return "no interval", said, None, look
    return "undecided", said, level, wider


def _blocking(rule: Rule, spec: MetricSpec, found: _Found, decision: Decision, guess: str | None, run: _Run) -> _Found:
    """A limit that is not kept: fail or inconclusive, and what waivers say."""
    if decision == "undecided":
        found = replace(found, status=Status.INCONCLUSIVE, next_step=guess or spec.to_measure)
    elif rule.on_breach == "inconclusive":
        found = replace(found, status=Status.INCONCLUSIVE, text=f"{found.text} By on_breach that leaves the verdict open.")
    return _waived(rule, found, decision, run)


def _held(rule: Rule, spec: MetricSpec, metric: Metric, name: str, slice_name: str | None, look: Look | None) -> _Found:
    value = metric.value
    assert value is not None
    warned = rule.warn is not None and rule.warn.breached(value)
    if look is None or warned:
        assert rule.warn is not None
        text = sentences.about_warning(name, metric, rule.warn, spec)
        gap = rule.warn.limit - value
        distance = look.distance if look is not None else gap if rule.warn.upper else -gap
        return _Found(Status.WARN if warned else Status.PASS, text, spec.next_step if warned else "", metric, slice_name, distance=distance)
    return _Found(Status.PASS, sentences.about_limit(name, metric, look, spec, "holds"), "", metric, slice_name, distance=look.distance)


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
    """Root causes behind a breach: the slice's own, those that recur where the metric tells them apart, or all of the run."""
    if rule.slice is not None and rule.slice.by == "root_cause" and found.slice_name is not None:
        return (found.slice_name,)
    parts = found.metric.slices.get("root_cause") if found.metric is not None else None
    if parts:
        return tuple(name for name, part in parts.items() if part.value)
    return run.root_causes
