"""Which layers are found, and which are watched when nobody says."""

from __future__ import annotations

import pytest
import torch
import torchvision
import watched_networks as nets
from torch import nn

from gate.coverage.layers import choose_layers, list_layers, why_not_watched
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
    assert _names(chosen) == [f"encoder.layers.{i}.{part}" for i in (0, 1) for part in ("self_attn", "linear2")]
    assert [layer.neurons for layer in chosen[:2]] == [8, 8]
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


def test_a_deep_transformer_is_watched_in_its_last_blocks() -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 7, enable_nested_tensor=False).eval()
    layers = list_layers(encoder, ROWS)
    assert _names(choose_layers(layers)) == [f"layers.{i}.{part}" for i in (3, 4, 5, 6) for part in ("self_attn", "linear2")]
    reasons = why_not_watched(layers)
    assert reasons["layers.6.linear1"] == "inside an MLP, whose output layers.6.linear2 gives"
    assert reasons["layers.0.self_attn"] == "before the last 8"


@pytest.mark.parametrize("exported", [False, True])
def test_of_a_vision_transformer_the_outputs_of_attention_and_mlp_are_watched(exported: bool) -> None:
    vit = torchvision.models.VisionTransformer(32, 8, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=24, num_classes=5).eval()
    x = torch.rand(3, 3, 32, 32)
    layers = list_layers(nets.exported(vit, x) if exported else vit, x, 5)
    blocks = [f"encoder.layers.encoder_layer_{i}.{part}" for i in (0, 1) for part in ("self_attention", "mlp.3")]
    assert _names(choose_layers(layers)) == ["conv_proj", *blocks]
    assert {layer.neurons for layer in choose_layers(layers)} == {16}
    assert [layer.name for layer in layers if layer.head] == ["heads.head", "heads"]


def test_a_swin_transformer_is_watched_with_the_features_as_neurons() -> None:
    swin = torchvision.models.SwinTransformer([2, 2], 8, [2, 2], [2, 2], [4, 4], num_classes=5).eval()
    layers = list_layers(swin, torch.rand(3, 3, 32, 32), 5)
    by_name = {layer.name: layer for layer in layers}
    chosen = choose_layers(layers)
    blocks = [f"features.{stage}.{i}.{part}" for stage in (1, 3) for i in (0, 1) for part in ("attn", "mlp.3")]
    assert _names(chosen) == ["features.0.0", *blocks[:4], "features.2.reduction", *blocks[4:]]
    assert [layer.neurons for layer in chosen] == [8] * 5 + [16] * 5
    assert by_name["features.1.0.attn"].kind == "attention"
    # Also what has no axis of its own: an activation function, a whole block.
    for name in ("features.1.0.mlp.1", "features.1.0", "features.3"):
        assert by_name[name].neuron_axis == 3, name


@pytest.mark.parametrize("written", [nets.WithFusedProjection, nets.WithSeparateProjections, nets.WithGatedMLP, nets.WithAMisleadingName])
def test_transformers_written_by_hand_are_understood(written: type[nn.Module]) -> None:
    module = nets.made(written)
    layers = list_layers(module, ROWS, 3)
    assert _names(choose_layers(layers)) == list(module.expected)
    reasons = why_not_watched(layers)
    inside = [layer.name for layer in layers if layer.name.startswith(f"{module.expected[0]}.") and layer.kind == "linear"]
    assert inside
    assert {reasons[name] for name in inside} == {f"inside {module.expected[0]}"}


def test_attention_over_channels_is_a_convolutional_networks_own_business() -> None:
    layers = list_layers(nets.made(nets.WithChannelAttention), IMAGE, 3)
    assert not any(layer.kind == "attention" for layer in layers)
    assert _names(choose_layers(layers)) == ["conv", "attention.squeeze", "attention.excite", "last"]


def test_every_layer_that_is_not_watched_has_a_reason() -> None:
    layers = list_layers(nets.made(nets.SmallCNN), IMAGE, 10)
    assert {name: reason for name, reason in why_not_watched(layers).items() if reason} == {
        "features.1": "rescales what stands before it",
        "features.2": "computes nothing new",
        "features.4": "computes nothing new",
        "features": "holds other layers",
        "pool": "computes nothing new",
        "relu": "computes nothing new",
        "dropout": "computes nothing new",
        "head": "the model's answer",
    }
    single = nn.Sequential(nn.Flatten(), nn.Linear(64, 1), nn.Linear(1, 6), nn.ReLU(), nn.Linear(6, 3), nn.Softmax(1)).eval()
    reasons = why_not_watched(list_layers(single, IMAGE, 3))
    assert [reasons[name] for name in "1245"] == ["one neuron", None, "the model's answer", "the model's answer"]


@pytest.mark.parametrize(
    ("layer", "x", "neurons", "axis"),
    [
        (nn.Conv1d(3, 4, 3), torch.rand(2, 3, 9), 4, 1),
        (nn.Conv3d(3, 4, 3), torch.rand(2, 3, 5, 5, 5), 4, 1),
        (nn.ConvTranspose2d(3, 4, 3), torch.rand(2, 3, 5, 5), 4, 1),
        (nn.Linear(6, 5), torch.rand(2, 7, 6), 5, 2),
        (nn.LayerNorm(6), torch.rand(2, 7, 6), 6, 2),
        (nn.LayerNorm([3, 5, 6]), torch.rand(2, 3, 5, 6), 3, 1),
        (nn.BatchNorm1d(3), torch.rand(2, 3, 9), 3, 1),
        (nn.GroupNorm(2, 4), torch.rand(2, 4, 5, 5), 4, 1),
        (nn.GRU(6, 5, batch_first=True, bidirectional=True), torch.rand(2, 7, 6), 10, 2),
    ],
)
def test_neurons_lie_where_the_kind_of_layer_has_them(layer: nn.Module, x: torch.Tensor, neurons: int, axis: int) -> None:
    (found,) = list_layers(nn.Sequential(layer).eval(), x)
    assert (found.neurons, found.neuron_axis, found.batch_axis) == (neurons, axis, 0)
    for neuron in ("max", "element"):
        (found,) = list_layers(nn.Sequential(layer).eval(), x, neuron=neuron)
        assert found.neurons == (neurons if neuron == "max" else torch.Size(found.shape[1:]).numel())


def test_an_activation_has_the_neurons_of_the_layer_before_it() -> None:
    layers = list_layers(nn.Sequential(nn.Conv1d(3, 4, 3), nn.ReLU()).eval(), torch.rand(2, 3, 9))
    assert [(layer.neurons, layer.neuron_axis) for layer in layers] == [(4, 1), (4, 1)]


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
