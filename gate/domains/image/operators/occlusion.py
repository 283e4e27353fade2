"""Something in front of the lens: a patch, several holes, a grid, stripes, lost pixels.

A patch whose edges lie on pixel edges gives the bytes that albumentations gives for the same hole.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from gate.domains.image.operators.arrays import Array, Arrays
from gate.domains.image.operators.base import Columns, Operator, Shape, grains, per_sample
from gate.domains.image.operators.cover import covered, laid_over, stripes
from gate.domains.image.operators.fields import bits32

__all__ = ["GridDropout", "Holes", "Patch", "PixelDropout", "Stripes"]

Severities = npt.NDArray[np.float64]
Draws = npt.NDArray[np.float64]


class _Occlusion(Operator):
    family: ClassVar[str] = "occlusion"


def _squares(severities: Severities, share: float, shape: Shape) -> tuple[Severities, float]:
    """Edges of squares over ``share`` of the area at severity 1, and the longest of them."""
    height, width = shape[:2]
    most = min(height, width)
    area = share * height * width
    return np.minimum(np.sqrt(severities * area), most), min(math.sqrt(area), most)


class Patch(_Occlusion):
    """A square of a random grey at a random place, over the limit's share of the area at severity 1."""

    name = "patch"
    draws = 3

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        edge, widest = _squares(severities, float(self.limit), shape)
        # The middle is where the widest patch still fits, so that one draw keeps its place at any severity.
        x, y = widest / 2 + u[0] * (shape[1] - widest), widest / 2 + u[1] * (shape[0] - widest)
        return {"x": x, "y": y, "edge": edge, "value": u[2]}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        half = parameters["edge"] / 2
        across = xp.constant(covered(images.shape[2], parameters["x"] - half, parameters["x"] + half))
        down = xp.constant(covered(images.shape[1], parameters["y"] - half, parameters["y"] + half))
        return laid_over(images, (down[:, :, None] * across[:, None])[..., None], per_sample(xp, parameters["value"]))


class Holes(_Occlusion):
    """Five small squares of one random grey at random places, together over the limit's share of the area at severity 1."""

    name = "holes"
    draws = 11

    _HOLES = 5

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        edge, widest = _squares(severities, float(self.limit) / self._HOLES, shape)
        x = widest / 2 + u[: self._HOLES].T * (shape[1] - widest)
        y = widest / 2 + u[self._HOLES : 2 * self._HOLES].T * (shape[0] - widest)
        return {"edge": edge, "value": u[-1], "x": x, "y": y}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        half = (parameters["edge"] / 2)[:, None]
        across = xp.constant(covered(images.shape[2], parameters["x"] - half, parameters["x"] + half))
        down = xp.constant(covered(images.shape[1], parameters["y"] - half, parameters["y"] + half))
        cover = xp.highest(down[:, :, :, None] * across[:, :, None, :], (1,))
        return laid_over(images, cover.reshape(*images.shape[:3], 1), per_sample(xp, parameters["value"]))


class GridDropout(_Occlusion):
    """A grid of squares of one random grey, four to the shorter side, together over the limit's share of the area at severity 1."""

    name = "grid_dropout"
    draws = 3

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        period = np.full(len(severities), max(1.0, min(shape[:2]) / 4))
        edge = period * np.sqrt(severities * float(self.limit))
        return {"edge": edge, "value": u[2], "period": period, "left": u[0] * period, "top": u[1] * period}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        period, edge = parameters["period"].astype(np.float64), parameters["edge"].astype(np.float64)
        across = xp.constant(stripes(images.shape[2], period, edge, parameters["left"]))
        down = xp.constant(stripes(images.shape[1], period, edge, parameters["top"]))
        return laid_over(images, (down[:, :, None] * across[:, None])[..., None], per_sample(xp, parameters["value"]))


class Stripes(_Occlusion):
    """One bar across and one down, of one random grey, each over half the limit's share of the area at severity 1."""

    name = "stripes"
    draws = 3

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        half = float(self.limit) / 2
        share = severities * half
        left, top = (half / 2 + place * (1 - half) for place in u[:2])
        return {"share": share, "value": u[2], "x": left * shape[1], "y": top * shape[0]}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        height, width = images.shape[1:3]
        half = parameters["share"] / 2
        across = xp.constant(covered(width, parameters["x"] - half * width, parameters["x"] + half * width))
        down = xp.constant(covered(height, parameters["y"] - half * height, parameters["y"] + half * height))
        cover = xp.maximum(down[:, :, None] + across[:, None] * 0, across[:, None] + down[:, :, None] * 0)
        return laid_over(images, cover[..., None], per_sample(xp, parameters["value"]))


class PixelDropout(_Occlusion):
    """The limit's share of pixels lost to one random grey at severity 1; those of a lesser severity stay among them."""

    name = "pixel_dropout"
    draws = 2

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"share": severities * float(self.limit), "value": u[0], "grain": grains(u[1])}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        count, height, width, _ = images.shape
        field = bits32(xp, parameters["grain"], self.name, height * width).reshape(count, height, width, 1)
        most = np.rint(parameters["share"].astype(np.float64) * (1 << 32)).astype(np.int64).reshape(-1, 1, 1, 1)
        return xp.where(field < xp.constant(most), images * 0 + per_sample(xp, parameters["value"]), images)
