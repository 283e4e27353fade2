"""KMNC: the range of every neuron over the profile set, cut into equal sections; a section is covered once an output falls into it.

Source: Ma et al., "DeepGauge: multi-granularity testing criteria for deep learning systems", ASE 2018.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from gate.coverage.activations import ActivationBatch
from gate.coverage.ranges import RangedCriterion, beyond

__all__ = ["KMultisection"]


class KMultisection(RangedCriterion):
    """``sections`` items a neuron.

    Section j holds low + j·w ≤ output < low + (j+1)·w with w = (high - low) / sections; the last one also holds ``high``. An output out
    of range counts for none. A neuron with low = high (or a range wider than float32 can hold) has no sections and is not in ``total``.

    Args:
        sections: how many a neuron.
        edges: ``left`` gives an output on an edge between two sections to the upper one, as above; ``right`` to the lower one, as some
            implementations have it: low + j·w < output ≤ low + (j+1)·w, the first one also holding ``low``.
    """

    name: ClassVar[str] = "kmnc"

    def __init__(self, *, sections: int = 1000, edges: Literal["left", "right"] = "left") -> None:
        super().__init__()
        if isinstance(sections, bool) or not isinstance(sections, int) or sections < 1:
            raise ValueError(f"sections must be a whole number of at least 1, not {sections!r}")
        if edges not in ("left", "right"):
            raise ValueError(f"edges must be 'left' or 'right', not {edges!r}")
        self._sections = sections
        self._edges = edges

    @property
    def items_per_neuron(self) -> int:
        """The number of sections."""
        return self._sections

    @property
    def options(self) -> dict[str, Any]:
        """sections and edges."""
        return {"sections": self._sections, "edges": self._edges}

    def _possible(self) -> Tensor:
        return (self._low < self._high) & torch.isfinite(self._high - self._low)

    def _missing(self) -> str | None:
        missing = super()._missing()
        # Once is enough: the ranges stay as they are from the first update on.
        if missing is None and not self._begun and not bool(self._possible().any()):
            missing = "no neuron of the watched layers varies over the profile set, so there are no sections: give more samples"
        return missing

    def _section(self, values: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """int64, the shape of ``values``: the section, where they lie in [low, high]."""
        position = (values - low).div_(high - low).mul_(self._sections)
        if self._edges == "right":
            position = position.ceil_().sub_(1)
        # Before the cast, for what a number that no integer can hold becomes is left open.
        return position.clamp_(0, self._sections - 1).to(torch.int64)

    def _items(self, batch: ActivationBatch, columns: Tensor | None = None) -> Tensor:
        flat, low, high, possible = batch.flat, self._low, self._high, self._possible()
        below, above = beyond(batch, low, high)
        neuron = torch.arange(self.neurons, device=flat.device)
        if columns is not None:
            flat, below, above = flat[:, columns], below[:, columns], above[:, columns]
            low, high, possible, neuron = low[columns], high[columns], possible[columns], columns
        outside = (below | above).logical_or_(~possible)
        if batch.finite is not None:
            outside |= ~(batch.finite if columns is None else batch.finite[:, columns])
        return self._section(flat, low, high).add_(neuron * self._sections).masked_fill_(outside, -1)

    def _directions(self, start: int, values: Tensor) -> Tensor:
        count, stop, k = values.shape[1], start + values.shape[1], self._sections
        low, high = self._low[start:stop], self._high[start:stop]
        # One past either end of the range stands for all that lies out there.
        section = torch.where(values < low, -1, torch.where(values > high, k, self._section(values, low, high)))
        # Open sections in the order of their numbers: the neighbours of a section in this list are the nearest open ones.
        open_ones = self._open(start, stop).flatten().nonzero().flatten()
        if not len(open_ones):
            return torch.zeros_like(section, dtype=torch.int8)
        first = torch.arange(count, device=values.device) * k
        here = first + section
        above = torch.searchsorted(open_ones, here, right=True)
        below = torch.searchsorted(open_ones, here) - 1
        far = 2 * k + 2  # farther than any section of the neuron
        next_one = open_ones[above.clamp(max=len(open_ones) - 1)]
        last_one = open_ones[below.clamp(min=0)]
        up = torch.where((above < len(open_ones)) & (next_one < first + k), next_one - here, far)
        down = torch.where((below >= 0) & (last_one >= first), here - last_one, far)
        return torch.where(torch.minimum(up, down) < far, torch.where(up <= down, 1, -1), 0).to(torch.int8)
