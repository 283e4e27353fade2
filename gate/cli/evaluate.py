"""``gate evaluate``."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["command"]


@click.command(name="evaluate", help="Judge the finished run in folder RUN under another policy, without fuzzing. RUN is left as it is.")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--policy", required=True, help="A shipped name or a file.")
@click.option("--out", type=click.Path(path_type=Path), help="Also write the renderings of this verdict into a new or empty folder.")
@click.option("--advisory", is_flag=True, default=None, help="Report fail and inconclusive, but exit 0.")
def command(run: Path, policy: str, out: Path | None, advisory: bool | None) -> int:
    """Returns the exit code of the new verdict."""
    from rich.console import Console

    from gate.afterwards import evaluate_again, write_elsewhere
    from gate.terminal.verdict import show_result

    result = evaluate_again(run, policy, advisory=advisory)
    if out is not None:
        write_elsewhere(result, run, out)
    show_result(result, Console(), run=run, report=out)
    return result.exit_code
