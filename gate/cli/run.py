"""``gate run``."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import click

__all__ = ["command"]


@click.command(
    name="run", help="Run the gate on a candidate: fuzz it, judge it, report. Settings come from gate.yaml, GATE_... and these options."
)
@click.option("--config", type=click.Path(path_type=Path), help="Settings file; gate.yaml of this folder where there is one.")
@click.option("--model", help="Candidate: models:/name/3, models:/name@alias, models:/m-..., runs:/.../model, or an MLflow model folder.")
@click.option("--baseline", help="The version in production, as for --model.")
@click.option("--seeds", help="Clean labelled samples: a folder per class, an .npz, or an MLflow artifact URI.")
@click.option("--long-tail", help="Rare real-world samples, as for --seeds.")
@click.option("--profile", help="Clean samples to measure neuron ranges on, as for --seeds; the seeds where absent.")
@click.option(
    "--judge-half", type=click.Choice(["all", "a", "b"]), help="Half of the seed inputs that rates come from: not the exported one."
)
@click.option("--policy", help="A shipped name (see `gate policy list`) or a file.")
@click.option("--budget", help="Wall time, from start to report: 90s, 10m, 2h.")
@click.option("--executions", type=int, help="Mutants to run through the model.")
@click.option("--device-budget", help="Time for which the device is held: 90s, 10m, 2h.")
@click.option("--device", help="auto, cpu, cuda or cuda:0.")
@click.option("--minimize", help="Time for making defects simpler, counted in model calls: 30s, 2m; half of triage's share where absent.")
@click.option("--workers", type=int, help="Processes that run the model; the result is the same for any number.")
@click.option("--threads", type=int, help="CPU threads of each of them; one for each core where absent.")
@click.option("--batch-size", type=int, help="Samples in one forward pass.")
@click.option("--amp", type=click.Choice(["off", "bf16", "fp16"]), help="Mixed precision for the search; defects are confirmed without.")
@click.option("--seed", type=int, help="Campaign seed: the same seed, budget in executions and machine give the same result.")
@click.option("--out", help="Output folder: new, empty, or of the same campaign.")
@click.option("--previous", help="Earlier run whose defects are replayed: a folder, runs:/<id>, auto (the baseline's), none.")
@click.option("--corpus", help="Earlier run, or a corpus file, whose entries the search starts from: a folder, a file, or runs:/<id>.")
@click.option("--tracking-uri", help="MLflow tracking server, database or folder; MLflow's default where absent.")
@click.option("--publish/--no-publish", default=None, help="Record the result in MLflow; by default when the candidate comes from there.")
@click.option("--advisory", is_flag=True, default=None, help="Report fail and inconclusive, but exit 0.")
@click.option("--show-config", is_flag=True, help="Print every setting with where it came from, and stop.")
def command(config: Path | None, show_config: bool, **options: Any) -> int:
    """Runs the pipeline with a progress display; returns the exit code."""
    from gate.config import load

    keys = {
        "seeds": "data.seeds",
        "long_tail": "data.long_tail",
        "profile": "data.profile",
        "judge_half": "data.judge_half",
        "budget": "budget.wall",
        "executions": "budget.executions",
        "amp": "search.amp",
        "minimize": "triage.minimize",
        "device_budget": "budget.device",
    }
    loaded = load(config, command_line={keys.get(name, name): value for name, value in options.items()})
    if show_config:
        _show(loaded.rows())
        return 0
    # A run hears these two; one that comes too early or too late must not end the process with a status that reads as an exit code.
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    from gate.pipeline import run
    from gate.terminal.progress import Progress, interruptible

    with Progress() as progress, interruptible() as stop:
        outcome = run(loaded.settings, observers=(progress.observe,), stop=stop)
    from gate.terminal.verdict import show_verdict

    show_verdict(outcome)
    return outcome.result.exit_code


def _show(rows: list[tuple[str, Any, str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from gate.report.text import visible

    table = Table("setting", box=None)
    table.add_column("value", overflow="fold")  # a value is worth nothing where its end is missing
    table.add_column("from", overflow="fold")
    for key, value, origin in rows:
        # As Text, so that brackets in a value are shown and not taken for a style.
        shown = Text("-" if value is None else visible(value, limit=1_000_000, isolate=False))
        table.add_row(key, shown, Text(visible(origin, isolate=False)), style="dim" if origin == "default" else "")
    Console().print(table)
