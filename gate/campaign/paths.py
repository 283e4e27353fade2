"""The severities at which natural operators have been tried on the same input with the same draw: ways along which others can be told.

Lives in the supervisor, and knows inputs by their place, see ``gate.campaign.guide``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["SHARES", "Paths", "Stretches"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# How far along a stretch mutants may be made; beyond 1 past the highest severity that was tried.
SHARES = (0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.125, 1.25, 1.5, 2.0)
SHORTEST = 1 / 128  # severities that lie closer than this have nothing of use between them


@dataclass(frozen=True)
class Stretches:
    """Pairs of neighbouring severities on one path. All [S]."""

    low: Ints  # places of the inputs at the lower severity; where that is 0 the input that the path starts from
    high: Ints  # places of the inputs at the higher one
    entries: Ints  # corpus positions of the inputs that the paths start from
    operators: Ints  # positions in the natural operators
    draws: Ints
    begins: Floats  # the lower severity
    ends: Floats
    most: Floats  # share of the stretch up to which mutants may be made

    def __len__(self) -> int:
        return len(self.low)

    def take(self, rows: npt.NDArray[Any]) -> Stretches:
        """Some of them, in the order of ``rows``."""
        return Stretches(**{name: values[rows] for name, values in vars(self).items()})

    def severities(self, shares: Floats) -> Floats:
        """float64 [S]: the severity so far along each stretch, shares float64 [S]."""
        return self.begins + shares * (self.ends - self.begins)


class Paths:
    """Points on paths, by place: a place that is taken over takes its point away.

    A path is what one operator makes of one corpus entry with one draw, from severity 0, which is the entry itself, to the highest.

    Args:
        places: how many there are.
    """

    def __init__(self, places: int) -> None:
        self._entries = np.full(places, -1, dtype=np.int64)
        self._operators = np.zeros(places, dtype=np.int64)
        self._draws = np.zeros(places, dtype=np.int64)
        self._severities = np.zeros(places)

    def put(self, places: Ints, entries: Ints, operators: Ints, draws: Ints, severities: Floats) -> None:
        """Notes what has been tried. All [n]; an entry of -1 is on no path, and only takes the place."""
        self._entries[places] = entries
        self._operators[places] = operators
        self._draws[places] = draws
        self._severities[places] = severities

    def stretches(self, place_of: Ints, left: Floats) -> Stretches:
        """What there is between points.

        Args:
            place_of: int64 [entries]: the place of each corpus entry, -1 where it has none. Paths that start from such an entry lack their
                first stretch.
            left: float64 [entries]: the highest severity of an operator that each entry allows.
        """
        places = np.flatnonzero(self._entries >= 0)
        keys = (self._severities[places], self._draws[places], self._operators[places], self._entries[places])
        places = places[np.lexsort(keys)]
        entries, operators, draws = self._entries[places], self._operators[places], self._draws[places]
        ends = self._severities[places]
        path = np.stack([entries, operators, draws])
        same = np.zeros(len(places), dtype=bool)
        same[1:] = (path[:, 1:] == path[:, :-1]).all(axis=0)
        last = np.ones(len(places), dtype=bool)
        last[:-1] = ~same[1:]
        low = np.where(same, np.roll(places, 1), place_of[entries])
        begins = np.where(same, np.roll(ends, 1), 0.0)
        length = ends - begins
        usable = np.flatnonzero((low >= 0) & (length >= SHORTEST) & (low != places))
        most = np.where(last, (left[entries] - begins) / np.maximum(length, SHORTEST), 1.0)
        return Stretches(low, places, entries, operators, draws, begins, ends, most).take(usable)
