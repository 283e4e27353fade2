"""SNAC: outputs above what the profile set has shown.

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

__all__ = ["StrongActivation"]


class StrongActivation(BoundedCriterion):
    """One item a neuron: an output strictly above the upper limit.

    Options: see ``BoundedCriterion``.
    """

    name: ClassVar[str] = "snac"

    def _items(self, batch: ActivationBatch, columns: Tensor | None = None) -> Tensor:
        above = self._above(batch)
        neuron = torch.arange(self.neurons, device=batch.device)
        if columns is not None:
            above, neuron = above[:, columns], columns
        return torch.where(above, neuron, -1)

    def _fresh(self, batch: ActivationBatch, known: Bits) -> Hits:
        return hits_of(self._above(batch) & ~known.unfolded())

    def _above(self, batch: ActivationBatch) -> Tensor:
        return strictly(beyond(batch, *self._limits())[1], batch)

    def _directions(self, start: int, values: Tensor) -> Tensor:
        return self._open(start, start + values.shape[1])[:, 0].to(torch.int8).expand_as(values)

    def _gaps(self, batch: ActivationBatch) -> Tensor:
        gap = (self._limits()[1] - batch.flat).clamp(min=0) + self._little(batch)
        return torch.where(self._open(0, self.neurons)[:, 0], gap, 0)
