"""What an arm gained by how many executions, so that two arms can be compared after equally many."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from gate.campaign.evenly_spaced import EvenlySpaced
from gate.result import ControlComparison

__all__ = ["GainCurve", "compare", "is_false_coverage"]

POINTS = 4096  # step ends that are kept; of a longer campaign every second one, then every fourth, ...


class GainCurve:
    """Coverage by criterion at the ends of an arm's steps. Lives in the supervisor.

    Args:
        initial: coverage that every arm starts from.
    """

    def __init__(self, initial: Mapping[str, float]) -> None:
        self._ends: EvenlySpaced[tuple[int, dict[str, float]]] = EvenlySpaced(POINTS)
        self._ends.add((0, dict(initial)))

    def note(self, executions: int, coverage: Mapping[str, float]) -> None:
        """Takes in the coverage after so many executions of the arm, more than the last time."""
        self._ends.add((executions, dict(coverage)))

    @property
    def executions(self) -> int:
        """Noted last."""
        return self._ends.points[-1][0]

    def gain(self, criterion: str, executions: int) -> float:
        """Coverage gained in the first executions, from 0 to all of them.

        Exact at the end of a step. In between it is taken to have risen evenly. In truth a step gains more in its first half than in its
        second, so the value is rather too low than too high.
        """
        ends = self._ends.points
        place = bisect_left(ends, executions, key=lambda end: end[0])
        after, coverage = ends[place]
        value = coverage[criterion]
        if after != executions:
            before, earlier = ends[place - 1]
            value = earlier[criterion] + (value - earlier[criterion]) * (executions - before) / (after - before)
        return value - ends[0][1][criterion]


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
