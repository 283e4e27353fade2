"""Other numeric paths through the same model: lower and higher precision, another memory layout. Runs in the worker.

Weights are handed to the model for one call only, so that the model which is judged stays as it is.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from gate.models.select import Key, pick

__all__ = ["run_on_path"]


def run_on_path(path: str, module: nn.Module, preprocess: nn.Module, x: Tensor, key: Key) -> Tensor | None:
    """Raw outputs float32 [N, K] on a numeric path; None where the model can't take it.

    Args:
        path: ``bfloat16`` (automatic mixed precision), ``float64`` (all weights and inputs), or ``channels_last`` (memory layout).
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
    return raw.to(torch.float32).reshape(len(x), -1)


def _run(path: str, module: nn.Module, inputs: Tensor) -> Any:
    if path == "bfloat16":
        with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
            return module(inputs)
    if path == "float64":
        return functional_call(module, _weights(module, _doubled), (inputs.to(torch.float64),))
    if path == "channels_last" and inputs.ndim == 4:
        return functional_call(module, _weights(module, _channels_last), (_channels_last(inputs),))
    raise ValueError(f"inputs {list(inputs.shape)} know no path {path!r}")


def _weights(module: nn.Module, change: Any) -> dict[str, Tensor]:
    named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {name: change(values) for name, values in named.items()}


def _doubled(values: Tensor) -> Tensor:
    return values.to(torch.float64) if values.is_floating_point() else values


def _channels_last(values: Tensor) -> Tensor:
    return values.contiguous(memory_format=torch.channels_last) if values.ndim == 4 else values
