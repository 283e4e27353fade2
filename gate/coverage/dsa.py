"""DSA: surprise as nearness to another class.

Source: Kim, Feldt, Yoo, "Guiding deep learning system testing using surprise adequacy", ICSE 2019.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from gate.coverage.surprise import SurpriseCriterion, check_above_zero

__all__ = ["DistanceSurprise"]

_CHUNK = 1 << 24  # float64 numbers that references are widened to at a time


class DistanceSurprise(SurpriseCriterion):
    """a / b: a is the Euclidean distance from the sample to the nearest reference of its class, b from that reference to the nearest one
    of another class. All neurons count alike. Of references at the same distance the first one is taken.

    Not defined (NaN) where both distances are 0; infinite, and so beyond any upper bound, where b alone is.

    Needs references of two classes at least. Every sample is compared with all references of its class, so ``references`` sets the cost.

    Args:
        sections: see ``SurpriseCriterion``.
        references: see ``SurpriseCriterion``.
        upper: see ``SurpriseCriterion``.
    """

    name: ClassVar[str] = "dsa"

    def __init__(self, *, sections: int = 100, references: int = 1000, upper: float | None = None) -> None:
        super().__init__(sections=sections, references=references, upper=upper)
        check_above_zero(upper)
        self._centre = torch.zeros(0, dtype=torch.float64)  # [neurons]
        self._apart = torch.zeros(0, dtype=torch.float64)  # [R]: distance to the nearest reference of another class; NaN: not asked for yet

    def _derive(self) -> None:
        if len(self._labels) < 2:
            raise ValueError(f"{self.name} needs profile samples of two classes at least: there is only class {int(self._labels[0])}")
        # Distances are the same wherever 0 lies, and keep more digits where the numbers are small.
        self._centre = self._references.mean(0, dtype=torch.float64)
        self._apart = torch.full((len(self._references),), torch.nan, dtype=torch.float64, device=self._device)

    def _within(self, index: int, rows: Tensor, own: Tensor | None) -> Tensor:
        start, stop = self._starts[index], self._starts[index + 1]
        place, distance = self._nearest(rows, [(start, stop)], None if own is None else own + start)
        unknown = torch.unique(place[torch.isnan(self._apart[place])])
        if len(unknown):
            others = [(0, start), (stop, self._starts[-1])]
            _, self._apart[unknown] = self._nearest(self._references[unknown], others, None)
        return distance / self._apart[place]

    def _nearest(self, rows: Tensor, spans: list[tuple[int, int]], own: Tensor | None) -> tuple[Tensor, Tensor]:
        """The nearest references.

        Args:
            rows: float32 [n, neurons].
            spans: the references that are looked at, from and to.
            own: int64 [n], a reference for each row that does not count for it.

        Returns:
            int64 [n]: the number of the nearest reference; float64 [n]: its distance, infinite where there is none.
        """
        wide = rows.double() - self._centre
        best = torch.full((len(rows),), torch.inf, dtype=torch.float64, device=rows.device)
        place = torch.zeros(len(rows), dtype=torch.int64, device=rows.device)
        step = max(1, _CHUNK // rows.shape[1])
        for first, last in spans:
            for start in range(first, last, step):
                stop = min(last, start + step)
                references = self._references[start:stop].double() - self._centre
                # The square without the part that is the same for every reference: a product of matrices finds the nearest fast ...
                squared = torch.addmm(references.square().sum(1), wide, references.T, alpha=-2)
                if own is not None:
                    inside = (own >= start) & (own < stop)
                    column = (own - start).clamp(0, stop - start - 1)[:, None]
                    squared.scatter_(1, column, torch.where(inside[:, None], torch.inf, squared.gather(1, column)))
                lowest, column = squared.min(1)
                closer = lowest < best
                best, place = torch.where(closer, lowest, best), torch.where(closer, column + start, place)
        # ... and its distance, which cancellation would have spoilt, is worked out anew.
        distance = (rows.double() - self._references[place].double()).square().sum(1).sqrt()
        return place, torch.where(torch.isinf(best), best, distance)
