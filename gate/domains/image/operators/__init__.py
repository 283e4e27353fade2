"""The natural operators: changes that a camera, the weather or a network makes, by the names of the policy's ``domain``."""

from __future__ import annotations

from gate.domains.image.operators.base import Operator
from gate.domains.image.operators.blur import GaussianBlur, MotionBlur
from gate.domains.image.operators.compression import Downscale, Jpeg
from gate.domains.image.operators.geometry import Crop, Elastic, GridDistortion, Perspective, Rotation, Translation
from gate.domains.image.operators.noise import GaussianNoise, SaltPepper
from gate.domains.image.operators.occlusion import Patch
from gate.domains.image.operators.photometry import Brightness, Contrast, Gamma
from gate.domains.image.operators.weather import Fog, Rain, Shadow, SunFlare

__all__ = ["OPERATORS", "Operator"]

OPERATORS: dict[str, type[Operator]] = {
    operator.name: operator
    for operator in (
        Rotation,
        Translation,
        Perspective,
        Crop,
        Elastic,
        GridDistortion,
        Brightness,
        Contrast,
        Gamma,
        GaussianBlur,
        MotionBlur,
        GaussianNoise,
        SaltPepper,
        Fog,
        Rain,
        Shadow,
        SunFlare,
        Jpeg,
        Downscale,
        Patch,
    )
}
