"""Sets of small numbers as portable Roaring bitmaps, to and from arrays of truth values. Does not import torch.

The format is Roaring's own, https://github.com/RoaringBitmap/RoaringFormatSpec: numbers are kept by 65,536, each such container as a sorted
list, a bitmap, or runs, whichever is shortest. Any Roaring library reads what ``pack`` writes.

Reading is done here, not by the library: bytes may come from a stranger, and the library takes the counts in them at their word. ``unpack``
believes nothing that it has not checked.
"""

from __future__ import annotations

import struct

import numpy as np
from pyroaring import BitMap

__all__ = ["LARGEST_SIZE", "longest", "pack", "unpack"]

LARGEST_SIZE = 1 << 32  # a Roaring number has 32 bits

_SPAN = 1 << 16  # numbers of one container
_BITMAP = _SPAN // 8  # bytes of a container that is a bitmap
_LIST = 4096  # so many numbers at most are a list
_COOKIE, _COOKIE_RUNS = 12346, 12347
_OFFSETS_FROM = 4  # where there are runs, offsets are written from so many containers on


def pack(bits: np.ndarray) -> bytes:
    """A portable Roaring bitmap of the numbers for which ``bits`` is True.

    The same set always gives the same bytes.

    Args:
        bits: bool [size], size at most ``LARGEST_SIZE``.
    """
    # The library would take the numbers one by one; put together container by container it is ten times as fast, and the library's part is
    # to find the runs.
    heads, bodies = [], []
    for key in range(-(-len(bits) // _SPAN)):
        chunk = bits[key * _SPAN : (key + 1) * _SPAN]
        count = int(np.count_nonzero(chunk))
        if count > _LIST:
            bodies.append(np.packbits(chunk, bitorder="little").tobytes().ljust(_BITMAP, b"\0"))
        elif count:
            bodies.append(np.flatnonzero(chunk).astype("<u2").tobytes())
        if count:
            heads.append((key, count - 1))
    first = 8 + 8 * len(heads)
    offsets = np.cumsum([first, *map(len, bodies)])[:-1].astype("<u4")
    whole = struct.pack("<II", _COOKIE, len(heads)) + np.array(heads, dtype="<u2").tobytes() + offsets.tobytes() + b"".join(bodies)
    bitmap = BitMap.deserialize(whole)
    bitmap.run_optimize()
    packed: bytes = bitmap.serialize()
    return packed


def longest(size: int) -> int:
    """Bytes that ``pack`` can come to for numbers below ``size``, or a little more."""
    return 16 + -(-size // _SPAN) * (_BITMAP + 16)


def unpack(data: bytes, size: int) -> np.ndarray:
    """bool [size]: which numbers are in a portable Roaring bitmap.

    Args:
        data: the bitmap; it may be anybody's.
        size: one more than the largest number that may be in it; the caller has to see to it that so many truth values fit into memory.

    Raises:
        ValueError: no Roaring bitmap, cut off, or a number beyond ``size`` - 1 is in it.
    """
    reader = _Reader(data)
    cookie = reader.number("<I")
    runs: np.ndarray | None = None
    if cookie & 0xFFFF == _COOKIE_RUNS:
        count = (cookie >> 16) + 1
        runs = np.unpackbits(reader.array("u1", -(-count // 8)), bitorder="little").astype(bool)
    elif cookie == _COOKIE:
        count = reader.number("<I")
    else:
        raise ValueError("it does not begin like one")
    if count > -(-size // _SPAN):
        raise ValueError(f"it holds numbers beyond {size - 1}")
    heads = reader.array("<u2", 2 * count).reshape(-1, 2).astype(np.int64)
    keys, counts = heads[:, 0], heads[:, 1] + 1
    if (keys[1:] <= keys[:-1]).any() or (count and int(keys[-1]) * _SPAN >= size):
        raise ValueError("its containers are out of order or beyond its size")
    offsets = reader.array("<u4", count).tolist() if runs is None or count >= _OFFSETS_FROM else None
    bits = np.zeros(-(-size // _SPAN) * _SPAN, dtype=bool)
    for place, (key, number) in enumerate(zip(keys.tolist(), counts.tolist(), strict=True)):
        if offsets is not None and offsets[place] != reader.position:
            raise ValueError("a container is not where it is said to be")
        chunk = bits[key * _SPAN : (key + 1) * _SPAN]
        if runs is not None and runs[place]:
            _fill_runs(chunk, reader)
        elif number > _LIST:
            chunk[:] = np.unpackbits(reader.array("u1", _BITMAP), bitorder="little")
        else:
            listed = reader.array("<u2", number)
            if (listed[1:] <= listed[:-1]).any():
                raise ValueError("a list in it is not in order")
            chunk[listed] = True
        if int(np.count_nonzero(chunk)) != number:
            raise ValueError("a container holds another number of items than it says")
    if reader.position != len(data):
        raise ValueError("something follows its end")
    if bits[size:].any():
        raise ValueError(f"it holds numbers beyond {size - 1}")
    return bits[:size]


def _fill_runs(chunk: np.ndarray, reader: _Reader) -> None:
    pairs = reader.array("<u2", 2 * reader.number("<H")).reshape(-1, 2).astype(np.int64)
    starts, stops = pairs[:, 0], pairs[:, 0] + pairs[:, 1] + 1
    if (starts[1:] < stops[:-1]).any() or (stops > _SPAN).any():
        raise ValueError("the runs in it overlap or are too long")
    # +1 where a run begins and -1 behind its end: the running sum is 1 inside of runs. Where two touch, both fall on the same place.
    change = np.zeros(_SPAN + 1, dtype=np.int8)
    change[starts] += 1
    change[stops] -= 1
    chunk[:] = np.cumsum(change[:-1], dtype=np.int8)


class _Reader:
    """Takes numbers off the front of some bytes, and never more than there are."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def number(self, form: str) -> int:
        size = struct.calcsize(form)
        self._need(size)
        (value,) = struct.unpack_from(form, self._data, self.position)
        self.position += size
        return int(value)

    def array(self, dtype: str, count: int) -> np.ndarray:
        size = count * np.dtype(dtype).itemsize
        self._need(size)
        values: np.ndarray = np.frombuffer(self._data, dtype=dtype, count=count, offset=self.position)
        self.position += size
        return values

    def _need(self, size: int) -> None:
        if size > len(self._data) - self.position:
            raise ValueError("it is cut off")
