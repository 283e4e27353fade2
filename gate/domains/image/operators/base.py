"""What every natural operator is: explicit parameters from (severity, draw, shape), then a pure function of pictures and parameters.

Rules that all of them keep, and that tests hold them to: severity 0 changes nothing; a greater severity of the same draw changes more on
average; shape, dtype and range stay; nothing is random but through ``draw``. The size of a change follows from the severity alone, and
the draw decides its direction, place and grain, so that "the smallest severity which changes the prediction" means something. (Changes
that are there or not, such as a flip, happen for as many draws as the severity says.) They work on whole batches, and one sample's bytes
depend on its own picture and parameters only. None calls the model: a mutant costs its own execution.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from gate.domains.image.operators.arrays import Array, Arrays, arrays_of
from gate.randomness import key, uniforms

__all__ = ["Column", "Columns", "OneByOne", "Operator", "Shape", "draw_key", "each", "grains", "per_sample", "side"]

Shape = tuple[int, int, int]  # height, width, channels
Column = npt.NDArray[Any]  # [n, ...]
Columns = dict[str, Column]


class Operator(ABC):
    """One natural operator at one limit (see ``gate.domains.image.limits``)."""

    name: ClassVar[str]
    family: ClassVar[str]
    colour: ClassVar[bool] = False  # makes sense for pictures with three channels only
    square: ClassVar[bool] = False  # makes sense for square pictures only
    anywhere: ClassVar[bool] = True  # runs on torch tensors too, with the same bytes; otherwise on NumPy arrays only
    draws: ClassVar[int] = 0  # even random numbers that ``drawn`` takes

    def __init__(self, limit: Any) -> None:
        self.limit = limit

    @classmethod
    def off(cls, limit: Any) -> bool:
        """Whether this limit switches the operator off."""
        return limit is None or limit == 0

    @classmethod
    def fits(cls, shape: Shape) -> bool:
        """Whether the operator makes sense for pictures of this shape."""
        return (not cls.colour or shape[2] == 3) and (not cls.square or shape[0] == shape[1])

    def parameters(self, severities: npt.NDArray[np.float64], draws: npt.NDArray[np.int64], shape: Shape) -> Columns:
        """What, with the picture, decides the result, by column, [n, ...] each; a row depends on its severity and draw only.

        Args:
            severities: 0 to 1, where 1 is the limit, [n].
            draws: not negative, [n].
            shape: of the pictures.
        """
        numbers = uniforms((draws.view(np.uint64) ^ draw_key(self.name))[None], np.arange(self.draws, dtype=np.uint64)[:, None])
        return self.drawn(severities, numbers, shape)

    @abstractmethod
    def drawn(self, severities: npt.NDArray[np.float64], u: npt.NDArray[np.float64], shape: Shape) -> Columns:
        """``parameters`` by the random numbers of the draws, for callers that draw for many operators at once; see ``draw_key``.

        Args:
            severities: [n].
            u: [draws, n], each in [0, 1).
            shape: of the pictures.
        """

    def apply(self, images: Array, parameters: Mapping[str, Any]) -> Array:
        """The changed pictures, a new array.

        Args:
            images: float32 [n, H, W, C] in [0, 1], NumPy or (where ``anywhere``) torch.
            parameters: of ``parameters`` for this shape, by column: arrays or lists of n.

        Raises:
            KeyError, TypeError, ValueError: the parameters are not of this operator.
        """
        xp = arrays_of(images)
        columns = {name: np.asarray(values) for name, values in parameters.items()}
        return xp.clip(self.changed(xp, images, columns), 0.0, 1.0)

    @abstractmethod
    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        """``apply`` before the result is clipped, for callers that clip many results at once. Not the same array as ``images``."""


class OneByOne(Operator):
    """An operator that a library makes picture by picture, several at a time where pictures are large enough to be worth a thread."""

    anywhere = False

    _WORTH_A_THREAD = 1 << 14  # values

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        if xp.torch_like:
            raise TypeError(f"{self.name} works on NumPy arrays only")
        rows = [{name: column[row].item() for name, column in parameters.items()} for row in range(len(images))]
        if images[0].size < self._WORTH_A_THREAD or len(images) == 1:
            return np.stack([self._one(image, row) for image, row in zip(images, rows, strict=True)])
        return np.stack(list(_pool().map(self._one, images, rows)))

    @abstractmethod
    def _one(self, image: npt.NDArray[np.float32], parameters: Mapping[str, Any]) -> npt.NDArray[np.float32]:
        """[H, W, C], changed, as float32."""


@cache
def draw_key(name: str) -> np.uint64:
    """What a draw is combined with (exclusive or) to the key of an operator's own random numbers."""
    return np.uint64(key(0, "operator", name))


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(4, os.cpu_count() or 1), thread_name_prefix="operators")


def each(function: Callable[[float], float], values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """A function of the C library for every value: NumPy's own may round differently in longer arrays."""
    return np.array([function(value) for value in values.ravel().tolist()], dtype=np.float64).reshape(values.shape)


def grains(u: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Addresses of fields of random numbers too large to write into a recipe."""
    return np.asarray(u * (1 << 31)).astype(np.int64)


def side(u: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """-1 or 1."""
    return np.where(u < 0.5, 1.0, -1.0)


def per_sample(xp: Arrays, values: Column, axes: int = 3) -> Array:
    """[n] numbers as constants that broadcast over ``axes`` more axes."""
    return xp.constant(np.asarray(values, dtype=np.float64)).reshape(-1, *(1,) * axes)
