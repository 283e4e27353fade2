"""A probe: an input that needs no label, for the oracles that need none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

__all__ = ["Probe"]


@dataclass(frozen=True)
class Probe:
    """One probe."""

    name: str  # unique, and fit for a file's name
    group: str
    seed: int  # position of the seed input it came from; -1 for none
    shows_nothing: bool  # whether there is nothing on it to recognise
    x: npt.NDArray[Any]  # [...] in the file dtype
