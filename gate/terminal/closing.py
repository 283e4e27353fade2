"""The last five lines of a run on the terminal: the verdict, what decided it, where to look, what to do, where everything is.

Each is at most ``WIDTH`` columns wide, so that a CI log shows it whole, and says in words what its colour says. Only a path or a command
is never cut: half of one is worth nothing.
"""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len, set_cell_size

from gate.report.canaries import canary_counts
from gate.report.decided import distance_in_words, distance_of
from gate.report.gallery import choose
from gate.report.numbers import amount, count, difference, interval, mark
from gate.report.text import visible
from gate.report.words import candidate_name, headline, limit_of, only_compared, worst_first
from gate.result import Result, RootCause, RuleResult, Status, Verdict
from gate.triage.gravity import gravest_first

__all__ = ["WIDTH", "Line", "closing_lines", "deciding_rule"]

WIDTH = 100
_LABEL = 12
_OPTION = re.compile(r"--[a-z][a-z-]*(?: [0-9][^\s,;)]*)?")
_SAMPLES = re.compile(r"About [\d,]+ .*? would decide it|[\d,]+ seed inputs are needed, [\d,]+ were judged")
_STOPPED_BY = {"wall": "--budget", "device": "--device-budget", "executions": "--executions"}
_WITHOUT_DEFECTS = (
    "clean_accuracy",
    "flips_per_mistake",
    "long_tail_accuracy",
    "negative_flip_rate",
    "preflight_faults",
    "regression_rate",
)
_SET_OF = {  # the option that brings more of what a metric is measured on, where executions bring none
    "clean_accuracy": "--seeds",
    "long_tail_accuracy": "--long-tail",
    "long_tail_hit_rate": "--long-tail",
    "negative_flip_rate": "--seeds",
    "flips_per_mistake": "--seeds",
    "regression_rate": "--previous",
}


@dataclass(frozen=True)
class Line:
    """One line: what it is about, and what it says."""

    label: str
    text: str

    def __str__(self) -> str:
        return f"{self.label + ':':<{_LABEL}}{self.text}"


def closing_lines(result: Result, *, run: Path, report: Path | None) -> tuple[Line, Line, Line, Line, Line]:
    """The five lines.

    Args:
        result: the finished run, or the same one judged again.
        run: its folder, for commands.
        report: the folder with the renderings of ``result``; None: none were written.
    """
    return (
        Line("verdict", _verdict(result)),
        Line("decided by", _cut(_decided(result))),
        Line("look at", _look(result, run)),
        Line("what to do", _todo(result, run)),
        Line("files", _files(run, report)),
    )


def deciding_rule(result: Result) -> RuleResult | None:
    """The rule that decided: the one that the first reason is about, else the worst; None where none keeps the verdict from being pass."""
    blocking = [rule for rule in worst_first(result.rules) if rule.status in (Status.ERROR, Status.FAIL, Status.INCONCLUSIVE)]
    if not blocking:
        return None
    named = [rule for rule in blocking if result.reasons and result.reasons[0].startswith(f"{rule.id}: ")]
    return (named or blocking)[0]


def _verdict(result: Result) -> str:
    beside = [f"exit {result.exit_code}"]
    beside += [word for word, holds in (("advisory", result.advisory), ("partial", result.partial)) if holds]
    policy = f" under policy {_cut(visible(result.policy.name, isolate=False), 24)}" if result.policy is not None else ""
    tail = f"{policy} ({', '.join(beside)})"
    word = str(result.verdict).upper()
    return f"{word}  {_cut(candidate_name(result), WIDTH - _LABEL - cell_len(word) - 2 - cell_len(tail))}{tail}"


def _decided(result: Result) -> str:
    rule = deciding_rule(result)
    if rule is not None:
        blocking = sum(one.status in (Status.ERROR, Status.FAIL, Status.INCONCLUSIVE) for one in result.rules)
        more = f" (and {count(blocking - 1)} more)" if blocking > 1 else ""
        said = _cut(_of_rule(rule), WIDTH - _LABEL - cell_len(more))
        return f"{said}{more}"
    if result.verdict is not Verdict.PASS:
        return visible(headline(result), isolate=False)
    held = sum(one.status in (Status.PASS, Status.WARN) for one in result.rules)
    nearest = _nearest(result.rules)
    close = f"; nearest: {_of_rule(nearest)}" if nearest is not None else ""
    return f"{count(held)} of {count(len(result.rules))} rules hold{close}"


def _nearest(rules: Iterable[RuleResult]) -> RuleResult | None:
    """The rule about the model that holds by the least, beside its limit's size."""
    holding: list[tuple[float, RuleResult]] = []
    for rule in rules:
        gap, limit = distance_of(rule), limit_of(rule)
        if rule.kind == "quality" and rule.status is Status.PASS and gap is not None and limit is not None and limit.limit:
            holding.append((gap / abs(limit.limit), rule))
    return min(holding, key=lambda pair: pair[0])[1] if holding else None


