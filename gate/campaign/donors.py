"""Which seed inputs a part may be taken from: others of the same class."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["Donors"]


class Donors:
    """Draws seed inputs of the same class.

    Args:
        labels: int64 [S], classes of the seed inputs.
    """

    def __init__(self, labels: npt.NDArray[np.int64]) -> None:
        self._order = np.argsort(labels, kind="stable")  # class by class
        ordered = labels[self._order]
        self._first = np.searchsorted(ordered, labels, side="left")
        self._count = np.searchsorted(ordered, labels, side="right") - self._first
        place = np.empty(len(labels), dtype=np.int64)
        place[self._order] = np.arange(len(labels))
        self._place = place - self._first  # within the class

    @property
    def alone(self) -> npt.NDArray[np.bool_]:
        """bool [S]: whether a seed input is the only one of its class."""
        found: npt.NDArray[np.bool_] = self._count == 1
        return found

    def draw(self, seeds: npt.NDArray[np.int64], random: np.random.Generator) -> npt.NDArray[np.int64]:
        """int64 [n]: for each of ``seeds`` int64 [n] another one of its class, all others alike; itself where it is alone."""
        others = self._count[seeds] - 1
        away = 1 + (random.random(len(seeds)) * others).astype(np.int64)
        found: npt.NDArray[np.int64] = self._order[self._first[seeds] + (self._place[seeds] + away) % self._count[seeds]]
        return found
