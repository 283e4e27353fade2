"""Shapes for small pictures: drawn large on an empty plate, shrunk to the picture, laid over it.

A one-pixel rain streak is as thick as the stroke of an 8x8 digit. Drawn eight times larger and shrunk by area it is as thin and as soft
as it should be, and grows smoothly with its parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from gate.domains.image import albumentations_adapter as library
from gate.domains.image.operators.base import Image

__all__ = ["laid_over", "large", "soft"]

Drawing = Callable[[int, int], npt.NDArray[np.uint8]]  # (height, width) -> [height, width], 0 to 255

_SHORTER_SIDE = 64


def large(image: npt.NDArray[Any], draw: Drawing) -> Image:
    """A sharp drawing for the picture's size: [H, W, 1] in [0, 1], made at a whole multiple of the size where that is small."""
    height, width = image.shape[:2]
    times = max(1, -(-_SHORTER_SIDE // min(height, width)))
    return _unit(library.resize(draw(height * times, width * times), height, width))


def soft(image: npt.NDArray[Any], draw: Drawing) -> Image:
    """A drawing without sharp edges: [H, W, 1] in [0, 1], always made with a shorter side of 64 pixels, at the same cost for any size."""
    height, width = image.shape[:2]
    scale = _SHORTER_SIDE / min(height, width)
    return _unit(library.resize(draw(max(1, round(height * scale)), max(1, round(width * scale))), height, width))


def laid_over(image: Image, cover: Image, value: float, opacity: float = 1.0) -> Image:
    """The picture under a layer of one ``value``, as opaque as ``cover`` times ``opacity``."""
    share = cover * np.float32(opacity)
    return np.asarray(image + share * (np.float32(value) - image), dtype=np.float32)


def _unit(plate: npt.NDArray[Any]) -> Image:
    return np.asarray(plate, dtype=np.float32)[:, :, None] / np.float32(255)
