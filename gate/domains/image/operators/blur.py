"""Focus, movement and lens: blurs of several shapes, ringing, and colours that miss each other.

Gaussian, motion and box blur agree with albumentations within 1e-4 of the value range where both use the same width.
"""

from __future__ import annotations

import math
from functools import cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from gate.domains.image.operators.arrays import Array, Arrays
from gate.domains.image.operators.base import Columns, Operator, Shape, each, grains, per_sample
from gate.domains.image.operators.fields import uniform
from gate.domains.image.operators.filters import convolve, in_order, median, repeated_shares, separable
from gate.domains.image.operators.warp import bilinear, columns_and_rows
from gate.domains.image.operators.warped import Warp

__all__ = [
    "BoxBlur",
    "ChromaticAberration",
    "Defocus",
    "GaussianBlur",
    "GlassBlur",
    "MedianBlur",
    "MotionBlur",
    "Ringing",
    "ZoomBlur",
    "gaussian_lines",
]

Severities = npt.NDArray[np.float64]
Draws = npt.NDArray[np.float64]


class _Blur(Operator):
    family: ClassVar[str] = "blur"


def _places(radius: int) -> npt.NDArray[np.float64]:
    return np.arange(-radius, radius + 1, dtype=np.float64)


def gaussian_lines(sigmas: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """[n, k]: normalised, cut off beyond three standard deviations (in pixels) of each sample's own."""
    reach = np.ceil(3 * sigmas)
    places = _places(int(reach.max(initial=0.0)))
    lines = each(math.exp, -0.5 * (places / sigmas[:, None]) ** 2) * (np.abs(places) <= reach[:, None])
    return np.asarray(lines / in_order(lines))


class GaussianBlur(_Blur):
    """Standard deviation: the limit's share of the shorter side at severity 1."""

    name = "gaussian_blur"

    _NARROWEST = 0.8  # pixels

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"sigma": severities * float(self.limit) * min(shape[:2])}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        # A Gaussian narrower than a pixel can't be sampled; a mix of the picture and the narrowest one has the same variance.
        sigma = parameters["sigma"].astype(np.float64)
        width = np.maximum(sigma, self._NARROWEST)
        share = ((sigma / width) ** 2)[:, None]
        lines = share * gaussian_lines(width)
        lines[:, lines.shape[1] // 2] += 1 - share[:, 0]
        return separable(xp, images, lines)


class BoxBlur(_Blur):
    """The mean over a square; its side is one pixel and the limit's share of the shorter side at severity 1."""

    name = "box_blur"

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"pixels": severities * float(self.limit) * min(shape[:2])}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        side = (1 + parameters["pixels"])[:, None]
        radius = math.ceil(float(side.max(initial=1.0)) / 2 - 0.5)
        return separable(xp, images, np.clip(side / 2 + 0.5 - np.abs(_places(radius)), 0, 1) / side)


class MotionBlur(_Blur):
    """The camera moves by the limit's share of the shorter side at severity 1, in a random direction."""

    name = "motion_blur"
    draws = 1

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"pixels": severities * float(self.limit) * min(shape[:2]), "degrees": u[0] * 180}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        # Lines have odd lengths 1, 3, 5 ... (movement 0, 2, 4 ...); lengths between are mixed from both neighbours.
        pixels = parameters["pixels"].astype(np.float64)
        angles = parameters["degrees"] * (math.pi / 180)
        across, down = each(math.cos, angles), each(math.sin, angles)
        radii = (pixels // 2).astype(np.int64)
        share = (pixels % 2 / 2)[:, None, None]
        widest = int(radii.max(initial=0)) + 1
        return convolve(xp, images, (1 - share) * _streaks(radii, across, down, widest) + share * _streaks(radii + 1, across, down, widest))


def _streaks(radii: npt.NDArray[np.int64], across: Draws, down: Draws, widest: int) -> npt.NDArray[np.float64]:
    """[n, k, k]: straight lines through the middle, normalised, with k = 2 widest + 1."""
    steps = np.arange(-widest, widest + 1)
    # Rounded where the library rounds: in the corner of a kernel that is just large enough.
    columns = np.rint(radii[:, None] + across[:, None] * steps).astype(np.int64) - radii[:, None] + widest
    rows = np.rint(radii[:, None] + down[:, None] * steps).astype(np.int64) - radii[:, None] + widest
    sample, step = np.nonzero(np.abs(steps) <= radii[:, None])
    kernels = np.zeros((len(radii), 2 * widest + 1, 2 * widest + 1))
    kernels[sample, rows[sample, step], columns[sample, step]] = 1
    return np.asarray(kernels / kernels.sum(axis=(1, 2), keepdims=True))  # ones: exact in any order


class Defocus(_Blur):
    """Out of focus: the mean over a disc whose radius is the limit's share of the shorter side at severity 1."""

    name = "defocus"

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"radius": severities * float(self.limit) * min(shape[:2])}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        # A disc that reaches no neighbour would change nothing: smaller ones are mixes of the picture and the smallest that does.
        radius = parameters["radius"].astype(np.float64)
        wide = np.maximum(radius, 1.0)
        share = (radius / wide)[:, None, None]
        places = _places(math.ceil(float(wide.max(initial=1.0)) - 0.5))
        distance = np.sqrt(places[:, None] ** 2 + places[None] ** 2)
        discs = np.clip(wide[:, None, None] + 0.5 - distance, 0, 1)
        discs = share * discs / in_order(in_order(discs)[..., 0])[..., None]
        middle = len(places) // 2
        discs[:, middle, middle] += 1 - share[:, 0, 0]
        return convolve(xp, images, discs)


