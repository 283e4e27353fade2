"""``junit.xml``: what CI systems show in their test tabs.

Five suites. ``gate.verdict`` has one case, which is green only when the verdict is pass; so no run without evidence looks like a
success. ``gate.policy`` has a case for each rule: a breach is a failure, too little evidence or a malfunction an error, a waived or
skipped rule is skipped, and a warning passes with a note. So is a breach that only warns because the baseline has it too: of a case that
passes GitLab keeps no text at all, and this one is to be seen. ``gate.preflight`` has a case for each check before the fuzzing;
a fault fails only in a run that does not pass. So does ``gate.shortcuts``, with a case and a picture for each mark that was found to be a
shortcut or backdoor, and only there then. ``gate.root_causes``, the gravest root causes with a picture each, is there only when a
rule about the model is breached.

In an advisory run nothing blocks, so a breach and too little evidence become skipped, with a message that says so. An error stays an
error.
"""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from pathlib import Path

from junit_xml import TestCase, TestSuite, to_xml_report_string

from gate.report.beside_baseline import flips_in_words
from gate.report.canaries import silence_in_words
from gate.report.cause_words import cause_line
from gate.report.decided import (
    comparison_in_words,
    distance_in_words,
    early_in_words,
    evidence_in_words,
    known_in_words,
    level_in_words,
    multiplicity_in_words,
)
from gate.report.gallery import choose
from gate.report.numbers import count
from gate.report.releases import status_counts
from gate.report.shortcuts import ADVICE, kind_of_mark, shortcut_in_words, shortcuts_of
from gate.report.text import NAME, SENTENCE, visible
from gate.report.words import (
    VERDICT_MEANING,
    advisory_note,
    candidate_name,
    headline,
    limits_in_words,
    outcome_in_words,
    partial_note,
    recipe_in_words,
    rule_interval,
    rule_result_in_words,
    sentence,
)
from gate.result import Defect, PreflightCheck, Result, RootCause, RuleResult, Status, UniversalMark, Verdict
from gate.triage.gravity import gravest_first

__all__ = ["render"]

_MOST_ROOT_CAUSES = 10  # a test tab is a list of what to look at, not the gallery
_MOST_RULES = 1000
_SHORTEST = 0.001  # seconds; junit-xml leaves a time of zero out, and some readers need one


def render(result: Result, folder: Path) -> str:
    """The XML text, read back once to be sure that it is well-formed.

    Args:
        result: the finished run.
        folder: its run folder, for the paths of attached pictures.
    """
    suites = [_verdict_suite(result)]
    if result.rules:
        suites.append(_suite("gate.policy", result, [_rule_case(rule, result) for rule in result.rules[:_MOST_RULES]]))
    if result.preflight:
        suites.append(_suite("gate.preflight", result, [_preflight_case(check, result) for check in result.preflight]))
    if shortcuts_of(result):
        suites.append(_suite("gate.shortcuts", result, [_shortcut_case(mark, result, folder) for mark in shortcuts_of(result)]))
    if result.root_causes and any(rule.kind == "quality" and rule.status is Status.FAIL for rule in result.rules):
        suites.append(_root_cause_suite(result, folder))
    _make_names_unique(suites)
    root = ET.fromstring(to_xml_report_string(suites, prettyprint=False, encoding="utf-8"))
    _complete(root)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(name: str, result: Result, cases: list[TestCase]) -> TestSuite:
    started = result.campaign.started_at if result.campaign else ""
    return TestSuite(name, cases, timestamp=visible(started, NAME, isolate=False) or None)


def _case(suite: str, name: str, seconds: float = _SHORTEST) -> TestCase:
    return TestCase(visible(name, 2 * NAME), classname=suite, elapsed_sec=max(seconds, _SHORTEST))


def _failure(case: TestCase, message: str, text: str, kind: str, advisory: bool) -> None:
    if advisory:
        case.add_skipped_info(message=visible(f"Advisory, not blocking: {message}"), output=f"Advisory, not blocking.\n{text}")
    else:
        case.add_failure_info(message=visible(message), output=text, failure_type=kind)


