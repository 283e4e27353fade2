"""The words that all renderings share, so that they say the same thing the same way."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gate.domains.image.operator_words import by_how_much, in_words
from gate.metrics.catalogue import CATALOGUE
from gate.policy.threshold import Threshold
from gate.report.numbers import amount, count, difference, difference_interval, duration, interval, is_share, mark
from gate.report.text import NAME, visible
from gate.result import CampaignSummary, Defect, Metric, Paired, Result, RuleResult, Status, Verdict
from gate.triage.titles import MARK_STEP, mark_in_words

__all__ = [
    "BREACHING",
    "JUDGING",
    "VERDICT_MEANING",
    "VERDICT_WORD",
    "advisory_note",
    "campaign_sentence",
    "candidate_name",
    "fault_in_words",
    "headline",
    "judged_half_note",
    "label_in_words",
    "limit_of",
    "limits_in_words",
    "meaning",
    "metric_reason",
    "moment",
    "no_rules",
    "only_compared",
    "outcome_in_words",
    "partial_note",
    "recipe_in_words",
    "rule_interval",
    "rule_result_in_words",
    "sentence",
    "short_digest",
    "side_facts",
    "stop_reason_in_words",
    "title",
    "worst_first",
]

VERDICT_WORD = {Verdict.PASS: "Pass", Verdict.FAIL: "Fail", Verdict.INCONCLUSIVE: "Inconclusive", Verdict.ERROR: "Error"}
VERDICT_MEANING = {
    Verdict.PASS: "The policy is met; this model may be released.",
    Verdict.FAIL: "The policy is breached; this model should not be released.",
    Verdict.INCONCLUSIVE: "There is not enough evidence to say yes or no; this is not a pass.",
    Verdict.ERROR: "The model could not be evaluated; this is not a pass.",
}
# Metrics from the judging arm.
JUDGING = ("defect_rate", "mutant_failure_rate", "confident_error_rate", "missed_positive_rate", "robust_margin_p05")
BREACHING = (Status.ERROR, Status.FAIL, Status.INCONCLUSIVE)  # a rule with one of these keeps the verdict from being pass

_ORDER = {
    status: place
    for place, status in enumerate(
        (Status.ERROR, Status.FAIL, Status.INCONCLUSIVE, Status.WARN, Status.WAIVED, Status.PASS, Status.SKIPPED),
    )
}
_TITLES = {
    "long_tail_accuracy": "Long-tail accuracy",
    "long_tail_hit_rate": "Long-tail hit rate",
    "defects_per_1k_executions": "Defects per 1,000 executions",
    "coverage_gain_per_iteration": "Coverage gain per iteration",
    "robust_margin_p05": "Robust margin",
    "nonfinite_outputs": "Outputs that are not finite",
}
_STOPPED = {
    "executions": "the budget of executions was used up",
    "wall": "the time budget was used up",
    "device": "the device-time budget was used up",
    "saturated": "coverage no longer grew",
    "decided": "all that its policy asks for was settled",
    "abort": "a defect was confirmed of a kind that ends a campaign (abort_on)",
    "interrupted": "the run was interrupted",
    "error": "an error ended it",
}
_FACTS = {  # key of ``Metric.extra`` -> singular and plural words around a number
    "defects": ("{} defect", "{} defects"),
    "executions": ("{} execution", "{} executions"),
    "mutants": ("{} mutant", "{} mutants"),
    "file": ("{} recurs in the saved file", "{} recur in the saved file"),
    "seed": ("{} recurs in the unchanged seed input", "{} recur in the unchanged seed input"),
    "fresh": ("{} recurs in fresh mutants", "{} recur in fresh mutants"),
    "memorised": ("{} root cause looks memorised: its files are right, fresh mutants are not", "{} root causes look memorised"),
    "seeds_without_valid_mutants": ("{} seed input without a valid mutant left out", "{} seed inputs without a valid mutant left out"),
    "seeds_incomplete": ("{} seed input with mutants not run left out", "{} seed inputs with mutants not run left out"),
    "long_tail_errors": ("{} wrong answer in the long-tail set", "{} wrong answers in the long-tail set"),
    "seed_inputs": ("{} seed input with defects", "{} seed inputs with defects"),
    "undecided": ("{} defect could not be compared", "{} defects could not be compared"),
    "radius": ("radius {}", "radius {}"),
}
_SHARES_OF_A_METRIC = {
    "chance": "by chance {}",
    "initial": "seeds alone {}",
    "final": "at the end {}",
    "clean": "{} of clean samples",
    "long_tail": "{} of long-tail samples",
    "judging": "{} of the mutants of judged seed inputs",
}
_HIDDEN = ("seed", "grain")  # parameters that only make a draw repeatable


def title(metric: str) -> str:
    """A metric's name for a heading, e.g. ``Defect rate``."""
    return _TITLES.get(metric) or visible(metric.replace("_", " ").capitalize(), NAME)


