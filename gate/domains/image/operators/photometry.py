"""Light and exposure: brightness, contrast, gamma."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gate.domains.image import albumentations_adapter as library
from gate.domains.image.operators.base import Image, Operator, Shape, side

__all__ = ["Brightness", "Contrast", "Gamma"]


class _Photometry(Operator):
    family: ClassVar[str] = "photometry"


class Brightness(_Photometry):
    """Adds the limit's share of the value range at severity 1, either way."""

    name = "brightness"

    def _parameters(self, severity: float, random: np.random.Generator, shape: Shape) -> dict[str, Any]:
        return {"added": severity * float(self.limit) * side(random)}

    def _apply(self, image: Image, parameters: Mapping[str, Any]) -> Image:
        return image if parameters["added"] == 0 else library.multiply_add(image, 1.0, parameters["added"])


class Contrast(_Photometry):
    """Distances from the picture's mean times 1 - limit or 1 + limit at severity 1."""

    name = "contrast"

    def _parameters(self, severity: float, random: np.random.Generator, shape: Shape) -> dict[str, Any]:
        return {"factor": 1 + severity * float(self.limit) * side(random)}

    def _apply(self, image: Image, parameters: Mapping[str, Any]) -> Image:
        factor = parameters["factor"]
        if factor == 1:
            return image
        return library.multiply_add(image, factor, float(image.mean(dtype=np.float64)) * (1 - factor))


class Gamma(_Photometry):
    """value ** gamma; at severity 1 gamma is one end of the limit's range, on the way there a power of it."""

    name = "gamma"

    @classmethod
    def off(cls, limit: Any) -> bool:
        return limit is None or tuple(limit) == (1, 1)

    def _parameters(self, severity: float, random: np.random.Generator, shape: Shape) -> dict[str, Any]:
        ends = [float(end) for end in self.limit if end != 1]
        return {"gamma": ends[int(random.integers(len(ends)))] ** severity}

    def _apply(self, image: Image, parameters: Mapping[str, Any]) -> Image:
        return image if parameters["gamma"] == 1 else library.gamma(image, parameters["gamma"])