def _of_rule(rule: RuleResult) -> str:
    """``defect-rate 34.0 % of seven, 14.0 points beyond the limit (20 %)``."""
    name = visible(rule.id, 40, isolate=False)
    where = f" of {visible(rule.slice, 30, isolate=False)}" if rule.slice else ""
    apart = distance_in_words(rule)
    if rule.value is None:
        return f"{name}{where}: {visible(rule.explanation, isolate=False)}"
    compared = only_compared(rule)
    if compared is not None:
        said = f"{name}{where}: {difference(compared.rise, rule.unit)} to the baseline".replace("none to", "no difference to")
        gap = difference(abs(rule.distance), rule.unit).removeprefix("+").removesuffix(" points") if rule.distance else "0"
        apart = "" if rule.distance is None else f", {gap} {'to spare' if rule.distance >= 0 else 'too much'}"
        return f"{said}{apart} ({visible(rule.compare or '', isolate=False)})"
    within = interval(rule.lower, rule.upper, rule.unit, None).removesuffix(" (interval)")
    shown = f"{name} {amount(rule.value, rule.unit)}{where}"
    if rule.status is Status.INCONCLUSIVE and within:
        shown += f" ({within})"
    limit = limit_of(rule)
    about = f" ({mark(limit.limit, rule.unit)})" if limit is not None and apart.endswith("limit") else ""
    return f"{shown}, {apart}{about}" if apart else shown


def _look(result: Result, run: Path) -> str:
    match result.verdict:
        case Verdict.PASS:
            return _cut(_silence(result))
        case Verdict.INCONCLUSIVE:
            return _cut(_missing(result))
        case Verdict.ERROR:
            events = run / "events.jsonl"
            return f"{_path(events)}  (the run step by step)" if events.is_file() else "the reasons above"
        case Verdict.FAIL:
            return _defects(result, run)


def _defects(result: Result, run: Path) -> str:
    rule = deciding_rule(result)
    shown = [*rule.evidence] if rule is not None else []
    number = rule.evidence_count if rule is not None and shown else len(result.defects)
    if not shown and (rule is None or rule.metric not in _WITHOUT_DEFECTS):
        shown = [defect.id for defect in choose(result, 1)]
    if not shown:
        return "the rules in report.html"
    if not re.fullmatch(r"d-[0-9a-f]{1,32}", shown[0]):
        return f"the {count(number)} defects in report.html"
    words = "the defect that shows it" if number == 1 else f"the first of {count(number)} defects"
    return f"gate replay {_path(run)} {shown[0]}  ({words})"


def _silence(result: Result) -> str:
    warned = [rule for rule in result.rules if rule.status is Status.WARN]
    waived = sum(rule.status is Status.WAIVED for rule in result.rules)
    parts = []
    if warned:
        names = ", ".join(visible(rule.id, 30, isolate=False) + (" (known)" if rule.known else "") for rule in warned[:2])
        parts.append(f"warned: {names}{f' and {count(len(warned) - 2)} more' if len(warned) > 2 else ''}")
    else:
        parts.append("nothing warned")
    if waived:
        parts.append(f"{count(waived)} waived")
    counted = canary_counts(result)
    parts.append("no canary was planted" if counted is None else f"{count(counted[0])} of {count(counted[1])} canaries found")
    judged = result.metrics.get("defect_rate")
    if judged is not None and judged.n is not None:
        parts.append(f"{count(judged.n)} seed inputs judged")
    return "; ".join(parts)


def _missing(result: Result) -> str:
    rule = deciding_rule(result)
    if rule is None:
        return f"what is missing: {visible(headline(result), isolate=False)}"
    wanted = _evidence_wanted(rule.next_step)
    if wanted is not None:
        return f"missing: {visible(wanted, isolate=False)}"
    limit = limit_of(rule)
    metric = result.metrics.get(rule.metric)
    ends = (rule.lower, rule.upper)
    if rule.value is not None and limit is not None and ends[0] is not None and ends[1] is not None:
        n = f" than {count(metric.n)}" if metric is not None and metric.n is not None and not rule.slice else ""
        if limit.decide(ends[0], ends[1]) == "undecided":
            return f"missing: more observations{n}, because the limit lies inside the interval"
    return f"missing: {visible(rule.explanation, isolate=False)}"


def _evidence_wanted(step: str) -> str | None:
    """How many samples a next step asks for, e.g. ``about 420 seed inputs (292 so far) would decide it``; None where it tells no number."""
    told = _SAMPLES.match(step)
    return None if told is None else told.group()[0].lower() + told.group()[1:]


