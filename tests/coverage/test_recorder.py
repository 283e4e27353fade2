"""What is recorded is what the layers gave, whatever happens to it afterwards."""

from __future__ import annotations

import pytest
import torch
import watched_networks as nets
from torch import nn

from gate.coverage import criterion
from gate.coverage.layers import choose_layers, list_layers
from gate.coverage.recorder import Recorder
from gate.errors import ModelError

_RANDOM = torch.Generator().manual_seed(1)
IMAGE, ROWS = torch.rand(5, 1, 8, 8, generator=_RANDOM), torch.rand(5, 5, 8, generator=_RANDOM)
FLAT, PLANES = torch.rand(5, 4, generator=_RANDOM), torch.rand(5, 2, 8, 8, generator=_RANDOM)


def _record(module: nn.Module, x: torch.Tensor, wanted: list[str] | str = "auto") -> dict[str, torch.Tensor]:
    recorder = Recorder(module, choose_layers(list_layers(module, x, module(x).shape[1]), wanted))
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


def test_half_precision_is_recorded_as_float32() -> None:
    module = nets.made(nets.SmallCNN).to(torch.bfloat16)
    x = IMAGE.to(torch.bfloat16)
    acts = _record(module, x)
    assert {values.dtype for values in acts.values()} == {torch.float32}
    torch.testing.assert_close(acts["features.0"], module.features[0](x).detach().float().mean((2, 3)))


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
