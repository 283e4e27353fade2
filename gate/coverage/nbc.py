"""NBC: outputs beyond what the profile set has shown, on either side.

Source: Ma et al., "DeepGauge: multi-granularity testing criteria for deep learning systems", ASE 2018.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from gate.coverage.ranges import BoundedCriterion

__all__ = ["Boundary"]


class Boundary(BoundedCriterion):
    """Two items a neuron: 0 an output below the lower limit, 1 an output above the upper one. A limit itself lies inside.

    Options: see ``BoundedCriterion``.
    """

    name: ClassVar[str] = "nbc"

    @property
    def items_per_neuron(self) -> int:
        """Below and above."""
        return 2

    def _items(self, flat: Tensor, finite: Tensor) -> Tensor:
        lower, upper = self._limits()
        neuron = torch.arange(flat.shape[1], device=flat.device)
        beyond = torch.where(flat > upper, 2 * neuron + 1, torch.where(flat < lower, 2 * neuron, -1))
        return torch.where(self._possible(), beyond, -1)

    def _directions(self, start: int, values: Tensor) -> Tensor:
        stop = start + values.shape[1]
        lower, upper = (limit[start:stop] for limit in self._limits())
        free = (self._state[2 * start : 2 * stop].view(-1, 2) != 2) & self._possible()[start:stop, None]
        up = torch.where(free[:, 1], upper - values, torch.inf)
        down = torch.where(free[:, 0], values - lower, torch.inf)
        return torch.where(free.any(1), torch.where(up <= down, 1, -1), 0).to(torch.int8)
