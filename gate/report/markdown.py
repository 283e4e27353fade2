"""``summary.md``: the run on one screen, for GitHub's job summary, GitLab comments and chat.

GitHub discards a summary over 1 MiB whole, so every list here is capped and says what it leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gate.report import reproduce
from gate.report.beside_baseline import compared_rows, flips_in_words
from gate.report.canaries import canary_lines, silence_in_words
from gate.report.cause_words import kind_words
from gate.report.coverage import (
    FALSE_MEANING,
    amount_of,
    criterion_name,
    evidence_flags,
    false_criteria,
    false_note,
    false_step,
    guidance,
    noise_in_words,
    nonfinite_note,
    remark,
    reported,
    saturation,
    stalled,
)
from gate.report.decided import distance_in_words, early_in_words, evidence_in_words, multiplicity_in_words
from gate.report.gallery import choose
from gate.report.numbers import amount, confidence, count, interval
from gate.report.opening_words import mixed_up, plain_reason, what_it_means
from gate.report.releases import releases_in_words
from gate.report.shortcuts import ADVICE, shortcut_in_words, shortcuts_of
from gate.report.text import NAME, markdown
from gate.report.waivers import idle_waivers
from gate.report.words import (
    JUDGING,
    VERDICT_MEANING,
    VERDICT_WORD,
    advisory_note,
    campaign_sentence,
    candidate_name,
    headline,
    judged_half_note,
    limits_in_words,
    metric_reason,
    no_rules,
    outcome_in_words,
    partial_note,
    recipe_in_words,
    rule_interval,
    rule_result_in_words,
    sentence,
    short_digest,
    title,
    worst_first,
)
from gate.result import Defect, Result, RootCause, RuleResult, Status
from gate.triage.gravity import gravest_first

__all__ = ["render"]

_MOST_RULES, _MOST_DEFECTS, _MOST_CAUSES, _MOST_LINES, _MOST_CRITERIA, _MOST_FALSE = 60, 10, 10, 20, 12, 4
_MOST_COMPARED = 20
_HEADLINE = (
    *JUDGING,
    "defect_density",
    "coverage_gain_per_iteration",
    "long_tail_hit_rate",
)
_NEXT_LINE = " \\\n      "  # inside an indented code block
_MARK = {
    Status.PASS: "✓ pass",
    Status.WARN: "! warn",
    Status.FAIL: "✗ **fail**",
    Status.INCONCLUSIVE: "? **inconclusive**",
    Status.SKIPPED: "– skipped",
    Status.WAIVED: "– waived",
    Status.ERROR: "✗ **error**",
}


def render(result: Result) -> str:
    """The summary as GitHub-flavoured Markdown, ending in a newline."""
    blocks = [
        f"## Release gate: {VERDICT_WORD[result.verdict]} — {markdown(candidate_name(result), 3 * NAME)}",
        f"**{markdown(plain_reason(headline(result), result))}** {markdown(what_it_means(result))}".rstrip(),
        f"{VERDICT_MEANING[result.verdict]} {_facts(result)}",
    ]
    blocks += [f"> {markdown(note)}" for note in (advisory_note(result), partial_note(result)) if note]
    pairs = mixed_up(result)
    if pairs:
        blocks.append(markdown(pairs))
    alarm = false_note(result)
    if alarm:
        blocks.append(f"> **⚠ {markdown(alarm)}**")
    faults = [
        f"- {markdown(sentence(check.seen))} {markdown(check.advice)}".rstrip() for check in result.preflight if check.status == "fault"
    ]
    if faults:
        blocks += ["### Found before the fuzzing", "\n".join(faults[:_MOST_LINES])]
    shortcuts = [f"- {markdown(shortcut_in_words(mark, result), 3 * NAME)}" for mark in shortcuts_of(result)]
    if shortcuts:
        blocks += ["### A shortcut or backdoor was found", "\n".join([*shortcuts[:_MOST_LINES], f"- {ADVICE}"])]
    if len(result.reasons) > 1:
        blocks += ["### Why", _list(result.reasons)]
    if result.next_steps:
        blocks += ["### What to do next", _list(result.next_steps)]
    blocks += ["### Rules", _rules(result)]
    idle = idle_waivers(result)
    if idle:
        blocks.append("\n".join(f"- {markdown(said)}" for said in idle[:_MOST_LINES]))
    weighed = [said for said in (multiplicity_in_words(result), early_in_words(result)) if said]
    if weighed:
        blocks.append("\n".join(f"- {markdown(said)}" for said in weighed))
    blocks += _beside_baseline(result)
    blocks += _numbers(result)
    blocks += _canaries(result)
    blocks += _coverage(result)
    blocks += _causes(result)
    blocks += _defects(result)
    blocks += [
        "### Do it again",
        reproduce.LEAD,
        f"    {reproduce.command(result, _NEXT_LINE)}",
        "Details, pictures and every number: `report.html` and `result.json` of the run folder.",
    ]
    return "\n\n".join(blocks) + "\n"


def _facts(result: Result) -> str:
    parts = [f"Policy {markdown(result.policy.name, NAME)}" if result.policy else "No policy was applied"]
    digest = short_digest(result.candidate.digest)
    if digest:
        parts.append(f"model digest {markdown(digest)}")
    parts.append(f"exit code {result.exit_code}")
    sentence = f"{', '.join(parts)}."
    return f"{sentence} {markdown(campaign_sentence(result.campaign))}" if result.campaign else f"{sentence} No campaign took place."


def _list(lines: Iterable[str]) -> str:
    shown = [f"- {markdown(line)}" for line in lines]
    rest = len(shown) - _MOST_LINES
    return "\n".join([*shown[:_MOST_LINES], *([f"- … and {rest} more"] if rest > 0 else [])])


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join([f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *(f"| {' | '.join(row)} |" for row in rows)])


def _rules(result: Result) -> str:
    missing = no_rules(result)
    if missing:
        return missing
    ordered, flags = worst_first(result.rules), evidence_flags(result)
    table = _table(
        ("Status", "Rule", "Value", "Limit", "Distance", "What was found"), [_rule(rule, flags) for rule in ordered[:_MOST_RULES]]
    )
    rest = len(ordered) - _MOST_RULES
    return f"{table}\n\n{rest} more rules are in `result.json`." if rest > 0 else table


def _rule(rule: RuleResult, flags: Mapping[str, str]) -> tuple[str, ...]:
    holds = rule.status is Status.PASS
    found = "" if holds else markdown(rule.explanation)  # of a rule that holds the other columns say it all
    if rule.metric in flags:
        found += f" **⚠ {flags[rule.metric]}**"
    if rule.evidence and not holds:
        found += f" Shown by {markdown(evidence_in_words(rule))}."
    if rule.next_step and rule.status not in (Status.PASS, Status.SKIPPED):
        found += f" *{markdown(rule.next_step)}*"
    if rule.waiver:
        found += f" Waiver: {markdown(rule.waiver)}"
    within = rule_interval(rule).replace(" (", ", ").removesuffix(")")
    return (
        f"{_MARK[rule.status]}{' (known)' if rule.known else ''}",
        markdown(rule.id, NAME),
        markdown(" ".join(part for part in (rule_result_in_words(rule), f"({within})" if within else "") if part)),
        markdown(limits_in_words(rule) or rule.compare or "") or "–",
        markdown(distance_in_words(rule)) or "–",
        found.strip() or "–",
    )


def _numbers(result: Result) -> list[str]:
    rows: list[tuple[str, ...]] = []
    for name in _HEADLINE:
        metric = result.metrics.get(name)
        if metric is not None:
            note = metric_reason(metric) if metric.value is None else interval(metric.lower, metric.upper, metric.unit, metric.confidence)
            rows.append((title(name), markdown(amount(metric.value, metric.unit), NAME), markdown(note) or "–"))
    if not rows:
        return []
    half = judged_half_note(result)
    judged = [f"The numbers of the judging arm ({', '.join(title(name).lower() for name in JUDGING)}) come {half}."] if half else []
    return ["### Numbers", *judged, _table(("Metric", "Value", "Interval or reason"), rows)]


def _beside_baseline(result: Result) -> list[str]:
    rows = compared_rows(result)
    flips = flips_in_words(result)
    if not rows and flips is None:
        return []
    blocks = ["### Beside the baseline, on the same inputs"]
    if flips:
        blocks.append(markdown(flips))
    if rows:
        shown = [tuple(markdown(text, NAME) or "–" for text in row) for row in rows[:_MOST_COMPARED]]
        blocks.append(_table(("Metric", "Candidate", "Baseline", "Difference", "Interval", "Inputs", "Reading"), shown))
        if len(rows) > len(shown):
            blocks.append(f"{count(len(rows) - len(shown))} more are in `result.json`.")
    return blocks


def _canaries(result: Result) -> list[str]:
    said = silence_in_words(result)
    if said is None:
        return []
    lines = [f"- {markdown(line)}" for line in canary_lines(result)]
    more = [f"- … and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
    return ["### Faults planted on purpose", markdown(said), "\n".join([*lines[:_MOST_LINES], *more])]


def _coverage(result: Result) -> list[str]:
    name = reported(result)
    if name is None:
        return []
    shown = list(result.coverage.items())[:_MOST_CRITERIA]
    rows: list[tuple[str, ...]] = [
        (
            f"{markdown(criterion_name(criterion))}{' ⚠ **false coverage**' if summary.false_coverage else ''}",
            markdown(amount_of(summary, summary.initial)),
            markdown(amount_of(summary, summary.final)),
            markdown(amount_of(summary, summary.raw_final)),
            markdown(remark(criterion, summary)) or "–",
        )
        for criterion, summary in shown
    ]
    blocks = ["### Coverage", _table(("Criterion", "Seeds alone", "Valid, at the end", "Raw, at the end", "Note"), rows)]
    if len(result.coverage) > len(shown):
        blocks.append(f"{count(len(result.coverage) - len(shown))} more criteria are in `result.json`.")
    said = (
        saturation(name, result.coverage[name]),
        stalled(result.campaign),
        guidance(result.coverage[name]),
        nonfinite_note(result.coverage),
    )
    lines = [f"- {markdown(line)}" for line in said if line]
    flagged = false_criteria(result)
    for criterion in flagged[:_MOST_FALSE]:
        words = noise_in_words(result.coverage[criterion]) or ""
        lines.append(f"- **False coverage in {markdown(criterion_name(criterion))}.** {markdown(words)}".rstrip())
    if len(flagged) > _MOST_FALSE:
        lines.append(f"- … and in {count(len(flagged) - _MOST_FALSE)} more criteria")
    if flagged:
        lines.append(f"- {markdown(FALSE_MEANING)} {markdown(false_step(result))}")
    return [*blocks, *(["\n".join(lines)] if lines else [])]


def _causes(result: Result) -> list[str]:
    beside = releases_in_words(result)
    told = [beside] if beside else []
    if not result.root_causes:
        return ["### Root causes", *told] if told else []
    causes = gravest_first(result.root_causes)
    lines = [
        f"- **{markdown(cause.title, 3 * NAME)}**{_marks(cause)}: {count(cause.size)} {'defect' if cause.size == 1 else 'defects'}, "
        f"for example {markdown(cause.example, NAME)}." + (f" {markdown(cause.repair)}" if cause.repair else "")
        for cause in causes[:_MOST_CAUSES]
    ]
    if len(causes) > _MOST_CAUSES:
        lines.append(f"- … and {count(len(causes) - _MOST_CAUSES)} more in the report")
    return [f"### Root causes ({count(len(causes))})", *told, "\n".join(lines)]


def _marks(cause: RootCause) -> str:
    """What it is and whether it is new, in brackets."""
    said = [markdown(words, NAME) for words in kind_words(cause)]
    return f" ({', '.join(said)})" if said else ""


def _defects(result: Result) -> list[str]:
    if not result.defects:
        return []
    rows = [_defect(defect, result) for defect in choose(result, _MOST_DEFECTS)]
    blocks = [f"### Defects ({count(len(result.defects))} confirmed)", _table(("Defect", "What happened", "How"), rows)]
    if len(result.defects) > _MOST_DEFECTS:
        blocks.append(f"{count(len(result.defects) - _MOST_DEFECTS)} more are in `report.html` and in the folder `defects/`.")
    return [*blocks, "See one again, with its pictures: `gate replay RUN DEFECT`."]


def _defect(defect: Defect, result: Result) -> tuple[str, ...]:
    sure = "" if defect.confidence_after is None else f" with {confidence(defect.confidence_after)} confidence"
    return markdown(defect.id, NAME), f"{markdown(outcome_in_words(defect, result), 3 * NAME)}{sure}", markdown(recipe_in_words(defect))
