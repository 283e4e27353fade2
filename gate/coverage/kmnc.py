"""KMNC: the range of every neuron over the profile set, cut into equal sections; a section is covered once an output falls into it.

Source: Ma et al., "DeepGauge: multi-granularity testing criteria for deep learning systems", ASE 2018.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from gate.coverage.ranges import RangedCriterion

__all__ = ["KMultisection"]


class KMultisection(RangedCriterion):
    """``sections`` items a neuron.

    Section j holds low + j·w ≤ output < low + (j+1)·w with w = (high - low) / sections; the last one also holds ``high``. An output out
    of range counts for none. A neuron with low = high (or a range wider than float32 can hold) has no sections and is not in ``total``.
    """

    name: ClassVar[str] = "kmnc"

    def __init__(self, *, sections: int = 1000) -> None:
        super().__init__()
        if isinstance(sections, bool) or not isinstance(sections, int) or sections < 1:
            raise ValueError(f"sections must be a whole number of at least 1, not {sections!r}")
        self._sections = sections

    @property
    def items_per_neuron(self) -> int:
        """The number of sections."""
        return self._sections

    @property
    def options(self) -> dict[str, Any]:
        """sections."""
        return {"sections": self._sections}

    def _possible(self) -> Tensor:
        return (self._low < self._high) & torch.isfinite(self._high - self._low)

    def _missing(self) -> str | None:
        missing = super()._missing()
        if missing is None and not bool(self._possible().any()):
            missing = "no neuron of the watched layers varies over the profile set, so there are no sections: give more samples"
        return missing

    def _section(self, values: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """For float32 [N, neurons]: the section, int64, meaningful only where the second answer, inside or not, is True."""
        stop = start + values.shape[1]
        low, high, live = self._low[start:stop], self._high[start:stop], self._possible()[start:stop]
        inside = (values >= low) & (values <= high) & live
        position = (values - low) / (high - low) * self._sections
        section = torch.where(inside, position, 0).to(torch.int64)
        return section.clamp(max=self._sections - 1), inside

    def _items(self, flat: Tensor, finite: Tensor) -> Tensor:
        section, inside = self._section(flat, 0)
        neuron = torch.arange(flat.shape[1], device=flat.device)
        return torch.where(inside, neuron * self._sections + section, -1)

    def _directions(self, start: int, values: Tensor) -> Tensor:
        count, stop, k = values.shape[1], start + values.shape[1], self._sections
        section, inside = self._section(values, start)
        # One past either end of the range stands for all that lies out there.
        section = torch.where(inside, section, torch.where(values < self._low[start:stop], -1, k))
        free = (self._state[start * k : stop * k].view(count, k) != 2) & self._possible()[start:stop, None]
        # Open sections in the order of their numbers: the neighbours of a section in this list are the nearest open ones.
        open_ones = free.flatten().nonzero().flatten()
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
