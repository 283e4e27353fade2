"""Sensor noise: Gaussian noise, and dead pixels (salt and pepper)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gate.domains.image import albumentations_adapter as library
from gate.domains.image.operators.base import Image, Operator, Shape, grain
from gate.randomness import generator

__all__ = ["GaussianNoise", "SaltPepper"]


class _Noise(Operator):
    family: ClassVar[str] = "noise"


class GaussianNoise(_Noise):
    """Standard deviation: the limit's share of the value range at severity 1; every channel on its own."""

    name = "gaussian_noise"

    def _parameters(self, severity: float, random: np.random.Generator, shape: Shape) -> dict[str, Any]:
        return {"sigma": severity * float(self.limit), "grain": grain(random)}

    def _apply(self, image: Image, parameters: Mapping[str, Any]) -> Image:
        if parameters["sigma"] == 0:
            return image
        noise = generator(parameters["grain"], "gaussian_noise").standard_normal(image.shape, dtype=np.float32)
        return library.add(image, noise * np.float32(parameters["sigma"]))


class SaltPepper(_Noise):
    """The limit's share of pixels at severity 1, half of them white and half black; those of a lesser severity stay among them."""

    name = "salt_pepper"

    def _parameters(self, severity: float, random: np.random.Generator, shape: Shape) -> dict[str, Any]:
        return {"share": severity * float(self.limit), "grain": grain(random)}

    def _apply(self, image: Image, parameters: Mapping[str, Any]) -> Image:
        half = parameters["share"] / 2
        if half == 0:
            return image
        field = generator(parameters["grain"], "salt_pepper").random(image.shape[:2])
        return library.salt_pepper(image, field < half, field >= 1 - half)
