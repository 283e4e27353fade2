"""Boxes of a picture that show another part of it, or a part of another seed input of its class. Whole batches, in the file's own dtype.

Box, source and edge follow from (operator, severity, draw), the limit and the picture's shape, as with natural operators; a splice
takes a donor beside them, which its step names by identity. So the step alone does not make the mutant again: the donor is needed, and the
mutant's own file lies beside the recipe.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gate.domains.chains import Steps
from gate.domains.image.batches import together
from gate.domains.image.limits import Domain
from gate.domains.image.operators.base import draw_key
from gate.domains.image.recipe import Step
from gate.randomness import uniforms

__all__ = ["FAMILY", "SPLICING", "Splices"]

FAMILY = "splicing"
# What each does, and what its limit means.
SPLICING = {
    "block_copy": "A box of the picture, copied to another place of it; the box covers the limit's share of the area at severity 1.",
    "splice": "A box from another seed input of the same class, at the same place; it covers the limit's share of the area at severity 1.",
}

_VALUES_AT_ONCE = 1 << 22  # bounds the memory; no result depends on it
_RAMP = 0.25  # share of a side over which a soft edge fades

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]


class Splices:
    """The splicing operators that a domain switches on.

    The size of a box follows from the severity: at most the severity's share of the limit, but one pixel at the least unless the severity
    is 0, which changes nothing. Its sides are at most twice as long as one another, as far as whole pixels allow. The draw decides shape,
    place and source, and whether the edge is hard or fades, on the inside, over a quarter of each side. One sample's bytes depend on its
    own picture, donor and step only.

    Args:
        limits: the policy's domain.
        shape: (H, W, C) of the pictures.
    """

    def __init__(self, limits: Domain, shape: tuple[int, int, int]) -> None:
        self._shape = shape
        shares = {name: getattr(limits.splicing, name) or 0.0 for name in SPLICING}
        # A limit too small for a single pixel leaves its operator out.
        self._areas = {name: share * shape[0] * shape[1] for name, share in shares.items() if share * shape[0] * shape[1] >= 1}

    @property
    def names(self) -> tuple[str, ...]:
        """Those switched on and possible with pictures of this shape."""
        return tuple(self._areas)

    def steps(self, name: str, severities: Numbers, draws: Ints, donors: Sequence[str] | None = None) -> Steps:
        """N steps of one operator by column.

        Args:
            name: of ``names``.
            severities: 0 to 1, [N].
            draws: not negative, [N].
            donors: of a splice: N identities of the seed inputs that the boxes are taken from.
        """
        height, width, _ = self._shape
        rows = np.arange(len(draws))
        u = uniforms((draws.view(np.uint64) ^ draw_key(name))[None], np.arange(6, dtype=np.uint64)[:, None])
        most = np.full(len(draws), self._areas[name])
        tallest, widest = _sides(most, u[0], height, width)
        tall, wide = _sides(np.where(severities > 0, np.maximum(severities * most, 1.0), 0.0), u[0], height, width)
        # The middle is where the largest box still fits, so that one draw keeps its place at any severity.
        columns: dict[str, Any] = {
            "y": _place(u[1], tall, tallest, height),
            "x": _place(u[2], wide, widest, width),
            "height": tall,
            "width": wide,
            "soft": u[3] < 0.5,
        }
        if donors is None:
            columns |= {"from_y": _place(u[4], tall, tallest, height), "from_x": _place(u[5], wide, widest, width)}
        else:
            columns["donor"] = list(donors)
        return Steps((name,), np.zeros(len(draws), dtype=np.int64), severities, draws, {0: (rows, columns)}, Step)

    def apply(self, x: npt.NDArray[Any], steps: Steps, donors: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """One step for each sample.

        Args:
            x: [N, H, W, C] in the file's dtype.
            steps: N, as ``steps`` made them.
            donors: like ``x``, the seed inputs that the boxes of a splice are taken from; None for a block copy.

        Returns:
            A new array like ``x``.
        """
        result = x.copy()
        at_once = max(1, _VALUES_AT_ONCE // max(1, int(np.prod(self._shape))))
        for _, rows in together(steps.operators):
            columns = {key: np.asarray(column) for key, column in steps.parameters[0][1].items() if key != "donor"}
            for start in range(0, len(rows), at_once):
                part = slice(start, start + at_once)
                own = {key: column[part] for key, column in columns.items()}
                source = _moved(x[part], own) if donors is None else donors[part]
                result[part] = _laid(x[part], source, own)
        return result


def _sides(areas: Numbers, u: Numbers, height: int, width: int) -> tuple[Ints, Ints]:
    """Whole sides of boxes of at most these areas; their ratio is 1/2 to 2, by ``u``."""
    whole = np.floor(areas + 1e-9)
    tall = np.clip(np.floor(np.sqrt(whole * (0.5 + 1.5 * u))), np.minimum(whole, 1.0), height)
    wide = np.minimum(np.floor(whole / np.maximum(tall, 1.0)), width)
    return tall.astype(np.int64), wide.astype(np.int64)


def _place(u: Numbers, side: Ints, longest: Ints, size: int) -> Ints:
    """First row or column of a box about a middle at which the longest one fits."""
    middle = longest / 2 + u * (size - longest + 1)
    return np.clip(np.floor(middle - side / 2), 0, size - side).astype(np.int64)


def _moved(x: npt.NDArray[Any], columns: dict[str, Any]) -> npt.NDArray[Any]:
    """[n, H, W, C]: the pictures, moved so that each source lies where its box is."""
    height, width = x.shape[1:3]
    down = np.clip(np.arange(height) + (columns["from_y"] - columns["y"])[:, None], 0, height - 1)
    across = np.clip(np.arange(width) + (columns["from_x"] - columns["x"])[:, None], 0, width - 1)
    moved: npt.NDArray[Any] = x[np.arange(len(x))[:, None, None], down[:, :, None], across[:, None, :]]
    return moved


def _laid(x: npt.NDArray[Any], source: npt.NDArray[Any], columns: dict[str, Any]) -> npt.NDArray[Any]:
    """The pictures with their boxes taken from ``source``."""
    soft = columns["soft"].astype(bool)[:, None]
    down = _opacity(x.shape[1], columns["y"][:, None], columns["height"][:, None], soft)
    across = _opacity(x.shape[2], columns["x"][:, None], columns["width"][:, None], soft)
    opacity = (down[:, :, None] * across[:, None, :])[..., None]
    old, new = x.astype(np.float32), source.astype(np.float32)
    mixed = old + opacity * (new - old)
    values = np.clip(np.rint(mixed) if x.dtype.kind == "u" else mixed, np.minimum(old, new), np.maximum(old, new))
    laid: npt.NDArray[Any] = np.where(opacity == 1, new, values).astype(x.dtype)
    return laid


def _opacity(size: int, first: Ints, side: Ints, soft: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
    """[n, size]: of each row or column, 0 outside of the box."""
    at = np.arange(size)[None]
    inside = np.minimum(at - first, first + side - 1 - at)  # how far from the nearest edge; negative outside
    fading = np.where(soft, np.minimum(1.0, (inside + 0.5) / np.maximum(_RAMP * side, 0.5)), 1.0)
    return np.where(inside >= 0, fading, 0.0).astype(np.float32)
