"""Other numeric paths through the same model: other precisions, another memory layout, the compiler. Runs in the worker.

Weights are handed to the model for one call only, so that the model which is judged stays as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.overrides import TorchFunctionMode

from gate.campaign.compiled import BACKEND
from gate.models.select import Key, pick

__all__ = ["run_on_path"]

_HALVES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
_INT8 = 127


def run_on_path(path: str, module: nn.Module, preprocess: nn.Module, x: Tensor, key: Key) -> Tensor | None:
    """Raw outputs float32 [N, K] on a numeric path; None where the model or the device can't take it.

    Args:
        path: ``bfloat16`` or ``float16`` (automatic mixed precision), ``float64`` (all weights and inputs), ``channels_last`` (memory
            layout), ``int8`` (the linear layers' weights and inputs rounded to 8 bits), or ``compiled`` (by ``torch.compile``; the first
            call takes as long as compiling does).
        module: the model.
        preprocess: what stands between a file's values and the model.
        x: [N, H, W, C] file values.
        key: which of several outputs.

    Raises:
        torch.OutOfMemoryError: the batch is too large for the device.
    """
    try:
        with torch.no_grad():
            raw = pick(_run(path, module, preprocess(x)), key)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # a model may well be written for one precision only, which is no fault
        print(f"no answer on the numeric path {path}: {type(error).__name__}: {error}", file=sys.stderr)
        return None
    return raw[: len(x)].to(torch.float32).reshape(len(x), -1)


def _run(path: str, module: nn.Module, inputs: Tensor) -> Any:
    if path in _HALVES:
        device = inputs.device.type
        with torch.autocast(device, dtype=_HALVES[path]):
            if not torch.is_autocast_enabled(device):  # where it can't be done, torch warns and goes on in full precision
                raise ValueError(f"no mixed precision in {path} on {device}")
            return module(inputs)
    if path == "float64":
        return functional_call(module, _weights(module, _doubled), (inputs.to(torch.float64),))
    if path == "channels_last" and inputs.ndim == 4:
        return functional_call(module, _weights(module, _channels_last), (_channels_last(inputs),))
    if path == "int8":
        with (mode := _DynamicInt8()):
            output = module(inputs)
        if not mode.layers:
            raise ValueError("the model has no linear layer that torch's Python code calls")
        return output
    if path == "compiled":
        # The compiler makes a program of its own for one sample, which would have to be waited for as well.
        several = torch.cat([inputs, inputs]) if len(inputs) == 1 else inputs.clone()
        torch._dynamo.maybe_mark_dynamic(several, 0)
        return torch.compile(module, backend=BACKEND)(several)
    raise ValueError(f"inputs {list(inputs.shape)} know no path {path!r}")


class _DynamicInt8(TorchFunctionMode):
    """Inside, linear layers compute with what 8-bit integers can hold, as dynamic quantisation has it: weights are rounded by output,
    inputs by row as they come, symmetrically, and sums are exact (Wu et al., "Integer quantization for deep learning inference", 2020,
    sections 3 and 4). The integers' values stand in floating point, so that it runs on any device. Convolutions and attention's
    products stay as they are, as in torch's own dynamic quantisation.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layers = 0  # calls of linear layers so far

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func not in (nn.functional.linear, torch.ops.aten.linear.default):
            return func(*args, **given)
        self.layers += 1
        named = {**dict(zip(("input", "weight", "bias"), args, strict=False)), **given}
        return func(_rounded(named["input"]), _rounded(named["weight"]), named.get("bias"))


def _rounded(values: Tensor) -> Tensor:
    """Each row, along the last axis, as 255 equal steps from minus its largest magnitude to plus that."""
    step = (values.abs().amax(dim=-1, keepdim=True) / _INT8).clamp_min(torch.finfo(values.dtype).tiny)
    return torch.round(values / step) * step


def _weights(module: nn.Module, change: Any) -> dict[str, Tensor]:
    named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {name: change(values) for name, values in named.items()}


def _doubled(values: Tensor) -> Tensor:
    return values.to(torch.float64) if values.is_floating_point() else values


def _channels_last(values: Tensor) -> Tensor:
    return values.contiguous(memory_format=torch.channels_last) if values.ndim == 4 else values
