"""Camera angle, position and lens: rotation, translation, scale, shear, perspective, crop, elastic, grid and lens distortion, thicker and
thinner strokes; and, switched off unless the policy says otherwise, mirror images.

Positions are sub-pixel and bilinear, so that the smallest pictures change as smoothly as large ones. Where albumentations has the same
change, its result agrees within a mean of 0.01 and at any pixel 0.1 of the value range: OpenCV rounds positions to 1/32 of a pixel.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from gate.domains.image.operators.arrays import Array, Arrays
from gate.domains.image.operators.base import Column, Columns, Operator, Shape, each, grains, per_sample, side
from gate.domains.image.operators.fields import smooth
from gate.domains.image.operators.filters import greatest, repeated_shares
from gate.domains.image.operators.warp import columns_and_rows
from gate.domains.image.operators.warped import Matrices, Projection, Warp

__all__ = [
    "Crop",
    "Elastic",
    "GridDistortion",
    "HorizontalFlip",
    "OpticalDistortion",
    "Perspective",
    "Rotation",
    "Scale",
    "Shear",
    "StrokeWidth",
    "Translation",
    "Transpose",
    "VerticalFlip",
]


class _Geometry(Operator):
    family: ClassVar[str] = "geometry"


def _matrices(count: int) -> Matrices:
    return np.tile(np.eye(3), (count, 1, 1))


def _about_middle(height: int, width: int, a: Column, b: Column, c: Column, d: Column) -> Matrices:
    """x and y from the middle become a x + b y and c x + d y."""
    x, y = (width - 1) / 2, (height - 1) / 2
    matrices = _matrices(len(a))
    matrices[:, 0, 0], matrices[:, 0, 1], matrices[:, 0, 2] = a, b, x - a * x - b * y
    matrices[:, 1, 0], matrices[:, 1, 1], matrices[:, 1, 2] = c, d, y - c * x - d * y
    return matrices


class Rotation(_Geometry, Projection):
    """About the middle, by the limit's degrees at severity 1, either way."""

    name = "rotation"
    draws = 1

    def drawn(self, severities: npt.NDArray[np.float64], u: npt.NDArray[np.float64], shape: Shape) -> Columns:
        return {"degrees": severities * float(self.limit) * side(u[0])}

    def matrices(self, height: int, width: int, parameters: Columns) -> Matrices:
        angles = parameters["degrees"] * (math.pi / 180)
        cos, sin = each(math.cos, angles), each(math.sin, angles)
        return _about_middle(height, width, cos, -sin, sin, cos)


class Translation(_Geometry, Projection):
    """By the limit's share of each side at severity 1, in a random direction."""

    name = "translation"
    draws = 1

    def drawn(self, severities: npt.NDArray[np.float64], u: npt.NDArray[np.float64], shape: Shape) -> Columns:
        angles, reach = u[0] * 2 * math.pi, severities * float(self.limit)
        return {"right": reach * each(math.cos, angles) * shape[1], "down": reach * each(math.sin, angles) * shape[0]}

    def matrices(self, height: int, width: int, parameters: Columns) -> Matrices:
        matrices = _matrices(len(parameters["right"]))
        matrices[:, 0, 2], matrices[:, 1, 2] = -parameters["right"], -parameters["down"]
        return matrices


class Scale(_Geometry, Projection):
    """Grown or shrunk about the middle; sides are 1 + limit times as long, or as short, at severity 1, on the way there a power of it."""

    name = "scale"
    draws = 1

    def drawn(self, severities: npt.NDArray[np.float64], u: npt.NDArray[np.float64], shape: Shape) -> Columns:
        return {"factor": each(math.exp, math.log1p(float(self.limit)) * severities * side(u[0]))}

    def matrices(self, height: int, width: int, parameters: Columns) -> Matrices:
        zoom = 1 / parameters["factor"]
        return _about_middle(height, width, zoom, 0 * zoom, 0 * zoom, zoom)


class Shear(_Geometry, Projection):
    """Slanted along one side, either way: at severity 1 by the limit's share of the distance from the middle."""

    name = "shear"
    draws = 2

    def drawn(self, severities: npt.NDArray[np.float64], u: npt.NDArray[np.float64], shape: Shape) -> Columns:
        slant, along = severities * float(self.limit) * side(u[0]), u[1] < 0.5
        return {"across": np.where(along, slant, 0.0), "down": np.where(along, 0.0, slant)}

    def matrices(self, height: int, width: int, parameters: Columns) -> Matrices:
        one = np.ones(len(parameters["across"]))
        return _about_middle(height, width, one, parameters["across"], parameters["down"], one)


