"""Moves pixels: every new pixel is taken from a position in the old picture, bilinear, mirrored at the edge.

What moves in from outside is the picture mirrored at its edge: black corners are no thing a camera makes, and a model could learn them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gate.domains.image.operators.arrays import Array, Arrays

__all__ = ["bilinear", "columns_and_rows", "mirrored", "projected"]

_LENGTHS = 4  # how many side lengths beyond the picture a position may lie; further ones are taken from there


def columns_and_rows(xp: Arrays, height: int, width: int) -> tuple[Array, Array]:
    """Positions of the pixels: float32 [1, 1, W] and [1, H, 1]."""
    return xp.single(xp.counting(width)).reshape(1, 1, -1), xp.single(xp.counting(height)).reshape(1, -1, 1)


def mirrored(index: Array, length: int, xp: Arrays) -> Array:
    """Whole positions outside 0 to length - 1 brought inside; the edge itself is not doubled."""
    if length == 1:
        return index * 0
    period = 2 * (length - 1)
    inside = index % period
    return xp.minimum(inside, period - inside)


def _lookup(length: int) -> npt.NDArray[np.int64]:
    """Every whole position that ``bilinear`` may ask for, mirrored: a table is several times faster than the division it stands for."""
    positions = np.arange(-_LENGTHS * length, (_LENGTHS + 1) * length + 2)
    inside = positions % (2 * (length - 1)) if length > 1 else positions * 0
    return np.asarray(np.minimum(inside, 2 * (length - 1) - inside), dtype=np.int64)


def bilinear(xp: Arrays, images: Array, x: Array, y: Array) -> Array:
    """[n, H, W, C] taken from positions x [n, H or 1, W] and y [n, H, W or 1]."""
    parts = [_bilinear(xp, images[rows], x[rows], y[rows]) for rows in xp.pieces(len(images), images.shape[1] * images.shape[2])]
    return parts[0] if len(parts) == 1 else xp.concat(parts)


def _bilinear(xp: Arrays, images: Array, x: Array, y: Array) -> Array:
    count, height, width, channels = images.shape
    left, right, right_share = _neighbours(xp, x, width)
    top, bottom, lower_share = _neighbours(xp, y, height)
    start = (xp.counting(count) * (height * width))[:, None, None]
    top, bottom = top * width + start, bottom * width + start
    corners = (top + left, top + right, bottom + left, bottom + right)
    planes = []
    for channel in range(channels):  # a share that multiplies along a short last axis would cost most of the time
        plane = images[..., channel].reshape(-1)
        a, b, c, d = (xp.take(plane, corner) for corner in corners)
        upper, lower = a + right_share * (b - a), c + right_share * (d - c)
        planes.append(upper + lower_share * (lower - upper))
    return xp.stack(planes, 3)


def _neighbours(xp: Arrays, x: Array, length: int) -> tuple[Array, Array, Array]:
    """The mirrored whole positions before and after x, and how near x is to the second."""
    x = xp.clip(x, float(-_LENGTHS * length), float((_LENGTHS + 1) * length))
    before = xp.floor(x)
    index = xp.whole(before) + _LENGTHS * length
    table = xp.table(("mirrored", length), lambda: _lookup(length))
    return xp.take(table, index), xp.take(table, index + 1), x - before


def projected(xp: Arrays, matrices: npt.NDArray[np.float64], height: int, width: int) -> tuple[Array, Array]:
    """Positions x and y, float32 [n, H, W], by [n, 3, 3] matrices from new to old pixel positions (homogeneous x, y, 1)."""
    x, y = columns_and_rows(xp, height, width)
    m = xp.constant(matrices)[..., None, None]
    from_x = m[:, 0, 0] * x + (m[:, 0, 1] * y + m[:, 0, 2])
    from_y = m[:, 1, 0] * x + (m[:, 1, 1] * y + m[:, 1, 2])
    depth = m[:, 2, 0] * x + (m[:, 2, 1] * y + m[:, 2, 2])
    return from_x / depth, from_y / depth
