"""Light, exposure and colour.

Brightness, contrast and gamma agree with albumentations within 1e-3 of the value range.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from gate.domains.image import albumentations_adapter as library
from gate.domains.image.operators.arrays import Array, Arrays
from gate.domains.image.operators.base import Column, Columns, OneByOne, Operator, Shape, each, per_sample, side
from gate.domains.image.operators.blur import gaussian_lines
from gate.domains.image.operators.filters import convolve, separable

__all__ = [
    "AutoContrast",
    "Brightness",
    "Clahe",
    "ColourTemperature",
    "Contrast",
    "Emboss",
    "Equalize",
    "Gamma",
    "Hue",
    "Illumination",
    "Invert",
    "Posterize",
    "RgbShift",
    "Saturation",
    "Sepia",
    "Sharpen",
    "Solarize",
    "ToGray",
    "ToneCurve",
    "UnsharpMask",
]

SMALLEST_STEP = 1e-6  # of posterizing, in shares of the value range: below it nothing is seen, and far below its inverse is infinite

Severities = npt.NDArray[np.float64]
Draws = npt.NDArray[np.float64]

_LUMINANCE = np.array([0.299, 0.587, 0.114])  # of red, green and blue; ITU-R BT.601


class _Photometry(Operator):
    family: ClassVar[str] = "photometry"


class Brightness(_Photometry):
    """Adds the limit's share of the value range at severity 1, either way."""

    name = "brightness"
    draws = 1

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"added": severities * float(self.limit) * side(u[0])}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        return images + per_sample(xp, parameters["added"])


class Contrast(_Photometry):
    """Distances from the picture's mean times 1 - limit or 1 + limit at severity 1."""

    name = "contrast"
    draws = 1

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"factor": 1 + severities * float(self.limit) * side(u[0])}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        factor = parameters["factor"]
        return images * per_sample(xp, factor) + _means(xp, images) * per_sample(xp, 1 - factor)


def _means(xp: Arrays, images: Array) -> Array:
    """[n, 1, 1, 1], from values in steps of 2**-20: whole numbers have the same sum in any order."""
    steps = xp.whole(xp.rint(images * float(1 << 20)))
    size = images.shape[1] * images.shape[2] * images.shape[3]
    return xp.single(xp.double(xp.total(steps, (1, 2, 3))) * (1 / (size << 20)))


class Gamma(_Photometry):
    """value ** gamma; at severity 1 gamma is one end of the limit's range, on the way there a power of it.

    By a table over the root of the value, linear between its 257 places: off by less than 1e-3 for any exponent from 0.3 to 10.
    """

    name = "gamma"
    draws = 1

    _PLACES = 256

    @classmethod
    def off(cls, limit: Any) -> bool:
        return limit is None or tuple(limit) == (1, 1)

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        ends = np.array([math.log(end) for end in self.limit if end != 1])
        chosen = ends[np.minimum((u[0] * len(ends)).astype(np.int64), len(ends) - 1)]
        return {"gamma": each(math.exp, chosen * severities)}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        gamma = parameters["gamma"].astype(np.float64)
        roots = np.arange(self._PLACES + 2) / self._PLACES
        table = xp.constant(roots[None] ** (2 * gamma[:, None])).reshape(-1)
        place = xp.root(images) * float(self._PLACES)
        below = xp.floor(place)
        start = (xp.counting(len(images)) * len(roots)).reshape(-1, 1, 1, 1)
        index = xp.whole(below) + start
        low, high = xp.take(table, index), xp.take(table, index + 1)
        changed = low + (place - below) * (high - low)
        return xp.where(xp.constant(gamma != 1).reshape(-1, 1, 1, 1), changed, images)


class ToneCurve(_Photometry):
    """A bend of the response: the two inner points of a cubic Bezier curve rise or fall, each on its own, by the limit at severity 1."""

    name = "tone_curve"
    draws = 2

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        reach = severities * float(self.limit)
        return {"shadows": reach * side(u[0]), "lights": reach * side(u[1])}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        rest = 1.0 - images
        inner = 3.0 * (images * rest)
        return images + inner * (rest * per_sample(xp, parameters["shadows"]) + images * per_sample(xp, parameters["lights"]))


class Illumination(_Photometry):
    """Light from one side: across the picture brightness changes from 1 - limit to 1 + limit times at severity 1, in a random direction."""

    name = "illumination"
    draws = 1

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"change": severities * float(self.limit), "degrees": u[0] * 360}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        height, width = images.shape[1:3]
        angles = parameters["degrees"] * (math.pi / 180)
        x = (2 * np.arange(width) + 1) / width - 1
        y = (2 * np.arange(height) + 1) / height - 1
        cos, sin = each(math.cos, angles), each(math.sin, angles)
        slope = (parameters["change"] / np.maximum(np.abs(cos) + np.abs(sin), 1e-9))[:, None]
        across, down = xp.constant(slope * cos[:, None] * x), xp.constant(slope * sin[:, None] * y)
        return images + images * (across[:, None, :, None] + down[:, :, None, None])