def meaning(metric: str, rule: RuleResult | None = None) -> str:
    """What a metric means, in one sentence: as the rule says it, else as the catalogue does."""
    if rule is not None and rule.meaning:
        return rule.meaning
    return CATALOGUE[metric].meaning if metric in CATALOGUE else ""


def limit_of(rule: RuleResult) -> Threshold | None:
    """The limit of a rule as a number, for drawing it; None where its text names no fixed one (a comparison with the baseline)."""
    try:
        return Threshold.parse(rule.threshold, CATALOGUE[rule.metric])
    except (KeyError, ValueError):
        return None


def candidate_name(result: Result) -> str:
    """Name and version of the candidate, or where it came from when it has no name."""
    candidate = result.candidate
    if candidate.name is None:
        return visible(candidate.resolved_uri or candidate.uri, 2 * NAME)
    version = f", version {visible(candidate.version, NAME)}" if candidate.version else ""
    return f"{visible(candidate.name, NAME)}{version}"


def headline(result: Result) -> str:
    """The one sentence that says why: the first reason, or what the verdict means where none was given."""
    return visible(result.reasons[0]) if result.reasons else VERDICT_MEANING[result.verdict]


def advisory_note(result: Result) -> str | None:
    """What every rendering says about an advisory run; None for any other."""
    if not result.advisory:
        return None
    if result.verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE):
        return f"Advisory run: the verdict is {result.verdict}, but it blocks nothing (exit code {result.exit_code})."
    return f"Advisory run: a verdict of fail or inconclusive would have blocked nothing. This one is {result.verdict}."


def partial_note(result: Result) -> str | None:
    """What every rendering says about an interrupted run; None for any other."""
    return (
        "Partial run: it was interrupted before its budget ended, so the numbers rest on what was done until then."
        if result.partial
        else None
    )


def sentence(text: str) -> str:
    """Text that begins with a capital and ends with a full stop, so that another sentence can follow."""
    begun = text[:1].upper() + text[1:]
    return begun if begun.endswith((".", "!", "?")) or not begun else f"{begun}."


def short_digest(digest: str | None) -> str | None:
    """The first twelve hex digits of ``sha256:…``."""
    return visible(digest.removeprefix("sha256:"), NAME)[:12] if digest else None


def stop_reason_in_words(campaign: CampaignSummary) -> str:
    """Why the campaign ended."""
    return _STOPPED.get(campaign.stop_reason) or visible(campaign.stop_reason)


def no_rules(result: Result) -> str | None:
    """What stands in place of the rules where there are none."""
    if result.rules:
        return None
    return "No rule was evaluated, so nothing speaks for this model. No evidence is not a pass."


def worst_first(rules: tuple[RuleResult, ...]) -> list[RuleResult]:
    """Rules by severity of their status, each status in the policy's order."""
    return sorted(rules, key=lambda rule: _ORDER[rule.status])


def only_compared(rule: RuleResult) -> Paired | None:
    """What a rule without a limit of its own judged: the candidate beside the baseline; None for any other rule."""
    own = rule.threshold not in ("", rule.compare)
    return None if own or rule.compare is None or rule.status is Status.SKIPPED else rule.paired


def rule_result_in_words(rule: RuleResult) -> str:
    """The value a rule saw, with its slice; ``not measured`` for a skipped rule, whose record may hold a value that it did not judge."""
    paired = only_compared(rule)
    value = amount(None if rule.status is Status.SKIPPED else rule.value, rule.unit)
    if paired is not None:
        value = f"{difference(paired.rise, rule.unit)} beside the baseline".replace("none", "no difference")
    return f"{value} ({visible(rule.slice, NAME)})" if rule.slice else value


def rule_interval(rule: RuleResult) -> str:
    """The interval of what a rule saw; empty where there is none or the rule was skipped."""
    paired = only_compared(rule)
    if paired is not None:
        return difference_interval(paired.lower, paired.upper, rule.unit, paired.confidence)
    return "" if rule.status is Status.SKIPPED else interval(rule.lower, rule.upper, rule.unit, rule.confidence)


def limits_in_words(rule: RuleResult) -> str:
    """Both limits, e.g. ``breached above 20 %; warns above 10 %``. A rule that only warns has its warning limit as its threshold."""
    fails = rule.threshold if rule.threshold not in (rule.warn, rule.compare) else ""
    return "; ".join(f"{word} {_side(text, rule)}" for word, text in (("breached", fails), ("warns", rule.warn)) if text)


def _side(text: str, rule: RuleResult) -> str:
    """The bad side of a limit, in the unit that the value is shown in; the limit as it was written where it can't be read."""
    try:
        limit = Threshold.parse(text, CATALOGUE[rule.metric])
    except (KeyError, ValueError):
        return f"when {visible(text, NAME)}"
    number = mark(limit.limit, rule.unit)
    match limit.comparison:
        case ">":
            return f"above {number}"
        case "<":
            return f"below {number}"
        case ">=":
            return f"at {number} or more"
    return f"at {number} or less"


