"""The one place that calls albumentations (2.0.8, the last MIT release, no longer maintained).

Its functional layer is called with explicit matrices, maps, kernels and masks: its transform classes draw from their own generators and
cost more per call (a rotation of an 8x8 picture on one core: 300 microseconds with a Compose per sample, 75 with a cached transform, 9
like this). All pictures here are float32 [H, W, C] in [0, 1] unless said otherwise, and no function changes its arguments.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

__all__ = [
    "Image",
    "add",
    "convolve",
    "displacement",
    "fog_plate",
    "gamma",
    "gaussian_kernel",
    "jpeg",
    "motion_kernel",
    "multiply_add",
    "patch_plate",
    "project",
    "rain_plate",
    "remap",
    "resize",
    "salt_pepper",
    "shadow_plate",
    "sun_plate",
]

Image = npt.NDArray[np.float32]  # [H, W, C] in [0, 1]
Plate = npt.NDArray[np.uint8]  # [H, W], drawn on an empty ground


class _Library(NamedTuple):
    cv2: Any
    blur: Any
    dropout: Any
    geometric: Any
    pixel: Any
    arithmetic: Any


_TENSORS = "albumentations.pytorch"


@cache
def _library() -> _Library:
    """Imports albumentations without torch and without its version check over the network.

    Its package imports ``albumentations.pytorch``, which imports torch, wherever torch is installed, and goes without where it is not;
    a None in ``sys.modules`` makes it go without. The entry is put back, so that other code may still import it.
    """
    os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")
    before: ModuleType | None = sys.modules.get(_TENSORS)
    if "albumentations" not in sys.modules and before is None:
        sys.modules[_TENSORS] = cast(ModuleType, None)
    try:
        import albucore
        import cv2
        from albumentations.augmentations.blur import functional as blur
        from albumentations.augmentations.dropout import functional as dropout
        from albumentations.augmentations.geometric import functional as geometric
        from albumentations.augmentations.pixel import functional as pixel
    finally:
        if _TENSORS in sys.modules and sys.modules[_TENSORS] is None:
            del sys.modules[_TENSORS]
    return _Library(cv2, blur, dropout, geometric, pixel, albucore)


def _float(image: Any, like: Image) -> Image:
    # OpenCV drops the last axis of one-channel pictures in some calls.
    return np.asarray(image, dtype=np.float32).reshape(like.shape)


def project(image: Image, matrix: npt.NDArray[np.float64]) -> Image:
    """Moves the picture by a 3x3 matrix from old to new pixel positions; what comes in from outside is the picture mirrored at its edge."""
    lib = _library()
    height, width = image.shape[:2]
    return _float(
        lib.geometric.perspective(image, matrix, width, height, 0.0, lib.cv2.BORDER_REFLECT_101, False, lib.cv2.INTER_LINEAR), image
    )


def remap(image: Image, map_x: npt.NDArray[np.float32], map_y: npt.NDArray[np.float32]) -> Image:
    """Takes every pixel from the position (map_x, map_y), both [H, W]; mirrored at the edge."""
    lib = _library()
    return _float(lib.geometric.remap(image, map_x, map_y, lib.cv2.INTER_LINEAR, lib.cv2.BORDER_REFLECT_101, 0.0), image)


def displacement(
    height: int, width: int, sigma: float, generator: np.random.Generator
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Two smooth random fields [height, width]; ``sigma`` is the width of the smoothing in pixels."""
    field_x, field_y = _library().geometric.generate_displacement_fields((height, width), 1.0, sigma, False, (0, 0), generator, "gaussian")
    return field_x, field_y


def resize(image: npt.NDArray[Any], height: int, width: int) -> npt.NDArray[Any]:
    """By area where it shrinks, bicubic where it grows (which may overshoot a little); keeps dtype and number of axes."""
    lib = _library()
    shrinks = height <= image.shape[0] and width <= image.shape[1]
    resized = lib.geometric.resize(image, (height, width), lib.cv2.INTER_AREA if shrinks else lib.cv2.INTER_CUBIC)
    return np.asarray(resized).reshape(height, width, *image.shape[2:])


def multiply_add(image: Image, factor: float, value: float) -> Image:
    """image * factor + value, clipped to [0, 1]."""
    return _float(_library().arithmetic.multiply_add(image, factor, value), image)


