"""Weather and sun: fog, rain, snow, spatter, shadow, sun flare. Drops, flakes and clouds scale with the picture."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from gate.domains.image.operators.arrays import Array, Arrays
from gate.domains.image.operators.base import Columns, Operator, Shape, each, grains, per_sample
from gate.domains.image.operators.cover import laid_over
from gate.domains.image.operators.fields import smooth, uniform
from gate.domains.image.operators.warp import columns_and_rows

__all__ = ["Fog", "Rain", "Shadow", "Snow", "Spatter", "SunFlare"]

Severities = npt.NDArray[np.float64]
Draws = npt.NDArray[np.float64]


class _Weather(Operator):
    family: ClassVar[str] = "weather"


class _Dense(_Weather):
    """Weather with a density."""

    draws = 1

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"density": severities * float(self.limit), "grain": grains(u[0])}


class Fog(_Dense):
    """Drifting white clouds over the whole picture; the densest spot hides the limit's share of it at severity 1."""

    name = "fog"

    _CELLS = 4

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        clouds = smooth(xp, parameters["grain"], self.name, images.shape[1], images.shape[2], self._CELLS)
        cover = clouds / xp.highest(clouds, (1, 2)) * per_sample(xp, parameters["density"], 2)
        return laid_over(images, cover[..., None], 1.0)


class Rain(_Weather):
    """Light streaks and a darker picture; the limit scales their number, their brightness and the darkening at severity 1.

    The picture is cut into slanting cells, each with the place of one streak; those of a lesser density are among those of a greater one.
    """

    name = "rain"
    draws = 2

    _ACROSS, _DOWN = 12, 5  # cells

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"density": severities * float(self.limit), "slant": u[0] - 0.5, "grain": grains(u[1])}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        height, width = images.shape[1:3]
        density = parameters["density"].astype(np.float64)
        columns, rows = columns_and_rows(xp, height, width)
        # The slant moves streaks sideways as they fall: by at most half the height, so half as many cells more are needed beside.
        spare = math.ceil(self._ACROSS * 0.5 * height / width) + 1
        wide = self._ACROSS + 2 * spare
        across = (columns + per_sample(xp, parameters["slant"], 2) * rows) * (self._ACROSS / width) + float(spare)
        column = xp.clip(xp.floor(across), 0.0, wide - 1.0)
        down = rows * (self._DOWN / height) + across * 0
        row = xp.clip(xp.floor(down), 0.0, self._DOWN - 1.0)
        random = uniform(xp, parameters["grain"], self.name, 3 * wide * self._DOWN)
        cell = xp.whole(row) * wide + xp.whole(column) + (xp.counting(len(images)) * (3 * wide * self._DOWN)).reshape(-1, 1, 1)
        there = xp.take(random.reshape(-1), cell)
        place = xp.take(random.reshape(-1), cell + wide * self._DOWN)
        start = xp.take(random.reshape(-1), cell + 2 * wide * self._DOWN)
        thickness = min(1.0, min(height, width) / 64) if min(height, width) < 150 else min(height, width) / 150
        # How much of a pixel the streak covers, sideways and along; its length is two thirds of a cell.
        sideways = xp.absolute(across - column - (0.2 + 0.6 * place)) * (width / self._ACROSS)
        covered = xp.clip(thickness / 2 + 0.5 - sideways, 0.0, min(1.0, thickness))
        along = xp.absolute(down - row - (1 / 3 + start * (1 / 3))) * (height / self._DOWN)
        covered = covered * xp.clip(height / self._DOWN / 3 + 0.5 - along, 0.0, 1.0)
        falls = xp.single(there < per_sample(xp, density, 2))
        wet = images * per_sample(xp, 1 - 0.5 * density)
        return laid_over(wet, (covered * falls * per_sample(xp, 0.3 + 0.5 * density, 2))[..., None], 0.85)


class Snow(_Dense):
    """White flakes and a light veil; the limit scales their number, their brightness and the veil at severity 1.

    The picture is cut into cells, each with the place of one flake; those of a lesser density are among those of a greater one.
    """

    name = "snow"

    _CELLS = 10  # along the shorter side

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        height, width = images.shape[1:3]
        density = parameters["density"].astype(np.float64)
        cell_side = min(height, width) / self._CELLS
        wide, tall = math.ceil(width / cell_side), math.ceil(height / cell_side)
        columns, rows = columns_and_rows(xp, height, width)
        # From the middle of a pixel, so that small pictures too have pixels in most cells.
        across, down = (columns + 0.5) * (1 / cell_side), (rows + 0.5) * (1 / cell_side)
        column, row = xp.clip(xp.floor(across), 0.0, wide - 1.0), xp.clip(xp.floor(down), 0.0, tall - 1.0)
        size = wide * tall
        random = uniform(xp, parameters["grain"], self.name, 3 * size).reshape(-1)
        cell = xp.whole(row) * wide + xp.whole(column) + (xp.counting(len(images)) * (3 * size)).reshape(-1, 1, 1)
        there, place_x, place_y = (xp.take(random, cell + part * size) for part in range(3))
        x = (across - column - (0.3 + 0.4 * place_x)) * cell_side
        y = (down - row - (0.3 + 0.4 * place_y)) * cell_side
        # A flake as wide as a quarter of a cell, but seen through a pixel: wider, and paler in turn.
        radius = cell_side / 4
        seen = radius + 0.5
        flake = xp.clip(1.0 - (x * x + y * y) * (1 / seen**2), 0.0, 1.0) * min(1.0, math.pi * radius**2 * 2)
        falls = xp.single(there < per_sample(xp, density, 2))
        veiled = laid_over(images, per_sample(xp, 0.2 * density), 1.0)
        return laid_over(veiled, (flake * falls * per_sample(xp, 0.4 + 0.5 * density, 2))[..., None], 1.0)


