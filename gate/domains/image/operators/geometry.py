"""Camera angle and position: rotation, translation, perspective, crop, elastic and grid distortion.

What moves in from outside is the picture mirrored at its edge: black corners are no thing a camera makes, and a model could learn them.
Positions are sub-pixel and bilinear, so that the smallest pictures change as smoothly as large ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from gate.domains.image import albumentations_adapter as library
from gate.domains.image.operators.base import Image, Operator, Shape, grain, side
from gate.randomness import generator

__all__ = ["Crop", "Elastic", "GridDistortion", "Perspective", "Rotation", "Translation"]

Matrix = npt.NDArray[np.float64]


class _Geometry(Operator):
    family: ClassVar[str] = "geometry"


class Rotation(_Geometry):
    """About the middle, by the limit's degrees at severity 1, either way."""

    name = "rotation"

    def _parameters(self, severity: float, random: np.random.Generator, shape: Shape) -> dict[str, Any]:
        return {"degrees": severity * float(self.limit) * side(random)}

    def _apply(self, image: Image, parameters: Mapping[str, Any]) -> Image:
        if parameters["degrees"] == 0:
            return image
        angle = math.radians(parameters["degrees"])
        cos, sin = math.cos(angle), math.sin(angle)
        x, y = (image.shape[1] - 1) / 2, (image.shape[0] - 1) / 2
        return library.project(image, np.array([[cos, sin, x - cos * x - sin * y], [-sin, cos, y + sin * x - cos * y], [0, 0, 1]]))


class Translation(_Geometry):
    """By the limit's share of each side at severity 1, in a random direction."""

    name = "translation"

    def _parameters(self, severity: float, random: np.random.Generator, shape: Shape) -> dict[str, Any]:
        angle = random.uniform(0, 2 * math.pi)
        reach = severity * float(self.limit)
        return {"right": reach * math.cos(angle) * shape[1], "down": reach * math.sin(angle) * shape[0]}

    def _apply(self, image: Image, parameters: Mapping[str, Any]) -> Image:
        if parameters["right"] == 0 and parameters["down"] == 0:
            return image
        return library.project(image, np.array([[1, 0, parameters["right"]], [0, 1, parameters["down"]], [0, 0, 1]], dtype=np.float64))


class Perspective(_Geometry):
    """Each corner moves by a random share of the side; the one that moves most, by the limit's share at severity 1."""

    name = "perspective"

    def _parameters(self, severity: float, random: np.random.Generator, shape: Shape) -> dict[str, Any]:
        shift = random.uniform(-1, 1, size=(4, 2))
        shift *= severity * float(self.limit) / np.abs(shift).max()
        return {"corners": [[float(x * shape[1]), float(y * shape[0])] for x, y in shift]}

    def _apply(self, image: Image, parameters: Mapping[str, Any]) -> Image:
        shift = np.array(parameters["corners"], dtype=np.float64)
        if not shift.any():
            return image
        right, bottom = image.shape[1] - 1, image.shape[0] - 1
        corners = np.array([[0, 0], [right, 0], [right, bottom], [0, bottom]], dtype=np.float64)
        return library.project(image, _homography(corners, corners + shift))


def _homography(old: Matrix, new: Matrix) -> Matrix:
    """The 3x3 matrix that takes four points to four others, with a one in its last place: eight linear equations."""
    rows = []
    for (x, y), (u, v) in zip(old, new, strict=True):
        rows.append([x, y, 1, 0, 0, 0, -u * x, -u * y])
        rows.append([0, 0, 0, x, y, 1, -v * x, -v * y])
    solution = np.linalg.solve(np.array(rows), new.reshape(-1))
    return np.append(solution, 1.0).reshape(3, 3)


class Crop(_Geometry):
    """A window without the limit's share of each side at severity 1, at a random place, brought back to full size."""

    name = "crop"

    def _parameters(self, severity: float, random: np.random.Generator, shape: Shape) -> dict[str, Any]:
        kept = 1 - severity * float(self.limit)
        return {
            "kept": kept,
            "left": (1 - kept) * (shape[1] - 1) * float(random.random()),
            "top": (1 - kept) * (shape[0] - 1) * float(random.random()),
        }

    def _apply(self, image: Image, parameters: Mapping[str, Any]) -> Image:
        if parameters["kept"] == 1:
            return image
        zoom = 1 / parameters["kept"]
        return library.project(image, np.array([[zoom, 0, -zoom * parameters["left"]], [0, zoom, -zoom * parameters["top"]], [0, 0, 1]]))


class Elastic(_Geometry):
    """A smooth random field of shifts; the greatest is the limit's share of the shorter side at severity 1."""

    name = "elastic"

    _FIELD_SIDE = 32  # the field is smooth: drawn this small and grown, it costs the same for any picture

    def _parameters(self, severity: float, random: np.random.Generator, shape: Shape) -> dict[str, Any]:
        return {"pixels": severity * float(self.limit) * min(shape[:2]), "grain": grain(random)}

    def _apply(self, image: Image, parameters: Mapping[str, Any]) -> Image:
        if parameters["pixels"] == 0:
            return image
        height, width = image.shape[:2]
        small = (min(height, self._FIELD_SIDE), min(width, self._FIELD_SIDE))
        # An eighth of the side: bends strokes and outlines, and leaves their order as it is.
        fields = library.displacement(*small, max(1.0, min(small) / 8), generator(parameters["grain"], "elastic"))
        scale = parameters["pixels"] / max(float(np.hypot(*fields).max()), 1e-12)
        x, y = (library.resize(field, height, width) * np.float32(scale) for field in fields)
        columns, rows = np.arange(width, dtype=np.float32)[None, :], np.arange(height, dtype=np.float32)[:, None]
        return library.remap(image, columns + x, rows + y)


class GridDistortion(_Geometry):
    """The lines of a coarse grid move sideways; the one that moves most, by the limit's share of a cell at severity 1."""

    name = "grid_distortion"

    def _parameters(self, severity: float, random: np.random.Generator, shape: Shape) -> dict[str, Any]:
        cells = 3 if min(shape[:2]) < 16 else 5
        shift = random.uniform(-1, 1, size=(2, cells - 1))
        shift *= severity * float(self.limit) / np.abs(shift).max()
        return {"columns": [float(value) for value in shift[0]], "rows": [float(value) for value in shift[1]]}

    def _apply(self, image: Image, parameters: Mapping[str, Any]) -> Image:
        if not any(parameters["columns"]) and not any(parameters["rows"]):
            return image
        x, y = _shifted(image.shape[1], parameters["columns"]), _shifted(image.shape[0], parameters["rows"])
        return library.remap(image, np.broadcast_to(x[None, :], image.shape[:2]), np.broadcast_to(y[:, None], image.shape[:2]))


def _shifted(length: int, shift: list[float]) -> npt.NDArray[np.float32]:
    """Positions 0 to length - 1 after the grid's inner lines moved by ``shift`` cells; the outer lines stay."""
    lines = np.linspace(0, length - 1, len(shift) + 2)
    moved = lines.copy()
    moved[1:-1] += np.array(shift) * (lines[1] - lines[0])
    return np.interp(np.arange(length), lines, moved).astype(np.float32)
