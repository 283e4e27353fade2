"""What an arm gained by how many executions, so that two arms can be compared after equally many."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

import numpy as np

from gate.campaign.evenly_spaced import EvenlySpaced
from gate.result import ControlComparison

__all__ = ["GainCurve", "compare", "is_false_coverage"]

EXACT = 1 << 16  # executions up to which every one is kept; a control arm seldom has more
POINTS = 4096  # step ends that are kept beyond; of a longer campaign every second one, then every fourth, ...


class GainCurve:
    """An arm's coverage by criterion, execution by execution. Lives in the supervisor.

    Args:
        initial: coverage that every arm starts from; its order is that of the criteria.
    """

    def __init__(self, initial: Mapping[str, float]) -> None:
        self._names = tuple(initial)
        self._first = np.array([list(initial.values())], dtype=np.float64)  # [1, C]
        self._each: list[np.ndarray] = [self._first]  # [n, C] a step: coverage after each execution
        self._exact = 0  # executions in these
        self._ends: EvenlySpaced[tuple[int, np.ndarray]] = EvenlySpaced(POINTS)
        self._ends.add((0, self._first[0]))

    def note(self, coverage: Mapping[str, float], added: np.ndarray) -> None:
        """Takes in a step.

        Args:
            coverage: at its end.
            added: float64 [N, C], what each of its executions added, in the order of the criteria and in any unit. Coverage rises in
                proportion to it, which is exact where items are counted, and as near as gains of first order are for a statistic.
        """
        before, end = self._ends.points[-1]
        after = np.array([coverage[name] for name in self._names])
        if self._exact == before and before + len(added) <= EXACT:
            risen = np.maximum(added, 0).cumsum(axis=0)
            share = risen / np.where(risen[-1] > 0, risen[-1], 1)
            # A statistic that falls gains nothing anywhere: it is taken to fall evenly.
            even = np.arange(1, len(added) + 1)[:, None] / len(added)
            self._each.append(end + (after - end) * np.where(risen[-1] > 0, share, even))
            self._exact += len(added)
        self._ends.add((before + len(added), after))

    @property
    def executions(self) -> int:
        """Of the arm so far."""
        return self._ends.points[-1][0]

    def gain(self, criterion: str, executions: int) -> float:
        """Coverage gained in the first executions, from 0 to all of them; beyond ``EXACT``, between steps, taken to rise evenly."""
        column = self._names.index(criterion)
        if executions <= self._exact:
            self._each = [np.concatenate(self._each)]
            value = self._each[0][executions, column]
        else:
            ends = self._ends.points
            place = bisect_left(ends, executions, key=lambda end: end[0])
            (before, earlier), (after, later) = ends[place - 1], ends[place]
            value = earlier[column] + (later[column] - earlier[column]) * (executions - before) / (after - before)
        return float(value - self._first[0, column])


def compare(search: GainCurve, control: GainCurve, criterion: str) -> ControlComparison | None:
    """The gains of a control arm and of the search after as many executions as both have; None where one of them has none."""
    executions = min(search.executions, control.executions)
    if not executions:
        return None
    return ControlComparison(
        executions=executions, gain=control.gain(criterion, executions), search_gain=search.gain(criterion, executions)
    )


def is_false_coverage(noise: ControlComparison | None) -> bool:
    """Whether noise gained as much as the search did by then; where it gained nothing, there is no coverage to call false."""
    return noise is not None and noise.gain > 0 and noise.gain >= noise.search_gain
