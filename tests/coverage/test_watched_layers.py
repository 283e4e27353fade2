"""Which layers are found, and which are watched when nobody says."""

from __future__ import annotations

import pytest
import torch
import torchvision
import watched_networks as nets
from torch import nn

from gate.coverage.layers import choose_layers, list_layers
from gate.errors import ConfigError

IMAGE, ROWS, FLAT = torch.rand(4, 1, 8, 8), torch.rand(4, 5, 8), torch.rand(4, 4)


def _names(layers: list) -> list[str]:
    return [layer.name for layer in layers]


def test_a_small_network_is_watched_whole_but_for_its_head() -> None:
    layers = list_layers(nets.made(nets.SmallCNN), IMAGE, 10)
    assert _names(choose_layers(layers)) == ["features.0", "features.3", "hidden"]
    assert [layer.name for layer in layers if layer.head] == ["head"]
    by_name = {layer.name: layer for layer in layers}
    conv = by_name["features.0"]
    assert (conv.type, conv.kind, conv.neurons, conv.shape) == ("torch.nn.modules.conv.Conv2d", "conv", 6, (3, 6, 8, 8))
    assert [by_name[n].order for n in ("features.0", "features.1", "features", "pool", "head")] == [0, 1, 5, 6, 10]


def test_an_exported_program_has_the_same_layers() -> None:
    for network, example in ((nets.SmallCNN, IMAGE), (nets.Transformer, ROWS), (nets.Recurrent, ROWS), (nets.Shared, FLAT)):
        module = nets.made(network)
        classes = module(example).shape[1]
        seen = [
            [
                (layer.name, layer.type, layer.kind, layer.calls, layer.shape, layer.neurons, layer.batch_axis, layer.neuron_axis)
                for layer in choose_layers(list_layers(form, example, classes))
            ]
            for form in (module, nets.exported(module, example))
        ]
        assert seen[0] == seen[1]


def test_attention_and_recurrent_layers_are_watched() -> None:
    chosen = choose_layers(list_layers(nets.made(nets.Transformer), ROWS, 3))
    assert _names(chosen) == [f"encoder.layers.{i}.{part}" for i in (0, 1) for part in ("self_attn", "linear1", "linear2")]
    assert [layer.neurons for layer in chosen[:3]] == [8, 16, 8]
    (lstm,) = choose_layers(list_layers(nets.made(nets.Recurrent), ROWS, 3))
    assert (lstm.name, lstm.neurons, lstm.batch_axis, lstm.neuron_axis) == ("lstm", 6, 0, 2)


@pytest.mark.parametrize("samples", [2, 3, 5])
def test_the_batch_axis_is_found_also_where_time_comes_first(samples: int) -> None:
    rows = torch.rand(samples, min(samples, 3), 8)  # as many rows as samples that are run: the lengths alone don't tell
    for batch_first in (True, False):
        chosen = choose_layers(list_layers(nets.made(nets.Transformer, batch_first=batch_first), rows, 3))
        assert {layer.batch_axis for layer in chosen} == {0 if batch_first else 1}


def test_a_deep_network_is_watched_near_its_end() -> None:
    layers = list_layers(torchvision.models.resnet18().eval(), torch.rand(2, 3, 32, 32), 1000)
    chosen = _names(choose_layers(layers))
    assert len(chosen) == 8
    assert {"layer4.1.conv1", "layer4.1.conv2", "layer4.0.downsample.0"} <= set(chosen)
    assert "fc" not in chosen
    assert not any("bn" in name for name in chosen)


def test_deep_transformers_are_watched_with_their_layer_norms() -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 5, enable_nested_tensor=False).eval()
    chosen = _names(choose_layers(list_layers(encoder, ROWS)))
    assert "layers.4.norm2" in chosen
    assert "layers.4.linear2" in chosen
    assert not any(name.startswith("layers.0") for name in chosen)


def test_names_and_patterns_choose_layers() -> None:
    layers = list_layers(nets.made(nets.SmallCNN), IMAGE, 10)
    assert _names(choose_layers(layers, ["hidden", "features.0"])) == ["features.0", "hidden"]
    assert _names(choose_layers(layers, ["features*"])) == [f"features.{i}" for i in range(5)]
    assert _names(choose_layers(layers, ["features"])) == ["features"]
    assert _names(choose_layers(layers, ["head"])) == ["head"]


def test_names_that_choose_nothing_are_refused_with_the_nearest() -> None:
    layers = list_layers(nets.made(nets.SmallCNN), IMAGE, 10)
    with pytest.raises(ConfigError, match=r"no layer 'hiden'(.|\n)*Did you mean 'hidden'"):
        choose_layers(layers, ["hiden"])
    with pytest.raises(ConfigError, match="No layer that can be watched matches"):
        choose_layers(layers, ["block*"])
    shared = list_layers(nets.made(nets.Shared), FLAT, 3)
    with pytest.raises(ConfigError, match="does not run"):
        choose_layers(shared, ["unused"])
    with pytest.raises(ConfigError, match=r"called 2 times with different numbers of neurons \(4, 7\)"):
        choose_layers(shared, ["relu"])


def test_a_model_without_hidden_layers_asks_for_names() -> None:
    with pytest.raises(ConfigError, match="no hidden"):
        choose_layers(list_layers(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).eval(), IMAGE, 10))


def test_a_layer_that_folds_the_batch_away_is_not_watched() -> None:
    class Folding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.row = nn.Linear(8, 4)
            self.head = nn.Linear(20, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.row(x.reshape(-1, 8)).reshape(len(x), -1))

    (row, _) = list_layers(Folding(), ROWS, 3)
    assert row.why_not == "no axis of its output [15, 4] is the batch of 3"
