"""``gate demo``."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["command"]


@click.command(name="demo")
@click.option("--out", type=click.Path(path_type=Path), default=Path("gate-demo"), show_default=True, help="Folder to work in.")
def command(out: Path) -> None:
    """See the gate block a bad model and release its fix.

    Trains three versions of a digits model, registers them in an MLflow store of its own, and runs the gate on two of them. Takes up to
    three minutes on two cores.
    """
    import os

    from rich.console import Console

    from gate.demo.story import tell
    from gate.terminal.progress import interruptible

    # As in the worker: threads that spin while they wait make training crawl on a busy machine. torch reads this when it is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    with interruptible() as stop:
        tell(out, stop, Console())
