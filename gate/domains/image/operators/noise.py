"""Sensor noise: Gaussian, uniform, growing with the light, and dead pixels."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from gate.domains.image.operators.arrays import Array, Arrays
from gate.domains.image.operators.base import Columns, Operator, Shape, grains, per_sample
from gate.domains.image.operators.fields import bits32, normal, uniform

__all__ = ["GaussianNoise", "IsoNoise", "MultiplicativeNoise", "SaltPepper", "ShotNoise", "UniformNoise"]

Severities = npt.NDArray[np.float64]
Draws = npt.NDArray[np.float64]


class _Noise(Operator):
    family: ClassVar[str] = "noise"
    draws = 1


class _Grained(_Noise):
    """Noise with one strength."""

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"sigma": severities * float(self.limit), "grain": grains(u[0])}

    def _normal(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        size = images.shape[1] * images.shape[2] * images.shape[3]
        return normal(xp, parameters["grain"], self.name, size).reshape(images.shape)


class GaussianNoise(_Grained):
    """Standard deviation: the limit's share of the value range at severity 1; every channel on its own."""

    name = "gaussian_noise"

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        return images + self._normal(xp, images, parameters) * per_sample(xp, parameters["sigma"])


class ShotNoise(_Grained):
    """The noise of few photons: normal, its variance in proportion to the light. The limit is its standard deviation at full light.

    Source: the normal approximation of the Poisson distribution.
    """

    name = "shot_noise"

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        return images + self._normal(xp, images, parameters) * xp.root(images) * per_sample(xp, parameters["sigma"])


class IsoNoise(_Grained):
    """A sensor at high sensitivity: noise of brightness, and half as strong of colour. The limit: standard deviation of brightness."""

    name = "iso_noise"
    colour = True

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        count, height, width, _ = images.shape
        brightness = normal(xp, parameters["grain"], "iso_noise brightness", height * width).reshape(count, height, width, 1)
        noise = brightness + 0.5 * self._normal(xp, images, parameters)
        return images + noise * per_sample(xp, parameters["sigma"])


class MultiplicativeNoise(_Grained):
    """Every value times a random factor around 1; the limit is its standard deviation at severity 1."""

    name = "multiplicative_noise"

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        return images + images * (self._normal(xp, images, parameters) * per_sample(xp, parameters["sigma"]))


class UniformNoise(_Noise):
    """Adds to every value anything up to the limit's share of the value range at severity 1, either way."""

    name = "uniform_noise"

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"reach": severities * float(self.limit), "grain": grains(u[0])}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        size = images.shape[1] * images.shape[2] * images.shape[3]
        random = uniform(xp, parameters["grain"], self.name, size).reshape(images.shape) * 2 - 1
        return images + random * per_sample(xp, parameters["reach"])


class SaltPepper(_Noise):
    """The limit's share of pixels at severity 1, half of them white and half black; those of a lesser severity stay among them."""

    name = "salt_pepper"

    def drawn(self, severities: Severities, u: Draws, shape: Shape) -> Columns:
        return {"share": severities * float(self.limit), "grain": grains(u[0])}

    def changed(self, xp: Arrays, images: Array, parameters: Columns) -> Array:
        count, height, width, _ = images.shape
        field = bits32(xp, parameters["grain"], self.name, height * width).reshape(count, height, width, 1)
        half = np.rint(parameters["share"].astype(np.float64) * (1 << 31)).astype(np.int64).reshape(-1, 1, 1, 1)
        salted = xp.where(field < xp.constant(half), images * 0 + 1.0, images)
        return xp.where(field >= xp.constant((1 << 32) - half), images * 0, salted)
