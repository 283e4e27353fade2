"""Something in front of the lens: one patch of one value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from gate.domains.image import albumentations_adapter as library
from gate.domains.image.operators.base import Image, Operator, Shape
from gate.domains.image.operators.plate import laid_over, large

__all__ = ["Patch"]


class Patch(Operator):
    """A square of a random grey at a random place, over the limit's share of the area at severity 1."""

    name = "patch"
    family: ClassVar[str] = "occlusion"

    def _parameters(self, severity: float, random: np.random.Generator, shape: Shape) -> dict[str, Any]:
        height, width = shape[:2]
        widest = min(math.sqrt(float(self.limit) * height * width), height, width)
        edge = min(math.sqrt(severity * float(self.limit) * height * width), height, width)
        # The middle is where the widest patch still fits, so that one draw keeps its place at any severity.
        return {
            "x": widest / 2 + float(random.random()) * (width - widest),
            "y": widest / 2 + float(random.random()) * (height - widest),
            "edge": edge,
            "value": float(random.random()),
        }

    def _apply(self, image: Image, parameters: Mapping[str, Any]) -> Image:
        if parameters["edge"] == 0:
            return image

        def square(height: int, width: int) -> npt.NDArray[np.uint8]:
            scale = height / image.shape[0]
            half, x, y = parameters["edge"] / 2 * scale, parameters["x"] * scale, parameters["y"] * scale
            return library.patch_plate(height, width, (round(x - half), round(y - half), round(x + half), round(y + half)))

        return laid_over(image, large(image, square), parameters["value"])
