"""``gate compare-strategies``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from gate.report.comparison import Measured

__all__ = ["command"]


def _names(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip()) if value else ()


@click.command(
    name="compare-strategies",
    help="Compare ways to search on your own model and seeds: campaigns with the same campaign seeds, valid coverage and defects over "
    "model work, and the differences at equal work with intervals. Settings come from gate.yaml, GATE_... and these options. "
    "Nothing is judged and nothing is published; the exit code is 0 once it was measured.",
)
@click.option("--config", type=click.Path(path_type=Path), help="Settings file; gate.yaml of this folder where there is one.")
@click.option("--model", help="As for `gate run`.")
@click.option("--seeds", help="As for `gate run`.")
@click.option("--profile", help="As for `gate run`.")
@click.option("--policy", help="Whose domain and operators are used: a shipped name or a file.")
@click.option("--strategies", callback=_names, help="Of mixture, coverage, diversity, uncertainty, recency, uniform; by commas.")
@click.option("--operators", callback=_names, help="Of even, adaptive; by commas.")
@click.option("--executions", type=click.IntRange(min=1), default=2000, show_default=True, help="Mutants of every campaign.")
@click.option("--repeats", type=click.IntRange(min=1, max=1000), default=5, show_default=True, help="Campaigns of every way.")
@click.option("--device", help="auto, cpu, cuda or cuda:0.")
@click.option("--batch-size", type=int, help="Samples in one forward pass.")
@click.option("--seed", type=int, help="Campaign seed of the first repeat; the next ones follow.")
@click.option("--tracking-uri", help="MLflow tracking server, database or folder; MLflow's default where absent.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("gate-comparison"), show_default=True, help="A new or empty folder.")
def command(
    config: Path | None,
    strategies: tuple[str, ...],
    operators: tuple[str, ...],
    executions: int,
    repeats: int,
    out: Path,
    **options: Any,
) -> int:
    """Runs the campaigns, prints the table, and returns 0."""
    from gate.comparison import FILES, compare, ways_of
    from gate.config import load
    from gate.report.text import visible
    from gate.terminal.progress import interruptible

    keys = {"seeds": "data.seeds", "profile": "data.profile"}
    settings = load(config, command_line={keys.get(name, name): value for name, value in options.items()}).settings
    ways = ways_of(settings, strategies, operators)

    def say(line: str) -> None:
        click.echo(visible(line, 2000, isolate=False), err=True)

    with interruptible() as stop:
        measured = compare(settings, ways, executions=executions, repeats=repeats, out=out, say=say, stop=stop)
    _show(measured)
    for name in FILES:
        click.echo(visible(out / name))
    return 0


def _show(measured: Measured) -> None:
    from rich.cells import cell_len
    from rich.console import Console
    from rich.text import Text

    from gate.report.comparison import difference_in_words, measure_name, value_in_words

    console = Console(highlight=False)
    rows: list[tuple[str, ...]] = [("measure", "way", "mean", measured.ways[0], "difference", "interval", "ahead in", "shown")]
    for measure, row in measured.differences.items():
        for way, found in row.items():
            values = (value_in_words(measured, measure, value) for value in (found.mean, found.reference))
            rows.append(
                (
                    measure_name(measure),
                    way,
                    *values,
                    *difference_in_words(measured, measure, found),
                    f"{found.wins} of {found.pairs}",
                    found.words,
                )
            )
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for number, cells in enumerate(rows):
        pads = [" " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)]
        # Numbers end, words begin at the same place; no cell is folded or cut, however narrow the terminal.
        line = "  ".join(pad + cell if 2 <= at < 7 else cell + pad for at, (cell, pad) in enumerate(zip(cells, pads, strict=True)))
        style = "bold" if number == 0 or cells[-1] in ("more", "less") else ""
        console.print(Text(line.rstrip(), style=style), soft_wrap=True)
    for note in measured.notes:
        console.print(Text(note), soft_wrap=True)
