"""A universal mark: one small picture, laid on every input alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Mark", "lay"]


@dataclass(frozen=True)
class Mark:
    """Every value becomes (1 - weight) * value + weight * picture, rounded as the file's dtype has it."""

    kind: str
    weight: npt.NDArray[np.float32]  # [..., 1], 0 to 1: how much of the input the mark hides
    picture: npt.NDArray[np.float32]  # [..., C] in file values


def lay(x: npt.NDArray[Any], weight: npt.NDArray[np.float32], picture: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    """The inputs with a mark on them, in the dtype of ``x``, quantised as a file would be. Shapes are broadcast."""
    marked = (1 - weight) * x.astype(np.float32) + weight * picture
    return (np.rint(marked) if x.dtype == np.uint8 else marked).astype(x.dtype)