def gamma(image: Image, exponent: float) -> Image:
    """image ** exponent."""
    return _float(_library().pixel.gamma_transform(image, exponent), image)


def gaussian_kernel(sigma: float, size: int) -> npt.NDArray[np.float32]:
    """Normalised, [size, size]; size is odd."""
    return np.asarray(_library().blur.create_gaussian_kernel(sigma, size), dtype=np.float32)


def motion_kernel(size: int, angle: float) -> npt.NDArray[np.float32]:
    """A straight line of ``size`` pixels (odd) through the middle at ``angle`` degrees, normalised, [size, size]."""
    import random

    # The random generator is only read when a shift is allowed, which it is not.
    line = np.asarray(_library().blur.create_motion_kernel(size, angle, 0.0, False, random.Random(0)), dtype=np.float32)
    return np.asarray(line / line.sum(dtype=np.float32), dtype=np.float32)


def convolve(image: Image, kernel: npt.NDArray[np.float32]) -> Image:
    """With a kernel [k, k], or with a separable one given as [k]; mirrored at the edge; clipped to [0, 1]."""
    pixel = _library().pixel
    return _float(pixel.separable_convolve(image, kernel) if kernel.ndim == 1 else pixel.convolve(image, kernel), image)


def add(image: Image, noise: Image) -> Image:
    """image + noise, clipped to [0, 1]."""
    return _float(_library().pixel.add_noise(image, noise), image)


def salt_pepper(image: Image, salt: npt.NDArray[np.bool_], pepper: npt.NDArray[np.bool_]) -> Image:
    """1 where salt, 0 where pepper, both [H, W]."""
    return _float(_library().pixel.apply_salt_and_pepper(image, salt, pepper), image)


def jpeg(image: Image, quality: int) -> Image:
    """Written as JPEG and read again; one and three channels as such, other counts channel by channel."""
    compress = _library().pixel.image_compression
    if image.shape[2] in (1, 3):
        return _float(compress(image, quality, ".jpg"), image)
    parts = [compress(np.ascontiguousarray(image[:, :, i : i + 1]), quality, ".jpg") for i in range(image.shape[2])]
    return _float(np.concatenate(parts, axis=2), image)


def _drawn(plate: Any) -> Plate:
    return np.ascontiguousarray(np.asarray(plate)[:, :, 0], dtype=np.uint8)


def fog_plate(height: int, width: int, *, thickness: float, centres: list[tuple[int, int]], radii: list[int]) -> Plate:
    """How much of the picture fog hides (0 to 255): overlapping round clouds of equal ``thickness`` (0 to 1), softened."""
    return _drawn(_library().pixel.add_fog(np.zeros((height, width, 1), np.uint8), 1.0, thickness, centres, radii))


def rain_plate(
    height: int, width: int, *, starts: npt.NDArray[np.int32], slant: float, length: int, thickness: int, blur: int, brightness: int
) -> Plate:
    """Streaks on black. ``starts`` is [n, 2] (x, y)."""
    empty = np.zeros((height, width, 1), np.uint8)
    return _drawn(_library().pixel.add_rain(empty, slant, length, thickness, (brightness,) * 3, blur, 1.0, starts))


def shadow_plate(height: int, width: int, corners: npt.NDArray[np.int32]) -> Plate:
    """255 inside the polygon [n, 2] (x, y), 0 outside."""
    white = np.full((height, width, 1), 255, np.uint8)
    lit = _drawn(_library().pixel.add_shadow(white, [corners], np.ones(1)))
    return np.asarray(255 - lit, dtype=np.uint8)


def sun_plate(height: int, width: int, *, centre: tuple[int, int], radius: int, ghosts: list[tuple[float, tuple[int, int], int]]) -> Plate:
    """The glow of a sun and its lens ghosts (alpha, centre, radius) on black. ``radius`` is at least 20 pixels."""
    white = (255, 255, 255)
    circles = [(alpha, place, size, white) for alpha, place, size in ghosts]
    return _drawn(_library().pixel.add_sun_flare_overlay(np.zeros((height, width, 1), np.uint8), centre, radius, white, circles))


def patch_plate(height: int, width: int, box: tuple[int, int, int, int]) -> Plate:
    """255 inside the box (x0, y0, x1, y1), 0 outside."""
    empty = np.zeros((height, width, 1), np.uint8)
    return _drawn(_library().dropout.fill_holes_with_value(empty, np.array([box]), np.array([255], np.uint8)))
