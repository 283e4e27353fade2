"""``gate report RUN``: renders a finished run again from its result.json."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["command"]


@click.command("report")
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
def command(run: Path) -> None:
    """Write the reports of a finished run again.

    RUN is the output folder of an earlier `gate run`. result.json is read; report.html, junit.xml, summary.md and metrics.txt are
    made from it. Nothing is judged or run again, so the exit code says only whether the files could be written.
    """
    from gate.report import write
    from gate.report.text import visible
    from gate.result import Result

    result = Result.load(run)
    for path in write(result, run):
        click.echo(visible(path))
    click.echo(f"verdict: {result.verdict}{' (advisory)' if result.advisory else ''}{' (partial)' if result.partial else ''}")