def _unsure(case: TestCase, message: str, text: str, advisory: bool) -> None:
    if advisory:
        case.add_skipped_info(message=visible(f"Advisory, not blocking: {message}"), output=f"Advisory, not blocking.\n{text}")
    else:
        case.add_error_info(message=visible(message), output=text, error_type="inconclusive")


def _lines(*parts: str | None) -> str:
    return "\n".join(visible(part) for part in parts if part)


def _verdict_suite(result: Result) -> TestSuite:
    case = _case("gate.verdict", "verdict", result.campaign.wall_seconds if result.campaign else _SHORTEST)
    notes = (advisory_note(result), partial_note(result))
    weighed = (multiplicity_in_words(result), early_in_words(result), flips_in_words(result), silence_in_words(result))
    text = _lines(
        f"Verdict: {result.verdict}. {VERDICT_MEANING[result.verdict]} Exit code {result.exit_code}.",
        f"Model: {candidate_name(result)}",
        *notes,
        *(f"- {reason}" for reason in result.reasons[:50]),
        *(f"To do: {step}" for step in result.next_steps[:50]),
        *weighed,
    )
    message = f"{result.verdict}: {headline(result)}"
    match result.verdict:
        case Verdict.PASS:
            case.stdout = text
        case Verdict.FAIL:
            _failure(case, message, text, "fail", result.advisory)
        case Verdict.INCONCLUSIVE:
            _unsure(case, message, text, result.advisory)
        case Verdict.ERROR:
            case.add_error_info(message=visible(message), output=text, error_type="error")
    suite = _suite("gate.verdict", result, [case])
    suite.properties = {
        "gate.verdict": result.verdict.value,
        "gate.exit_code": str(result.exit_code),
        "gate.advisory": str(result.advisory).lower(),
        "gate.partial": str(result.partial).lower(),
        "gate.model": candidate_name(result),
        "gate.digest": visible(result.candidate.digest or "", NAME),
        "gate.policy": visible(result.policy.name if result.policy else "", NAME),
        **{f"gate.root_causes.{status}": str(number) for status, number in (status_counts(result) or {}).items()},
    }
    return suite


def _rule_case(rule: RuleResult, result: Result) -> TestCase:
    case = _case("gate.policy", rule.id)
    within, distance, evidence = rule_interval(rule), distance_in_words(rule), evidence_in_words(rule)
    shown_by = f"Shown by: {evidence}." if evidence else None
    text = _lines(
        rule.explanation,
        f"Value: {rule_result_in_words(rule)}" + (f"; {within}" if within else ""),
        sentence(limits_in_words(rule)),
        f"Distance: {distance}." if distance else None,
        comparison_in_words(rule) or None,
        known_in_words(rule) or None,
        level_in_words(rule) or None,
        shown_by,
        f"See one again: gate replay RUN {rule.evidence[0]}" if rule.evidence else None,
        rule.meaning,
        f"To do: {rule.next_step}" if rule.next_step else None,
        f"Waiver: {rule.waiver}" if rule.waiver else None,
    )
    to_do = f"To do: {rule.next_step}" if rule.next_step else None
    message = " ".join(part for part in (rule.explanation or f"{rule.id} is {rule.status}", shown_by, to_do) if part)
    match rule.status:
        case Status.PASS:
            case.stdout = text
        case Status.WARN if rule.known:
            case.add_skipped_info(message=visible(f"Known to the baseline, not blocking: {message}"), output=f"Not blocking.\n{text}")
        case Status.WARN:
            case.stdout = f"Warning, not blocking.\n{text}"
        case Status.FAIL:
            _failure(case, message, text, "breach", result.advisory)
        case Status.INCONCLUSIVE:
            _unsure(case, message, text, result.advisory)
        case Status.ERROR:
            case.add_error_info(message=visible(message), output=text, error_type="error")
        case Status.WAIVED:
            case.add_skipped_info(message=visible(f"Waived: {rule.waiver or rule.explanation}"), output=text)
        case Status.SKIPPED:
            case.add_skipped_info(message=visible(f"Skipped: {rule.explanation or message}"), output=text)
    return case


