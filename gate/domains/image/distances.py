"""How far apart two pictures are, for whole batches: exact whole-number arithmetic for uint8, single precision for float files.

Each row's result follows from that row alone, whatever else is in the batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["changed", "deviation", "farthest", "root_mean_square"]

Values = npt.NDArray[Any]  # [N, ...], uint8 or float

_BLOCK = 1 << 16  # so many squares of bytes add up to less than 2**32
_EXACT = 1 << 24  # so many bytes' sums, squared, fit into 64 bits


def deviation(x: Values) -> npt.NDArray[np.float64]:
    """float64 [N]: standard deviation over all values of each sample."""
    flat = x.reshape(len(x), -1)
    number = flat.shape[1]
    if flat.dtype == np.uint8 and number <= _EXACT:
        total = np.add.reduce(flat, axis=1, dtype=np.uint64)
        # Whole numbers: two pictures of one colour each have exactly the same deviation, 0.
        exact: npt.NDArray[np.float64] = np.sqrt((number * _squares(flat) - total * total).astype(np.float64)) / number
        return exact
    mean = flat.mean(axis=1, dtype=np.float64, keepdims=True)
    centred = np.subtract(flat, mean, dtype=np.float64 if flat.dtype == np.float64 else np.float32, casting="same_kind")
    deviations: npt.NDArray[np.float64] = np.sqrt(np.add.reduce(centred * centred, axis=1, dtype=np.float64) / number)
    return deviations


def farthest(a: Values, b: Values) -> npt.NDArray[np.float64]:
    """float64 [N]: the largest absolute difference of two values of each pair (L-infinity norm)."""
    largest: npt.NDArray[np.float64] = _apart(a, b).max(axis=1, initial=0).astype(np.float64)
    return largest


def root_mean_square(a: Values, b: Values) -> npt.NDArray[np.float64]:
    """float64 [N]: Euclidean norm of each pair's difference over the square root of the number of values."""
    apart = _apart(a, b)
    if apart.dtype == np.uint8:
        exact: npt.NDArray[np.float64] = np.sqrt(_squares(apart) / apart.shape[1])
        return exact
    means: npt.NDArray[np.float64] = np.sqrt(np.add.reduce(apart * apart, axis=1, dtype=np.float64) / apart.shape[1])
    return means


def changed(a: Values, b: Values) -> npt.NDArray[np.int64]:
    """int64 [N]: how many values of each pair differ (L0 norm)."""
    number: npt.NDArray[np.int64] = np.count_nonzero(a.reshape(len(a), -1) != b.reshape(len(b), -1), axis=1).astype(np.int64)
    return number


def _apart(a: Values, b: Values) -> Values:
    """Absolute differences [N, values] in the same dtype."""
    a, b = a.reshape(len(a), -1), b.reshape(len(b), -1)
    apart: Values = np.maximum(a, b) - np.minimum(a, b) if a.dtype == np.uint8 else np.abs(a - b)
    return apart


def _squares(flat: Values) -> npt.NDArray[np.uint64]:
    """uint64 [N]: sum of the squares of bytes [N, values]."""
    total = np.zeros(len(flat), dtype=np.uint64)
    for start in range(0, flat.shape[1], _BLOCK):
        wide = flat[:, start : start + _BLOCK].astype(np.uint16)
        total += np.add.reduce(wide * wide, axis=1, dtype=np.uint32)
    return total
