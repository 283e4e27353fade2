"""Fields of random numbers over whole batches: a counter-based integer hash, and what is made of it.

Every sample has one whole number, its grain, which addresses its field; a value depends on grain, salt and position alone.
"""

from __future__ import annotations

from functools import cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from gate.domains.image.operators.arrays import Array, Arrays
from gate.randomness import hashed, key

__all__ = ["bits32", "normal", "smooth", "uniform"]

_LEVELS = 1 << 16


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


# As signed numbers: torch has no arithmetic for unsigned ones, and wrapped around they are the same bits.
_GAMMA, _FIRST, _SECOND = (_signed(constant) for constant in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


@cache
def _key(salt: str) -> np.uint64:
    return np.uint64(key(0, "field", salt))


def _hashed(xp: Arrays, grains: npt.NDArray[np.int64], salt: str, count: int) -> Array:
    """int64 [n, count]: 64 random bits for each position, as ``gate.randomness.hashed`` makes them, on any device."""
    starts = hashed(grains.astype(np.int64).view(np.uint64) ^ _key(salt), 0).view(np.int64)
    z = xp.constant(starts)[:, None] + (xp.counting(count)[None] + 1) * _GAMMA
    # A shift of a signed number repeats its sign, which the masks take away.
    z = (z ^ ((z >> 30) & ((1 << 34) - 1))) * _FIRST
    z = (z ^ ((z >> 27) & ((1 << 37) - 1))) * _SECOND
    return z ^ ((z >> 31) & ((1 << 33) - 1))


def _cut(xp: Arrays, grains: npt.NDArray[np.int64], salt: str, count: int, parts: int) -> Array:
    """int64 [n, count] in [0, 2 ** (64 / parts)): several numbers from every hash."""
    width = 64 // parts
    words = _hashed(xp, grains, salt, -(-count // parts))
    cut = xp.stack([(words >> (width * part)) & ((1 << width) - 1) for part in range(parts)], 2)
    return cut.reshape(len(grains), -1)[:, :count]


def bits32(xp: Arrays, grains: npt.NDArray[np.int64], salt: str, count: int) -> Array:
    """int64 [n, count], even over 0 to 2**32 - 1."""
    return _cut(xp, grains, salt, count, 2)


def uniform(xp: Arrays, grains: npt.NDArray[np.int64], salt: str, count: int) -> Array:
    """float32 [n, count], even over (0, 1), in steps of 2**-16."""
    return (xp.single(_cut(xp, grains, salt, count, 4)) + 0.5) * (1 / _LEVELS)


def _quantiles() -> npt.NDArray[np.float64]:
    inverse = NormalDist().inv_cdf
    upper = np.array([inverse((level + 0.5) / _LEVELS) for level in range(_LEVELS // 2, _LEVELS)])
    return np.concatenate([-upper[::-1], upper])


def normal(xp: Arrays, grains: npt.NDArray[np.int64], salt: str, count: int) -> Array:
    """float32 [n, count], standard normal, from a table of 65,536 quantiles; the greatest is 4.3."""
    return xp.take(xp.table("normal quantiles", _quantiles), _cut(xp, grains, salt, count, 4))


def _spline(length: int, nodes: int) -> npt.NDArray[np.float64]:
    """[length, nodes]: weights of the uniform cubic B-spline, its knots spread over the picture."""
    cells = nodes - 3
    place = (np.arange(length) + 0.5) / length * cells
    cell = np.minimum(place.astype(np.int64), cells - 1)
    t = place - cell
    four = np.stack([(1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3], axis=1) / 6
    weights = np.zeros((length, nodes))
    for part in range(4):
        weights[np.arange(length), cell + part] = four[:, part]
    return weights


def smooth(xp: Arrays, grains: npt.NDArray[np.int64], salt: str, height: int, width: int, cells: int) -> Array:
    """float32 [n, height, width] between 0 and 1: even random numbers on a coarse grid, joined by a uniform cubic B-spline.

    Source: Rueckert et al., "Nonrigid registration using free-form deformations", IEEE TMI 1999, for the spline.
    """
    nodes = cells + 3
    grid = uniform(xp, grains, salt, nodes * nodes).reshape(-1, nodes, nodes)
    across = xp.table(("spline", width, nodes), lambda: _spline(width, nodes))
    down = xp.table(("spline", height, nodes), lambda: _spline(height, nodes))
    lines = grid[:, :, :1] * across[None, None, :, 0]
    for node in range(1, nodes):
        lines = lines + grid[:, :, node : node + 1] * across[None, None, :, node]
    field = lines[:, :1] * down[None, :, 0, None]
    for node in range(1, nodes):
        field = field + lines[:, node : node + 1] * down[None, :, node, None]
    return field
