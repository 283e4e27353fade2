"""``gate layers``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.table import Table

    from gate.coverage.traps import LayerFacts
    from gate.layers import Listing

__all__ = ["command"]


@click.command(
    name="layers",
    help="List the layers of MODEL that coverage can watch, what they put out on the seeds, which of them `auto` takes, and known traps. "
    "MODEL is as for `gate run --model`; where absent, the settings' model.",
)
@click.argument("model", required=False)
@click.option("--config", type=click.Path(path_type=Path), help="Settings file; gate.yaml of this folder where there is one.")
@click.option("--seeds", help="Clean samples that ranges are measured on: a folder per class, an .npz, or an MLflow artifact URI.")
@click.option("--samples", type=click.IntRange(min=1), default=1000, show_default=True, help="The most of them that are used.")
@click.option("--device", help="auto, cpu, cuda or cuda:0.")
@click.option("--batch-size", type=int, help="Samples in one forward pass.")
@click.option("--tracking-uri", help="MLflow tracking server, database or folder; MLflow's default where absent.")
@click.option("--all", "everything", is_flag=True, help="Also the modules that only hold others.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON (gate.layers/1).")
def command(model: str | None, config: Path | None, samples: int, everything: bool, as_json: bool, **options: Any) -> int:
    """Prints the table or the JSON; exit code 2 where coverage.layers names what is not there."""
    from gate.config import load
    from gate.layers import list_model_layers

    given = {"model": model, **{{"seeds": "data.seeds"}.get(name, name): value for name, value in options.items()}}
    settings = load(config, command_line=given).settings
    listing = list_model_layers(settings, samples=samples)
    if as_json:
        import json

        # Escaped, so that no name of a model acts on a terminal that this is shown in.
        click.echo(json.dumps(listing.to_dict(), indent=2, ensure_ascii=True, allow_nan=False))
    else:
        _show(listing, everything=everything, automatic=settings.coverage.layers == "auto")
    if listing.problem is not None:
        if not as_json:
            raise listing.problem
        return listing.problem.exit_code
    return 0


def _show(listing: Listing, *, everything: bool, automatic: bool) -> None:
    from rich.console import Console
    from rich.text import Text

    from gate.report.text import visible

    console = Console(highlight=False)

    def say(text: str, style: str = "") -> None:
        console.print(Text(text, style=style), soft_wrap=True)

    say(f"model    {visible(listing.model, isolate=False)}")
    if listing.samples:
        say(f"ranges   of each layer's outputs over {listing.samples:,} samples of {visible(listing.source, isolate=False)}")
    else:
        say("ranges   not known: they need clean samples; give --seeds or set data.seeds")
    shown = [layer for layer in listing.layers if everything or layer.kind != "container" or layer.watched]
    console.print(_table(shown, ranges=listing.samples > 0, automatic=automatic))
    watched = [layer for layer in listing.layers if layer.watched]
    say(f"watched  {len(watched)} layers, {sum(layer.neurons for layer in watched):,} neurons (neuron: {listing.neuron})")
    if not everything and len(shown) < len(listing.layers):
        say(f"         left out: {len(listing.layers) - len(shown)} that only hold other modules; --all shows them")
    for trap in listing.traps:
        say(f"warning  {visible(trap.what, 2000, isolate=False)}", "yellow")
        say(f"         {visible(trap.advice, 2000, isolate=False)}")


def _table(layers: list[LayerFacts], *, ranges: bool, automatic: bool) -> Table:
    from rich.table import Table
    from rich.text import Text

    from gate.report.text import visible

    table = Table(box=None, pad_edge=False)
    # What a name is worth lies in its whole length: it is what has to be written into the settings.
    table.add_column("layer", overflow="fold", min_width=8, ratio=3)
    table.add_column("type", overflow="fold", min_width=6)
    table.add_column("neurons", justify="right", no_wrap=True)
    if ranges:
        table.add_column("range", no_wrap=True)
    table.add_column("watched", overflow="fold", min_width=7)
    if not automatic:
        table.add_column("auto", overflow="fold", min_width=4)
    for layer in layers:
        name = visible(layer.name, 1000, isolate=False)
        cells = [name, visible(layer.type.rpartition(".")[2], isolate=False), f"{layer.neurons:,}" if layer.neurons else "-"]
        if ranges:
            cells.append("-" if layer.range is None else f"{layer.range.low:.3g} … {layer.range.high:.3g}")
        reason = "yes" if layer.auto is None else f"no: {visible(layer.auto, isolate=False)}"
        cells += [reason] if automatic else ["yes" if layer.watched else "no", reason]
        table.add_row(*map(Text, cells), style="" if layer.watched else "dim")
    return table
