"""Layers over a picture: how much of each pixel they cover, to a fraction of a pixel.

A one-pixel rain streak is as thick as the stroke of an 8x8 digit. Told by the covered share of each pixel, a shape is as thin and as
soft as it should be on any picture, and grows smoothly with its parameters.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gate.domains.image.operators.arrays import Array

__all__ = ["covered", "laid_over", "stripes"]


def laid_over(images: Array, cover: Array, value: Array | float) -> Array:
    """The pictures [n, H, W, C] under a layer of one value, as opaque as ``cover`` ([n, H, W, 1], 0 to 1) says."""
    return images + cover * (value - images)


def covered(length: int, start: npt.NDArray[np.float64], end: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """[..., length]: the share of each pixel that lies between start and end [...], in pixels from the edge."""
    pixels = np.arange(length, dtype=np.float64)
    return np.asarray(np.clip(np.minimum(pixels + 1, end[..., None]) - np.maximum(pixels, start[..., None]), 0, 1))


def stripes(
    length: int, period: npt.NDArray[np.float64], width: npt.NDArray[np.float64], phase: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """[n, length]: the share of each pixel that endless stripes cover: ``width`` of every ``period`` pixels, from ``phase`` on."""
    edges = np.arange(length + 1, dtype=np.float64) - phase[:, None]
    period, width = period[:, None], width[:, None]
    turns = np.floor(edges / period)
    up_to = turns * width + np.minimum(edges - turns * period, width)
    return np.clip(np.diff(up_to, axis=1), 0, 1)
