"""Weather and sun: fog, rain, shadow, sun flare. Drops, streaks and clouds scale with the picture."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from gate.domains.image import albumentations_adapter as library
from gate.domains.image.operators.base import Image, Operator, Shape, grain
from gate.domains.image.operators.plate import laid_over, large, soft
from gate.randomness import generator

__all__ = ["Fog", "Rain", "Shadow", "SunFlare"]


class _Weather(Operator):
    family: ClassVar[str] = "weather"


class Fog(_Weather):
    """Drifting white clouds over the whole picture; the densest spot hides the limit's share of it at severity 1."""

    name = "fog"

    _CLOUDS = 40

    def _parameters(self, severity: float, random: np.random.Generator, shape: Shape) -> dict[str, Any]:
        return {"density": severity * float(self.limit), "grain": grain(random)}

    def _apply(self, image: Image, parameters: Mapping[str, Any]) -> Image:
        if parameters["density"] == 0:
            return image

        def clouds(height: int, width: int) -> npt.NDArray[np.uint8]:
            random = generator(parameters["grain"], "fog")
            places = random.random((self._CLOUDS, 2))
            radii = random.uniform(0.2, 0.45, self._CLOUDS) * min(height, width)
            return library.fog_plate(
                height,
                width,
                thickness=0.13,
                centres=[(int(x * width), int(y * height)) for x, y in places],
                radii=[max(1, int(radius)) for radius in radii],
            )

        cover = soft(image, clouds)
        return laid_over(image, cover / max(float(cover.max()), 1e-6), 1.0, parameters["density"])


class Rain(_Weather):
    """Light streaks and a darker picture; the limit scales their number, their brightness and the darkening at severity 1."""

    name = "rain"

    _STREAKS = 60  # at full density

    def _parameters(self, severity: float, random: np.random.Generator, shape: Shape) -> dict[str, Any]:
        return {"density": severity * float(self.limit), "slant": float(random.uniform(-0.5, 0.5)), "grain": grain(random)}

    def _apply(self, image: Image, parameters: Mapping[str, Any]) -> Image:
        density = parameters["density"]
        if density == 0:
            return image

        def streaks(height: int, width: int) -> npt.NDArray[np.uint8]:
            # The streaks of a lesser density come first in the same sequence, so more rain adds to them.
            places = generator(parameters["grain"], "rain").random((self._STREAKS, 2))[: math.ceil(density * self._STREAKS)]
            length = max(2, round(0.14 * height))
            thickness = max(1, round(min(height, width) / 150))
            # Some start above the picture or beside it, where they slant into it.
            starts = (places * [1.2 * width, height + length] - [0.1 * width, length]).astype(np.int32)
            slant = parameters["slant"] * length
            return library.rain_plate(
                height, width, starts=starts, slant=slant, length=length, thickness=thickness, blur=2 * (thickness // 2) + 1, brightness=255
            )

        wet = image * np.float32(1 - 0.5 * density)
        return laid_over(wet, large(image, streaks), 0.85, 0.3 + 0.5 * density)


class Shadow(_Weather):
    """One straight-edged shadow over a part of the picture, darker by the limit's share at severity 1."""

    name = "shadow"

    def _parameters(self, severity: float, random: np.random.Generator, shape: Shape) -> dict[str, Any]:
        return {
            "darkness": severity * float(self.limit),
            "degrees": float(random.uniform(0, 360)),
            "offset": float(random.uniform(-0.2, 0.2)),  # of the edge from the middle, share of the diagonal
        }

    def _apply(self, image: Image, parameters: Mapping[str, Any]) -> Image:
        if parameters["darkness"] == 0:
            return image

        def half_plane(height: int, width: int) -> npt.NDArray[np.uint8]:
            diagonal = math.hypot(height, width)
            angle = math.radians(parameters["degrees"])
            normal, along = np.array([math.cos(angle), math.sin(angle)]), np.array([-math.sin(angle), math.cos(angle)])
            foot = np.array([width / 2, height / 2]) + normal * parameters["offset"] * diagonal
            near, far = 2 * diagonal * along, 2 * diagonal * normal
            return library.shadow_plate(height, width, np.array([foot - near, foot + near, foot + near + far, foot - near + far], np.int32))

        return laid_over(image, large(image, half_plane), 0.0, parameters["darkness"])


class SunFlare(_Weather):
    """A sun at the upper edge with lens ghosts toward the middle; its brightest spot hides the limit's share at severity 1."""

    name = "sun_flare"

    def _parameters(self, severity: float, random: np.random.Generator, shape: Shape) -> dict[str, Any]:
        return {
            "glare": severity * float(self.limit),
            "x": float(random.uniform(0, 1)),
            "y": float(random.uniform(0, 0.1)),
            "grain": grain(random),
        }

    def _apply(self, image: Image, parameters: Mapping[str, Any]) -> Image:
        if parameters["glare"] == 0:
            return image

        def sun(height: int, width: int) -> npt.NDArray[np.uint8]:
            random = generator(parameters["grain"], "sun_flare")
            x, y = parameters["x"] * width, parameters["y"] * height
            ghosts = []
            for _ in range(5):
                # On the line from the sun through the middle of the lens, as real ghosts are.
                way, size, alpha = random.uniform(0.5, 1.6), random.uniform(0.02, 0.07), random.uniform(0.12, 0.2)
                place = (int(x + way * (width / 2 - x)), int(y + way * (height / 2 - y)))
                ghosts.append((float(alpha), place, max(1, int(size * min(height, width)))))
            radius = max(20, int(0.9 * min(height, width)))
            return library.sun_plate(height, width, centre=(int(x), int(y)), radius=radius, ghosts=ghosts)

        glow = soft(image, sun)
        return laid_over(image, glow / max(float(glow.max()), 1e-6), 1.0, parameters["glare"])
