"""A record of something that goes on for long, in little memory: points at even distances, the first and the newest always among them."""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["EvenlySpaced"]

Point = TypeVar("Point")


class EvenlySpaced(Generic[Point]):
    """Keeps one point in every ``2^n`` that were added, with the smallest n that keeps them within the limit, and the newest one.

    Args:
        limit: even; the most points that are kept.
    """

    def __init__(self, limit: int) -> None:
        self.points: list[Point] = []
        self._limit = limit
        self._stride = 1
        self._added = 0
        self._passing = False  # whether the newest point lies between two that are kept

    def add(self, point: Point) -> None:
        """Adds a point, in the place of the newest one where that was not one to keep."""
        if self._passing:
            self.points.pop()
        self.points.append(point)
        if len(self.points) > self._limit:
            # Every second point goes. The limit is even, so first and newest stay, and what is left is still evenly spaced.
            self.points[:] = self.points[::2]
            self._stride *= 2
        self._passing = self._added % self._stride != 0
        self._added += 1
