"""What storing and sending does: JPEG, WebP, and a smaller size on the way. Made by albumentations, picture by picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from gate.domains.image import albumentations_adapter as library
from gate.domains.image.operators.base import Columns, OneByOne, Shape

__all__ = ["Downscale", "Jpeg", "Webp"]

Severities = npt.NDArray[np.float64]
Draws = npt.NDArray[np.float64]
Image = npt.NDArray[np.float32]


class _Compression(OneByOne):
    family: ClassVar[str] = "compression"


class _Written(_Compression):
    """Written with a quality between 100 and the limit (at severity 1) and read again."""

    ending: ClassVar[str]

    @classmethod
    def off(cls, limit: Any) -> bool:
        return limit is None or limit == 100

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"quality": np.rint(100 - severities * (100 - int(self.limit))).astype(np.int64)}

    def _one(self, image: Image, parameters: Mapping[str, Any]) -> Image:
        return image if parameters["quality"] == 100 else library.written(image, int(parameters["quality"]), self.ending)


class Jpeg(_Written):
    """Written as JPEG with a quality between 100 and the limit (at severity 1)."""

    name = "jpeg"
    ending = ".jpg"


class Webp(_Written):
    """Written as WebP with a quality between 100 and the limit (at severity 1)."""

    name = "webp"
    ending = ".webp"


class Downscale(_Compression):
    """Shrunk and grown again; the limit is the factor at severity 1.

    Sizes are whole pixels, so a size between two of them is mixed from both: otherwise small pictures would not change at all and then
    much.
    """

    name = "downscale"

    @classmethod
    def off(cls, limit: Any) -> bool:
        return limit is None or limit == 1

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"factor": 1 - severities * (1 - float(self.limit))}

    def _one(self, image: Image, parameters: Mapping[str, Any]) -> Image:
        if parameters["factor"] == 1:
            return image
        exact = parameters["factor"] * min(image.shape[:2])
        smaller = max(1, int(exact))
        share = np.float32(min(1.0, max(0.0, exact - smaller)))
        return (1 - share) * self._through(image, smaller) + share * self._through(image, smaller + 1)

    @staticmethod
    def _through(image: Image, shorter: int) -> Image:
        height, width = image.shape[:2]
        scale = shorter / min(height, width)
        if scale >= 1:
            return image
        small = library.resize(image, max(1, round(height * scale)), max(1, round(width * scale)))
        return library.resize(small, height, width)
