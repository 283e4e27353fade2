"""TKNC: a neuron is covered once it is among the k most active ones of its layer for some sample.

Source: Ma et al., "DeepGauge: multi-granularity testing criteria for deep learning systems", ASE 2018.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from gate.coverage.activations import ActivationBatch
from gate.coverage.bits import Bits
from gate.coverage.items import Hits, NeuronCriterion
from gate.coverage.number_options import checked_whole
from gate.errors import ConfigError

__all__ = ["TopK"]

_LITTLE = 1e-3  # of a layer's spread: how far beyond its limit an output is wanted


class TopK(NeuronCriterion):
    """One item a neuron.

    Of equal outputs the neuron with the lower number comes first, so that every device answers alike. Outputs that are not finite are
    never among the k.

    Args:
        k: how many of each layer.
    """

    name: ClassVar[str] = "tknc"

    def __init__(self, *, k: int = 2) -> None:
        super().__init__()
        self._k = checked_whole("k", k)

    @property
    def options(self) -> dict[str, Any]:
        """k."""
        return {"k": self._k}

    def _laid_out(self) -> None:
        check_widths(self._k, self._layers, self.name)
        super()._laid_out()

    def _items(self, batch: ActivationBatch, columns: Tensor | None = None) -> Tensor:
        neurons, usable = batch.top(self._k)
        items = torch.full_like(batch.flat, -1, dtype=torch.int64)
        found = neurons.flatten(1)
        items.scatter_(1, found, torch.where(usable.flatten(1), found, -1))
        return items if columns is None else items[:, columns]

    def _fresh(self, batch: ActivationBatch, known: Bits) -> Hits:
        neurons, usable = batch.top(self._k)
        sample, layer, place = (usable & ~known.has(neurons)).nonzero(as_tuple=True)
        return sample, neurons[sample, layer, place]

    def _directions(self, start: int, values: Tensor) -> Tensor:
        return self._open(start, start + values.shape[1])[:, 0].to(torch.int8).expand_as(values)

    def _gaps(self, batch: ActivationBatch) -> Tensor:
        values, gap = batch.replaced(0.0), torch.zeros_like(batch.flat)
        for start, stop in batch.spans.values():
            block = values[:, start:stop]
            low, high = torch.aminmax(block, dim=1, keepdim=True)
            last = block.topk(self._k, dim=1).values[:, -1:]
            gap[:, start:stop] = (last - block).clamp(min=0) + _LITTLE * (high - low)
        return torch.where(self._open(0, self.neurons)[:, 0], gap, 0)


def check_widths(k: int, layers: dict[str, int], criterion: str) -> None:
    """Raises ConfigError where a layer has fewer than k neurons."""
    for name, width in layers.items():
        if k > width:
            raise ConfigError(
                f"The top {k} of layer {name!r} can't be counted: it has {width} neurons.",
                where=f"coverage.{criterion}_k",
                hint=f"Set it to at most {width}, or leave the layer out in coverage.layers.",
            )
