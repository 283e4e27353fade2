"""Moves pixels: every new pixel is taken from a position in the old picture, bilinear, mirrored at the edge.

What moves in from outside is the picture mirrored at its edge: black corners are no thing a camera makes, and a model could learn them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gate.domains.image.operators.arrays import Array, Arrays

__all__ = ["bilinear", "columns_and_rows", "mirrored", "projected"]

_FAR = float(1 << 20)  # pixels; keeps positions whole numbers that every processor converts alike


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


def bilinear(xp: Arrays, images: Array, x: Array, y: Array) -> Array:
    """[n, H, W, C] taken from positions x and y, which broadcast to [n, H, W]."""
    count, height, width, channels = images.shape
    x, y = xp.clip(x, -_FAR, _FAR), xp.clip(y, -_FAR, _FAR)
    left, top = xp.floor(x), xp.floor(y)
    right_share, lower_share = (x - left)[..., None], (y - top)[..., None]
    left, top = xp.whole(left), xp.whole(top)
    start = (xp.counting(count) * (height * width))[:, None, None]
    columns = [mirrored(left, width, xp), mirrored(left + 1, width, xp)]
    rows = [mirrored(top, height, xp) * width + start, mirrored(top + 1, height, xp) * width + start]
    flat = images.reshape(-1, channels)
    across = []
    for row in rows:
        one, other = xp.take(flat, row + columns[0]), xp.take(flat, row + columns[1])
        across.append(one + right_share * (other - one))
    return across[0] + lower_share * (across[1] - across[0])


def projected(xp: Arrays, matrices: npt.NDArray[np.float64], height: int, width: int) -> tuple[Array, Array]:
    """Positions x and y, float32 [n, H, W], by [n, 3, 3] matrices from new to old pixel positions (homogeneous x, y, 1)."""
    x, y = columns_and_rows(xp, height, width)
    m = xp.constant(matrices)[..., None, None]
    from_x = m[:, 0, 0] * x + (m[:, 0, 1] * y + m[:, 0, 2])
    from_y = m[:, 1, 0] * x + (m[:, 1, 1] * y + m[:, 1, 2])
    depth = m[:, 2, 0] * x + (m[:, 2, 1] * y + m[:, 2, 2])
    return from_x / depth, from_y / depth
