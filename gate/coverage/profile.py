"""What the watched layers put out over the profile set, whatever the criteria make of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gate.coverage.activations import ActivationBatch, spans_of

__all__ = ["LayerProfile", "Profile"]


@dataclass(frozen=True)
class LayerProfile:
    """One layer over the profile set."""

    low: float | None  # lowest and highest finite output of any neuron; None where there was none
    high: float | None
    constant: int  # neurons whose output never varied, or was never finite


class Profile:
    """The range of every neuron, batch by batch. Lives on the activations' device."""

    def __init__(self) -> None:
        self._layers: dict[str, int] = {}
        self._low = self._high = torch.zeros(0)  # float32 [neurons]

    def take(self, batch: ActivationBatch) -> None:
        """Takes in a batch; an empty one says nothing."""
        if not len(batch):
            return
        low, high = batch.range()
        if self._layers:
            low, high = torch.minimum(self._low, low), torch.maximum(self._high, high)
        self._layers, self._low, self._high = batch.layers, low, high

    def layers(self) -> dict[str, LayerProfile]:
        """By layer, in item order; empty before the first batch."""
        low, high = self._low.cpu(), self._high.cpu()
        return {name: _of(low[start:stop], high[start:stop]) for name, (start, stop) in spans_of(self._layers).items()}


def _of(low: Tensor, high: Tensor) -> LayerProfile:
    constant = int((low >= high).sum())
    if not bool((low <= high).any()):  # low is +inf and high is -inf where nothing was finite
        return LayerProfile(None, None, constant)
    return LayerProfile(float(low.min()), float(high.max()), constant)
