"""The last lines on the terminal: the verdict, why, and what to do."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from gate.pipeline import Outcome
from gate.report.text import visible
from gate.result import Result, Verdict

__all__ = ["show_result", "show_verdict"]

_STYLES = {Verdict.PASS: "bold green", Verdict.FAIL: "bold red", Verdict.INCONCLUSIVE: "bold yellow", Verdict.ERROR: "bold magenta"}
_REASONS = 5


def show_verdict(outcome: Outcome, console: Console | None = None) -> None:
    """Prints the end of a run to standard output."""
    console = console or Console()
    show_result(outcome.result, console)
    console.print(Text(f"report:  {outcome.folder / 'report.html'}"), soft_wrap=True)
    if outcome.published is not None:
        console.print(Text(f"MLflow:  run {outcome.published}"), soft_wrap=True)
    if outcome.publish_problem is not None:
        console.print(Text(f"MLflow:  not recorded: {outcome.publish_problem}", style="red"), soft_wrap=True)


def show_result(result: Result, console: Console) -> None:
    """Prints verdict, reasons and next steps."""
    name = result.candidate.resolved_uri
    head = Text.assemble((f" {str(result.verdict).upper()} ", _STYLES[result.verdict] + " reverse"), " ", visible(name, isolate=False))
    if result.policy is not None:
        head.append(f" under policy {visible(result.policy.name, isolate=False)}")
    head.append(f" (exit {result.exit_code}{', advisory' if result.advisory else ''})", style="dim")
    console.print(head, soft_wrap=True)
    for reason in result.reasons[:_REASONS]:
        console.print(Text(f"  - {visible(reason, isolate=False)}"), soft_wrap=True)
    if len(result.reasons) > _REASONS:
        console.print(Text(f"  - and {len(result.reasons) - _REASONS} more, in the report"), soft_wrap=True)
    for step in result.next_steps[:3]:
        console.print(Text(f"  what to do: {visible(step, isolate=False)}"), soft_wrap=True)
