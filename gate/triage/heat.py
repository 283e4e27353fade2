"""Heat maps of a seed input and its mutant: what they say of the change, in numbers, in words and as pictures.

A heat map is float [h, w] >= 0 in the resolution of the method that made it, often a few cells. Nothing is measured finer than that: the
change is brought to the same cells.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from gate.result import Heat

__all__ = ["EVERYWHERE", "MOVED", "ODDS", "compare", "in_words", "overlay", "save_pictures"]

ODDS = 3.0  # times the odds of evenly spread heat from which heat lies on the change; below the inverse it lies elsewhere
EVERYWHERE = 0.5  # share of the picture from which a change is everywhere, so that any heat lies on it
MOVED = 0.5  # of two heat maps: more than half of the heat is elsewhere than before
SMALLEST_SIDE = 96  # pixels of a picture for a person
_OPAQUE = 0.65  # where the heat is greatest; the picture stays as it is where there is none

# A dark-to-light scale of even steps in lightness that colour-blind people and black-and-white printers keep in order: four colours of
# "inferno" (van der Walt and Smith, 2015), straight lines between them.
_SCALE = np.array([(87, 16, 110), (188, 55, 84), (249, 142, 9), (252, 255, 164)], dtype=np.float64)

Floats = npt.NDArray[np.floating[Any]]


def compare(method: str, layer: str | None, maps: Floats, original: npt.NDArray[Any], mutant: npt.NDArray[Any]) -> Heat:
    """What two heat maps say.

    Args:
        method, layer: that made them.
        maps: [2, h, w]: of the original and of the mutant, neither 0 throughout.
        original, mutant: file values [H, W, C].
    """
    before, after = (one / one.sum() for one in maps.astype(np.float64))
    change = _change(original, mutant, after.shape)
    overlap, chance = float((after * change).sum()), float(change.mean())
    moved = float(np.abs(after - before).sum() / 2)
    return Heat(
        method=method,
        layer=layer,
        overlap=_share(overlap),
        chance=_share(chance),
        focus_before=_focus(before),
        focus_after=_focus(after),
        moved=_share(moved),
        where=_where(overlap, chance, moved),
    )


def in_words(heat: Heat) -> str:
    """One sentence for a person."""
    found = {
        "on_the_change": "the change hit what the model looks at",
        "elsewhere": "the decision drifted elsewhere",
        "unclear": "whether the change hit what the model looks at is unclear",
    }[heat.where]
    by = heat.method.replace("grad_cam_pp", "Grad-CAM++").replace("rollout", "attention rollout")
    even = "" if heat.chance is None else f" ({heat.chance:.0%} if it were spread evenly)"
    at = "" if heat.layer is None else f" at {heat.layer}"
    return f"{found}: {heat.overlap:.0%} of the heat lies on the change{even}, and {heat.moved:.0%} of it moved, by {by}{at}"


def overlay(picture: npt.NDArray[np.uint8], heat: Floats) -> npt.NDArray[np.uint8]:
    """uint8 [h, w, 3]: the picture in grey with its heat over it, the hottest place in the lightest colour.

    Pixels of small pictures stay square blocks; the picture is at least ``SMALLEST_SIDE`` pixels along its shorter side.

    Args:
        picture: [H, W] or [H, W, 3].
        heat: [h, w] >= 0, greatest value above 0.
    """
    grey = Image.fromarray(picture).convert("L")
    times = max(1, -(-SMALLEST_SIDE // min(grey.size)))
    size = (grey.width * times, grey.height * times)
    under = np.asarray(grey.resize(size, Image.Resampling.NEAREST), dtype=np.float64)[:, :, None]
    over = np.asarray(Image.fromarray(heat.astype(np.float32)).resize(size, Image.Resampling.BILINEAR), dtype=np.float64)
    share = np.clip(over / heat.max(), 0, 1)
    steps = np.linspace(0, 1, len(_SCALE))
    colour = np.stack([np.interp(share, steps, _SCALE[:, channel]) for channel in range(3)], axis=2)
    opacity = (_OPAQUE * share**0.75)[:, :, None]
    blended: npt.NDArray[np.uint8] = np.rint((1 - opacity) * under + opacity * colour).astype(np.uint8)
    return blended


def save_pictures(folder: Path, before: npt.NDArray[np.uint8], after: npt.NDArray[np.uint8], maps: Floats) -> None:
    """Writes ``cam_before.png`` and ``cam.png``.

    Args:
        folder: there already.
        before, after: pictures of the original and of the mutant.
        maps: [2, h, w].
    """
    for name, picture, heat in (("cam_before.png", before, maps[0]), ("cam.png", after, maps[1])):
        half = folder / f".{name}.part"
        Image.fromarray(overlay(picture, heat)).save(half, format="PNG")
        half.replace(folder / name)


def _change(original: npt.NDArray[Any], mutant: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """[h, w] from 0 to 1: how much of each cell changed, beside the cell that changed most; 0 where nothing did."""
    # What is not finite counts as the greatest change there is.
    distance = np.nan_to_num(np.abs(mutant.astype(np.float64) - original.astype(np.float64)), nan=np.inf).max(axis=2)
    finite = distance[np.isfinite(distance)]
    distance = np.minimum(distance, finite.max(initial=0.0) or 1.0)
    cells = np.asarray(Image.fromarray(distance.astype(np.float32)).resize((shape[1], shape[0]), Image.Resampling.BOX), dtype=np.float64)
    most = cells.max()
    return np.clip(cells / most, 0, 1) if most > 0 else np.zeros(shape)


def _focus(heat: npt.NDArray[np.float64]) -> float:
    """The smallest share of the cells that holds half of the heat."""
    sums = np.cumsum(np.sort(heat, axis=None)[::-1])
    return float((np.searchsorted(sums, 0.5 - 1e-12) + 1) / heat.size)


def _where(overlap: float, chance: float, moved: float) -> Literal["on_the_change", "elsewhere", "unclear"]:
    if chance == 0:
        return "unclear"
    if chance > EVERYWHERE:
        return "elsewhere" if moved > MOVED else "unclear"
    # Odds, not the share itself, which could not become three times as large where the change is large.
    seen, even = overlap * (1 - chance), chance * (1 - overlap)
    if seen >= ODDS * even:
        return "on_the_change"
    return "elsewhere" if seen * ODDS <= even else "unclear"


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))
