"""NBC: outputs beyond what the profile set has shown, on either side.

Source: Ma et al., "DeepGauge: multi-granularity testing criteria for deep learning systems", ASE 2018.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from gate.coverage.activations import ActivationBatch
from gate.coverage.bits import Bits
from gate.coverage.items import Hits, hits_of
from gate.coverage.ranges import BoundedCriterion, beyond, strictly

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

    def _items(self, batch: ActivationBatch, columns: Tensor | None = None) -> Tensor:
        below, above = (strictly(mask, batch) for mask in beyond(batch, *self._limits()))
        neuron = torch.arange(self.neurons, device=batch.device)
        if columns is not None:
            below, above, neuron = below[:, columns], above[:, columns], columns
        return torch.where(above, 2 * neuron + 1, torch.where(below, 2 * neuron, -1))

    def _fresh(self, batch: ActivationBatch, known: Bits) -> Hits:
        below, above = (strictly(mask, batch) for mask in beyond(batch, *self._limits()))
        lacks = (~known.unfolded()).view(-1, 2).t().contiguous()
        # As most outputs are within the limits, both sides together are still few.
        sample, column = hits_of((below & lacks[0]) | (above & lacks[1]))
        return sample, 2 * column + above[sample, column]

    def _directions(self, start: int, values: Tensor) -> Tensor:
        stop = start + values.shape[1]
        lower, upper = (limit[start:stop] for limit in self._limits())
        free = self._open(start, stop)
        up = torch.where(free[:, 1], upper - values, torch.inf)
        down = torch.where(free[:, 0], values - lower, torch.inf)
        return torch.where(free.any(1), torch.where(up <= down, 1, -1), 0).to(torch.int8)

    def _gaps(self, batch: ActivationBatch) -> Tensor:
        free, (lower, upper) = self._open(0, self.neurons), self._limits()
        little = self._little(batch)
        up = torch.where(free[:, 1], (upper - batch.flat).clamp(min=0) + little, torch.inf)
        down = torch.where(free[:, 0], (batch.flat - lower).clamp(min=0) + little, torch.inf)
        return torch.where(up <= down, up, -down)
