"""One way to write whole-batch code for NumPy arrays and for torch tensors on any device, so that both give the same bytes.

The operators use nothing but what IEEE 754 rounds in one way only (add, subtract, multiply, divide, minimum, maximum, floor,
round), whole numbers, and gathering. Sums run over whole numbers or in a fixed order. So one sample's bytes depend on its own picture
and parameters, and not on the batch, the processor or the library. Angles, exponentials and the like are taken once for each sample, in
double precision by NumPy, and handed over as constants.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "Arrays", "arrays_of"]

Array = Any  # a NumPy array or a torch tensor

_FLOAT, _WHOLE = np.float32, np.int64
_CACHED = 1 << 14  # values


class _Numpy:
    """For NumPy arrays."""

    torch_like = False
    floor, rint, root, absolute, minimum, maximum, where = (
        np.floor,
        np.rint,
        np.sqrt,
        np.absolute,
        np.minimum,
        np.maximum,
        staticmethod(np.where),
    )
    stack, concat = staticmethod(np.stack), staticmethod(np.concatenate)

    def __init__(self) -> None:
        self._tables: dict[Any, Array] = {}

    def pieces(self, count: int, size: int) -> list[slice]:
        """``count`` rows of ``size`` values in stretches that fit into a processor's cache: several times faster where much is done."""
        rows = max(1, _CACHED // size)
        return [slice(start, start + rows) for start in range(0, count, rows)] or [slice(0, 0)]

    def is_float(self, x: Array) -> bool:
        return bool(x.dtype.kind == "f")

    def copy(self, x: Array) -> Array:
        return x.copy()

    def put(self, x: Array, rows: Array, values: Array) -> None:
        """x[rows] = values, converted."""
        x[rows] = values

    def constant(self, values: npt.NDArray[Any]) -> Array:
        """float32, or int64 for whole numbers and truth values kept as such."""
        return values.astype(_FLOAT) if values.dtype.kind == "f" else values

    def table(self, key: Any, make: Callable[[], npt.NDArray[Any]]) -> Array:
        """A constant that is made once for every key."""
        if key not in self._tables:
            self._tables[key] = self.constant(make())
        return self._tables[key]

    def whole(self, x: Array) -> Array:
        return x.astype(_WHOLE)

    def single(self, x: Array) -> Array:
        return x.astype(_FLOAT)

    def double(self, x: Array) -> Array:
        return x.astype(np.float64)

    def clip(self, x: Array, low: float | None, high: float | None) -> Array:
        if low is not None:
            x = np.maximum(x, low)
        return x if high is None else np.minimum(x, high)

    def counting(self, count: int) -> Array:
        """int64 0 to count - 1."""
        return np.arange(count, dtype=_WHOLE)

    def take(self, x: Array, index: Array, axis: int = 0) -> Array:
        return np.take(x, index, axis=axis)

    def lowest(self, x: Array, axes: tuple[int, ...]) -> Array:
        for axis in axes:  # several times faster than all axes at once where the last is short
            x = x.min(axis=axis, keepdims=True)
        return x

    def highest(self, x: Array, axes: tuple[int, ...]) -> Array:
        for axis in axes:
            x = x.max(axis=axis, keepdims=True)
        return x

    def total(self, x: Array, axes: tuple[int, ...]) -> Array:
        """Of whole numbers."""
        return x.sum(axis=axes, keepdims=True)

    def counts(self, x: Array, size: int) -> Array:
        """How often each whole number from 0 to size - 1 stands in ``x`` [M]."""
        return np.bincount(x, minlength=size)

    def running(self, x: Array) -> Array:
        """Running totals of whole numbers along the last axis."""
        return np.cumsum(x, axis=-1)


class _Torch:
    """For torch tensors on one device."""

    torch_like = True

    def __init__(self, torch: Any, device: Any) -> None:
        self._torch, self._device = torch, device
        self._tables: dict[Any, Array] = {}
        self.floor, self.rint, self.absolute = torch.floor, torch.round, torch.abs
        self.minimum, self.maximum, self.where = torch.minimum, torch.maximum, torch.where

    def is_float(self, x: Array) -> bool:
        return bool(x.dtype.is_floating_point)

    def copy(self, x: Array) -> Array:
        return x.clone()

    def put(self, x: Array, rows: Array, values: Array) -> None:
        x[rows] = values.to(x.dtype)

    def pieces(self, count: int, size: int) -> list[slice]:
        return [slice(0, count)]

    def root(self, x: Array) -> Array:
        # In single precision torch's root may be off by a last bit on the processor; a double one that is rounds to the right number.
        return self._torch.sqrt(x.to(self._torch.float64)).to(self._torch.float32)

    def stack(self, parts: Sequence[Array], axis: int = 0) -> Array:
        return self._torch.stack(tuple(parts), dim=axis)

    def concat(self, parts: Sequence[Array], axis: int = 0) -> Array:
        return self._torch.cat(tuple(parts), dim=axis)

    def constant(self, values: npt.NDArray[Any]) -> Array:
        held = np.ascontiguousarray(values.astype(_FLOAT) if values.dtype.kind == "f" else values)
        return self._torch.from_numpy(held if held.flags.writeable else held.copy()).to(self._device, non_blocking=True)

    def table(self, key: Any, make: Callable[[], npt.NDArray[Any]]) -> Array:
        if key not in self._tables:
            self._tables[key] = self.constant(make())
        return self._tables[key]

    def whole(self, x: Array) -> Array:
        return x.to(self._torch.int64)

    def single(self, x: Array) -> Array:
        return x.to(self._torch.float32)

    def double(self, x: Array) -> Array:
        return x.to(self._torch.float64)

    def clip(self, x: Array, low: float | None, high: float | None) -> Array:
        return self._torch.clamp(x, low, high)

    def counting(self, count: int) -> Array:
        return self._torch.arange(count, dtype=self._torch.int64, device=self._device)

    def take(self, x: Array, index: Array, axis: int = 0) -> Array:
        if index.ndim == 1:
            return self._torch.index_select(x, axis, index)
        if axis:
            raise ValueError("indices with several axes are for axis 0 only")
        return x[index]

    def lowest(self, x: Array, axes: tuple[int, ...]) -> Array:
        return self._torch.amin(x, dim=axes, keepdim=True)

    def highest(self, x: Array, axes: tuple[int, ...]) -> Array:
        return self._torch.amax(x, dim=axes, keepdim=True)

    def total(self, x: Array, axes: tuple[int, ...]) -> Array:
        return self._torch.sum(x, dim=axes, keepdim=True)

    def counts(self, x: Array, size: int) -> Array:
        return self._torch.zeros(size, dtype=self._torch.int64, device=self._device).scatter_add_(0, x, self._torch.ones_like(x))

    def running(self, x: Array) -> Array:
        return self._torch.cumsum(x, dim=-1)


Arrays = Any  # _Numpy or _Torch

_NUMPY = _Numpy()
_TORCH: dict[str, _Torch] = {}


def arrays_of(x: Array) -> Arrays:
    """The functions for arrays of this kind and device.

    Raises:
        TypeError: neither a NumPy array nor a torch tensor.
    """
    if isinstance(x, np.ndarray):
        return _NUMPY
    torch = sys.modules.get("torch")  # who has a tensor has imported it
    if torch is None or not isinstance(x, torch.Tensor):
        raise TypeError(f"expected a NumPy array or a torch tensor, got {type(x).__name__}")
    device = str(x.device)
    if device not in _TORCH:
        _TORCH[device] = _Torch(torch, x.device)
    return _TORCH[device]
