"""The natural operators in albumentations' words, so that a training run can draw from the range in which a policy looks for defects.

Every range begins at no change and ends at the policy's limit: what fails lies between, and a network that is trained on the extremes
alone learns those. Where albumentations (2.0.8) has nothing with the same meaning and a strength to set, the answer is the reason, in
words: a transform that only looks alike would claim to cover what it doesn't.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gate.domains.image.limits import Domain
from gate.domains.image.operators import OPERATORS

__all__ = ["Augmentation", "Transform", "augmentation_of", "change_in_words", "limit_of"]

Shape = tuple[int, int, int]

_MIRRORED = 4  # cv2.BORDER_REFLECT_101, as the operators treat the edge
_AREA, _CUBIC = 3, 2  # cv2.INTER_AREA, cv2.INTER_CUBIC
_DAYLIGHT = 6504.0  # kelvin
_BLACK_BODIES = (3000, 15000)  # kelvin, that the library takes
_MOST_ILLUMINATION = 0.2  # that the library takes
_GREY = (1, 3)  # channel counts of which the library knows what grey is


@dataclass(frozen=True)
class Transform:
    """One transform of the library by its name, with arguments that are JSON values."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Augmentation:
    """What stands for one operator: alternatives of which one is drawn, or none, and what a reader should know."""

    transforms: tuple[Transform, ...]
    remark: str = ""  # why there is none, or in what it differs


def limit_of(domain: Domain, operator: str) -> Any:
    """The policy's limit of a natural operator: a number, a pair, or None where it is switched off or there is none of that name."""
    known = OPERATORS.get(operator)
    if known is None:
        return None
    limit = getattr(getattr(domain, known.family), operator)
    return None if known.off(limit) else limit


def augmentation_of(operator: str, limit: Any, shape: Shape) -> Augmentation:
    """The transforms that cover a natural operator from no change up to its limit.

    Args:
        operator: its name, one of ``OPERATORS``.
        limit: at severity 1, as the policy's domain gives it.
        shape: (H, W, C) of the pictures.
    """
    return _MAKERS[operator](limit, shape)


def change_in_words(operator: str, limit: Any) -> str:
    """What is done to pictures up to an operator's limit, such as "turned by up to 15 degrees either way"; follows "pictures"."""
    words = _WORDS[operator]
    if isinstance(limit, tuple):
        return words.format(low=_number(limit[0]), high=_number(limit[1]))
    value = float(limit)
    return words.format(
        share=f"{_number(100 * value)}%",
        number=_number(value),
        more=_number(1 + value),
        less=_number(1 - value),
    )


def _number(value: float) -> str:
    return f"{value:.3g}"


def _one(name: str, remark: str = "", **arguments: Any) -> Augmentation:
    return Augmentation((Transform(name, arguments),), remark)


def _none(reason: str) -> Augmentation:
    return Augmentation((), reason)


def _affine(**arguments: Any) -> Transform:
    return Transform("Affine", {**arguments, "border_mode": _MIRRORED})


def _shear(limit: Any, shape: Shape) -> Augmentation:
    degrees = math.degrees(math.atan(float(limit)))
    return Augmentation((_affine(shear={"x": [-degrees, degrees], "y": [0, 0]}), _affine(shear={"x": [0, 0], "y": [-degrees, degrees]})))


def _perspective(limit: Any, shape: Shape) -> Augmentation:
    remark = "The shift of the corners is normal here, two standard deviations being the limit."
    half = float(limit) / 2
    return _one("Perspective", remark, scale=[0, half], keep_size=True, fit_output=False, border_mode=_MIRRORED)


def _crop(limit: Any, shape: Shape) -> Augmentation:
    height, width = shape[:2]
    kept = (1 - float(limit)) ** 2
    return _one("RandomResizedCrop", size=[height, width], scale=[kept, 1.0], ratio=[width / height, width / height])


def _elastic(limit: Any, shape: Shape) -> Augmentation:
    # Even noise in [-1, 1] behind a Gaussian filter of s pixels has the standard deviation 1 / (s * sqrt(12 pi)); its extremes are
    # about three of them.
    sigma = max(1.0, min(shape[:2]) / 10)  # the library takes no less than a pixel
    alpha = float(limit) * min(shape[:2]) * sigma * math.sqrt(12 * math.pi) / 3
    remark = "Another smooth field, as strong at its extremes."
    return _one("ElasticTransform", remark, alpha=alpha, sigma=sigma, noise_distribution="uniform", border_mode=_MIRRORED)


