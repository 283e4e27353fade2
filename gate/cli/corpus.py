"""``gate corpus``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

__all__ = ["command"]


@click.group(name="corpus", help="Export the defects of a run as a training set.")
def command() -> None:
    """The group; see the commands."""


@command.command(name="export")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A new or empty folder.")
@click.option("--half", type=click.Choice(["a", "b", "all"]), default="a", show_default=True, help="Which half of the seed inputs.")
def export(run: Path, out: Path, half: Literal["a", "b", "all"]) -> None:
    """Write the defects of one half of the seed inputs as a training set.

    The other half stays unseen, so that the next gate run can tell a fix from memorised examples.
    """
    from gate.corpus.export import export as write
    from gate.domains.image.picture import load
    from gate.report.text import visible
    from gate.result import Result

    written = write(Result.load(run), run, out, half=half, load=load)
    click.echo(
        f"{written.exported} defects written to {visible(written.folder)} (train.npz, pictures/, defects.csv); "
        f"{written.held_out} of the other half held out, {written.kept_back} kept back (judging arm, or no class to train towards)"
    )
