"""Neighbourhoods: kernels of each sample's own, and minimum, maximum and median of three by three; mirrored at the edge."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from gate.domains.image.operators.arrays import Array, Arrays
from gate.domains.image.operators.warp import mirrored

__all__ = ["convolve", "greatest", "in_order", "median", "repeated_shares", "separable"]


def _extended(xp: Arrays, images: Array, down: int, across: int) -> Array:
    """[n, H + 2 down, W + 2 across, C]."""
    height, width = images.shape[1:3]
    if down:
        images = xp.take(images, mirrored(xp.counting(height + 2 * down) - down, height, xp), axis=1)
    if across:
        images = xp.take(images, mirrored(xp.counting(width + 2 * across) - across, width, xp), axis=2)
    return images


def in_order(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Sums over the last axis from first to last, kept as an axis: zeros at the ends, which a wider batch adds, change nothing."""
    return np.asarray(np.cumsum(values, axis=-1)[..., -1:])


def convolve(xp: Arrays, images: Array, kernels: npt.NDArray[np.float64]) -> Array:
    """With one kernel for each sample, [n, k, k] or, where one size is not 1, [n, k, l]; k and l are odd."""
    height, width = images.shape[1:3]
    tall, wide = kernels.shape[1:]
    extended = _extended(xp, images, tall // 2, wide // 2)
    weights = xp.constant(kernels)
    result = None
    for row, column in np.argwhere(kernels.any(axis=0)).tolist():
        part = weights[:, row, column, None, None, None] * extended[:, row : row + height, column : column + width]
        result = part if result is None else result + part
    return images * 0 if result is None else result


def separable(xp: Arrays, images: Array, lines: npt.NDArray[np.float64]) -> Array:
    """With one symmetric line [n, k] for each sample, across and then down."""
    return convolve(xp, convolve(xp, images, lines[:, None, :]), lines[:, :, None])


def greatest(xp: Arrays, images: Array) -> Array:
    """The maximum of every pixel's three by three."""
    height, width = images.shape[1:3]
    wide = _extended(xp, images, 1, 1)
    line = xp.maximum(xp.maximum(wide[:, :, :width], wide[:, :, 1 : width + 1]), wide[:, :, 2:])
    return xp.maximum(xp.maximum(line[:, :height], line[:, 1 : height + 1]), line[:, 2:])


def median(xp: Arrays, images: Array) -> Array:
    """The median of every pixel's three by three.

    Source: Smith, "Implementing median filters in XC4000E FPGAs", 1996: sort three columns of three, then the median of the greatest
    minimum, the middle of the middles and the least maximum.
    """
    height, width = images.shape[1:3]
    wide = _extended(xp, images, 1, 1)
    low, middle, high = _sorted(xp, wide[:, :height], wide[:, 1 : height + 1], wide[:, 2:])

    def around(x: Array) -> tuple[Array, Array, Array]:
        return x[:, :, :width], x[:, :, 1 : width + 1], x[:, :, 2:]

    a, b, c = around(low)
    greatest_low = xp.maximum(xp.maximum(a, b), c)
    middle_middle = _sorted(xp, *around(middle))[1]
    a, b, c = around(high)
    least_high = xp.minimum(xp.minimum(a, b), c)
    return _sorted(xp, greatest_low, middle_middle, least_high)[1]


def _sorted(xp: Arrays, a: Array, b: Array, c: Array) -> tuple[Array, Array, Array]:
    a, b = xp.minimum(a, b), xp.maximum(a, b)
    b, c = xp.minimum(b, c), xp.maximum(b, c)
    a, b = xp.minimum(a, b), xp.maximum(a, b)
    return a, b, c


def repeated_shares(radii: npt.NDArray[np.float64]) -> Iterator[npt.NDArray[np.float64]]:
    """How much of each pass of a three by three filter a sample takes, so that its passes together reach ``radii`` [n] pixels."""
    for done in range(int(np.ceil(radii.max(initial=0.0)))):
        yield np.clip(radii - done, 0.0, 1.0)