class Clahe(_Photometry, OneByOne):
    """Local contrast evened out (contrast limited adaptive histogram equalisation) and mixed in; the limit is the share at severity 1.

    Source: Zuiderveld, "Contrast limited adaptive histogram equalization", Graphics Gems IV, 1994.
    """

    name = "clahe"

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"share": severities * float(self.limit)}

    def _one(self, image: npt.NDArray[np.float32], parameters: Mapping[str, Any]) -> npt.NDArray[np.float32]:
        return image + np.float32(parameters["share"]) * (library.clahe(image) - image)


class Equalize(_Photometry):
    """Every level as frequent as any other, channel by channel, mixed in; the limit is the share at severity 1."""

    name = "equalize"

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"share": severities * float(self.limit)}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        count, height, width, channels = images.shape
        pictures = (xp.counting(count)[:, None] * channels + xp.counting(channels)[None]).reshape(count, 1, 1, channels)
        levels = xp.whole(xp.rint(images * 255.0)) + pictures * 256
        counted = xp.counts(levels.reshape(-1), count * channels * 256).reshape(count * channels, 256)
        up_to = xp.running(counted)
        # The number of the darkest level there is; what is darker maps to 0, which no pixel asks for.
        darkest = xp.lowest(xp.where(up_to > 0, up_to, up_to * 0 + height * width), (1,))
        span = xp.clip(xp.single(height * width - darkest), 1.0, None)
        table = xp.clip(xp.single(up_to - darkest) / span, 0.0, 1.0)
        flat = darkest == height * width  # one level only: nothing to even out
        share = per_sample(xp, parameters["share"]) * (1.0 - xp.single(flat).reshape(count, 1, 1, channels))
        return images + share * (xp.take(table.reshape(-1), levels) - images)


class AutoContrast(_Photometry):
    """Stretched to the whole value range, channel by channel, and mixed in; the limit is the share at severity 1."""

    name = "auto_contrast"

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"share": severities * float(self.limit)}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        low, high = xp.lowest(images, (1, 2)), xp.highest(images, (1, 2))
        flat = high == low
        stretched = (images - low) / xp.where(flat, high * 0 + 1.0, high - low)
        return images + per_sample(xp, parameters["share"]) * xp.where(flat, images * 0, stretched - images)


class Posterize(_Photometry):
    """Fewer levels, in steps of the limit's share of the value range at severity 1; the draw decides where they begin."""

    name = "posterize"
    draws = 1

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"step": severities * float(self.limit), "phase": u[0]}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        step = parameters["step"]
        phase = per_sample(xp, parameters["phase"])
        some = step > SMALLEST_STEP
        levels = xp.rint(images * per_sample(xp, 1 / np.where(some, step, 1.0)) + phase) - phase
        return xp.where(xp.constant(some).reshape(-1, 1, 1, 1), levels * per_sample(xp, step), images)


class Solarize(_Photometry):
    """The lightest values inverted: those in the limit's share of the value range at severity 1."""

    name = "solarize"

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"threshold": 1 - severities * float(self.limit)}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        return xp.where(images > per_sample(xp, parameters["threshold"]), 1.0 - images, images)


class Invert(_Photometry):
    """Light and dark change places; there or not: it happens for as many draws as severity times the limit says."""

    name = "invert"
    draws = 1

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"happens": (u[0] < severities * float(self.limit)).astype(np.int64)}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        return xp.where(xp.constant(parameters["happens"] != 0).reshape(-1, 1, 1, 1), 1.0 - images, images)


class Sharpen(_Photometry):
    """Adds the limit times the difference from the mean of the eight neighbours, at severity 1."""

    name = "sharpen"

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"amount": severities * float(self.limit)}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        amount = parameters["amount"][:, None, None]
        kernels = np.broadcast_to(np.array([[-1.0, -1, -1], [-1, 8, -1], [-1, -1, -1]]) / 8, (len(images), 3, 3)) * amount
        kernels[:, 1, 1] += 1
        return convolve(xp, images, kernels)


class UnsharpMask(_Photometry):
    """Adds the limit times the difference from a Gaussian blur (a fortieth of the shorter side wide), at severity 1."""

    name = "unsharp_mask"

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"amount": severities * float(self.limit), "sigma": np.full(len(severities), max(1.0, min(shape[:2]) / 40))}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        soft = separable(xp, images, gaussian_lines(parameters["sigma"]))
        return images + per_sample(xp, parameters["amount"]) * (images - soft)


