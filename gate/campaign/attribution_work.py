"""What attributing a defect may cost, in forward-equivalents. The supervisor plans with it and holds the worker to it."""

from __future__ import annotations

__all__ = ["MOST_NAMED", "SIGHT_PASSES", "heat_work", "patch_work"]

MOST_NAMED = 10  # neurons named for one defect
SIGHT_PASSES = 3  # at most, to find the layers that see places; once for a model

_LOOKING = 2  # the seed input and the mutant, side by side
_GRADIENTS = 3 * _LOOKING  # a backward pass counts two
_TOGETHER = 1  # all neurons that broke first, restored at once


def patch_work(neurons: int) -> int:
    """The most that trying so many neurons takes."""
    return _LOOKING + _GRADIENTS + _TOGETHER + neurons


def heat_work(grid: int) -> int:
    """The most that two heat maps take, where in the end squares of a grid this wide are covered one by one."""
    return _LOOKING * (1 + SIGHT_PASSES) + _LOOKING + _GRADIENTS + _LOOKING * (grid * grid + 1)