def _grid(limit: Any, shape: Shape) -> Augmentation:
    cells = 3 if min(shape[:2]) < 16 else 5
    share = float(limit)
    return _one("GridDistortion", num_steps=cells, distort_limit=[-share, share], normalized=True, border_mode=_MIRRORED)


def _optical(limit: Any, shape: Shape) -> Augmentation:
    # The library divides by the sides, so that a corner has r^2 = 1/2, and takes one number for both radial terms, k r^2 + k r^4.
    k = float(limit) / 0.75
    return _one("OpticalDistortion", distort_limit=[-k, k], mode="camera", border_mode=_MIRRORED)


def _contrast(limit: Any, shape: Shape) -> Augmentation:
    c = float(limit)
    if shape[2] in _GREY:
        return _jitter("contrast", 1 - c, 1 + c)
    remark = "About black here, not about the picture's mean."
    return _one("RandomBrightnessContrast", remark, brightness_limit=[0, 0], contrast_limit=[-c, c])


def _jitter(which: str, low: float, high: float) -> Augmentation:
    arguments: dict[str, Any] = {"brightness": [1, 1], "contrast": [1, 1], "saturation": [1, 1], "hue": [0, 0]}
    return _one("ColorJitter", **{**arguments, which: [low, high]})


def _illumination(limit: Any, shape: Shape) -> Augmentation:
    reach = min(float(limit), _MOST_ILLUMINATION)
    remark = "" if reach == limit else f"The library goes no further than {_MOST_ILLUMINATION:g} of the policy's {float(limit):g}."
    return _one("Illumination", remark, mode="linear", intensity_range=[min(0.01, reach), reach], effect_type="both", angle_range=[0, 360])


def _whole(name: str, channels: tuple[int, ...] | None = None, **arguments: Any) -> Callable[[Any, Shape], Augmentation]:
    """Of what our operator mixes in by a share: the library knows only the whole of it."""

    def make(limit: Any, shape: Shape) -> Augmentation:
        if channels is not None and shape[2] not in channels:
            return _none(f"The library's {name} takes no pictures of {shape[2]} channels.")
        if float(limit) < 1:
            return _none(f"The policy mixes in at most {float(limit):.0%} of it; the library's {name} knows only the whole of it.")
        return _one(name, "At full strength only, or not at all.", **arguments)

    return make


def _posterize(limit: Any, shape: Shape) -> Augmentation:
    # n bits leave steps of 2 ** -n of the range; the fewest whose step does not fall short of the limit.
    bits = max(1, min(7, math.floor(-math.log2(float(limit)))))
    return _one("Posterize", num_bits=[bits, 7])


def _unsharp(limit: Any, shape: Shape) -> Augmentation:
    sigma = max(1.0, min(shape[:2]) / 40)
    side = 2 * math.ceil(3 * sigma) + 1
    share = min(1.0, float(limit))
    remark = "" if share == limit else f"The library goes no further than 1 of the policy's {float(limit):g}."
    return _one("UnsharpMask", remark, blur_limit=[side, side], sigma_limit=[sigma, sigma], alpha=[0, share], threshold=0)


def _shift(limit: Any, shape: Shape) -> Augmentation:
    share = float(limit)
    reach = [-share, share]
    return _one("AdditiveNoise", noise_type="uniform", spatial_mode="constant", noise_params={"ranges": [reach, reach, reach]})


def _temperature(limit: Any, shape: Shape) -> Augmentation:
    daylight = 1e6 / _DAYLIGHT
    warm, cold = 1e6 / (daylight + float(limit)), 1e6 / max(1.0, daylight - float(limit))
    low, high = max(_BLACK_BODIES[0], math.floor(warm)), min(_BLACK_BODIES[1], math.ceil(cold))
    remark = "" if low <= warm and cold <= high else f"The library knows {_BLACK_BODIES[0]} to {_BLACK_BODIES[1]} kelvin only."
    return _one("PlanckianJitter", remark, mode="blackbody", temperature_limit=[low, high])


def _gaussian_blur(limit: Any, shape: Shape) -> Augmentation:
    return _one("GaussianBlur", blur_limit=0, sigma_limit=[0, float(limit) * min(shape[:2])])