class Perspective(_Geometry, Projection):
    """Each corner moves by a random share of the side; the one that moves most, by the limit's share at severity 1."""

    name = "perspective"
    draws = 8

    def drawn(self, severities: npt.NDArray[np.float64], u: npt.NDArray[np.float64], shape: Shape) -> Columns:
        shift = 2 * u.T - 1
        shift = shift * (severities * float(self.limit) / np.abs(shift).max(axis=1))[:, None]
        return {"corners": shift.reshape(-1, 4, 2) * [shape[1], shape[0]]}

    def matrices(self, height: int, width: int, parameters: Columns) -> Matrices:
        shift = parameters["corners"].astype(np.float64)
        right, bottom = max(1, width - 1), max(1, height - 1)
        corners = np.array([[0, 0], [right, 0], [right, bottom], [0, bottom]], dtype=np.float64)
        matrices = _homographies(shift + corners, np.broadcast_to(corners, shift.shape))
        matrices[~shift.any(axis=(1, 2))] = np.eye(3)  # nothing but rounding would be left of them
        return matrices


def _homographies(old: npt.NDArray[np.float64], new: npt.NDArray[np.float64]) -> Matrices:
    """The 3x3 matrices that take four points [n, 4, 2] to four others, with a one in their last place: eight linear equations each."""
    rows = np.zeros((len(old), 4, 2, 8))
    rows[:, :, 0, :2] = rows[:, :, 1, 3:5] = old
    rows[:, :, 0, 2] = rows[:, :, 1, 5] = 1
    rows[..., 6:] = -new[..., None] * old[:, :, None]
    solved = np.linalg.solve(rows.reshape(-1, 8, 8), new.reshape(-1, 8, 1))[..., 0]
    return np.concatenate([solved, np.ones((len(solved), 1))], axis=1).reshape(-1, 3, 3)


class Crop(_Geometry, Projection):
    """A window without the limit's share of each side at severity 1, at a random place, brought back to full size."""

    name = "crop"
    draws = 2

    def drawn(self, severities: npt.NDArray[np.float64], u: npt.NDArray[np.float64], shape: Shape) -> Columns:
        kept = 1 - severities * float(self.limit)
        return {"kept": kept, "left": (1 - kept) * (shape[1] - 1) * u[0], "top": (1 - kept) * (shape[0] - 1) * u[1]}

    def matrices(self, height: int, width: int, parameters: Columns) -> Matrices:
        matrices = _matrices(len(parameters["kept"]))
        matrices[:, 0, 0] = matrices[:, 1, 1] = parameters["kept"]
        matrices[:, 0, 2], matrices[:, 1, 2] = parameters["left"], parameters["top"]
        return matrices


class Elastic(_Geometry, Warp):
    """A smooth random field of shifts; the greatest, across or down, is the limit's share of the shorter side at severity 1.

    The field bends strokes and outlines and leaves their order as it is: its grid has five cells a side.
    """

    name = "elastic"
    draws = 1

    _CELLS = 5

    def drawn(self, severities: npt.NDArray[np.float64], u: npt.NDArray[np.float64], shape: Shape) -> Columns:
        return {"pixels": severities * float(self.limit) * min(shape[:2]), "grain": grains(u[0])}

    def positions(self, xp: Arrays, height: int, width: int, parameters: Columns) -> tuple[Array, Array]:
        grain = parameters["grain"]
        both = smooth(xp, np.concatenate([grain, grain + (1 << 32)]), "elastic", height, width, self._CELLS) * 2 - 1
        x, y = both[: len(grain)], both[len(grain) :]
        furthest = xp.clip(xp.highest(xp.maximum(xp.absolute(x), xp.absolute(y)), (1, 2)), 1e-6, None)
        scale = per_sample(xp, parameters["pixels"], 2) / furthest
        columns, rows = columns_and_rows(xp, height, width)
        return columns + x * scale, rows + y * scale


class GridDistortion(_Geometry, Warp):
    """The lines of a coarse grid move sideways; the one that moves most, by the limit's share of a cell at severity 1."""

    name = "grid_distortion"
    draws = 8

    def drawn(self, severities: npt.NDArray[np.float64], u: npt.NDArray[np.float64], shape: Shape) -> Columns:
        lines = 2 if min(shape[:2]) < 16 else 4
        shift = 2 * u[: 2 * lines].T - 1
        shift = shift * (severities * float(self.limit) / np.abs(shift).max(axis=1))[:, None]
        return {"columns": shift[:, :lines], "rows": shift[:, lines:]}

    def positions(self, xp: Arrays, height: int, width: int, parameters: Columns) -> tuple[Array, Array]:
        x = xp.constant(_with_lines(width, parameters["columns"]))[:, None, :]
        y = xp.constant(_with_lines(height, parameters["rows"]))[:, :, None]
        # Both broadcast to the same shape, so that floor and share are taken on the short sides only.
        return x, y


