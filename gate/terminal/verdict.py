"""The last lines on the terminal: the verdict, why, and what to do."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text

from gate.pipeline import Outcome
from gate.report.beside_baseline import flips_in_words
from gate.report.canaries import silence_in_words
from gate.report.coverage import about, criterion_name, false_note, progress_of, remark, reported
from gate.report.decided import early_in_words
from gate.report.releases import releases_in_words
from gate.report.shortcuts import shortcut_in_words, shortcuts_of
from gate.report.text import visible
from gate.report.waivers import idle_waivers
from gate.result import Result, Verdict
from gate.terminal.closing import closing_lines

__all__ = ["show_result", "show_verdict"]

_STYLES = {Verdict.PASS: "bold green", Verdict.FAIL: "bold red", Verdict.INCONCLUSIVE: "bold yellow", Verdict.ERROR: "bold magenta"}
_REASONS = 5


def show_verdict(outcome: Outcome, console: Console | None = None) -> None:
    """Prints the end of a run to standard output."""
    console = console or Console()
    if outcome.published is not None:
        console.print(Text(f"MLflow:  run {outcome.published}"), soft_wrap=True)
    if outcome.publish_problem is not None:
        console.print(Text(f"MLflow:  not recorded: {outcome.publish_problem}", style="red"), soft_wrap=True)
    show_result(outcome.result, console, run=outcome.folder, report=outcome.folder)


def show_result(result: Result, console: Console, *, run: Path, report: Path | None) -> None:
    """Prints reasons, next steps, what is new, shortcuts, how it was decided and the coverage reported; then the five lines.

    Args:
        result: the finished run, or the same one judged again.
        console: where to.
        run: the run's folder.
        report: the folder with the renderings of ``result``; None: none were written.
    """
    console.print(Text("reasons:"))
    for reason in result.reasons[:_REASONS]:
        console.print(Text(f"  - {visible(reason, isolate=False)}"), soft_wrap=True)
    if len(result.reasons) > _REASONS:
        console.print(Text(f"  - and {len(result.reasons) - _REASONS} more, in the report"), soft_wrap=True)
    for step in result.next_steps[:3]:
        console.print(Text(f"  what to do: {visible(step, isolate=False)}"), soft_wrap=True)
    for idle in idle_waivers(result):
        console.print(Text(f"  {visible(idle, isolate=False)}"), soft_wrap=True)
    beside = releases_in_words(result)
    if beside is not None:
        console.print(Text(f"  {beside}"), soft_wrap=True)
    for mark in shortcuts_of(result):
        console.print(
            Text(f"  ! shortcut or backdoor: {visible(shortcut_in_words(mark, result), isolate=False)}", style="bold red"), soft_wrap=True
        )
    for told in (early_in_words(result), silence_in_words(result), flips_in_words(result)):
        if told is not None:
            console.print(Text(f"  {visible(told, isolate=False)}"), soft_wrap=True)
    criterion = reported(result)
    if criterion is not None:
        console.print(Text(f"coverage: {_coverage(result, criterion)}"), soft_wrap=True)
    alarm = false_note(result)
    if alarm is not None:
        console.print(Text(f"  ! {visible(alarm, isolate=False)}", style="bold yellow"), soft_wrap=True)
    console.print()
    for line in closing_lines(result, run=run, report=report):
        shown = Text(str(line))
        if line.label == "verdict":
            start = len(str(line)) - len(line.text)
            shown.stylize(_STYLES[result.verdict], start, start + len(result.verdict))
        console.print(shown, soft_wrap=True)


def _coverage(result: Result, criterion: str) -> str:
    summary = result.coverage[criterion]
    found = summary.discovery
    parts = [f"{criterion_name(criterion)} {progress_of(summary)}", remark(criterion, summary)]
    if found is not None and found.seen is not None:
        parts.append(f"{about(found.seen)} of what this search will reach")
    return "; ".join(part for part in parts if part)