def side_facts(metric: Metric) -> str:
    """What was counted beside a metric, e.g. ``14 defects, 0.9 s of device time``; nothing of seed inputs where none was left out."""
    told = [_fact(key, value, metric.unit) for key, value in metric.extra.items() if value or not key.startswith("seeds_")]
    return ", ".join(told[:4])


def _fact(key: str, value: float, unit: str) -> str:
    if key in _SHARES_OF_A_METRIC:
        return _SHARES_OF_A_METRIC[key].format(amount(value, "share" if is_share(unit) else ""))
    if key == "device_hours":
        return f"{duration(value * 3600)} of device time"
    number = amount(value, "count")
    if key in _FACTS:
        return _FACTS[key][value != 1].format(number)
    return f"{visible(key.replace('_', ' '), NAME)}: {number}"


def judged_half_note(result: Result) -> str | None:
    """Which seed inputs the numbers of the judging arm come from, where they are not all."""
    if result.campaign is None or result.campaign.judge_half == "all":
        return None
    return f"from half {result.campaign.judge_half} of the seed inputs only"


_FAULTS = {
    "crash": "an exception",
    "timeout": "no answer in time",
    "non_finite": "no finite output",
    "saturated": "a score that float16 can't hold",
    "confidence_collapse": "hardly any lead over another class",
}


def outcome_in_words(defect: Defect, result: Result) -> str:
    """What the model made of it: ``seven became one``, ``seven gave no finite output``; a probe is of no class."""
    label = visible(label_in_words(defect, result), NAME)
    if defect.predicted is not None and defect.predicted != defect.label:
        return f"{label} became {visible(result.class_name(defect.predicted), NAME)}"
    return f"{label} gave {visible(fault_in_words(defect), NAME)}"


def label_in_words(defect: Defect, result: Result) -> str:
    """The true class, as the record names it; a probe has none."""
    return "a probe" if defect.label is None else result.class_name(defect.label)


def fault_in_words(defect: Defect) -> str:
    """What the oracle complains about, where it is not another class; of an exception its type and first line, which are the model's."""
    known = _FAULTS.get(defect.oracle, defect.oracle.replace("_", " "))
    return f"{known} ({defect.detail})" if defect.oracle == "crash" and defect.detail else known


def recipe_in_words(defect: Defect) -> str:
    """The operators in order with their severities, e.g. ``rotation at severity 0.42 (angle 6.3), then fog at severity 0.20``.

    An attack or a coverage gradient is told by its bound: ``pgd within 3.0% of the value range``.
    """
    return ", then ".join(_step_in_words(step) for step in defect.recipe) or "no operator (the seed input itself)"


def _step_in_words(step: Mapping[str, Any]) -> str:
    operator = str(step.get("operator", "unknown operator"))
    name = visible(in_words(operator), NAME)
    severity = step.get("severity")
    parameters = step.get("parameters")
    if name == "probe" and isinstance(parameters, Mapping):
        return f"the probe {visible(str(parameters.get('name', '')).replace('-', ' '), NAME)}"
    if isinstance(parameters, Mapping):
        # An operator that needed the model takes no share of what natural operators have: its bound says how strong it was.
        for norm, how in (("linf", "of the value range"), ("l2", "of the value range, root mean square")):
            if isinstance(parameters.get(norm), int | float):
                return f"{name} within {parameters[norm]:.1%} {how}"
    words = f"{name} at severity {severity:.2f}" if isinstance(severity, int | float) else name
    if operator == MARK_STEP and isinstance(parameters, Mapping):
        return f"{visible(mark_in_words(str(parameters.get('kind', 'mark'))), NAME)}, the same on every input"
    if isinstance(parameters, Mapping):
        told = by_how_much(operator, parameters)
        if told is not None:
            return f"{words} ({told})"
        shown = [
            f"{visible(str(key).replace('_', ' '), 40)} {_short(value)}"
            for key, value in parameters.items()
            if key not in _HIDDEN and _is_short(value)
        ][:4]
        if shown:
            words += f" ({', '.join(shown)})"
    return words


def _is_short(value: object) -> bool:
    return isinstance(value, bool | int | float | str) or (isinstance(value, list | tuple) and 0 < len(value) <= 4)


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_short(item) for item in value)}]"
    return visible(value, 40)


def campaign_sentence(campaign: CampaignSummary) -> str:
    """How much was tried, on what, and why it ended."""
    return (
        f"{count(campaign.executions)} executions in {duration(campaign.wall_seconds)} on {visible(campaign.device, NAME)}; "
        f"it ended because {stop_reason_in_words(campaign)}."
    )


def moment(started_at: str) -> str:
    """A UTC time stamp such as ``2026-11-29T14:03:11Z`` as ``2026-11-29 14:03 UTC``; other text stays as it is."""
    found = re.match(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d(\.\d+)?)?(Z|\+00:00)$", started_at)
    return f"{found[1]} {found[2]} UTC" if found else visible(started_at, NAME)


def metric_reason(metric: Metric) -> str:
    """Why a metric has no value."""
    return visible(metric.reason) if metric.reason else "No reason was recorded."
