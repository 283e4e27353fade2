"""Numeric paths in the worker: each is really another one, leaves the model as it is, and says where it can't be taken."""

from __future__ import annotations

import copy
import shutil
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from gate.campaign.numeric_paths import run_on_path
from gate.oracles.numeric_path import NumericPath


class Unit(nn.Module):
    """uint8 [N, H, W, C] -> float32 [N, C, H, W] in 0..1."""

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(0, 3, 1, 2).to(torch.float32) / 255


READ = Unit()


def network() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 4)]
    return nn.Sequential(*layers).eval()


def pictures(count: int = 6) -> Tensor:
    return torch.randint(0, 256, (count, 8, 8, 1), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


def plain(module: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        return module(READ(x))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("path", "least", "most"), [("float16", 1e-5, 5e-3), ("bfloat16", 1e-4, 5e-2), ("int8", 1e-4, 5e-2), ("float64", 0, 1e-5)]
)
def test_a_path_rounds_as_its_precision_does_and_leaves_the_model_as_it_was(path: str, least: float, most: float) -> None:
    module, x = network(), pictures()
    before, weights = plain(module, x), copy.deepcopy(module.state_dict())
    found = run_on_path(path, module, READ, x, None)
    assert found is not None
    assert (found.dtype, found.shape) == (torch.float32, before.shape)
    assert least <= float((found - before).abs().max()) <= most
    assert torch.equal(plain(module, x), before)
    assert all(torch.equal(values, weights[name]) for name, values in module.state_dict().items())


def test_eight_bits_are_about_as_far_off_as_in_torchs_own_dynamic_quantisation_and_no_warning_is_raised() -> None:
    module, x = network(), pictures(64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = torch.ao.quantization.quantize_dynamic(  # type: ignore[no-untyped-call]
            copy.deepcopy(module), {nn.Linear}, dtype=torch.qint8
        )
        apart = float((plain(theirs, x) - plain(module, x)).abs().mean())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = run_on_path("int8", module, READ, x, None)
    assert found is not None
    ours = float((found - plain(module, x)).abs().mean())
    assert apart / 4 < ours < apart * 2  # by output and by row rounds less than by tensor


def test_eight_bits_do_not_depend_on_the_batch() -> None:
    module, x = network(), pictures()
    together = run_on_path("int8", module, READ, x, None)
    alone = [run_on_path("int8", module, READ, x[row : row + 1], None) for row in range(len(x))]
    assert together is not None
    torch.testing.assert_close(torch.cat([one for one in alone if one is not None]), together)


def test_an_outlier_among_the_inputs_of_a_layer_leaves_no_bits_for_the_others() -> None:
    layer = nn.Linear(64, 2, bias=False)
    with torch.no_grad():
        layer.weight.fill_(1.0)
        layer.weight[:, 0] = 0.0  # the first pixel, which is white, has no say
    module = nn.Sequential(nn.Flatten(), layer).eval()
    x = torch.full((1, 8, 8, 1), 0, dtype=torch.uint8)
    x[0, :, :, 0] = 1
    x[0, 0, 0, 0] = 255
    found = run_on_path("int8", module, READ, x, None)
    assert found is not None
    assert float(plain(module, x)[0, 0]) > 0.2
    assert torch.equal(found, torch.zeros(1, 2))


def test_exported_programs_have_their_linear_layers_rounded_too() -> None:
    module, x = network(), pictures()
    program = torch.export.unflatten(torch.export.export(module, (READ(x),)))
    here, there = (run_on_path("int8", one, READ, x, None) for one in (module, program))
    assert here is not None
    assert there is not None
    torch.testing.assert_close(here, there)


class Overflowing(nn.Module):
    """Scores of some ten thousand, times ten: more than float16 can hold."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(64, 4)
        self.wide.weight.data.fill_(1e4)

    def forward(self, x: Tensor) -> Tensor:
        return self.wide(x.flatten(1)) / 1e6  # type: ignore[no-any-return]


def test_scores_beyond_float16_are_infinite_there_and_finite_elsewhere() -> None:
    found = {path: run_on_path(path, Overflowing().eval(), READ, pictures(), None) for path in NumericPath.PLAIN}
    assert found["float16"] is not None
    assert not torch.isfinite(found["float16"]).any()
    for path in ("bfloat16", "float64", "int8"):
        raw = found[path]
        assert raw is not None
        assert torch.isfinite(raw).all()


class OnlySingle(nn.Module):
    """Refuses anything but float32, and has no linear layer."""

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype != torch.float32 or torch.is_autocast_enabled(x.device.type):
            raise TypeError("float32 only")
        return x.flatten(1)[:, :4]


@pytest.mark.parametrize("path", ["float16", "bfloat16", "float64", "int8"])
def test_a_path_that_the_model_cannot_take_has_no_answer(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_on_path(path, OnlySingle().eval(), READ, pictures(), None) is None
    assert f"no answer on the numeric path {path}" in capsys.readouterr().err


def test_where_autocast_gives_up_the_path_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch only warns and goes on in full precision, which would look like agreement."""
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda _: False)
    assert run_on_path("float16", network(), READ, pictures(), None) is None


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a compiler")
def test_the_compiled_model_answers_batches_of_any_size_without_compiling_again() -> None:
    from torch._dynamo.utils import counters

    module, x = network(), pictures()
    torch._dynamo.reset()
    counters.clear()
    first = run_on_path("compiled", module, READ, x, None)
    compiled = counters["stats"]["unique_graphs"]
    again: Callable[[Tensor], Tensor | None] = lambda part: run_on_path("compiled", module, READ, part, None)  # noqa: E731
    alone, few = again(x[:1]), again(x[:3])
    assert compiled == counters["stats"]["unique_graphs"] == 1
    for found, count in ((first, 6), (alone, 1), (few, 3)):
        assert found is not None
        torch.testing.assert_close(found, plain(module, x[:count]))
