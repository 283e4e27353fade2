"""SNAC: outputs above what the profile set has shown.

Source: Ma et al., "DeepGauge: multi-granularity testing criteria for deep learning systems", ASE 2018.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from gate.coverage.ranges import BoundedCriterion

__all__ = ["StrongActivation"]


class StrongActivation(BoundedCriterion):
    """One item a neuron: an output strictly above the upper limit.

    Options: see ``BoundedCriterion``.
    """

    name: ClassVar[str] = "snac"

    def _items(self, flat: Tensor, finite: Tensor) -> Tensor:
        neuron = torch.arange(flat.shape[1], device=flat.device)
        return torch.where((flat > self._limits()[1]) & self._possible(), neuron, -1)

    def _directions(self, start: int, values: Tensor) -> Tensor:
        span = slice(start, start + values.shape[1])
        free = (self._state[span] != 2) & self._possible()[span]
        return free.to(torch.int8).expand_as(values)
