"""``gate diff RUN_A RUN_B``: two finished runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gate.report.difference import CauseChange, Difference

__all__ = ["command"]

_CAUSES = 20  # root causes on the terminal


@click.command("diff")
@click.argument("run_a", type=click.Path(path_type=Path), metavar="RUN_A")
@click.argument("run_b", type=click.Path(path_type=Path), metavar="RUN_B")
@click.option("--out", type=click.Path(path_type=Path), help="Write a page with pictures to this file; it loads nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the difference as JSON instead of tables.")
def command(run_a: Path, run_b: Path, out: Path | None, as_json: bool) -> int:
    """Set two finished runs side by side.

    RUN_A and RUN_B are output folders of `gate run`, A the earlier one. Root causes are new, known, fixed, back again or not found
    again; values that moved are marked as a real change only where their intervals do not overlap. Nothing is judged or run, and the exit
    code is 0.
    """
    import json

    from gate.errors import OutputError
    from gate.report.atomic import write_text
    from gate.report.difference import Run, compare
    from gate.report.difference import as_json as in_json
    from gate.report.difference_page import page
    from gate.report.text import visible

    if out is not None:
        for run in (run_a, run_b):
            if out.resolve().is_relative_to(run.resolve()):
                what = "The page would lie inside a run's folder, which stays as it is."
                raise OutputError(what, where=str(out), hint="Give another --out.")
    difference = compare(Run.load(run_a), Run.load(run_b))
    if out is not None:
        write_text(out, page(difference))
    if as_json:
        click.echo(json.dumps(in_json(difference), indent=2, ensure_ascii=True, allow_nan=False))
    else:
        _show(difference)
    if out is not None:
        click.echo(f"page:    {visible(out)}", err=as_json)
    return 0


def _told(causes: Sequence[CauseChange]) -> list[CauseChange]:
    """As many as the terminal shows, in their order; each status has its share, so that many new ones don't hide what is fixed."""
    places: dict[str, int] = {}
    ranks = []
    for number, cause in enumerate(causes):
        places[cause.status] = places.get(cause.status, -1) + 1
        ranks.append((places[cause.status], number))
    return [causes[number] for number in sorted(number for _, number in sorted(ranks)[:_CAUSES])]


def _show(difference: Difference) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from gate.report.coverage import criterion_name
    from gate.report.difference_words import (
        NOTES,
        change_in_words,
        coverage_in_words,
        moved,
        rule_value,
        sizes_in_words,
        summary,
        value_in_words,
    )
    from gate.report.text import NAME, visible
    from gate.report.words import candidate_name, headline, title

    console = Console(highlight=False)
    styles = {"better": "green", "worse": "red", "new": "red", "back": "red", "remains": "yellow", "fixed": "green"}

    def say(text: str, style: str = "") -> None:
        console.print(Text(visible(text, isolate=False), style=style), soft_wrap=True)

    def table(*heads: str) -> Table:
        made = Table(box=None, pad_edge=False, header_style="bold")
        for head in heads:
            made.add_column(head, overflow="fold")
        return made

    def cell(text: str, style: str = "") -> Text:
        return Text(visible(text, 2 * NAME, isolate=False), style=style)

    for letter, run in (("A", difference.a), ("B", difference.b)):
        result = run.result
        policy = "" if result.policy is None else f", policy {result.policy.name}"
        size = "" if result.campaign is None else f", {result.campaign.executions:,} executions"
        say(f"{letter}  {str(result.verdict).upper()}  {candidate_name(result)}{policy}{size}", "bold")
        say(f"   {headline(result)}")
    for remark in difference.remarks:
        say(f"!  {remark}", "yellow")
    console.print()
    say(summary(difference), "bold")
    if difference.causes:
        causes = table("status", "defects", "root cause", "id")
        for cause in _told(difference.causes):
            causes.add_row(cell(cause.status, styles.get(cause.status, "")), sizes_in_words(cause), cell(cause.title), cell(cause.id))
        console.print(causes)
        if len(difference.causes) > _CAUSES:
            say(f"and {len(difference.causes) - _CAUSES:,} more; --out shows them with pictures, --json lists all", "dim")
    console.print()
    if difference.rules:
        rules = table("rule", "A", "B", "change", "")
        for rule in difference.rules:
            sides = [cell(f"{side.status if side else ''} {rule_value(side)}".strip()) for side in (rule.before, rule.after)]
            dim = "dim" if rule.certainty == "within noise" else styles.get(rule.change, "")
            rules.add_row(cell(rule.id), *sides, moved(rule), cell(change_in_words(rule), dim))
        console.print(rules)
        console.print()
    if difference.metrics:
        metrics = table("metric", "A", "B", "change", "")
        for metric in difference.metrics:
            dim = "dim" if metric.certainty == "within noise" else styles.get(metric.change, "")
            sides = [cell(value_in_words(side)) for side in (metric.before, metric.after)]
            metrics.add_row(cell(title(metric.name)), *sides, moved(metric), cell(change_in_words(metric), dim))
        console.print(metrics)
        console.print()
    if difference.coverage:
        coverage = table("coverage", "A", "B")
        for one in difference.coverage:
            coverage.add_row(cell(criterion_name(one.criterion)), *(coverage_in_words(one, side) for side in (one.before, one.after)))
        console.print(coverage)
        console.print()
    say(f"Defects: {len(difference.both):,} in both, {len(difference.only_a):,} only in A, {len(difference.only_b):,} only in B.", "bold")
    for note in NOTES:
        say(note, "dim")
