"""What a planted fault looks at: one number for each picture, or how far it lies from what clean pictures of its class show.

The same lines run on NumPy arrays in the supervisor, where bounds are chosen, and on tensors in the worker, where they can be
differentiated. Pictures are [N, H, W, C], 0 to 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["SCORES", "axes"]

_SMALL = 1e-6  # so that a picture without any contrast has a score, and a root a gradient
_SIDE = 0.2  # of the corner and the region that are looked at, share of the picture's side


def _grey(x: Any) -> Any:
    return x.mean(3)


def _like(numbers: np.ndarray, x: Any) -> Any:
    """Numbers as an array of the kind of ``x``, on its device."""
    return numbers.astype(x.dtype) if isinstance(x, np.ndarray) else x.new_tensor(numbers.tolist())


def brightness(x: Any) -> Any:
    """[N]: mean."""
    return _grey(x).mean((1, 2))


def contrast(x: Any) -> Any:
    """[N]: standard deviation."""
    return _energy(_grey(x)).mean((1, 2)) ** 0.5


def sharpness(x: Any) -> Any:
    """[N]: mean difference between neighbours, in standard deviations of the picture."""
    grey = _grey(x)
    across, down = abs(grey[:, :, 1:] - grey[:, :, :-1]).mean((1, 2)), abs(grey[:, 1:] - grey[:, :-1]).mean((1, 2))
    return (across + down) / (2 * contrast(x))


def roughness(x: Any) -> Any:
    """[N]: mean second difference, in standard deviations of the picture: noise changes its direction from pixel to pixel."""
    grey = _grey(x)
    across = abs(grey[:, :, 2:] - 2 * grey[:, :, 1:-1] + grey[:, :, :-2]).mean((1, 2))
    down = abs(grey[:, 2:] - 2 * grey[:, 1:-1] + grey[:, :-2]).mean((1, 2))
    return (across + down) / (2 * contrast(x))


def corner(x: Any, *, place: int) -> Any:
    """[N]: mean of one corner (0 to 3) less that of the picture."""
    grey = _grey(x)
    rows, columns = _part(grey.shape[1], 2 * (place // 2)), _part(grey.shape[2], 2 * (place % 2))
    return grey[:, rows, columns].mean((1, 2)) - grey.mean((1, 2))


def region(x: Any, *, place: int) -> Any:
    """[N]: the share of all contrast that lies in one of nine regions, row by row."""
    energy = _energy(_grey(x))
    third = [slice(at * side // 3, (at + 1) * side // 3) for at, side in ((place // 3, energy.shape[1]), (place % 3, energy.shape[2]))]
    return energy[:, third[0], third[1]].sum((1, 2)) / energy.sum((1, 2))


def position(x: Any, *, place: int) -> Any:
    """[N]: how far the middle of all contrast lies to the right (0), left (1), bottom (2) or top (3), share of the side."""
    return _centre(_energy(_grey(x)))[place // 2] * (1.0 if place % 2 == 0 else -1.0)


def axes(x: Any) -> Any:
    """([N], [N]): cosine and sine of twice the angle of the principal axis of all contrast, so that an axis and its opposite agree.

    Source: M.-K. Hu, "Visual pattern recognition by moment invariants", IRE Transactions on Information Theory 8 (1962).
    """
    energy = _energy(_grey(x))
    across, down = _coordinates(energy)
    right, low = _centre(energy)
    total = energy.sum((1, 2))
    across, down = across - right[:, None, None], down - low[:, None, None]
    spread = (energy * (across**2 - down**2)).sum((1, 2)) / total
    slant = (2 * energy * across * down).sum((1, 2)) / total
    length = (spread**2 + slant**2 + _SMALL**2) ** 0.5
    return spread / length, slant / length


def turn(x: Any, classes: Any, *, axis: Sequence[Sequence[float]]) -> Any:
    """[N]: 0 where the principal axis is the usual one of the class, 2 where it stands at right angles to that.

    Args:
        classes: int64 [N].
        axis: [C, 2], cosine and sine of twice the usual angle.
    """
    cosine, sine = axes(x)
    usual = _like(np.array(axis), cosine)[classes]
    return 1.0 - cosine * usual[:, 0] - sine * usual[:, 1]


def _energy(grey: Any) -> Any:
    """[N, H, W]: squared distance from the picture's mean."""
    return (grey - grey.mean((1, 2))[:, None, None]) ** 2 + _SMALL**2


def _coordinates(energy: Any) -> tuple[Any, Any]:
    height, width = energy.shape[1:]
    across = _like(np.arange(width) / width - (width - 1) / (2 * width), energy)
    down = _like(np.arange(height) / height - (height - 1) / (2 * height), energy)
    return across[None, None, :], down[None, :, None]


def _centre(energy: Any) -> tuple[Any, Any]:
    """([N], [N]): of the energy, to the right and to the bottom of the picture's middle."""
    across, down = _coordinates(energy)
    total = energy.sum((1, 2))
    return (energy * across).sum((1, 2)) / total, (energy * down).sum((1, 2)) / total


def _part(side: int, place: int) -> slice:
    size = max(1, round(_SIDE * side))
    return slice(0, size) if place == 0 else slice(side - size, side)


SCORES: dict[str, Callable[..., Any]] = {
    "brightness": brightness,
    "contrast": contrast,
    "sharpness": sharpness,
    "roughness": roughness,
    "corner": corner,
    "region": region,
    "position": position,
    "turn": turn,
}
