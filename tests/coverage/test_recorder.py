"""What is recorded is what the layers gave, whatever happens to it afterwards."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import watched_networks as nets
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gate.coverage import criterion, recorder
from gate.coverage.layers import Neuron, choose_layers, list_layers
from gate.coverage.recorder import Recorder
from gate.errors import ModelError

_RANDOM = torch.Generator().manual_seed(1)
IMAGE, ROWS = torch.rand(5, 1, 8, 8, generator=_RANDOM), torch.rand(5, 5, 8, generator=_RANDOM)
FLAT, PLANES = torch.rand(5, 4, generator=_RANDOM), torch.rand(5, 2, 8, 8, generator=_RANDOM)


def _record(module: nn.Module, x: torch.Tensor, wanted: Any = "auto", *, neuron: Neuron = "mean") -> dict[str, torch.Tensor]:
    recorder = Recorder(module, choose_layers(list_layers(module, x, module(x).shape[1], neuron=neuron), wanted))
    with torch.no_grad(), recorder.recording():
        module(x)
    return recorder.activations()


def test_convolutions_are_averaged_over_pixels_and_untouched_by_operations_in_place() -> None:
    module = nets.made(nets.SmallCNN)
    acts = _record(module, IMAGE, ["features.0", "features.3", "features.4", "hidden"])
    with torch.no_grad():
        first = module.features[0](IMAGE)
        second = module.features[3](module.features[:3](IMAGE))
        hidden = module.hidden(second.relu().mean((2, 3)))
    torch.testing.assert_close(acts["features.0"], first.mean((2, 3)))
    torch.testing.assert_close(acts["features.3"], second.mean((2, 3)))
    torch.testing.assert_close(acts["features.4"], second.relu().mean((2, 3)))
    torch.testing.assert_close(acts["hidden"], hidden)
    assert (hidden < 0).any()


def test_tokens_are_averaged_and_of_a_tuple_the_first_tensor_counts() -> None:
    lstm = nets.made(nets.Recurrent)
    with torch.no_grad():
        torch.testing.assert_close(_record(lstm, ROWS)["lstm"], lstm.lstm(ROWS)[0].mean(1))
    for batch_first in (True, False):
        module = nets.made(nets.Transformer, batch_first=batch_first)
        acts = _record(module, ROWS, ["encoder.layers.1"])
        torch.testing.assert_close(module.head(acts["encoder.layers.1"]), module(ROWS))


def test_a_module_that_is_called_twice_gives_the_average_of_its_calls() -> None:
    module, x = nets.made(nets.Shared), FLAT
    once = module.twice(x)
    torch.testing.assert_close(_record(module, x, ["twice"])["twice"], (once + module.twice(once.relu())).detach() / 2)


def test_a_block_that_an_exported_program_holds_twice_is_one_layer() -> None:
    module = nets.made(nets.SharedConv)
    program = nets.exported(module, PLANES)
    assert {"block", "block@1"} <= {name for name, _ in program.named_modules()}
    wanted = ["block", "block.conv"]
    once = module.block(PLANES)
    expected = (once.mean((2, 3)) + module.block(once).mean((2, 3))).detach() / 2
    for form in (module, program):
        torch.testing.assert_close(_record(form, PLANES, wanted), dict.fromkeys(wanted, expected))


def test_nothing_is_recorded_outside_and_each_recording_starts_anew() -> None:
    module = nets.made(nets.SmallCNN)
    recorder = Recorder(module, choose_layers(list_layers(module, IMAGE, 10)))
    with torch.no_grad():
        module(IMAGE)
        with pytest.raises(ModelError, match=r"'features.0' did not run"):
            recorder.activations()
        with recorder.recording():
            module(IMAGE)
        with recorder.recording():
            module(IMAGE[:2])
        module(IMAGE)
    assert {len(values) for values in recorder.activations().values()} == {2}
    recorder.close()
    assert not any(child._forward_hooks for child in module.modules())


def test_gradients_reach_the_input_only_where_asked_for() -> None:
    for module in (nets.made(nets.SmallCNN), nets.exported(nets.made(nets.SmallCNN), IMAGE)):
        recorder = Recorder(module, choose_layers(list_layers(module, IMAGE, 10)))
        x = IMAGE.clone().requires_grad_()
        with recorder.recording():
            module(x)
        assert not any(values.requires_grad for values in recorder.activations().values())
        with recorder.recording(grad=True):
            module(x)
        (gradient,) = torch.autograd.grad(recorder.activations()["hidden"].sum(), x)
        assert gradient.abs().sum() > 0


@pytest.mark.parametrize("neuron", ["mean", "max", "element"])
def test_a_neuron_is_what_was_asked_for(neuron: Neuron) -> None:
    module = nets.made(nets.SmallCNN)
    acts = _record(module, IMAGE, ["features.0", "hidden"], neuron=neuron)
    with torch.no_grad():
        first = module.features[0](IMAGE)
    expected = {"mean": first.mean((2, 3)), "max": first.amax((2, 3)), "element": first.flatten(1)}[neuron]
    torch.testing.assert_close(acts["features.0"], expected)
    assert acts["hidden"].shape == (5, 12)
    time_first = nets.made(nets.Transformer, batch_first=False)
    acts = _record(time_first, ROWS[:, :4], ["encoder.layers.1"], neuron=neuron)
    with torch.no_grad():
        tokens = time_first.encoder(ROWS[:, :4].transpose(0, 1)).transpose(0, 1)
    expected = {"mean": tokens.mean(1), "max": tokens.amax(1), "element": tokens.flatten(1)}[neuron]
    torch.testing.assert_close(acts["encoder.layers.1"], expected)


def test_of_several_calls_the_largest_counts_where_neurons_are_maxima() -> None:
    module = nets.made(nets.SharedConv)
    with torch.no_grad():
        once = module.block(PLANES)
        expected = torch.maximum(once.amax((2, 3)), module.block(once).amax((2, 3)))
    torch.testing.assert_close(_record(module, PLANES, ["block"], neuron="max")["block"], expected)


@pytest.mark.parametrize("neuron", ["mean", "max"])
def test_only_the_steps_of_a_packed_sequence_count(neuron: Neuron) -> None:
    module = nets.made(nets.Packed)
    acts = _record(module, ROWS, ["lstm"], neuron=neuron)["lstm"]
    for row, length in enumerate(module.lengths(ROWS).tolist()):
        alone = module.lstm(ROWS[row : row + 1, :length])[0][0].detach()
        torch.testing.assert_close(acts[row], alone.mean(0) if neuron == "mean" else alone.amax(0))


@pytest.mark.parametrize("neuron", ["mean", "max"])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_tokens_that_are_masked_away_do_not_count(neuron: Neuron) -> None:
    module = nets.made(nets.Masked)  # torch turns its tokens into nested tensors
    acts = _record(module, ROWS, ["encoder.layers.0.linear2", "encoder.layers.1"], neuron=neuron)
    for row, length in enumerate(module.lengths(ROWS).tolist()):
        with torch.no_grad():
            alone = module.encoder(ROWS[row : row + 1, :length])[0]
        torch.testing.assert_close(acts["encoder.layers.1"][row], alone.mean(0) if neuron == "mean" else alone.amax(0))


def test_sequences_of_different_lengths_have_no_elements_in_common() -> None:
    (lstm, _) = list_layers(nets.made(nets.Packed), ROWS, 3, neuron="element")
    assert "different numbers of positions" in str(lstm.why_not)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_are_averaged_over_time(kind: type[nn.RNNBase], batch_first: bool) -> None:
    layer = kind(8, 6, batch_first=batch_first, bidirectional=True)
    x = ROWS[:, :4] if batch_first else ROWS[:, :4].transpose(0, 1)

    class Around(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.layer(rows if batch_first else rows.transpose(0, 1))[0].mean(1 if batch_first else 0)

    acts = _record(Around().eval(), ROWS[:, :4], ["layer"])["layer"]
    torch.testing.assert_close(acts, layer(x)[0].mean(1 if batch_first else 0).detach())


@pytest.mark.parametrize(
    ("layer", "x", "positions"),
    [
        (nn.Conv1d(3, 4, 3), torch.rand(2, 3, 9), (2,)),
        (nn.Conv3d(3, 4, 3), torch.rand(2, 3, 5, 5, 5), (2, 3, 4)),
        (nn.ConvTranspose2d(3, 4, 3, stride=2), torch.rand(2, 3, 5, 5), (2, 3)),
        (nn.LayerNorm(6), torch.rand(2, 7, 6), (1,)),
        (nn.BatchNorm2d(3), torch.rand(2, 3, 5, 5), (2, 3)),
        (nn.GroupNorm(2, 4), torch.rand(2, 4, 5, 5), (2, 3)),
    ],
)
@pytest.mark.parametrize("exported", [False, True])
def test_every_kind_of_layer_is_recorded(layer: nn.Module, x: torch.Tensor, positions: tuple[int, ...], exported: bool) -> None:
    module = nn.Sequential(layer, nn.Flatten()).eval()
    acts = _record(nets.exported(module, x) if exported else module, x, ["0"])["0"]
    torch.testing.assert_close(acts, layer(x).mean(positions).detach())


def test_attention_with_weights_in_its_answer_is_recorded() -> None:
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()

    class Around(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = attention

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.attention(rows, rows, rows)[0].mean(1)

    acts = _record(Around().eval(), ROWS, ["attention"])["attention"]
    torch.testing.assert_close(acts, attention(ROWS, ROWS, ROWS)[0].mean(1).detach())


def test_outputs_in_a_dict_are_recorded() -> None:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 3, 3)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"maps": self.conv(x)}

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x)["maps"].mean((2, 3))

    module = Outer().eval()
    torch.testing.assert_close(_record(module, IMAGE, ["inner"])["inner"], module(IMAGE).detach())


@pytest.mark.parametrize("neuron", ["mean", "max", "element"])
def test_memory_format_changes_nothing(neuron: Neuron) -> None:
    module = nets.made(nets.SmallCNN)
    plain = _record(module, IMAGE, neuron=neuron)
    module = module.to(memory_format=torch.channels_last)
    last = _record(module, IMAGE.to(memory_format=torch.channels_last), neuron=neuron)
    torch.testing.assert_close(plain, last)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("neuron", ["mean", "max", "element"])
def test_half_precision_is_recorded_as_float32(dtype: torch.dtype, neuron: Neuron, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gate.coverage.recorder._AT_ONCE", 500)  # several parts also of a small batch
    module, x = nets.made(nets.SmallCNN).to(dtype), IMAGE.to(dtype)
    acts = _record(module, x, neuron=neuron)
    assert {values.dtype for values in acts.values()} == {torch.float32}
    wide = module.features[0](x).detach().float()
    expected = {"mean": wide.mean((2, 3)), "max": wide.amax((2, 3)), "element": wide.flatten(1)}[neuron]
    torch.testing.assert_close(acts["features.0"], expected)


class _Largest(TorchDispatchMode):
    """The size in bytes of the largest tensor that was made."""

    bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        given = {one.untyped_storage().data_ptr() for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)}
        for one in tree_leaves(made):
            if isinstance(one, torch.Tensor) and one.untyped_storage().data_ptr() not in given:
                self.bytes = max(self.bytes, one.numel() * one.element_size())
        return made


@pytest.mark.parametrize("neuron", ["mean", "max"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_recording_makes_no_copy_of_an_output(neuron: Neuron, dtype: torch.dtype, memory_format: torch.memory_format) -> None:
    x = torch.rand(16, 32, 96, 96).to(dtype).contiguous(memory_format=memory_format)
    (layer,) = list_layers(nn.Sequential(nn.ReLU()), x, neuron=neuron)
    reduced: Any = recorder._reduced
    # What operators allocate inside is seen by the profiler, what they return by the dispatch mode.
    with torch.profiler.profile(profile_memory=True) as profile, _Largest() as largest:
        reduced(x, layer)
    allocated = max((event.cpu_memory_usage for event in profile.events()), default=0)
    assert 0 < max(largest.bytes, allocated) < 0.1 * x.numel() * x.element_size()


@pytest.mark.parametrize("network", [nets.SmallCNN, nets.Transformer, nets.Recurrent, nets.Shared, nets.SharedConv])
def test_coverage_is_the_same_for_a_module_and_its_exported_form(network: type[nn.Module]) -> None:
    x = {nets.SmallCNN: IMAGE, nets.Shared: FLAT, nets.SharedConv: PLANES}.get(network, ROWS)
    module = nets.made(network)
    plain, other = _record(module, x), _record(nets.exported(module, x), x)
    torch.testing.assert_close(plain, other, rtol=1e-5, atol=1e-6)
    for name in ("nc", "nbc", "snac", "tknc", "kmnc"):
        counts = []
        for acts in (plain, other):
            c = criterion(name, **({"sections": 5} if name == "kmnc" else {"k": 1} if name == "tknc" else {}))
            c.fit({layer: values[:3] for layer, values in acts.items()})
            counts.append(c.update({layer: values[3:] for layer, values in acts.items()}).tolist())
        assert counts[0] == counts[1], name