class Spatter(_Weather):
    """Drops of dark mud or light water on the lens, over at most the limit's share of the range of a random relief, at severity 1."""

    name = "spatter"
    draws = 2

    _CELLS = 8
    _OPACITY = 0.7

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"density": severities * float(self.limit), "value": np.where(u[0] < 0.5, 0.2, 0.8), "grain": grains(u[1])}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        relief = smooth(xp, parameters["grain"], self.name, images.shape[1], images.shape[2], self._CELLS)
        low, high = xp.lowest(relief, (1, 2)), xp.highest(relief, (1, 2))
        depth = (high - relief) / xp.clip(high - low, 1e-6, None)  # 0 on the summit, 1 at the lowest place
        cover = xp.clip((per_sample(xp, parameters["density"], 2) - depth) * 6.0, 0.0, 1.0) * self._OPACITY
        return laid_over(images, cover[..., None], per_sample(xp, parameters["value"]))


class Shadow(_Weather):
    """One straight-edged shadow over a part of the picture, darker by the limit's share at severity 1."""

    name = "shadow"
    draws = 2

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {
            "darkness": severities * float(self.limit),
            "degrees": u[0] * 360,
            "offset": u[1] * 0.4 - 0.2,  # of the edge from the middle, share of the diagonal
        }

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        height, width = images.shape[1:3]
        angles = parameters["degrees"] * (math.pi / 180)
        cos, sin = each(math.cos, angles), each(math.sin, angles)
        columns, rows = columns_and_rows(xp, height, width)
        x, y = columns - (width - 1) / 2, rows - (height - 1) / 2
        foot = per_sample(xp, parameters["offset"] * math.hypot(height, width), 2)
        beyond = x * per_sample(xp, cos, 2) + y * per_sample(xp, sin, 2) - foot
        cover = xp.clip(beyond + 0.5, 0.0, 1.0) * per_sample(xp, parameters["darkness"], 2)
        return laid_over(images, cover[..., None], 0.0)


class SunFlare(_Weather):
    """A sun at the upper edge with lens ghosts toward the middle; its brightest spot hides the limit's share at severity 1."""

    name = "sun_flare"
    draws = 3

    _GHOSTS = 5

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"glare": severities * float(self.limit), "x": u[0], "y": u[1] * 0.1, "grain": grains(u[2])}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        height, width = images.shape[1:3]
        shorter = min(height, width)
        columns, rows = columns_and_rows(xp, height, width)
        x = per_sample(xp, parameters["x"] * width - 0.5, 2)
        y = per_sample(xp, parameters["y"] * height - 0.5, 2)
        random = uniform(xp, parameters["grain"], self.name, 3 * self._GHOSTS)
        glow = _spot(xp, columns - x, rows - y, 0.9 * shorter)
        cover = glow * glow
        # On the line from the sun through the middle of the lens, as real ghosts are.
        way, size, strength = (random.reshape(-1, 3, self._GHOSTS, 1, 1)[:, part] for part in range(3))
        x, y, way = x[:, None], y[:, None], 0.5 + 1.1 * way
        there_x, there_y = x + way * ((width - 1) / 2 - x), y + way * ((height - 1) / 2 - y)
        radius = (0.02 + 0.05 * size) * shorter
        # A ghost smaller than a pixel is spread over one, and paler in turn.
        disc = xp.clip(_spot(xp, columns - there_x, rows - there_y, radius + 0.7) * 3.0, 0.0, 1.0)
        ghosts = disc * ((0.12 + 0.08 * strength) * xp.clip(radius * radius * 2.0, None, 1.0))
        cover = xp.maximum(cover, xp.highest(ghosts, (1,)).reshape(-1, height, width))
        return laid_over(images, (cover * per_sample(xp, parameters["glare"], 2))[..., None], 1.0)


def _spot(xp: Arrays, x: Array, y: Array, radius: Array | float) -> Array:
    """1 in the middle, falling with the squared distance to 0 at the radius."""
    reach = x * 0 + radius
    return xp.clip(1.0 - (x * x + y * y) / (reach * reach), 0.0, 1.0)
