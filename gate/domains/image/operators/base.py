"""What every natural operator is: explicit parameters from (severity, draw, shape), then a pure function of picture and parameters.

Rules that all of them keep, and that tests hold them to: severity 0 changes nothing; a greater severity of the same draw changes more on
average; shape, dtype and range stay; nothing is random but through ``draw``. The size of a change follows from the severity alone, and
the draw decides its direction, place and grain, so that "the smallest severity which changes the prediction" means something.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from gate.domains.image.albumentations_adapter import Image
from gate.randomness import generator

__all__ = ["Image", "Operator", "Shape"]

Shape = tuple[int, int, int]  # height, width, channels


class Operator(ABC):
    """One natural operator at one limit (see ``gate.domains.image.limits``)."""

    name: ClassVar[str]
    family: ClassVar[str]

    def __init__(self, limit: Any) -> None:
        self.limit = limit

    @classmethod
    def off(cls, limit: Any) -> bool:
        """Whether this limit switches the operator off."""
        return limit is None or limit == 0

    def parameters(self, severity: float, draw: int, shape: Shape) -> dict[str, Any]:
        """JSON values that, with the picture, decide the result. ``severity`` is 0 to 1, where 1 is the limit."""
        return self._parameters(severity, generator(draw, self.name), shape)

    def apply(self, image: npt.NDArray[Any], parameters: Mapping[str, Any]) -> npt.NDArray[Any]:
        """The changed picture as a new array.

        Args:
            image: [H, W, C], uint8, or float32 in [0, 1].
            parameters: of ``parameters`` for this shape.
        """
        if image.dtype == np.uint8:
            changed = self._apply(image.astype(np.float32) / np.float32(255), parameters)
            return np.asarray(np.rint(np.clip(changed, 0, 1) * np.float32(255)), dtype=np.uint8)
        # Clipping also copies: a picture on which nothing changed comes back from _apply as the same array.
        return np.asarray(np.clip(self._apply(image, parameters), 0, 1), dtype=np.float32)

    @abstractmethod
    def _parameters(self, severity: float, random: np.random.Generator, shape: Shape) -> dict[str, Any]: ...

    @abstractmethod
    def _apply(self, image: Image, parameters: Mapping[str, Any]) -> Image: ...


def grain(random: np.random.Generator) -> int:
    """The address of a field of random numbers too large to write into a recipe."""
    return int(random.integers(1 << 31))


def side(random: np.random.Generator) -> float:
    """-1 or 1."""
    return 1.0 if random.random() < 0.5 else -1.0
