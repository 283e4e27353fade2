"""What ``gate layers`` prints, however narrow the terminal is."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

import gate.layers
from gate.cli.layers import command
from gate.coverage.traps import LayerFacts, LayerRange
from gate.layers import Listing

LONG = "encoder.blocks.11.attention.output.projection"


@pytest.mark.parametrize("columns", ["40", "80"])
def test_a_layers_name_stands_in_one_piece_so_that_it_can_be_copied(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    why = f"inside an MLP, whose output {LONG} gives"
    rows = (
        LayerFacts(LONG, "torch.nn.Linear", "linear", 768, 1, False, None, True, True, LayerRange(-1, -1, -1, 2, 2, 2)),
        LayerFacts("b", "torch.nn.Linear", "linear", 8, 1, False, why, True, False, LayerRange(-1, -1, -1, 2, 2, 2)),
        LayerFacts("c" * 200, "torch.nn.Linear", "linear", 8, 1, False, "one neuron", True, False),
    )
    listing = Listing(model="m", digest="sha256:0", layers=rows, traps=(), neuron="mean", samples=9, source="seeds")
    monkeypatch.setattr(gate.layers, "list_model_layers", lambda *_, **__: listing)
    done = CliRunner().invoke(command, ["m"], env={"COLUMNS": columns})
    lines = done.output.splitlines()
    heading = next(line for line in lines if line.startswith("layer "))
    row = next(line for line in lines if line.startswith(LONG))
    assert row.split() == [LONG, "Linear", "768", "-1", "…", "2", "yes"]
    assert row.index("Linear") == heading.index("type")
    assert row.index("-1") == heading.index("range")
    assert row.endswith("yes")
    assert any(line.startswith("b ") and line.endswith(f"no: {why}") for line in lines)
    assert any(line.startswith("c" * 200 + "  Linear") for line in lines)
