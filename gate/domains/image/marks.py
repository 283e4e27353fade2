"""The marks on pictures that a search for universal marks begins from, and what a mark looks like by itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from gate.domains.image.limits import Marks
from gate.domains.mark import Mark
from gate.randomness import generator

__all__ = ["KINDS", "shown", "sliding", "starts"]

KINDS = ("patch", "border", "blend")
CELLS = 4  # of a pattern along the shorter side of what it fills

Plane = npt.NDArray[np.float32]
Picture = npt.NDArray[Any]


def shown(mark: Mark, value_range: tuple[float, float], dtype: npt.DTypeLike) -> Picture:
    """[H, W, C] in the file's dtype: the mark alone, on middle grey where it covers nothing."""
    low, high = value_range
    alone = np.where(mark.weight > 0, mark.picture, np.float32((low + high) / 2))
    return (np.rint(alone) if np.dtype(dtype) == np.uint8 else alone).astype(dtype)


def starts(limits: Marks, shape: tuple[int, int, int], value_range: tuple[float, float], seed: int) -> tuple[Mark, ...]:
    """Plain marks within the policy's bound, from which a search begins: the marks that people plant are often among them.

    Opaque squares in the corners and the middle (black, white, chequered), frames (black, white, dashed), and faint patterns over the whole
    picture (black, white, stripes, chequers, noise). A kind whose bound allows no whole pixel is left out.

    Args:
        limits: the policy's ``domain.marks``.
        shape: (H, W, C).
        value_range: lowest and highest value of a file.
        seed: of the campaign; the noise depends on it.
    """
    height, width, _ = shape
    found: list[Mark] = []
    edge = _edge(limits, shape)
    if edge >= 1:
        corners = [(0, 0), (0, width - edge), (height - edge, 0), (height - edge, width - edge)]
        for place in [*corners, ((height - edge) // 2, (width - edge) // 2)]:
            cell = max(1, edge // CELLS)
            found += [_square(place, edge, shape, _pattern(shape, value_range, lit)) for lit in (_dark, _bright, _chequers(cell))]
    frame = math.floor((limits.border or 0.0) * min(height, width) + 1e-9)
    if frame >= 1:
        weight = np.ones((height, width, 1), dtype=np.float32)
        weight[frame : height - frame, frame : width - frame] = 0
        found += [Mark("border", weight, _pattern(shape, value_range, lit)) for lit in (_dark, _bright, _chequers(max(2, 2 * frame)))]
    if limits.blend:
        weight = np.full((height, width, 1), limits.blend, dtype=np.float32)
        cell = max(1, min(height, width) // (2 * CELLS))
        patterns = [_dark, _bright, lambda y, x: (x // cell) % 2 == 0, _chequers(cell)]
        found += [Mark("blend", weight, _pattern(shape, value_range, lit)) for lit in patterns]
        noise = generator(seed, "mark noise").uniform(*value_range, size=shape)
        found.append(Mark("blend", weight, noise.astype(np.float32)))
    return tuple(found)


def sliding(limits: Marks, shape: tuple[int, int, int], value_range: tuple[float, float]) -> tuple[Mark, ...]:
    """White and black squares in every place, half a square apart: where there is work to spend, a mark is looked for anywhere."""
    edge = _edge(limits, shape)
    if edge < 1:
        return ()
    rows, columns = (sorted({*range(0, side - edge, max(1, edge // 2)), side - edge}) for side in shape[:2])
    places = [(top, left) for top in rows for left in columns]
    return tuple(_square(place, edge, shape, _pattern(shape, value_range, lit)) for place in places for lit in (_bright, _dark))


def _edge(limits: Marks, shape: tuple[int, int, int]) -> int:
    """Pixels of a square patch's side."""
    height, width, _ = shape
    return min(math.floor(math.sqrt((limits.patch or 0.0) * height * width) + 1e-9), height, width)


def _square(place: tuple[int, int], edge: int, shape: tuple[int, int, int], picture: Plane) -> Mark:
    weight = np.zeros((*shape[:2], 1), dtype=np.float32)
    weight[place[0] : place[0] + edge, place[1] : place[1] + edge] = 1
    return Mark("patch", weight, picture)


Lit = Callable[[npt.NDArray[np.int64], npt.NDArray[np.int64]], Any]


def _pattern(shape: tuple[int, int, int], value_range: tuple[float, float], lit: Lit) -> Plane:
    """[H, W, C]: the highest value where ``lit(row, column)`` holds and the lowest elsewhere."""
    rows, columns = np.indices(shape[:2])
    bright = np.broadcast_to(lit(rows, columns), shape[:2])[:, :, None]
    return np.broadcast_to(np.where(bright, value_range[1], value_range[0]), shape).astype(np.float32)


def _dark(rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64]) -> bool:
    return False


def _bright(rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64]) -> bool:
    return True


def _chequers(cell: int) -> Lit:
    return lambda rows, columns: (rows // cell + columns // cell) % 2 == 0
