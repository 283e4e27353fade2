"""``report.html``: the page people read. One file, no request, no storage; it opens from disk and in a sandboxed frame.

The template lays out; what it says is computed here. Every text a template prints passes through ``gate.report.text.visible`` (the
environment's ``finalize``) and then through Jinja's autoescaping. Scripts and styles run only by their hash (content security policy).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from gate.metrics.catalogue import CATALOGUE
from gate.policy.threshold import Threshold
from gate.report import reproduce
from gate.report.bar import Bar, bar
from gate.report.beside_baseline import beside_baseline_page
from gate.report.canaries import canaries_page
from gate.report.causes import causes_page
from gate.report.choices import choices_page
from gate.report.coverage import evidence_flags, false_note
from gate.report.coverage_tables import coverage_page
from gate.report.decided import (
    distance_in_words,
    early_in_words,
    level_in_words,
    multiplicity_in_words,
    rise_in_words,
    saved_by,
)
from gate.report.feature_map import map_page
from gate.report.gallery import PAGE, gallery, left_out_words
from gate.report.invalid_words import reasons_in_words
from gate.report.margins import margins_page
from gate.report.marks import marks_page, probes_page
from gate.report.numbers import amount, count, difference, duration, interval, share, split
from gate.report.opening_words import mixed_up, plain_reason, what_it_means
from gate.report.page import inline, made_visible, page_environment, source_hash
from gate.report.quarantine import quarantine_page
from gate.report.rise import Rise, reach, rise
from gate.report.slices import slices_page
from gate.report.text import NAME, visible
from gate.report.waivers import idle_waivers
from gate.report.ways import ways_page
from gate.report.words import (
    BREACHING,
    JUDGING,
    VERDICT_MEANING,
    VERDICT_WORD,
    advisory_note,
    candidate_name,
    headline,
    judged_half_note,
    limit_of,
    limits_in_words,
    meaning,
    metric_reason,
    moment,
    no_rules,
    only_compared,
    partial_note,
    rule_interval,
    sentence,
    short_digest,
    side_facts,
    stop_reason_in_words,
    title,
    worst_first,
)
from gate.result import ArmSummary, CampaignSummary, Metric, ModelInfo, Result, RuleResult, Status

__all__ = ["render"]

_HEADLINE = ("defect_density", "coverage_gain_per_iteration", "long_tail_hit_rate", "regression_rate")
_CLEAN = ("clean_accuracy", "long_tail_accuracy")
_CHECKS = {
    "eval_mode": "Evaluation mode",
    "deterministic": "Same input, same output",
    "batch_independent": "Independent of batch neighbours",
    "output": "Shape and kind of the output",
    "output_shape": "Shape of the output",
    "output_kind": "Kind of output",
    "clean_accuracy": "Accuracy on clean data",
    "seeds": "Usable seed inputs",
}
_ROLES = {"seeds": "Seeds", "long_tail": "Long-tail set", "profile": "Profile set"}
_MOST_EVIDENCE = 5
_MOST_RULES, _MOST_OPERATORS, _MOST_ARMS = 200, 60, 20


def render(result: Result, folder: Path) -> str:
    """The page as text.

    Args:
        result: the finished run.
        folder: its run folder, from which the pictures of the defects are read.
    """
    return _environment().get_template("report.html.j2").render(**_page(result, folder))


@cache
def _environment() -> Environment:
    environment = page_environment(_finalize)
    environment.filters["anchor"] = _anchor
    environment.filters["with_code"] = _with_code
    return environment


def _finalize(value: Any) -> Any:
    shown = made_visible(value)
    # No line may begin with the percent sign of the number before it.
    return shown.replace(" %", "\u00a0%") if isinstance(shown, str) and not isinstance(value, Markup) else shown


def _with_code(text: str) -> Markup:
    """A sentence in which commands stand between backticks."""
    return Markup(re.sub(r"`([^`]{1,120})`", r"<code>\1</code>", str(Markup.escape(_finalize(text)))))


def _anchor(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", text)[:NAME]


def _page(result: Result, folder: Path) -> dict[str, Any]:
    css, js = inline("report.css"), inline("report.js")
    shown = gallery(result, folder)
    rules = worst_first(result.rules)
    flags = evidence_flags(result)
    weak = slices_page(result)
    operators = _operators(result.campaign)
    anchors = shown.anchors
    page: dict[str, Any] = {
        "css": css,
        "js": js,
        "security": Markup(
            f"default-src 'none'; img-src data:; style-src {source_hash(css)}; script-src {source_hash(js)}; "
            "base-uri 'none'; form-action 'none'"
        ),
        "verdict": result.verdict.value,
        "verdict_word": VERDICT_WORD[result.verdict],
        "verdict_meaning": VERDICT_MEANING[result.verdict],
        "exit_code": result.exit_code,
        "candidate": Markup.escape(candidate_name(result)),
        "headline": Markup.escape(plain_reason(headline(result), result)),
        "headline_meaning": what_it_means(result),
        "mixed_up": mixed_up(result),
        "notes": [note for note in (advisory_note(result), partial_note(result)) if note],
        "alarm": false_note(result),
        "banner_facts": _banner_facts(result),
        "faults": [_check(check) for check in result.preflight if check.status == "fault"],
        "reasons": [plain_reason(reason, result) for reason in result.reasons],
        "next_steps": result.next_steps,
        "cards": _card_groups(result, flags),
        "rules": [_rule(rule, flags, anchors) for rule in rules[:_MOST_RULES]],
        "idle_waivers": idle_waivers(result),
        "rules_left_out": max(0, len(rules) - _MOST_RULES),
        "rules_lead": _rules_lead(rules),
        "no_rules": no_rules(result),
        "decided": [said for said in (multiplicity_in_words(result), early_in_words(result)) if said],
        "saved": None if result.early is None else saved_by(result.early),
        "baseline": beside_baseline_page(result),
        "canaries": canaries_page(result),
        "weak": weak,
        "coverage": coverage_page(result),
        "marks": marks_page(result, folder),
        "probes": probes_page(result, folder),
        "ways": ways_page(result),
        "operators": operators,
        "choices": choices_page(result.campaign),
        "causes": causes_page(result, folder, anchors) if result.root_causes or result.earlier_causes else None,
        "map": map_page(result, anchors),
        "margins": margins_page(result),
        "quarantine": quarantine_page(result),
        "gallery": shown,
        "page_size": PAGE,
        "gallery_left_out": left_out_words(shown),
        "defects_lead": _defects_lead(result),
        "no_defects": _no_defects(result),
        "all_metrics": [_metric_row(name, metric) for name, metric in sorted(result.metrics.items())],
        "missing_metrics": sum(metric.value is None for metric in result.metrics.values()),
        "campaign_facts": _campaign_facts(result.campaign),
        "model_facts": _model_facts(result),
        "arms": _arms(result.campaign),
        "preflight": [_check(check) for check in result.preflight],
        "data": _data(result),
        "previous": _previous(result),
        "command_lead": reproduce.LEAD,
        "command": Markup.escape(reproduce.command(result, " \\\n  ")),
        "environment": _environments(result),
    }
    page["sections"] = _sections(page)
    return page


def _sections(page: Mapping[str, Any]) -> list[tuple[str, str]]:
    known = (
        ("faults", "Faults", page["faults"]),
        ("why", "Why", True),
        ("causes", "Root causes", page["causes"]),
        ("map", "Map", page["map"]),
        ("numbers", "Numbers", page["cards"]),
        ("rules", "Rules", True),
        ("baseline", "Beside the baseline", page["baseline"]),
        ("weak", "Weak spots", page["weak"]),
        ("margins", "Margins", page["margins"]),
        ("defects", "Defects", True),
        ("marks", "Marks", page["marks"]),
        ("probes", "Probes", page["probes"]),
        ("ways", "Other ways", page["ways"]),
        ("quarantine", "Flaky", page["quarantine"]),
        ("canaries", "Canaries", page["canaries"]),
        ("coverage", "Coverage", page["coverage"]["rows"]),
        ("operators", "Mutations", page["operators"]),
        ("metrics", "All metrics", page["all_metrics"]),
        ("run", "About this run", True),
    )
    return [(anchor, label) for anchor, label, present in known if present]


def _banner_facts(result: Result) -> list[tuple[str, str]]:
    pairs = [("Policy", visible(result.policy.name, NAME) if result.policy else "none was applied")]
    digest = short_digest(result.candidate.digest)
    pairs.append(("Model digest", digest or "not computed"))
    if result.campaign:
        pairs.append(("Tried", f"{count(result.campaign.executions)} executions in {duration(result.campaign.wall_seconds)}"))
        if result.campaign.started_at:
            pairs.append(("Started", moment(result.campaign.started_at)))
    if result.defects:
        causes = f"{count(len(result.root_causes))} {'root cause' if len(result.root_causes) == 1 else 'root causes'}"
        pairs.append(("Defects", f"{count(len(result.defects))} in {causes}"))
    else:
        pairs.append(("Defects", "none confirmed" if result.campaign else "not searched"))
    pairs.append(("Exit code", str(result.exit_code)))
    return pairs


def _check(check: Any) -> dict[str, str]:
    return {
        "title": _CHECKS.get(check.name) or visible(check.name.replace("_", " ").capitalize(), NAME),
        "status": check.status,
        "badge": {"ok": "pass", "note": "note", "fault": "fail"}[check.status],
        "seen": sentence(check.seen),
        "advice": check.advice,
    }


def _limit_for(name: str, rules: Sequence[RuleResult]) -> tuple[Threshold | None, RuleResult | None]:
    """The rule that judged a metric as a whole, for marking its limit; the worst one where several did.

    A skipped rule that holds a value was one for slices, none of which had enough samples: its limit is not for the whole.
    """
    judged = [
        rule
        for rule in worst_first(tuple(rules))
        if rule.metric == name and rule.slice is None and not (rule.status is Status.SKIPPED and rule.value is not None)
    ]
    return (limit_of(judged[0]), judged[0]) if judged else (None, None)


def _card_groups(result: Result, flags: Mapping[str, str]) -> list[dict[str, Any]]:
    if not result.metrics:
        return []
    half = judged_half_note(result)
    groups = (
        ("Headline metrics", _HEADLINE),
        (
            f"Rates from the judging arm: mutations drawn blindly, one seed input being one observation{f', {half}' if half else ''}",
            JUDGING,
        ),
        ("Without any mutation", _CLEAN),
    )
    made = []
    for text, names in groups:
        cards = [
            {**_card(name, result.metrics[name], result.rules), "flag": flags.get(name, "")} for name in names if name in result.metrics
        ]
        if cards:
            made.append({"title": text, "cards": cards})
    return made


def _card(name: str, metric: Metric, rules: Sequence[RuleResult]) -> dict[str, Any]:
    limit, rule = _limit_for(name, rules)
    extra = side_facts(metric)
    samples = f"{count(metric.n)} samples" if metric.n is not None else ""
    within = interval(metric.lower, metric.upper, metric.unit, metric.confidence)
    return {
        "title": title(name),
        "status": rule.status.value if rule else None,
        "value": None if metric.value is None else split(metric.value, metric.unit),
        "reason": metric_reason(metric) if metric.value is None else "",
        "interval": within,
        "samples": samples,
        "bar": _bar(metric, limit),
        "meaning": meaning(name, rule),
        "extra": f"({extra})" if extra else "",
    }


def _bar(metric: Metric | RuleResult, limit: Threshold | None) -> Bar | None:
    nothing_to_compare = metric.lower is None and (limit is None or metric.value == limit.limit == 0)
    if metric.value is None or nothing_to_compare:
        return None
    return bar(metric.value, metric.lower, metric.upper, metric.unit, limit)


def _rule(rule: RuleResult, flags: Mapping[str, str], anchors: Mapping[str, str]) -> dict[str, Any]:
    return {
        "id": rule.id,
        "metric": rule.metric,
        "status": rule.status.value,
        "known": rule.known,
        "kind_words": "about the model" if rule.kind == "quality" else "about the evidence",
        **_seen(rule),
        "slice": rule.slice,
        "distance": distance_in_words(rule),
        "level": level_in_words(rule),
        "explanation": rule.explanation,
        "meaning": meaning(rule.metric, rule),
        "waiver": rule.waiver,
        "flag": flags.get(rule.metric, ""),
        "next_step": rule.next_step,
        "needs_action": rule.status not in (Status.PASS, Status.SKIPPED),
        "evidence": [(defect, anchors.get(defect)) for defect in rule.evidence[:_MOST_EVIDENCE]],
        "more_evidence": max(0, rule.evidence_count - len(rule.evidence[:_MOST_EVIDENCE])) if rule.evidence else 0,
    }


def _seen(rule: RuleResult) -> dict[str, Any]:
    """The value beside the limit; of a rule that only compares, the difference from the baseline."""
    plot, paired = _rise(rule), only_compared(rule)
    both = "" if paired is None else f"{amount(paired.candidate, rule.unit)} here, {amount(paired.baseline, rule.unit)} in the baseline"
    compared = rule.paired if plot is not None and paired is None else None
    skipped = rule.status is Status.SKIPPED
    return {
        "value": amount(None if skipped else rule.value, rule.unit) if paired is None else difference(paired.rise, rule.unit),
        "interval": rule_interval(rule),
        "bar": None if skipped or paired is not None else _bar(rule, limit_of(rule)),
        "rise": plot,
        "limits": limits_in_words(rule) if paired is None else f"{both}; {rule.compare}",
        "beside": "" if compared is None else f"{rise_in_words(compared, rule.unit)}; it {rule.compare}",
    }


def _rise(rule: RuleResult) -> Rise | None:
    """The difference from the baseline that a rule judged; none where it only excuses what the baseline has too."""
    paired = rule.paired
    if paired is None or rule.compare is None or rule.status is Status.SKIPPED or rule.metric not in CATALOGUE:
        return None
    worse = CATALOGUE[rule.metric].higher_is_worse
    allowed = None
    if rule.distance is not None and only_compared(rule) is not None:  # else the distance may be that from the rule's own limit
        allowed = paired.rise + (rule.distance if worse else -rule.distance)
    ends = [number for number in (paired.rise, paired.lower, paired.upper, allowed) if number is not None]
    return rise(paired.rise, paired.lower, paired.upper, rule.unit, higher_is_worse=worse, to=1.05 * reach(ends), allowed=allowed)


def _rules_lead(rules: Sequence[RuleResult]) -> str:
    numbers: dict[Status, int] = {}
    for rule in rules:
        numbers[rule.status] = numbers.get(rule.status, 0) + 1
    words = {
        Status.ERROR: "could not be evaluated",
        Status.FAIL: "breached",
        Status.INCONCLUSIVE: "without enough evidence",
        Status.WARN: "with a warning",
        Status.WAIVED: "breached but waived",
        Status.PASS: "met",
        Status.SKIPPED: "skipped",
    }
    counted = ", ".join(f"{numbers[status]} {text}" for status, text in words.items() if status in numbers)
    deciding = sum(rule.status in BREACHING for rule in rules)
    verdict = "The worst status decides the verdict." if deciding else "None stands in the way of a release."
    return f"{len(rules)} {'rule' if len(rules) == 1 else 'rules'}: {counted}. {verdict}"


def _operators(campaign: CampaignSummary | None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name, numbers in campaign.operators.items() if campaign else ():
        valid, findings = numbers.get("valid", 0.0), numbers.get("findings", 0.0)
        executions = numbers.get("executions", 0.0)
        rate = min(1.0, findings / valid) if valid else None
        rows.append(
            {
                "order": (-(rate or 0.0), name),
                "name": name.replace("_", " "),
                "executions": count(executions),
                "valid": share(valid / executions) if executions else "–",
                "why_not": reasons_in_words(campaign.invalid.get(name, {})) if campaign else "",
                "findings": count(findings),
                "rate": None if rate is None else (rate, share(rate)),
                "new_items": count(numbers.get("new_items", 0.0)),
            }
        )
    return sorted(rows, key=lambda row: row["order"])[:_MOST_OPERATORS]


def _defects_lead(result: Result) -> str:
    lead = (
        "The difference is enlarged a hundred times and clipped: white is a change of a hundredth of the value range or more. "
        "Every picture opens large; where there are many, they are made smaller here, and the exact files are in defects/ beside "
        "this report."
    )
    return f"{lead} How often users would meet such a defect, the rates above say." if result.metrics else lead


def _no_defects(result: Result) -> str:
    if result.campaign is None or result.campaign.executions == 0:
        return "Nothing was tried, so nothing could be found. That says nothing about the model."
    return f"None was confirmed in {count(result.campaign.executions)} executions. How hard that search was, the coverage above says."


def _metric_row(name: str, metric: Metric) -> dict[str, str]:
    return {
        "name": name,
        "title": title(name),
        "value": amount(metric.value, metric.unit),
        "interval": interval(metric.lower, metric.upper, metric.unit, metric.confidence),
        "n": "" if metric.n is None else count(metric.n),
        "note": metric_reason(metric) if metric.value is None else meaning(name, None),
    }


def _campaign_facts(campaign: CampaignSummary | None) -> list[tuple[str, str]]:
    if campaign is None:
        return []
    return [
        ("Executions of all arms", count(campaign.executions)),
        ("Model calls", count(campaign.model_calls)),
        ("Valid mutants", "not measured" if campaign.valid_fraction is None else share(campaign.valid_fraction)),
        ("Wall time", duration(campaign.wall_seconds)),
        ("Device", visible(campaign.device, NAME)),
        ("Device time of the search", duration(campaign.device_hours * 3600)),
        ("Ended because", stop_reason_in_words(campaign)),
        *([("Findings of mixed precision alone, no defects", count(campaign.precision_only))] if campaign.precision_only else []),
        *([("Findings too near to a threshold, no defects", count(campaign.too_close))] if campaign.too_close else []),
        ("Campaign seed", str(campaign.seed)),
        ("Started", moment(campaign.started_at) or "not recorded"),
        ("Resumed", "yes" if campaign.resumed else "no"),
    ]


def _model_facts(result: Result) -> list[tuple[str, str]]:
    pairs = _one_model("Candidate", result.candidate)
    if result.baseline:
        pairs += _one_model("Baseline", result.baseline)
    if result.policy:
        pairs += [
            ("Policy", f"{visible(result.policy.name, NAME)} ({visible(result.policy.source, 2 * NAME)})"),
            ("Policy digest", visible(result.policy.digest, NAME)),
        ]
        if result.policy.description:
            pairs.append(("For whom", visible(result.policy.description)))
    if result.classes:
        pairs.append(("Classes", count(len(result.classes))))
    return pairs


def _one_model(role: str, model: ModelInfo) -> list[tuple[str, str]]:
    pairs = [(role, visible(model.resolved_uri, 2 * NAME))]
    if model.uri != model.resolved_uri:
        pairs.append(("Asked for as", visible(model.uri, 2 * NAME)))
    if model.digest:
        pairs.append(("Digest", visible(model.digest, NAME)))
    if model.format:
        pairs.append(("Format", visible(model.format, NAME)))
    return pairs


def _arms(campaign: CampaignSummary | None) -> list[dict[str, str]]:
    return [
        {
            "name": name,
            "executions": count(arm.executions),
            "valid": _valid(name, arm),
            "why_not": reasons_in_words(arm.invalid),
            "findings": count(arm.findings),
            "defects": count(arm.defects),
            "model_calls": count(arm.model_calls),
        }
        for name, arm in list(campaign.arms.items() if campaign else ())[:_MOST_ARMS]
    ]


def _valid(name: str, arm: ArmSummary) -> str:
    if name in ("probes", "marks", "paths"):
        return "not asked"  # nothing that is shown there has a label to keep
    return f"{count(arm.valid)} ({share(arm.valid / arm.executions)})" if arm.executions else count(arm.valid)


def _data(result: Result) -> list[dict[str, str]]:
    return [
        {
            "role": _ROLES.get(role) or visible(role, NAME),
            "source": visible(data.source, 2 * NAME),
            "samples": count(data.samples),
            "skipped": count(data.skipped),
            "digest": short_digest(data.digest) or "",
        }
        for role, data in result.data.items()
    ]


def _previous(result: Result) -> str | None:
    earlier = result.previous
    if earlier is None:
        return None
    return (
        f"{visible(earlier.source, 2 * NAME)} tested {visible(earlier.candidate, 2 * NAME)} with the verdict {earlier.verdict}. "
        f"Of its {count(earlier.defects)} confirmed defects, {count(earlier.remaining)} recur in this candidate."
    )


def _environments(result: Result) -> list[tuple[str, list[tuple[str, str]]]]:
    parts = [
        ("Environment", result.environment),
        ("Isolation of the worker", result.isolation),
        ("Numeric fingerprint", result.campaign.fingerprint if result.campaign else {}),
    ]
    return [(heading, _flat(values)) for heading, values in parts if values]


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            pairs += _flat(value, f"{name} · ")
        else:
            pairs.append((visible(name, NAME), visible(value, 2 * NAME)))
    return pairs[:200]
