"""``gate layers``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from gate.coverage.traps import LayerFacts
    from gate.layers import Listing

__all__ = ["command"]

_WIDEST = 60  # columns of the terminal that a cell is given; a longer one moves the rest of its own line


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
    for line, style in _rows(shown, ranges=listing.samples > 0, automatic=automatic):
        say(line, style)
    watched = [layer for layer in listing.layers if layer.watched]
    say(f"watched  {len(watched)} layers, {sum(layer.neurons for layer in watched):,} neurons (neuron: {listing.neuron})")
    if not everything and len(shown) < len(listing.layers):
        say(f"         left out: {len(listing.layers) - len(shown)} that only hold other modules; --all shows them")
    for trap in listing.traps:
        say(f"warning  {visible(trap.what, 2000, isolate=False)}", "yellow")
        say(f"         {visible(trap.advice, 2000, isolate=False)}")


def _rows(layers: list[LayerFacts], *, ranges: bool, automatic: bool) -> Iterator[tuple[str, str]]:
    """(line, style), the heading first. No cell is folded: a layer's name is what has to be copied into the settings."""
    from rich.cells import cell_len

    from gate.report.text import visible

    heads = ["layer", "type", "neurons", *(["range"] if ranges else []), "watched", *([] if automatic else ["auto"])]
    table = []
    for layer in layers:
        name = visible(layer.name, 1000, isolate=False)
        cells = [name, visible(layer.type.rpartition(".")[2], isolate=False), f"{layer.neurons:,}" if layer.neurons else "-"]
        if ranges:
            cells.append("-" if layer.range is None else f"{layer.range.low:.3g} … {layer.range.high:.3g}")
        reason = "yes" if layer.auto is None else f"no: {visible(layer.auto, isolate=False)}"
        cells += [reason] if automatic else ["yes" if layer.watched else "no", reason]
        table.append(cells)
    widths = [min(_WIDEST, max(map(cell_len, column))) for column in zip(heads, *table, strict=True)]
    for cells, style in zip([heads, *table], ["bold", *("" if layer.watched else "dim" for layer in layers)], strict=True):
        pads = [" " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)]
        line = "  ".join(pad + cell if head == "neurons" else cell + pad for head, cell, pad in zip(heads, cells, pads, strict=True))
        yield line.rstrip(), style