def _in_whole_pixels(name: str, key: str, *, square: bool = False) -> Callable[[Any, Shape], Augmentation]:
    """Filters whose side is an odd number of pixels, three at least; ours know shares of a pixel."""

    def make(limit: Any, shape: Shape) -> Augmentation:
        pixels = float(limit) * min(shape[:2])
        side = 2 * math.ceil(pixels / 2) + 1
        if pixels < 1:
            return _none(f"At most {pixels:.2g} pixels here; the library's {name} begins at whole ones.")
        return _one(name, "In whole pixels, from three on.", **{key: [3, max(3, side)]})

    return make


def _defocus(limit: Any, shape: Shape) -> Augmentation:
    radius = float(limit) * min(shape[:2])
    if radius < 1:
        return _none(f"A radius of at most {radius:.2g} pixels here; the library's Defocus begins at whole ones.")
    return _one("Defocus", "In whole pixels.", radius=[1, math.ceil(radius)], alias_blur=[0.1, 0.1])


def _multiplicative(limit: Any, shape: Shape) -> Augmentation:
    reach = math.sqrt(3) * float(limit)  # of an even distribution with that standard deviation
    return _one("MultiplicativeNoise", multiplier=[1 - reach, 1 + reach], per_channel=True, elementwise=True)


def _uniform(limit: Any, shape: Shape) -> Augmentation:
    share = float(limit)
    ranges = [[-share, share]] * shape[2]
    return _one("AdditiveNoise", "At full reach.", noise_type="uniform", spatial_mode="per_pixel", noise_params={"ranges": ranges})


def _shot(limit: Any, shape: Shape) -> Augmentation:
    # The library adds it to linear light, gamma 2.2: the same standard deviation at full light, more than ours in the dark.
    return _one("ShotNoise", "As strong at full light, stronger in the dark.", scale_range=[1e-4, (2.2 * float(limit)) ** 2])


def _of_colour(name: str, key: str, remark: str, **arguments: Any) -> Callable[[Any, Shape], Augmentation]:
    def make(limit: Any, shape: Shape) -> Augmentation:
        if shape[2] != 3:
            return _none(f"The library's {name} takes colour pictures only.")
        return _one(name, remark, **{key: [0, float(limit)]}, **arguments)

    return make


def _written(kind: str) -> Callable[[Any, Shape], Augmentation]:
    def make(limit: Any, shape: Shape) -> Augmentation:
        if shape[2] not in _GREY:
            return _none(f"The library's ImageCompression takes no pictures of {shape[2]} channels.")
        return _one("ImageCompression", compression_type=kind, quality_range=[int(limit), 100])

    return make


def _downscale(limit: Any, shape: Shape) -> Augmentation:
    pair = {"downscale": _AREA, "upscale": _CUBIC}
    return _one("Downscale", scale_range=[float(limit), 1.0], interpolation_pair=pair)


def _squares(count: int) -> Callable[[Any, Shape], Augmentation]:
    def make(limit: Any, shape: Shape) -> Augmentation:
        height, width = shape[:2]
        edge = math.sqrt(float(limit) / count * height * width)
        return _holes(count, [min(1.0, 1 / height), min(1.0, edge / height)], [min(1.0, 1 / width), min(1.0, edge / width)])

    return make


def _holes(count: int, height: list[float], width: list[float]) -> Augmentation:
    # As shares of the sides, but never below one pixel, where the library would lay nothing over the picture.
    rising = [[min(low, high), high] for low, high in (height, width)]
    return _one(
        "CoarseDropout",
        num_holes_range=[count, count],
        hole_height_range=rising[0],
        hole_width_range=rising[1],
        fill="random_uniform",
    )


def _bars(limit: Any, shape: Shape) -> Augmentation:
    height, width = shape[:2]
    share = float(limit) / 2
    across = _holes(1, [min(share, 1 / height), share], [1.0, 1.0]).transforms
    down = _holes(1, [1.0, 1.0], [min(share, 1 / width), share]).transforms
    return Augmentation((*across, *down), "One bar at a time here.")


def _grid_dropout(limit: Any, shape: Shape) -> Augmentation:
    cell = max(2, round(min(shape[:2]) / 4))
    ratio = math.sqrt(float(limit))
    return _one("GridDropout", "At full size.", ratio=ratio, unit_size_range=[cell, cell + 1], random_offset=True, fill="random_uniform")


def _without(reason: str) -> Callable[[Any, Shape], Augmentation]:
    return lambda limit, shape: _none(reason)


_LOOKS_OTHERWISE = "The library's looks otherwise and has no strength that could be set to the policy's."

