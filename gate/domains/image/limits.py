"""What a person would still label the same: the policy's ``domain``, by family, at severity 1 of each operator.

A limit of null or 0 switches the operator off (for a range such as gamma: [1, 1]). Distances are shares of the picture's shorter side, and
values are shares of the file's value range, so that one policy fits every resolution and dtype.
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Domain"]

Share = Annotated[float, Field(ge=0, le=1)]


class _Family(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


class Geometry(_Family):
    rotation: Annotated[float, Field(ge=0, le=180)] | None = 15.0  # degrees, either way
    translation: Share | None = 0.08  # of each side
    scale: Share | None = 0.12  # sides up to 1 + s times as long, or as short
    shear: Share | None = 0.12  # slant along one side, share of the distance from the middle
    perspective: Annotated[float, Field(ge=0, le=0.4)] | None = 0.08  # corner shift, share of the side
    crop: Annotated[float, Field(ge=0, le=0.9)] | None = 0.12  # share of each side that is cut away before resizing back
    elastic: Share | None = 0.05  # displacement, share of the shorter side
    grid_distortion: Annotated[float, Field(ge=0, le=0.45)] | None = 0.2  # shift of grid lines, share of a cell
    optical_distortion: Annotated[float, Field(ge=0, le=0.5)] | None = 0.15  # shift of a corner, share of its distance from the middle
    stroke_width: Annotated[float, Field(ge=0, le=0.2)] | None = 0.006  # radius of dilation or erosion, share of the shorter side
    # Off: mirror images keep the label only where no class has a handedness or an up and down.
    horizontal_flip: Share | None = 0.0  # chance
    vertical_flip: Share | None = 0.0  # chance
    transpose: Share | None = 0.0  # chance; square pictures only


class Photometry(_Family):
    brightness: Share | None = 0.25  # added, either way, share of the value range
    contrast: Annotated[float, Field(ge=0, lt=1)] | None = 0.5  # factor 1 - c to 1 + c about the picture's mean
    gamma: tuple[Annotated[float, Field(gt=0, le=1)], Annotated[float, Field(ge=1, le=10)]] | None = (0.5, 2.0)
    tone_curve: Annotated[float, Field(ge=0, le=0.3)] | None = 0.15  # shift of the curve's inner points, share of the value range
    illumination: Share | None = 0.3  # brightness from 1 - i to 1 + i times across the picture
    clahe: Share | None = 0.6  # share of the evened-out picture
    equalize: Share | None = 0.4  # likewise
    auto_contrast: Share | None = 1.0  # share of the stretched picture
    posterize: Share | None = 0.12  # step between levels, share of the value range
    solarize: Share | None = 0.0  # lightest share of the value range, inverted; off: turns light into dark
    invert: Share | None = 0.0  # chance; off: turns light into dark
    sharpen: Annotated[float, Field(ge=0, le=4)] | None = 0.6  # times the difference from the neighbours' mean
    unsharp_mask: Annotated[float, Field(ge=0, le=4)] | None = 0.8  # times the difference from a Gaussian blur
    emboss: Share | None = 0.25  # height of the relief
    # For pictures with three channels:
    hue: Annotated[float, Field(ge=0, le=180)] | None = 12.0  # degrees about the grey axis, either way
    saturation: Share | None = 0.5  # factor 1 - s to 1 + s about grey
    rgb_shift: Share | None = 0.08  # added to the channel that changes most, share of the value range
    colour_temperature: Annotated[float, Field(ge=0, le=100)] | None = 50.0  # mired, warmer or colder than daylight
    to_gray: Share | None = 1.0  # share of the colour taken away
    sepia: Share | None = 0.5  # share of the brown picture


class Blur(_Family):
    gaussian_blur: Annotated[float, Field(ge=0, le=0.5)] | None = 0.02  # standard deviation, share of the shorter side
    box_blur: Annotated[float, Field(ge=0, le=0.5)] | None = 0.04  # side beyond one pixel, share of the shorter side
    motion_blur: Share | None = 0.06  # length, share of the shorter side
    defocus: Annotated[float, Field(ge=0, le=0.5)] | None = 0.025  # radius, share of the shorter side
    zoom_blur: Annotated[float, Field(ge=0, le=0.5)] | None = 0.08  # zoom while the shutter is open
    median_blur: Annotated[float, Field(ge=0, le=0.2)] | None = 0.02  # three by three passes, share of the shorter side's pixels
    glass_blur: Annotated[float, Field(ge=0, le=0.2)] | None = 0.012  # shift of a pixel, share of the shorter side
    ringing: Share | None = 0.4  # share of the picture without fine detail
    chromatic_aberration: Annotated[float, Field(ge=0, le=0.2)] | None = 0.02  # size of red and blue against green; three channels only


class Noise(_Family):
    gaussian_noise: Share | None = 0.10  # standard deviation, share of the value range
    uniform_noise: Share | None = 0.15  # greatest change, share of the value range
    shot_noise: Share | None = 0.12  # standard deviation at full light, share of the value range
    multiplicative_noise: Share | None = 0.2  # standard deviation of the factor
    iso_noise: Share | None = 0.08  # standard deviation of brightness, share of the value range; three channels only
    salt_pepper: Share | None = 0.03  # share of pixels


class Weather(_Family):
    fog: Share | None = 0.5  # how much of the picture its densest spot hides
    rain: Share | None = 0.5  # density and darkening
    snow: Share | None = 0.5  # density of flakes and veil
    spatter: Share | None = 0.3  # drops, share of a random relief's range
    shadow: Share | None = 0.5  # darkening inside the shadow
    sun_flare: Share | None = 0.6  # how much of the picture its brightest spot hides


class Compression(_Family):
    jpeg: Annotated[int, Field(ge=1, le=100)] | None = 25  # lowest quality; 100 switches it off
    webp: Annotated[int, Field(ge=1, le=100)] | None = 25  # lowest quality; 100 switches it off
    downscale: Annotated[float, Field(gt=0, le=1)] | None = 0.8  # smallest factor; 1 switches it off


class Occlusion(_Family):
    patch: Share | None = 0.05  # share of the area covered by one constant patch
    holes: Share | None = 0.05  # share of the area covered by five squares
    grid_dropout: Share | None = 0.06  # share of the area covered by a grid of squares
    stripes: Share | None = 0.06  # share of the area covered by a bar across and one down
    pixel_dropout: Share | None = 0.04  # share of pixels


class Splicing(_Family):
    """Boxes that show another part of the picture, or of another one of its class; one too small for a single pixel is left out."""

    block_copy: Annotated[float, Field(ge=0, le=0.5)] | None = 0.02  # share of the area, from elsewhere in the same picture
    splice: Annotated[float, Field(ge=0, le=0.5)] | None = 0.06  # share of the area, from another seed input of the class


class Adversarial(_Family):
    """Bounds of the attacks, share of the value range."""

    fgsm: Share | None = 0.03  # largest change of a value (L-infinity)
    pgd: Share | None = 0.03  # likewise
    deepfool_linf: Share | None = 0.03  # likewise
    deepfool: Share | None = 0.02  # root of the mean squared change of the values (L2)
    carlini_wagner: Share | None = None  # likewise; it takes more model work than all the others
    boundary: Share | None = 0.02  # likewise; for models without gradients


class CoverageGradient(_Family):
    coverage_gradient: Share | None = 0.06  # L-infinity, share of the value range


class Marks(_Family):
    """Bounds of one mark that is laid on every picture alike; one too small for a single pixel is left out."""

    patch: Share | None = 0.0625  # share of the area that an opaque square covers
    border: Annotated[float, Field(ge=0, le=0.25)] | None = 0.06  # width of an opaque frame, share of the shorter side
    blend: Share | None = 0.08  # how much of the whole picture a faint pattern hides


class Chain(_Family):
    """The bound over several operators in a row: a composite limit, checked on every mutant."""

    length: Annotated[int, Field(ge=1, le=8)] = 3  # natural operators in one recipe
    severity: Annotated[float, Field(gt=0, le=8)] = 1.0  # sum of the severities in one recipe
    contrast_kept: Share = 0.3  # standard deviation of the mutant's values, share of the seed input's: less shows too little to label
    # The two below hold mutants whose pixels stay where they are: a shifted picture differs from its seed input nearly everywhere.
    pixel_distance: Share | None = None  # largest change of a value, share of the value range, unless few pixels changed
    few_pixels: Share = 0.02  # share of the values that may change by any amount; only beside pixel_distance
    similarity: Share | None = None  # least structural similarity (SSIM) to the seed input


class Domain(_Family):
    """The whole domain of a policy."""

    def digest(self) -> str:
        """``sha256:<hex>`` over every limit: mutants made under two domains compare only where these agree."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    geometry: Geometry = Geometry()
    photometry: Photometry = Photometry()
    blur: Blur = Blur()
    noise: Noise = Noise()
    weather: Weather = Weather()
    compression: Compression = Compression()
    occlusion: Occlusion = Occlusion()
    splicing: Splicing = Splicing()
    adversarial: Adversarial = Adversarial()
    coverage_gradient: CoverageGradient = CoverageGradient()
    marks: Marks = Marks()
    chain: Chain = Chain()