def _todo(result: Result, run: Path) -> str:
    room = WIDTH - _LABEL
    if result.verdict is Verdict.PASS:
        name = visible(result.candidate.resolved_uri, isolate=False)
        promote = _cut(f"promote {name}" if name.startswith("models:/") else f"release {candidate_name(result)}")
        later = f"; give the next run --previous {_path(run)}"
        return f"{promote}{later}" if cell_len(promote + later) <= room else promote
    rule = deciding_rule(result)
    step = rule.next_step if rule is not None and rule.next_step else next(iter(result.next_steps), "")
    step = visible(step.replace("`", ""), isolate=False)
    if result.verdict is Verdict.INCONCLUSIVE:
        return _cut(_more(result, rule, step))
    first = re.split(r"(?<=[.!])\s", step)[0]
    if cell_len(first) > room and result.root_causes and rule is not None and rule.kind == "quality":
        cause = _cause(result, rule)
        after = f" ({count(cause.size)} {'defect' if cause.size == 1 else 'defects'}), then ask gate regress"
        return f"{_cut(f'repair first: {visible(cause.title, isolate=False)}', room - cell_len(after))}{after}"
    return _cut(first or "see the reasons above and report.html")


def _cause(result: Result, rule: RuleResult) -> RootCause:
    """The root cause of the first defect that shows the rule's breach, else the gravest."""
    behind = {defect.root_cause for defect in result.defects if defect.id in rule.evidence[:1]}
    ordered = gravest_first(result.root_causes)
    return next((cause for cause in ordered if cause.id in behind), ordered[0])


def _more(result: Result, rule: RuleResult | None, step: str) -> str:
    """The option that brings the missing evidence: what the rule's next step names, else twice what ended the campaign."""
    if result.partial:
        return "run the same command again with the same --out: it goes on where it was interrupted"
    wanted = next((found for found in _OPTION.findall(step) if " " in found), None)
    if wanted is not None:
        return f"run again with {wanted}{_beside(step)}"
    limit = limit_of(rule) if rule is not None else None
    if rule is not None and rule.metric == "executions" and limit is not None and not limit.upper:
        return f"run again with --executions {_budget_for(limit.limit, rule.value, result)} or more"
    if (
        rule is not None
        and rule.value is None
        and result.baseline is None
        and (rule.compare or rule.metric in ("negative_flip_rate", "flips_per_mistake"))
    ):
        return "run again with --baseline, such as models:/NAME@champion"
    if rule is not None and rule.metric in _SET_OF:
        return f"run again with {'' if rule.value is None else 'more in '}{_SET_OF[rule.metric]}{_beside(step)}"
    campaign = result.campaign
    option = _STOPPED_BY.get(campaign.stop_reason) if campaign is not None else None
    if option == "--device-budget":  # how much it was, the record does not say
        return f"run again with a larger --device-budget: {step}"
    if campaign is not None and option is not None and not _OPTION.search(step):
        seconds = max(1, round(2 * campaign.wall_seconds))
        twice = f"{max(1, 2 * campaign.executions)}" if option == "--executions" else f"{seconds}s"
        return f"run again with {option} {twice} (twice as much): {step}"
    return step or "see the reasons above"


def _budget_for(wanted: float, had: float | None, result: Result) -> int:
    """The budget that brings so many executions, where this run's brought ``had``: probes, marks and canaries take some of it."""
    campaign = result.campaign
    given = 0 if campaign is None else campaign.budget_executions or campaign.executions
    if not had or given < had:
        return math.ceil(wanted)
    return 100 * math.ceil(wanted * given / had / 100)


def _beside(step: str) -> str:
    """What there is to say beside the option that was taken out of a next step; the number of samples stands in the line above."""
    if "where there are seed inputs enough" in step:
        return ", and with more in --seeds where those do not suffice"
    return "" if _SAMPLES.match(step) else f": {step}"


def _files(run: Path, report: Path | None) -> str:
    if report is None:
        return f"{_path(run)} is left as it is; --out FOLDER writes the report of this verdict"
    return f"{_path(report / 'report.html')}  (junit.xml, summary.md, result.json beside it)"


def _path(path: Path) -> str:
    """The shorter of the absolute path and that from here, quoted where a shell needs it."""
    whole = str(path.absolute())
    near = os.path.relpath(whole)
    return shlex.quote(visible(near if len(near) < len(whole) else whole, 4000, isolate=False))


def _cut(text: str, width: int = WIDTH - _LABEL) -> str:
    """The text in so many columns, cut between words where it is too long."""
    if cell_len(text) <= width:
        return text
    kept = set_cell_size(text, width - 2).rstrip()
    whole = kept.rsplit(" ", 1)[0]
    return f"{whole if cell_len(whole) > width // 2 else kept} …"
