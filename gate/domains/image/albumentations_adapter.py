"""The one place that calls albumentations (2.0.8, the last MIT release, no longer maintained).

Its functional layer is called with explicit values: its transform classes draw from their own generators and cost more per call. All
pictures here are float32 [H, W, C] in [0, 1] unless said otherwise, and no function changes its arguments.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from gate.domains.image.augmentation import Transform

__all__ = ["Image", "clahe", "pipeline", "resize", "written"]

Image = npt.NDArray[np.float32]  # [H, W, C] in [0, 1]


class _Library(NamedTuple):
    whole: Any
    cv2: Any
    geometric: Any
    pixel: Any


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
        import albumentations
        import cv2
        from albumentations.augmentations.geometric import functional as geometric
        from albumentations.augmentations.pixel import functional as pixel
    finally:
        if _TENSORS in sys.modules and sys.modules[_TENSORS] is None:
            del sys.modules[_TENSORS]
    return _Library(albumentations, cv2, geometric, pixel)


def resize(image: Image, height: int, width: int) -> Image:
    """By area where it shrinks, bicubic where it grows (which may overshoot a little)."""
    lib = _library()
    shrinks = height <= image.shape[0] and width <= image.shape[1]
    interpolation = lib.cv2.INTER_AREA if shrinks else lib.cv2.INTER_CUBIC
    if image.shape[2] <= 4:
        # What the library would call, at a sixth of the cost on small pictures.
        resized = lib.cv2.resize(image, (width, height), interpolation=interpolation)
    else:
        resized = lib.geometric.resize(image, (height, width), interpolation)
    return np.asarray(resized, dtype=np.float32).reshape(height, width, image.shape[2])


def written(image: Image, quality: int, ending: str) -> Image:
    """Written as ``.jpg`` or ``.webp`` and read again; one and three channels as such, other counts channel by channel."""
    levels = _levels(image)
    if image.shape[2] in (1, 3):
        return _unit(_library().pixel.image_compression(levels, quality, ending), image)
    parts = [
        np.asarray(_library().pixel.image_compression(np.ascontiguousarray(levels[:, :, channel : channel + 1]), quality, ending))
        for channel in range(image.shape[2])
    ]
    return _unit(np.concatenate([part.reshape(*image.shape[:2], 1) for part in parts], axis=2), image)


def clahe(image: Image) -> Image:
    """Local contrast evened out in four by four tiles (fewer on small pictures), clipped at twice the mean; in colour pictures the
    lightness alone, in those of other channel counts channel by channel."""
    levels = _levels(image)
    tiles = tuple(max(1, min(4, length // 4)) for length in image.shape[:2])
    one = _library().pixel.clahe
    if image.shape[2] == 3:
        return _unit(one(levels, 2.0, tiles), image)
    parts = [np.asarray(one(np.ascontiguousarray(levels[:, :, channel]), 2.0, tiles)) for channel in range(image.shape[2])]
    return _unit(np.stack(parts, axis=2), image)


def pipeline(transforms: Sequence[tuple[Transform, float]], chance: float) -> tuple[Any, dict[str, Any]]:
    """A ``Compose`` that makes one of the changes in ``chance`` of the cases, and its description as JSON values.

    Args:
        transforms: at least one, each with its weight.
        chance: 0 to 1.

    Raises:
        ValueError: the library does not know a transform or an argument.
    """
    whole = _library().whole
    made = [getattr(whole, one.name)(**_pairs(one.arguments), p=weight) for one, weight in transforms]
    composed = whole.Compose([whole.OneOf(made, p=chance)], strict=True)
    return composed, whole.to_dict(composed)


def _pairs(value: Any) -> Any:
    """Lists, as JSON has them, as the pairs that the library wants."""
    if isinstance(value, dict):
        return {key: _pairs(item) for key, item in value.items()}
    return tuple(_pairs(item) for item in value) if isinstance(value, list) else value


def _levels(image: Image) -> npt.NDArray[np.uint8]:
    return np.asarray(np.rint(image * np.float32(255)), dtype=np.uint8)


def _unit(levels: Any, like: Image) -> Image:
    # OpenCV drops the last axis of one-channel pictures in some calls.
    return np.asarray(levels, dtype=np.float32).reshape(like.shape) * np.float32(1 / 255)
