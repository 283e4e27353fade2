"""What storing and sending does: JPEG, and a smaller size on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gate.domains.image import albumentations_adapter as library
from gate.domains.image.operators.base import Image, Operator, Shape

__all__ = ["Downscale", "Jpeg"]


class _Compression(Operator):
    family: ClassVar[str] = "compression"


class Jpeg(_Compression):
    """Written with a quality between 100 and the limit (at severity 1)."""

    name = "jpeg"

    @classmethod
    def off(cls, limit: Any) -> bool:
        return limit is None or limit == 100

    def _parameters(self, severity: float, random: np.random.Generator, shape: Shape) -> dict[str, Any]:
        return {"quality": round(100 - severity * (100 - int(self.limit)))}

    def _apply(self, image: Image, parameters: Mapping[str, Any]) -> Image:
        return image if parameters["quality"] == 100 else library.jpeg(image, parameters["quality"])


class Downscale(_Compression):
    """Shrunk and grown again; the limit is the factor at severity 1.

    Sizes are whole pixels, so a size between two of them is mixed from both: otherwise small pictures would not change at all and then
    much.
    """

    name = "downscale"

    @classmethod
    def off(cls, limit: Any) -> bool:
        return limit is None or limit == 1

    def _parameters(self, severity: float, random: np.random.Generator, shape: Shape) -> dict[str, Any]:
        return {"factor": 1 - severity * (1 - float(self.limit))}

    def _apply(self, image: Image, parameters: Mapping[str, Any]) -> Image:
        if parameters["factor"] == 1:
            return image
        height, width = image.shape[:2]
        exact = parameters["factor"] * min(height, width)
        smaller = max(1, int(exact))
        share = min(1.0, max(0.0, exact - smaller))
        mixed = (1 - share) * self._through(image, smaller) + share * self._through(image, smaller + 1)
        return np.asarray(mixed, dtype=np.float32)

    @staticmethod
    def _through(image: Image, shorter: int) -> Image:
        height, width = image.shape[:2]
        scale = shorter / min(height, width)
        if scale >= 1:
            return image
        small = library.resize(image, max(1, round(height * scale)), max(1, round(width * scale)))
        return library.resize(small, height, width)
