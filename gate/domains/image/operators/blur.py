"""Focus and movement: Gaussian blur and motion blur."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gate.domains.image import albumentations_adapter as library
from gate.domains.image.operators.base import Image, Operator, Shape

__all__ = ["GaussianBlur", "MotionBlur"]


class _Blur(Operator):
    family: ClassVar[str] = "blur"


class GaussianBlur(_Blur):
    """Standard deviation: the limit's share of the shorter side at severity 1."""

    name = "gaussian_blur"

    _NARROWEST = 0.8  # pixels

    def _parameters(self, severity: float, random: np.random.Generator, shape: Shape) -> dict[str, Any]:
        return {"sigma": severity * float(self.limit) * min(shape[:2])}

    def _apply(self, image: Image, parameters: Mapping[str, Any]) -> Image:
        sigma = parameters["sigma"]
        if sigma == 0:
            return image
        # A Gaussian narrower than a pixel can't be sampled; a mix of the picture and the narrowest one has the same variance.
        width = max(sigma, self._NARROWEST)
        share = np.float32((sigma / width) ** 2)
        kernel = library.gaussian_kernel(width, 2 * math.ceil(3 * width) + 1)
        # Any row of the normalised square is the line times a number.
        middle = len(kernel) // 2
        line = share * kernel[middle] / kernel[middle].sum(dtype=np.float32)
        line[middle] += 1 - share
        return library.convolve(image, line)


class MotionBlur(_Blur):
    """The camera moves by the limit's share of the shorter side at severity 1, in a random direction."""

    name = "motion_blur"

    def _parameters(self, severity: float, random: np.random.Generator, shape: Shape) -> dict[str, Any]:
        return {"pixels": severity * float(self.limit) * min(shape[:2]), "degrees": float(random.uniform(0, 180))}

    def _apply(self, image: Image, parameters: Mapping[str, Any]) -> Image:
        pixels, degrees = parameters["pixels"], parameters["degrees"]
        if pixels == 0:
            return image
        # Lines have odd lengths 1, 3, 5 ... (movement 0, 2, 4 ...); lengths between are mixed from both neighbours.
        shorter = 2 * int(pixels // 2) + 1
        share = (pixels % 2) / 2
        kernel = np.zeros((shorter + 2, shorter + 2), dtype=np.float32)
        kernel[1:-1, 1:-1] = (1 - share) * library.motion_kernel(shorter, degrees)
        kernel += share * library.motion_kernel(shorter + 2, degrees)
        return library.convolve(image, kernel)
