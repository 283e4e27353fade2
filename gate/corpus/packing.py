"""Mutants as bytes: one by one, so that each can be read alone, and losslessly.

Neighbouring values of a picture are alike, and so are the upper bytes of neighbouring floats. Therefore whole numbers are stored as their
differences along the last axis but one (modulo 256; the filter that PNG calls "Sub"), floats byte plane by byte plane, and then zlib.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["pack", "unpack"]

_LEVEL = 1  # higher ones take several times as long for a few percent


def pack(mutants: np.ndarray) -> list[bytes]:
    """The bytes of each of [n, ...], uint8 or float32."""
    if not len(mutants):
        return []
    if mutants.dtype == np.uint8:
        axis = -2 if mutants.ndim > 2 else -1
        planes = np.diff(mutants, axis=axis, prepend=mutants.dtype.type(0))
    else:
        planes = np.moveaxis(_little(mutants).reshape(len(mutants), -1, 1).view(np.uint8), -1, 1)
    rows = np.ascontiguousarray(planes).reshape(len(mutants), -1)
    return [zlib.compress(row, _LEVEL) for row in rows]  # type: ignore[arg-type]  # any buffer


def unpack(parts: Sequence[bytes], shape: tuple[int, ...], dtype: npt.DTypeLike) -> np.ndarray:
    """[n, *shape]: the mutants that ``pack`` made these bytes of.

    Raises:
        ValueError: a part is not the bytes of one mutant of this shape and dtype. Nothing is unpacked to more than that.
    """
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    planes = np.empty((len(parts), size), dtype=np.uint8)
    for row, part in zip(planes, parts, strict=True):
        unpacker = zlib.decompressobj()
        try:
            data = unpacker.decompress(part, size + 1)
        except zlib.error as error:
            raise ValueError("a mutant can't be unpacked") from error
        if len(data) != size or not unpacker.eof or unpacker.unused_data:
            raise ValueError(f"a mutant does not unpack to {size} bytes")
        row[:] = np.frombuffer(data, dtype=np.uint8)
    if kind == np.uint8:
        rows = planes.reshape(len(parts), *shape)
        return np.asarray(np.add.accumulate(rows, axis=-2 if rows.ndim > 2 else -1, dtype=np.uint8))
    values = np.ascontiguousarray(np.moveaxis(planes.reshape(len(parts), kind.itemsize, math.prod(shape)), 1, -1))
    return values.view(kind.newbyteorder("<")).astype(kind).reshape(len(parts), *shape)


def _little(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