class Emboss(_Photometry):
    """Relief under light from the upper left, or from the lower right; the limit is its height at severity 1."""

    name = "emboss"
    draws = 1

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"height": severities * float(self.limit) * side(u[0])}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        height = parameters["height"][:, None, None]
        kernels = np.broadcast_to(np.array([[-1.0, -1, 0], [-1, 0, 1], [0, 1, 1]]) / 2, (len(images), 3, 3)) * height
        kernels[:, 1, 1] += 1
        return convolve(xp, images, kernels)


class _ColourMatrix(_Photometry):
    """New red, green and blue as sums of the old ones."""

    colour = True

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        m = xp.constant(self._matrices(parameters))
        parts = []
        for new in range(3):
            row = m[:, new].reshape(-1, 3, 1, 1)
            parts.append(row[:, 0] * images[..., 0] + row[:, 1] * images[..., 1] + row[:, 2] * images[..., 2])
        return xp.stack(parts, 3)

    @abstractmethod
    def _matrices(self, parameters: Columns) -> Column:
        """float64 [n, 3, 3]."""


def _mixed(share: Column, matrix: npt.NDArray[np.float64]) -> Column:
    return np.eye(3) + share[:, None, None] * (matrix - np.eye(3))


class Hue(_ColourMatrix):
    """Colours turned about the grey axis by the limit's degrees at severity 1, either way (Rodrigues' rotation formula)."""

    name = "hue"
    draws = 1

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"degrees": severities * float(self.limit) * side(u[0])}

    def _matrices(self, parameters: Columns) -> Column:
        angles = parameters["degrees"] * (math.pi / 180)
        grey = np.full((3, 3), 1 / 3)
        cross = np.array([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]]) / math.sqrt(3)
        cos, sin = each(math.cos, angles)[:, None, None], each(math.sin, angles)[:, None, None]
        return np.asarray(cos * np.eye(3) + (1 - cos) * grey + sin * cross)


class Saturation(_ColourMatrix):
    """Distances from grey times 1 - limit or 1 + limit at severity 1."""

    name = "saturation"
    draws = 1

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"factor": 1 + severities * float(self.limit) * side(u[0])}

    def _matrices(self, parameters: Columns) -> Column:
        return _mixed(1 - parameters["factor"], np.tile(_LUMINANCE, (3, 1)))


class ToGray(_ColourMatrix):
    """Colour taken away; the limit is the share of it at severity 1."""

    name = "to_gray"

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"share": severities * float(self.limit)}

    def _matrices(self, parameters: Columns) -> Column:
        return _mixed(parameters["share"], np.tile(_LUMINANCE, (3, 1)))


class Sepia(_ColourMatrix):
    """The brown of old prints, mixed in; the limit is the share at severity 1."""

    name = "sepia"

    _BROWN = np.array([[0.393, 0.769, 0.189], [0.349, 0.686, 0.168], [0.272, 0.534, 0.131]])  # the matrix that albumentations uses

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"share": severities * float(self.limit)}

    def _matrices(self, parameters: Columns) -> Column:
        return _mixed(parameters["share"], self._BROWN)


class RgbShift(_Photometry):
    """Each channel gets a number of its own added; the one that changes most, the limit's share of the value range at severity 1."""

    name = "rgb_shift"
    colour = True
    draws = 3

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        shift = 2 * u.T - 1
        return {"added": shift * (severities * float(self.limit) / np.abs(shift).max(axis=1))[:, None]}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        return images + xp.constant(parameters["added"].astype(np.float64)).reshape(-1, 1, 1, 3)


class ColourTemperature(_Photometry):
    """Daylight (6504 K) becomes colder or warmer light, by the limit in mired at severity 1.

    Channels are multiplied by the ratio of Planck's radiation at 610, 550 and 465 nm, with green kept as it is.
    """

    name = "colour_temperature"
    colour = True
    draws = 1

    _SECOND_CONSTANT = 1.438777e-2  # metre kelvin, of Planck's law (CODATA)
    _WAVELENGTHS = np.array([610e-9, 550e-9, 465e-9])
    _DAYLIGHT = 1e6 / 6504  # mired

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"mired": severities * float(self.limit) * side(u[0])}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        mired = self._DAYLIGHT + parameters["mired"]
        exponent = self._SECOND_CONSTANT * 1e-6 / self._WAVELENGTHS
        radiation = (np.expm1(exponent * self._DAYLIGHT))[None] / each(math.expm1, exponent * mired[:, None])
        gains = radiation / radiation[:, 1:2]
        return images * xp.constant(gains).reshape(-1, 1, 1, 3)