class ZoomBlur(_Blur):
    """The lens zooms in by the limit at severity 1 while the shutter is open: the mean of six moments."""

    name = "zoom_blur"

    _MOMENTS = 6

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"zoom": severities * float(self.limit)}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        height, width = images.shape[1:3]
        columns, rows = columns_and_rows(xp, height, width)
        x, y = columns - (width - 1) / 2, rows - (height - 1) / 2
        zoom = parameters["zoom"].astype(np.float64)
        moments = np.arange(1, self._MOMENTS) / (self._MOMENTS - 1)
        # All moments of all samples at once, moment by moment.
        nearer = per_sample(xp, (1 / (1 + zoom[None] * moments[:, None]) - 1).reshape(-1), 2)
        seen = bilinear(xp, xp.concat([images] * len(moments)), columns + x * nearer, rows + y * nearer)
        count = len(images)
        change = seen[:count] - images
        for moment in range(1, len(moments)):
            change = change + (seen[moment * count : (moment + 1) * count] - images)
        return images + change * (1 / self._MOMENTS)


class MedianBlur(_Blur):
    """The median of three by three pixels, as often as the limit's share of the shorter side has pixels, at severity 1."""

    name = "median_blur"

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"pixels": severities * float(self.limit) * min(shape[:2])}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        changed = images
        for shares in repeated_shares(parameters["pixels"].astype(np.float64)):
            changed = changed + per_sample(xp, shares) * (median(xp, changed) - changed)
        return changed


class GlassBlur(_Blur, Warp):
    """Seen through rippled glass: every pixel is taken from a random place, at most the limit's share of the shorter side away."""

    name = "glass_blur"
    draws = 1

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"pixels": severities * float(self.limit) * min(shape[:2]), "grain": grains(u[0])}

    def positions(self, xp: Arrays, height: int, width: int, parameters: Columns) -> tuple[Array, Array]:
        count = len(parameters["grain"])
        random = (uniform(xp, parameters["grain"], "glass_blur", 2 * height * width) * 2 - 1).reshape(count, 2, height, width)
        reach = per_sample(xp, parameters["pixels"], 2)
        columns, rows = columns_and_rows(xp, height, width)
        return columns + random[:, 0] * reach, rows + random[:, 1] * reach


class Ringing(_Blur):
    """Waves beside edges, as a sharp cut-off of fine detail makes them, mixed in; the limit is the share at severity 1.

    The kernel is the ideal round low-pass filter of half the highest frequency, 5 pixels wide: J1(c r) c / (2 pi r) with c = pi / 2.
    """

    name = "ringing"

    _RADIUS = 2

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"share": severities * float(self.limit)}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        kernels = _low_pass(self._RADIUS) * parameters["share"][:, None, None]
        kernels[:, self._RADIUS, self._RADIUS] += 1 - parameters["share"]
        return convolve(xp, images, kernels)


@cache
def _low_pass(radius: int) -> npt.NDArray[np.float64]:
    places = _places(radius)
    distance = np.sqrt(places[:, None] ** 2 + places[None] ** 2)
    distance[radius, radius] = 1
    cutoff = math.pi / 2
    kernel = cutoff * _bessel(cutoff * distance) / (2 * math.pi * distance)
    kernel[radius, radius] = cutoff**2 / (4 * math.pi)
    return np.asarray(kernel / kernel.sum())


def _bessel(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """J1, the Bessel function of the first kind and order one, by its power series: exact to rounding for x up to 10."""
    term = x / 2
    total = term.copy()
    for k in range(1, 40):
        term = term * -((x / 2) ** 2) / (k * (k + 1))
        total += term
    return total


class ChromaticAberration(_Blur):
    """Red and blue are projected larger and smaller than green, by the limit's share at severity 1."""

    name = "chromatic_aberration"
    colour = True

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"spread": severities * float(self.limit)}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        height, width = images.shape[1:3]
        columns, rows = columns_and_rows(xp, height, width)
        x, y = columns - (width - 1) / 2, rows - (height - 1) / 2
        spread = per_sample(xp, parameters["spread"], 2)
        red = bilinear(xp, images[..., :1], columns - x * spread, rows - y * spread)
        blue = bilinear(xp, images[..., 2:], columns + x * spread, rows + y * spread)
        return xp.concat([red, images[..., 1:2], blue], 3)