def _preflight_case(check: PreflightCheck, result: Result) -> TestCase:
    case = _case("gate.preflight", check.name)
    text = _lines(check.seen, f"To do: {check.advice}" if check.advice else None)
    if check.status != "fault":
        case.stdout = text
    elif result.verdict is Verdict.PASS:
        case.add_skipped_info(message=visible(f"A fault that no rule of the policy counts: {check.seen}"), output=text)
    else:
        _failure(case, check.seen, text, "fault", result.advisory)
    return case


def _shortcut_case(mark: UniversalMark, result: Result, folder: Path) -> TestCase:
    name = visible(result.class_name(mark.label), NAME)
    case = _case("gate.shortcuts", f"{kind_of_mark(mark)} that says {name}")
    message = shortcut_in_words(mark, result)
    text = _lines(message, f"To do: {ADVICE}")
    if result.verdict is Verdict.PASS:
        case.add_skipped_info(message=visible(f"A shortcut that no rule of the policy counts: {message}"), output=text)
    else:
        _failure(case, message, text, "shortcut", result.advisory)
    attachment = _attachment(folder, mark.files.get("after_1") or mark.files.get("mark"))
    if attachment:
        case.stdout = f"[[ATTACHMENT|{attachment}]]"
    return case


def _root_cause_suite(result: Result, folder: Path) -> TestSuite:
    by_id = {defect.id: defect for defect in result.defects}
    stand_ins = {defect.root_cause: defect for defect in reversed(choose(result, len(result.defects)))}
    causes = gravest_first(result.root_causes)
    cases = [
        _root_cause_case(cause, by_id.get(cause.example) or stand_ins.get(cause.id), result, folder) for cause in causes[:_MOST_ROOT_CAUSES]
    ]
    suite = _suite("gate.root_causes", result, cases)
    if len(causes) > _MOST_ROOT_CAUSES:
        suite.stdout = f"{count(len(causes) - _MOST_ROOT_CAUSES)} more root causes are in result.json."
    return suite


def _root_cause_case(cause: RootCause, example: Defect | None, result: Result, folder: Path) -> TestCase:
    case = _case("gate.root_causes", f"{visible(cause.title, NAME)} ({visible(cause.id, 40)})")
    number = cause_line(cause)
    shown = None
    if example is not None:
        shown = f"Example {visible(example.id, NAME)}: {outcome_in_words(example, result)} by {recipe_in_words(example)}."
    text = _lines(
        cause.title,
        number,
        shown,
        f"See it again: gate replay RUN {visible(example.id, NAME)}" if example else None,
        f"To do: {cause.repair}" if cause.repair else None,
    )
    _failure(case, f"{cause.title}: {number}", text, "root cause", result.advisory)
    attachment = _attachment(folder, example.files.get("mutant") if example else None)
    if attachment:
        case.stdout = f"[[ATTACHMENT|{attachment}]]"
    return case


def _attachment(folder: Path, picture: str | None) -> str | None:
    """A picture's path as GitLab wants it: relative to the job's working folder; None for what it can't attach."""
    if not picture:
        return None
    path = Path(os.path.relpath(folder.resolve() / picture, Path.cwd().resolve())).as_posix()
    inside = (folder / picture).resolve().is_relative_to(folder.resolve()) and not path.startswith("..")
    return path if inside and visible(path, SENTENCE, isolate=False) == path and "]]" not in path else None


def _make_names_unique(suites: list[TestSuite]) -> None:
    """Readers join cases of the same name, so a second one gets a number."""
    for suite in suites:
        seen: set[str] = set()
        for case in suite.test_cases:
            name, number = case.name, 2
            while case.name in seen:
                case.name, number = f"{name} #{number}", number + 1
            seen.add(case.name)


def _complete(root: ET.Element) -> None:
    """What readers expect and junit-xml leaves out: a name and the number of skipped cases on the root, and times of even length."""
    root.set("name", "gate")
    root.set("skipped", str(sum(int(suite.get("skipped", "0")) for suite in root)))
    for element in (root, *root):
        element.attrib.pop("disabled", None)
        element.set("time", f"{float(element.get('time', _SHORTEST)):.3f}")