_MAKERS: dict[str, Callable[[Any, Shape], Augmentation]] = {
    "rotation": lambda limit, shape: _one("Rotate", limit=[-float(limit), float(limit)], border_mode=_MIRRORED),
    "translation": lambda limit, shape: Augmentation(
        (_affine(translate_percent={"x": [-float(limit), float(limit)], "y": [-float(limit), float(limit)]}),)
    ),
    "scale": lambda limit, shape: Augmentation((_affine(scale=[1 / (1 + float(limit)), 1 + float(limit)]),)),
    "shear": _shear,
    "perspective": _perspective,
    "crop": _crop,
    "elastic": _elastic,
    "grid_distortion": _grid,
    "optical_distortion": _optical,
    "stroke_width": _without("The library widens strokes by whole pixels only."),
    "horizontal_flip": lambda limit, shape: _one("HorizontalFlip"),
    "vertical_flip": lambda limit, shape: _one("VerticalFlip"),
    "transpose": lambda limit, shape: _one("Transpose"),
    "brightness": lambda limit, shape: _one(
        "RandomBrightnessContrast", brightness_limit=[-float(limit), float(limit)], contrast_limit=[0, 0], brightness_by_max=True
    ),
    "contrast": _contrast,
    "gamma": lambda limit, shape: _one("RandomGamma", gamma_limit=[100 * float(limit[0]), 100 * float(limit[1])]),
    "tone_curve": lambda limit, shape: _one(
        "RandomToneCurve", "Normal here, two standard deviations being the limit.", scale=float(limit) / 2, per_channel=False
    ),
    "illumination": _illumination,
    "clahe": _whole("CLAHE", _GREY, clip_limit=[1, 2], tile_grid_size=[4, 4]),
    "equalize": _whole("Equalize", _GREY),
    "auto_contrast": _whole("AutoContrast"),
    "posterize": _posterize,
    "solarize": lambda limit, shape: _one("Solarize", threshold_range=[1 - float(limit), 1.0]),
    "invert": lambda limit, shape: _one("InvertImg"),
    # The library's kernel adds alpha times eight times the difference from the mean of the eight neighbours.
    "sharpen": lambda limit, shape: _one("Sharpen", alpha=[0, float(limit) / 8], lightness=[1, 1], method="kernel"),
    "unsharp_mask": _unsharp,
    "emboss": _without(_LOOKS_OTHERWISE),
    "hue": lambda limit, shape: _jitter("hue", -float(limit) / 360, float(limit) / 360),
    "saturation": lambda limit, shape: _jitter("saturation", 1 - float(limit), 1 + float(limit)),
    "rgb_shift": _shift,
    "colour_temperature": _temperature,
    "to_gray": _whole("ToGray", (3,)),
    "sepia": _whole("ToSepia", (3,)),
    "gaussian_blur": _gaussian_blur,
    "box_blur": _in_whole_pixels("Blur", "blur_limit"),
    "motion_blur": _in_whole_pixels("MotionBlur", "blur_limit"),
    "defocus": _defocus,
    "zoom_blur": lambda limit, shape: _one("ZoomBlur", max_factor=[1, 1 + float(limit)], step_factor=[0.01, 0.02]),
    "median_blur": _in_whole_pixels("MedianBlur", "blur_limit"),
    "glass_blur": _without(_LOOKS_OTHERWISE),
    "ringing": _without(_LOOKS_OTHERWISE),
    "chromatic_aberration": _without(_LOOKS_OTHERWISE),
    "gaussian_noise": lambda limit, shape: _one("GaussNoise", std_range=[0, float(limit)], mean_range=[0, 0], per_channel=True),
    "uniform_noise": _uniform,
    "shot_noise": _shot,
    "multiplicative_noise": _multiplicative,
    "iso_noise": _without(_LOOKS_OTHERWISE),
    "salt_pepper": lambda limit, shape: _one("SaltAndPepper", amount=[0, float(limit)], salt_vs_pepper=[0.5, 0.5]),
    "fog": _of_colour("RandomFog", "fog_coef_range", "Clouds of another shape.", alpha_coef=0.2),
    "rain": _without(_LOOKS_OTHERWISE),
    "snow": _without(_LOOKS_OTHERWISE),
    "spatter": _without(_LOOKS_OTHERWISE),
    "shadow": _of_colour("RandomShadow", "shadow_intensity_range", "Shadows of another shape.", shadow_roi=[0, 0, 1, 1]),
    "sun_flare": _without(_LOOKS_OTHERWISE),
    "jpeg": _written("jpeg"),
    "webp": _written("webp"),
    "downscale": _downscale,
    "patch": _squares(1),
    "holes": _squares(5),
    "grid_dropout": _grid_dropout,
    "stripes": _bars,
    "pixel_dropout": lambda limit, shape: _one(
        "PixelDropout", "Each lost pixel has a grey of its own.", dropout_prob=float(limit), per_channel=False, drop_value=None
    ),
}

