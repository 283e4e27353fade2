"""Operators that take every pixel from somewhere else, told apart from the taking: a batch does that once for all of them."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import numpy.typing as npt

from gate.domains.image.operators.arrays import Array, Arrays
from gate.domains.image.operators.base import Columns, Operator
from gate.domains.image.operators.warp import bilinear, projected

__all__ = ["Matrices", "Projection", "Warp"]

Matrices = npt.NDArray[np.float64]  # [n, 3, 3], from new to old pixel positions (homogeneous x, y, 1)


class Warp(Operator):
    """Told by positions."""

    @abstractmethod
    def positions(self, xp: Arrays, height: int, width: int, parameters: Columns) -> tuple[Array, Array]:
        """x and y, float32, which broadcast to [n, height, width]: where each new pixel is taken from."""

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        return bilinear(xp, images, *self.positions(xp, images.shape[1], images.shape[2], parameters))


class Projection(Warp):
    """Told by a matrix."""

    @abstractmethod
    def matrices(self, height: int, width: int, parameters: Columns) -> Matrices:
        """float64 [n, 3, 3]."""

    def positions(self, xp: Arrays, height: int, width: int, parameters: Columns) -> tuple[Array, Array]:
        return projected(xp, self.matrices(height, width, parameters), height, width)
