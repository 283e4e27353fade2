"""From what a run knows to its record: the evidence, the judgement, and the one object that every rendering is made of."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from gate.campaign.arms import ARMS
from gate.campaign.choice_summary import boundary_of, objectives_of, strategies_used, weights_over_time
from gate.campaign.gain_curve import compare, is_false_coverage
from gate.campaign.loop import CampaignOutcome, ClassCount
from gate.config import kind_of
from gate.metrics import compute
from gate.metrics.aggregated import aggregated
from gate.metrics.catalogue import CATALOGUE
from gate.metrics.evidence import CanaryEvidence, CoverageEvidence, Evidence, JudgedSeed, MarkEvidence, SearchDefect
from gate.metrics.on_demand import MetricsOnDemand
from gate.policy.evaluate import evaluate
from gate.policy.load import LoadedPolicy
from gate.policy.positive import positive_positions
from gate.policy.waiver_use import waiver_uses
from gate.result import (
    ArmSummary,
    CampaignState,
    CampaignSummary,
    ClassCoverage,
    CorpusReuse,
    CoverageSummary,
    CurvePoint,
    Defect,
    Discovery,
    FamilyMargin,
    Metric,
    ModelInfo,
    Result,
    Unreached,
    Verdict,
    exit_code_of,
)
from gate.triage.history import History, across_releases
from gate.triage.margins import family_margins
from gate.triage.repair import with_repairs
from gate.triage.root_causes import root_causes
from gate.work import Work

__all__ = ["as_asked", "evidence_of", "judged", "record", "unjudged"]

_STALLED_STEP = (
    "The campaign ended before its budget, as coverage no longer grew; a larger budget alone changes nothing. Give more seed inputs, or "
    "wait longer for something new (coverage.stall); where coverage.on_stall is end, freeze has the search go for defects."
)
_ABORTED_STEP = (
    "Repair what ended the campaign (abort_on), and run the gate again: what was not settled by then was not looked at any further."
)
_ABORTED = "A defect ended the campaign before its budget (abort_on), and what was not looked at any further is no evidence."
_ENDED = {
    "decided": "The campaign ended after {:,} executions, before its budget, as all that its policy asks for was settled.",
    "abort": "The campaign ended after {:,} executions, at the first confirmed defect of a kind that its policy names in abort_on.",
}
_OF_ANSWERS = ("failures", "failing_predicted", "failing_confidence")
_SAID = 200  # characters of a reason that every missing metric repeats


def judged(blank: Result, evidence: Evidence, policy: LoadedPolicy, *, advisory: bool, today: date | None = None) -> Result:
    """The record with metrics, rules, reasons and verdict filled in from the evidence.

    A campaign that was interrupted is inconclusive whatever its rules say so far, for it did not have the budget that was promised; one
    that a defect ended (``abort_on``) may fail, and does not pass.
    Waivers are in force or not on ``today``, the UTC date where None.
    """
    evidence = as_asked(evidence, policy, blank.classes)
    metrics: Mapping[str, Metric] = compute(evidence)
    day = today or datetime.now(UTC).date()
    at = functools.cache(lambda confidence: MetricsOnDemand(evidence, confidence))
    judgement = evaluate(
        policy.policy,
        metrics,
        today=day,
        candidate=blank.candidate,
        root_causes=blank.root_causes,
        defects=blank.defects,
        classes=blank.classes,
        advisory=advisory,
        metrics_at=at,
    )
    waivers = waiver_uses(policy.policy, metrics, today=day, candidate=blank.candidate, root_causes=blank.root_causes, metrics_at=at)
    verdict, reasons = judgement.verdict, judgement.reasons
    if blank.partial:
        said = "The run was interrupted before its budget ended; this result is partial."
        reasons = (said, *reasons)
        verdict = verdict if verdict is Verdict.ERROR else Verdict.INCONCLUSIVE
    if verdict is Verdict.PASS and blank.campaign is not None and blank.campaign.stop_reason == "abort":
        reasons = (_ABORTED, *reasons)  # whether or not a rule blocks for the defect that ended it
        verdict = Verdict.INCONCLUSIVE
    if blank.campaign is not None and blank.campaign.stop_reason in _ENDED:
        canaries = blank.campaign.arms.get("canaries")  # which came after it
        ran = blank.campaign.executions - (0 if canaries is None else canaries.executions)
        reasons = (*reasons, _ENDED[blank.campaign.stop_reason].format(ran))
    alone = evidence.baseline_reason if evidence.baseline is None else evidence.baseline.reason
    if alone is not None and not any(alone in reason for reason in reasons):
        # Also where every rule that asks for it is skipped then: who gave a baseline takes it for compared.
        reasons = (*reasons, f"Not everything was compared with the baseline: {alone.rstrip('.')}.")
    unconfirmed = 0 if blank.campaign is None else blank.campaign.unconfirmed
    if unconfirmed:
        reasons = (*reasons, f"Findings that there was no time left to confirm, and that count as no defects: {unconfirmed}.")
    return blank.model_copy(
        update={
            "verdict": verdict,
            "exit_code": exit_code_of(verdict, advisory=advisory),
            "advisory": advisory,
            "policy": policy.info,
            "reasons": reasons,
            "next_steps": _steps(blank, judgement.next_steps),
            "rules": judgement.rules,
            "multiplicity": judgement.multiplicity,
            "waivers": waivers,
            "metrics": metrics,
        }
    )


def _steps(blank: Result, steps: tuple[str, ...]) -> tuple[str, ...]:
    """What the rules advise; where the search ended itself for having stalled, that comes first, and a larger budget is no advice."""
    reason = None if blank.campaign is None else blank.campaign.stop_reason
    if reason == "abort":
        return (_ABORTED_STEP, *steps)
    if not steps or reason != "saturated":
        return steps
    return (_STALLED_STEP, *(step for step in steps if step != CATALOGUE["executions"].next_step))


def as_asked(evidence: Evidence, policy: LoadedPolicy, classes: Sequence[str]) -> Evidence:
    """A run's evidence as a policy asks for it; ``classes`` are the model's, in its order."""
    if policy.policy.criterion is not None:
        evidence = evidence.model_copy(update={"criterion": policy.policy.criterion})
    early = "early" in (policy.policy.decide, evidence.decide)  # a campaign that could stop early stays one, whatever policy judges it
    update = {"positive": positive_positions(policy.policy, classes), "decide": "early" if early else "end"}
    return _with_its_effort(evidence, policy).model_copy(update=update)


def _with_its_effort(evidence: Evidence, policy: LoadedPolicy) -> Evidence:
    """The judging arm's evidence with the effort per seed input that this policy asks for, or none where the run can't give it.

    Slots are drawn one by one and do not depend on their number, so the first few are just what a run with fewer would have made.
    """
    asked = policy.policy.judging
    wanted, made = asked.mutants_per_seed, evidence.judging_mutants_per_seed
    if evidence.domain_digest != policy.policy.domain.digest():
        reason = "the run's mutants were made under another domain than this policy's; run the gate under this policy"
        evidence = evidence.model_copy(update={"marks": (), "marks_reason": reason.replace("mutants were", "marks were")})
    elif made < wanted:
        reason = f"the run made {made} mutants of each seed input and this policy asks for {wanted}; run the gate under this policy"
    elif evidence.judging_repeat != asked.repeat:
        again = f"asked for {evidence.judging_repeat} answers to each mutant and this policy asks for {asked.repeat}"
        reason = f"the run {again}; run the gate under this policy"
    elif made == wanted:
        return aggregated(evidence, asked.aggregate)
    else:
        evidence = aggregated(evidence, asked.aggregate)
        columns = ("operators", "families", "severities", "valid", "failed", "predicted", "confidence", *_OF_ANSWERS)
        judged = tuple(row.model_copy(update={name: getattr(row, name)[:wanted] for name in columns}) for row in evidence.judged)
        return evidence.model_copy(update={"judged": judged, "judging_mutants_per_seed": wanted})
    return evidence.model_copy(update={"judged": (), "judged_reason": reason})


def evidence_of(work: Work) -> Evidence:
    """Everything the metrics are computed from, once the campaign is over."""
    assert work.campaign is not None
    assert work.seeds is not None
    assert work.judging is not None
    assert work.confirmer is not None
    outcome, seeds = work.campaign.outcome, work.seeds
    search = outcome.counts["search"]
    domain_family = work.campaign.domain.family
    judged = tuple(
        JudgedSeed(
            seed_id=seeds.ids[row.seed],
            label=int(seeds.labels[row.seed]),
            operators=row.operators,
            families=tuple(domain_family(name) for name in row.operators),
            severities=row.severities,
            valid=row.valid,
            failed=row.failed,
            predicted=row.predicted,
            confidence=row.confidence,
            failures=row.failures,
            failing_predicted=row.failing_predicted,
            failing_confidence=row.failing_confidence,
        )
        for row in work.judging.rows
    )
    return Evidence(
        seed=work.settings.seed,
        classes=work.classes,
        clean=work.clean,
        long_tail=work.long_tail,
        judged=judged,
        judging_mutants_per_seed=work.judging.mutants_per_seed,
        judging_repeat=work.judging.repeat,
        judging_aggregate=work.judging.aggregate,
        domain_digest=work.policy.policy.domain.digest(),
        search_executions=search.executions,
        search_device_seconds=search.seconds,
        searched_seed_ids=seeds.ids,
        defects=tuple(
            SearchDefect(
                id=defect.id,
                seed_id=defect.seed_id,
                label=defect.label,
                predicted=defect.predicted,
                natural=defect.natural,
                recurs_in_long_tail=work.long_tail_hits.get(defect.id),
            )
            for defect in work.confirmer.defects
            if defect.label is not None and "search" in work.confirmer.found_by[defect.id]
        ),
        root_causes=len(root_causes(work.confirmer.defects, work.classes)),
        coverage={
            name: CoverageEvidence(
                initial=outcome.initial[name],
                final=outcome.final[name],
                after_first=outcome.after_first[name],
                first=outcome.first,
                kind=kind_of(name),
            )
            for name in outcome.initial
        },
        criterion=work.settings.coverage.reported,
        regression=work.regression,
        regression_reason=work.regression_reason,
        long_tail_reason=work.long_tail_reason,
        marks=tuple(
            MarkEvidence(kind=one.kind, label=one.label, moved=one.moved, inputs=one.inputs)
            for one in (work.marks.marks if work.marks is not None and work.marks.reason is None else ())
        ),
        marks_reason=None if work.marks is None else work.marks.reason,
        probes_compared=work.probes_compared,
        probes_disagreeing=work.probes_disagreeing,
        probes_reason=None if work.probes is None else work.probes.reason,
        inputs_compared=0 if work.paths is None else work.paths.seeds + work.paths.mutants,
        inputs_disagreeing=0 if work.paths is None else work.paths.disagreeing,
        nonfinite_outputs=outcome.nonfinite + work.probes_broken,
        flaky_findings=work.confirmer.flaky + outcome.vanished,
        crashes=outcome.crashes,
        preflight_faults=work.preflight_faults,
        executions=sum(outcome.counts[arm].executions for arm in ARMS),
        baseline=work.baseline_evidence,
        baseline_reason=work.baseline_reason,
        canaries=_canaries(work),
        canaries_reason=None if work.canaries is None else work.canaries.reason,
        decide=work.policy.policy.decide,
    )


def _canaries(work: Work) -> tuple[CanaryEvidence, ...]:
    tried = () if work.canaries is None else work.canaries.canaries
    return tuple(CanaryEvidence(name=one.name, found=one.found, executions=one.executions) for one in tried if one.found is not None)


def unjudged(work: Work, verdict: Verdict, reasons: tuple[str, ...], *, trusted: bool = True) -> Result:
    """The record of a run that stopped before it could be judged: the verdict is given, and metrics and rules say what is missing.

    Args:
        work: as far as it came.
        verdict: error or inconclusive; no rule changes it.
        reasons: the first is why the run stopped.
        trusted: whether what the campaign has counted until now is in order.
    """
    known = (work.campaign, work.seeds, work.judging, work.confirmer)
    if trusted and all(part is not None for part in known):
        evidence = evidence_of(work)
    else:
        evidence = Evidence(
            seed=work.settings.seed,
            classes=work.classes,
            clean=work.clean,
            long_tail=work.long_tail,
            judging_mutants_per_seed=work.policy.policy.judging.mutants_per_seed,
            domain_digest=work.policy.policy.domain.digest(),
            criterion=work.settings.coverage.reported,
            regression=work.regression,
            regression_reason=work.regression_reason,
            long_tail_reason=work.long_tail_reason,
            preflight_faults=work.preflight_faults,
        )
    why = reasons[0] if len(reasons[0]) <= _SAID else reasons[0][: _SAID - 1] + "…"
    evidence = evidence.model_copy(update={"stopped_early": why})
    seen = judged(record(work, verdict, reasons), evidence, work.policy, advisory=work.settings.advisory)
    code = exit_code_of(verdict, advisory=work.settings.advisory)
    return seen.model_copy(update={"verdict": verdict, "exit_code": code, "reasons": reasons, "next_steps": ()})


def record(work: Work, verdict: Verdict, reasons: tuple[str, ...]) -> Result:
    """The record of what is known, with this verdict and without metrics and rules."""
    candidate = work.candidate or ModelInfo(uri=str(work.settings.model), resolved_uri=str(work.settings.model))
    defects = tuple(work.confirmer.defects) if work.confirmer is not None else ()
    history = _history(work, defects)
    return Result(
        verdict=verdict,
        exit_code=exit_code_of(verdict, advisory=work.settings.advisory),
        advisory=work.settings.advisory,
        reasons=reasons,
        candidate=candidate,
        baseline=work.baseline,
        previous=work.previous,
        policy=work.policy.info,
        classes=work.classes,
        data=work.data,
        preflight=work.preflight,
        campaign=_campaign_summary(work),
        coverage=_coverage_summaries(work),
        layers=work.layers,
        coverage_by_class=_class_coverage(work),
        curve=tuple(
            CurvePoint(
                executions=point.executions,
                coverage=point.coverage,
                random=point.random,
                noise=point.noise,
                findings=point.findings,
                defects=point.defects,
            )
            for point in (work.campaign.outcome.curve if work.campaign is not None else ())
        ),
        defects=defects,
        root_causes=history.causes,
        earlier_causes=history.earlier,
        quarantine=() if work.confirmer is None else tuple(work.confirmer.quarantine),
        triage=work.triage,
        feature_map=work.feature_map,
        margins=_margins(work),
        probes=work.probes,
        paths=work.paths,
        against_baseline=work.against_baseline,
        canaries=work.canaries,
        early=work.early,
        universal_marks=work.marks,
        isolation={"process": "own process group", "environment": "allow-list", "network": "not restricted", "files": "not restricted"},
        environment=work.environment,
        partial=work.interrupted,
    )


def _history(work: Work, defects: Sequence[Defect]) -> History:
    """Root causes with all that is known of them, beside those of the earlier run."""
    causes = [cause.model_copy(update=work.about_causes.get(cause.id, {})) for cause in root_causes(defects, work.classes)]
    causes = with_repairs(causes, defects, work.policy.policy.domain, work.preflight)
    if work.regression is None:
        return across_releases(causes, work.earlier, None)
    recurs: dict[str, bool] = {}
    for defect, why in work.regression.recurs.items():
        cause = work.regression.root_cause[defect]
        recurs[cause] = recurs.get(cause, False) or why is not None
    return across_releases(causes, work.earlier, recurs)


def _margins(work: Work) -> tuple[FamilyMargin, ...]:
    if work.judging is None or work.campaign is None:
        return ()
    return family_margins(work.judging.rows, work.campaign.domain.family, work.judging.mutants_per_seed)


def _campaign_summary(work: Work) -> CampaignSummary | None:
    if work.campaign is None:
        return None
    outcome: CampaignOutcome = work.campaign.outcome
    counts = outcome.counts
    fuzzed = [counts[arm] for arm in ("search", "judging", "random")]
    distinct = Counter(arm for arms in (work.confirmer.found_by.values() if work.confirmer is not None else ()) for arm in arms)
    executed = sum(count.executions for count in fuzzed)
    return CampaignSummary(
        seed=work.settings.seed,
        executions=outcome.executions,
        model_calls=work.model_calls or sum(count.model_calls for count in counts.values()),
        wall_seconds=round(work.budget.seconds, 3),
        device=str(work.fingerprint.get("device", "unknown")),
        device_hours=counts["search"].seconds / 3600.0,
        stop_reason=outcome.stop_reason,
        budget_executions=work.budget.settings.executions,
        judge_half=work.settings.data.judge_half,
        stalled_for=outcome.stalled_for,
        states=tuple(CampaignState(state=one.state.value, executions=one.executions, reason=one.reason) for one in outcome.states),
        unconfirmed=outcome.unconfirmed,
        reused=None if work.reuse is None else CorpusReuse(source=str(work.settings.corpus), **work.reuse.summary()),
        precision_only=0 if work.confirmer is None else work.confirmer.precision_only,
        too_close=0 if work.confirmer is None else work.confirmer.too_close,
        valid_fraction=sum(count.valid for count in fuzzed) / executed if executed else None,
        arms={
            arm: ArmSummary(
                executions=count.executions,
                valid=count.valid,
                findings=count.findings,
                defects=distinct[arm],
                model_calls=count.model_calls,
                coverage=count.coverage if arm != "judging" else {},
                invalid=count.invalid,
            )
            for arm, count in counts.items()
        },
        fingerprint=work.fingerprint,
        started_at=work.started_at,
        operators={
            name: {
                "executions": count.executions,
                "valid": count.valid,
                "findings": count.findings,
                "new_items": count.new_items,
            }
            for name, count in outcome.operators.items()
            if count.executions
        },
        invalid=outcome.invalid,
        validator=work.validator,
        validator_calls=0 if work.asked is None else work.asked.calls,
        operator_weights=weights_over_time(work.campaign.search.choice, work.campaign.domain.family),
        strategies=strategies_used(work.campaign.search.entries),
        objectives=objectives_of(outcome.objectives),
        boundary=boundary_of(work.campaign.search.failed_at),
    )


def _coverage_summaries(work: Work) -> dict[str, CoverageSummary]:
    if work.campaign is None:
        return {}
    return {name: _coverage_summary(work, work.campaign.outcome, name) for name in work.campaign.outcome.initial}


def _coverage_summary(work: Work, outcome: CampaignOutcome, name: str) -> CoverageSummary:
    settings = work.settings.coverage
    seen = work.coverage.get(name, {})
    random, noise = (compare(outcome.gains["search"], outcome.gains[arm], name) for arm in ("random", "noise"))
    estimate = outcome.discovery.get(name)
    return CoverageSummary(
        kind=kind_of(name),
        guides=name in settings.guides,
        initial=outcome.initial[name],
        final=outcome.final[name],
        gain=outcome.final[name] - outcome.initial[name],
        gain_per_iteration=(outcome.after_first[name] - outcome.initial[name]) / outcome.first if outcome.first else None,
        raw_final=outcome.raw[name],
        covered=int(seen.get("covered", 0)),
        total=seen.get("total"),
        by_layer=seen.get("by_layer", {}),
        nonfinite=int(seen.get("nonfinite", 0)),
        unreached=tuple(_left_in(row, work.classes, by_class=name == "output") for row in seen.get("unreached", ())),
        random=random,
        noise=noise,
        false_coverage=is_false_coverage(noise),
        discovery=None if estimate is None else Discovery.model_validate(estimate),
    )


def _left_in(row: Mapping[str, Any], classes: tuple[str, ...], *, by_class: bool) -> Unreached:
    """What is left in a place, with the class's name where the place is the number of one."""
    left = Unreached.model_validate(row)
    if by_class and int(left.place) < len(classes):
        return left.model_copy(update={"place": classes[int(left.place)]})
    return left


def _class_coverage(work: Work) -> tuple[ClassCoverage, ...]:
    """By true class, those without a seed input left out."""
    if work.campaign is None or work.seeds is None:
        return ()
    shares = work.coverage.get("output", {}).get("by_class", [])
    counts = work.campaign.outcome.classes
    return tuple(
        ClassCoverage(
            label=label,
            executions=count.executions,
            valid=count.valid,
            new_items=count.new_items,
            output=shares[label] if label < len(shares) else None,
        )
        for label in sorted({*counts, *map(int, work.seeds.labels)})
        for count in [counts.get(label, ClassCount())]
    )