def _with_lines(length: int, shift: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """[n, length]: positions 0 to length - 1 after the grid's inner lines moved by ``shift`` [n, lines] cells; the outer lines stay."""
    cells = shift.shape[1] + 1
    lines = np.zeros((len(shift), cells + 1))
    lines[:, 1:-1] = shift
    place = np.arange(length) * (cells / max(1, length - 1))
    cell = np.minimum(place.astype(np.int64), cells - 1)
    share = place - cell
    moved = lines[:, cell] * (1 - share) + lines[:, cell + 1] * share
    return np.asarray(np.arange(length) + moved * (max(1, length - 1) / cells))


class OpticalDistortion(_Geometry, Warp):
    """Barrel or pincushion: positions move along the ray from the middle by the limit times the squared distance (1 in the corner).

    Source: Brown, "Decentering distortion of lenses", 1966, its first radial term.
    """

    name = "optical_distortion"
    draws = 1

    def drawn(self, severities: npt.NDArray[np.float64], u: npt.NDArray[np.float64], shape: Shape) -> Columns:
        return {"radial": severities * float(self.limit) * side(u[0])}

    def positions(self, xp: Arrays, height: int, width: int, parameters: Columns) -> tuple[Array, Array]:
        columns, rows = columns_and_rows(xp, height, width)
        x, y = columns - (width - 1) / 2, rows - (height - 1) / 2
        corner = max(1.0, ((width - 1) / 2) ** 2 + ((height - 1) / 2) ** 2)
        # Outside the middle, so that nothing moved means exactly nothing.
        moved = per_sample(xp, parameters["radial"], 2) * ((x * x + y * y) * (1 / corner))
        return columns + x * moved, rows + y * moved


class StrokeWidth(_Geometry):
    """Light shapes thicker or thinner: dilation or erosion whose radius is the limit's share of the shorter side at severity 1.

    Three by three squares, as often as the radius has pixels; what is left of it mixes in a share of one more.
    """

    name = "stroke_width"
    draws = 1

    def drawn(self, severities: npt.NDArray[np.float64], u: npt.NDArray[np.float64], shape: Shape) -> Columns:
        return {"pixels": severities * float(self.limit) * min(shape[:2]) * side(u[0])}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        sign = per_sample(xp, np.where(parameters["pixels"] < 0, -1.0, 1.0))
        changed = images * sign
        for shares in repeated_shares(np.abs(parameters["pixels"])):
            changed = changed + per_sample(xp, shares) * (greatest(xp, changed) - changed)
        return changed * sign


class _Mirror(_Geometry):
    """There or not: it happens for as many draws as severity times the limit says."""

    draws = 1

    def drawn(self, severities: npt.NDArray[np.float64], u: npt.NDArray[np.float64], shape: Shape) -> Columns:
        return {"happens": (u[0] < severities * float(self.limit)).astype(np.int64)}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        happens = xp.constant(parameters["happens"] != 0).reshape(-1, 1, 1, 1)
        return xp.where(happens, self._mirrored(xp, images), images)

    @abstractmethod
    def _mirrored(self, xp: Arrays, images: Array) -> Array: ...


def _reversed(xp: Arrays, images: Array, axis: int) -> Array:
    length = images.shape[axis]
    return xp.take(images, length - 1 - xp.counting(length), axis=axis)


class HorizontalFlip(_Mirror):
    """Left and right change places; keeps labels only where no class has a handedness."""

    name = "horizontal_flip"

    def _mirrored(self, xp: Arrays, images: Array) -> Array:
        return _reversed(xp, images, 2)


class VerticalFlip(_Mirror):
    """Top and bottom change places; keeps labels only where there is no up and down."""

    name = "vertical_flip"

    def _mirrored(self, xp: Arrays, images: Array) -> Array:
        return _reversed(xp, images, 1)


class Transpose(_Mirror):
    """Rows and columns change places; keeps labels only where there is no up and down."""

    name = "transpose"
    square = True

    def _mirrored(self, xp: Arrays, images: Array) -> Array:
        return images.transpose(1, 2) if xp.torch_like else images.transpose(0, 2, 1, 3)
