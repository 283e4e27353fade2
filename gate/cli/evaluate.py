"""``gate evaluate``."""

from __future__ import annotations

import datetime
from pathlib import Path

import click

__all__ = ["command"]

_LONGEST_LINE = 4_000  # characters


@click.command(
    name="evaluate",
    help="Judge finished runs under another policy, without fuzzing. RUN is left as it is. One RUN: its new verdict is the exit code. "
    "Several: what the policy would have decided about each, and exit 0 when all could be judged.",
)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@click.option("--policy", required=True, help="A shipped name or a file.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Also write the renderings of this verdict into a new or empty folder; one RUN."
)
@click.option("--advisory", is_flag=True, default=None, help="Report fail and inconclusive, but exit 0.")
@click.option(
    "--today", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE", help="Waivers are in force or not on this day, as 2027-03-31; UTC today."
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="What is printed.")
def command(
    runs: tuple[Path, ...], policy: str, out: Path | None, advisory: bool | None, today: datetime.datetime | None, form: str
) -> int:
    """Returns the exit code of the new verdict of one run; of several, 3 where one of them can't be judged again, else 0."""
    from gate.afterwards import write_elsewhere
    from gate.errors import UsageError
    from gate.policy import load_policy
    from gate.rejudging import as_json, in_words, rejudge
    from gate.report.text import visible

    if out is not None and len(runs) > 1:
        raise UsageError("The renderings of one run are written, not of several.", where="--out", hint="Give one RUN, or leave out --out.")
    load_policy(policy)  # what is wrong with it is wrong for every run
    day = (today or datetime.datetime.now(tz=datetime.UTC)).date()
    again = rejudge(runs, policy, advisory=advisory, today=day)
    first = again[0]
    if len(runs) == 1 and first.error is not None:
        raise first.error
    if out is not None and first.after is not None:
        write_elsewhere(first.after, first.run, out)
    if form == "json":
        click.echo(as_json(again, today=day, given=today is not None), nl=False)
    else:
        for line in in_words(again):
            click.echo(visible(line, _LONGEST_LINE, isolate=False))
        click.echo(f"Waivers as of {day} ({'--today' if today is not None else 'UTC date'}).")
        if len(runs) == 1 and first.after is not None:
            from rich.console import Console

            from gate.terminal.verdict import show_result

            show_result(first.after, Console(), run=first.run, report=out)
    if len(runs) == 1 and first.after is not None:
        return first.after.exit_code
    return 3 if any(one.error is not None for one in again) else 0
