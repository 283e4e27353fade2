"""Coverage on a CUDA device is the coverage of the CPU, wherever the batches of one campaign were counted."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from watched_networks import SmallCNN, made

from gate.coverage import criterion
from gate.coverage.layers import choose_layers, list_layers
from gate.coverage.recorder import Recorder
from gate.coverage.suite import Suite

pytestmark = pytest.mark.gpu

CRITERIA: dict[str, dict[str, Any]] = {
    "nc": {},
    "kmnc": {"sections": 50},
    "nbc": {},
    "snac": {},
    "tknc": {"k": 2},
    "tknp": {"k": 3},
    "map": {},
    "output": {},
}
WIDTHS = {"a": 16, "b": 16, "c": 40}


@pytest.fixture(scope="module")
def cuda() -> torch.device:
    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    return torch.device("cuda")


def _draw(seed: int, samples: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    layers = {name: torch.randn(samples, width, generator=generator) for name, width in WIDTHS.items()}
    layers["b"].relu_()
    layers["c"][0, 1], layers["c"][1, 2] = torch.nan, -torch.inf
    return layers


def _suite() -> Suite:
    return Suite({name: criterion(name, **options) for name, options in CRITERIA.items()}).fit(_draw(1, 60))


def _on(device: torch.device, acts: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: values.to(device) for name, values in acts.items()}


def test_batches_may_change_the_device_between_updates(cuda: torch.device) -> None:
    here, there = _suite(), _suite()
    for turn in range(4):
        acts, logits = _draw(10 + turn, 33), torch.randn(33, 5, generator=torch.Generator().manual_seed(turn))
        device = cuda if turn % 2 else torch.device("cpu")
        new = there.update(_on(device, acts), logits.to(device))
        assert new.device.type == device.type
        assert torch.equal(new.cpu(), here.update(acts, logits))
    for name, one in here.criteria.items():
        other = there.criteria[name]
        assert (one.covered, one.raw_covered, one.nonfinite, one.by_layer()) == (
            other.covered,
            other.raw_covered,
            other.nonfinite,
            other.by_layer(),
        )


def test_maps_of_both_devices_merge(cuda: torch.device) -> None:
    first, second, logits = _draw(20, 40), _draw(21, 40), torch.randn(40, 5, generator=torch.Generator().manual_seed(3))
    whole, part, rest = _suite(), _suite(), _suite()
    whole.update(first, logits)
    whole.update(second, logits)
    part.update(_on(cuda, first), logits.to(cuda))
    rest.update(second, logits)
    for name, one in rest.criteria.items():
        assert one.merge(part.criteria[name]).covered == whole.criteria[name].covered


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_recorder_leaves_activations_on_the_device_in_float32(cuda: torch.device, dtype: torch.dtype) -> None:
    module, x = made(SmallCNN), torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    layers = choose_layers(list_layers(module, x, 10))

    def recorded(module: torch.nn.Module, x: torch.Tensor) -> dict[str, torch.Tensor]:
        recorder = Recorder(module, layers)
        with torch.no_grad(), recorder.recording():
            module(x)
        recorder.close()
        return recorder.activations()

    expected = recorded(module, x)
    found = recorded(module.to(cuda, dtype), x.to(cuda, dtype))
    tolerance = {torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 5e-2}[dtype]
    for name, values in expected.items():
        assert (found[name].device.type, found[name].dtype) == (cuda.type, torch.float32)
        torch.testing.assert_close(found[name].cpu(), values, rtol=tolerance, atol=tolerance)
