"""Structural similarity of two pictures: whether the same shapes are still there, whatever happened to brightness."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["WINDOW", "structural_similarity"]

WINDOW = 7  # pixels; smaller pictures have the largest odd window that fits
_K1, _K2 = 0.01, 0.03
_VALUES_AT_ONCE = 1 << 21

Sums = npt.NDArray[Any]


def structural_similarity(a: npt.NDArray[Any], b: npt.NDArray[Any], extent: float) -> npt.NDArray[np.float64]:
    """Mean structural similarity (SSIM) of each pair: 1 for the same picture, about 0 for unrelated ones, and less for opposite ones.

    Source: Wang, Bovik, Sheikh and Simoncelli, "Image quality assessment: from error visibility to structural similarity", IEEE
    Transactions on Image Processing 13(4), 2004, equation 13 with K1 = 0.01 and K2 = 0.03, in a square window of even weights, averaged
    over the places where the whole window lies inside the picture, and over the channels.

    Args:
        a, b: [N, H, W, C], of one dtype, uint8 or float32.
        extent: highest minus lowest value of a file.

    Returns:
        float64 [N].
    """
    count, height, width = a.shape[:3]
    window = min(WINDOW, height, width)
    window -= 1 - window % 2
    result = np.empty(count, dtype=np.float64)
    rows = max(1, _VALUES_AT_ONCE // max(1, a[0].size)) if count else 1
    for start in range(0, count, rows):
        part = slice(start, start + rows)
        result[part] = _similarity(a[part], b[part], window, (_K1 * extent) ** 2, (_K2 * extent) ** 2)
    return result


def _similarity(a: Sums, b: Sums, window: int, c1: float, c2: float) -> npt.NDArray[np.float64]:
    # 49 squares of bytes fit into 32 bits, so uint8 pictures lose nothing until the sums are divided.
    exact = a.dtype == np.uint8
    kind = np.int32 if exact else np.float64
    a, b = a.astype(kind), b.astype(kind)
    number = window * window
    of_a, of_b, squares, products = (_sums(x, window) for x in (a, b, a * a + b * b, a * b))
    mean_a, mean_b = of_a / number, of_b / number
    mean_squares = mean_a * mean_a + mean_b * mean_b
    mean_products = mean_a * mean_b
    variances = squares / number - mean_squares
    covariance = products / number - mean_products
    local = (2 * mean_products + c1) * (2 * covariance + c2) / ((mean_squares + c1) * (variances + c2))
    similarity: npt.NDArray[np.float64] = local.reshape(len(a), -1).mean(axis=1)
    return similarity


def _sums(x: Sums, window: int) -> Sums:
    """Sums over every window, [N, H - window + 1, W - window + 1, C]."""
    for axis in (1, 2):
        places = x.shape[axis] - window + 1
        total = _shifted(x, axis, 0, places).copy()
        for shift in range(1, window):
            total += _shifted(x, axis, shift, places)
        x = total
    return x


def _shifted(x: Sums, axis: int, shift: int, places: int) -> Sums:
    return x[:, shift : shift + places] if axis == 1 else x[:, :, shift : shift + places]