_WORDS: dict[str, str] = {
    "rotation": "turned by up to {number} degrees either way",
    "translation": "shifted by up to {share} of their sides",
    "scale": "enlarged or shrunk by a factor of up to {more}",
    "shear": "slanted by up to {share}",
    "perspective": "seen from other angles (corners moved by up to {share} of a side)",
    "crop": "cropped by up to {share} of their sides",
    "elastic": "bent elastically (by up to {share} of the shorter side)",
    "grid_distortion": "distorted along a grid (lines moved by up to {share} of a cell)",
    "optical_distortion": "distorted as by a lens (corners moved by up to {share})",
    "stroke_width": "with strokes thicker and thinner by up to {share} of the shorter side",
    "horizontal_flip": "mirrored left to right",
    "vertical_flip": "mirrored top to bottom",
    "transpose": "with rows and columns exchanged",
    "brightness": "brighter and darker by up to {share} of the value range",
    "contrast": "with {less} to {more} times the contrast",
    "gamma": "with gamma between {low} and {high}",
    "tone_curve": "with bent tone curves (by up to {share})",
    "illumination": "lit from one side (brightness {less} to {more} across the picture)",
    "clahe": "with local contrast evened out by up to {share}",
    "equalize": "with equalised levels, mixed in by up to {share}",
    "auto_contrast": "with contrast stretched by up to {share}",
    "posterize": "with fewer grey levels (steps of up to {share})",
    "solarize": "with the lightest {share} of the values inverted",
    "invert": "with light and dark exchanged",
    "sharpen": "sharpened by up to {number}",
    "unsharp_mask": "sharpened (unsharp mask) by up to {number}",
    "emboss": "embossed by up to {share}",
    "hue": "with hues turned by up to {number} degrees",
    "saturation": "with {less} to {more} times the saturation",
    "rgb_shift": "with red, green and blue shifted by up to {share}",
    "colour_temperature": "in warmer and colder light (by up to {number} mired)",
    "to_gray": "with up to {share} of their colour taken away",
    "sepia": "browned by up to {share}",
    "gaussian_blur": "blurred (standard deviation up to {share} of the shorter side)",
    "box_blur": "blurred evenly (side up to {share} of the shorter side)",
    "motion_blur": "blurred by motion (up to {share} of the shorter side)",
    "defocus": "out of focus (radius up to {share} of the shorter side)",
    "zoom_blur": "blurred by zooming (by up to {share})",
    "median_blur": "smoothed by a median filter",
    "glass_blur": "seen through rippled glass (pixels moved by up to {share} of the shorter side)",
    "ringing": "with ringing edges (up to {share})",
    "chromatic_aberration": "with coloured edges (red and blue {share} larger and smaller)",
    "gaussian_noise": "with Gaussian noise (standard deviation up to {share} of the value range)",
    "uniform_noise": "with even noise (up to {share} of the value range)",
    "shot_noise": "with the noise of little light (up to {share} at full light)",
    "multiplicative_noise": "with speckle (standard deviation up to {share})",
    "iso_noise": "with sensor noise (up to {share})",
    "salt_pepper": "with up to {share} of their pixels black or white",
    "fog": "in fog (hiding up to {share})",
    "rain": "in rain (density up to {share})",
    "snow": "in snow (density up to {share})",
    "spatter": "with drops on the lens (up to {share})",
    "shadow": "with shadows (darker by up to {share})",
    "sun_flare": "against the sun (hiding up to {share})",
    "jpeg": "written as JPEG down to quality {number}",
    "webp": "written as WebP down to quality {number}",
    "downscale": "shrunk to {share} of their size and grown again",
    "patch": "with up to {share} of their area covered by a patch",
    "holes": "with up to {share} of their area covered by small squares",
    "grid_dropout": "with up to {share} of their area covered by a grid of squares",
    "stripes": "with up to {share} of their area covered by bars",
    "pixel_dropout": "with up to {share} of their pixels lost",
}
