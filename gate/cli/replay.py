"""``gate replay``."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["command"]

_LONGEST_LINE = 4000  # characters; a line may hold three paths


@click.command(name="replay", help="Run the defect DEFECT of the run in folder RUN again. Exit 1 while it lives, 0 when it is gone.")
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("defect")
@click.option("--model", help="Another model than the run's candidate, such as its fix.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:0.")
@click.option("--tracking-uri", help="MLflow tracking server, database or folder; the run's own where absent.")
@click.option("--explain", is_flag=True, help="Say which neurons and which part of the picture the defect comes from.")
@click.option("--out", type=click.Path(path_type=Path), help="A new folder for the explanation and its pictures; needs --explain.")
def command(run: Path, defect: str, model: str | None, device: str, tracking_uri: str | None, *, explain: bool, out: Path | None) -> int:
    """Prints what the model says of the original and of the mutant."""
    if out is not None and not explain:
        raise click.UsageError("--out is the folder for an explanation; add --explain.")
    from gate.afterwards import replay_defect
    from gate.report.text import visible

    replayed = replay_defect(run, defect, model=model, device=device, tracking_uri=tracking_uri, explain=explain, out=out)
    for line in replayed.lines:
        click.echo(visible(line, _LONGEST_LINE, isolate=False))
    return 1 if replayed.lives else 0
