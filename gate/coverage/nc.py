"""NC: a neuron is covered once some sample drives it above a threshold.

Source: Pei, Cao, Yang, Jana, "DeepXplore: automated whitebox testing of deep learning systems", SOSP 2017.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from gate.coverage.activations import ActivationBatch
from gate.coverage.bits import Bits
from gate.coverage.items import Hits, NeuronCriterion, hits_of
from gate.coverage.number_options import checked_number
from gate.coverage.ranges import strictly

__all__ = ["NeuronCoverage"]

_LITTLE = 1e-3  # of a layer's spread: how far beyond its limit an output is wanted


class NeuronCoverage(NeuronCriterion):
    """One item a neuron.

    Args:
        threshold: covered when the output lies strictly above it.
        scale: ``layer`` brings each sample's outputs inside a layer to 0..1 first (lowest to 0, highest to 1; values that are not finite
            take no part; where all are equal, none is covered); ``none`` takes the raw output, as the classic definition has it.
    """

    name: ClassVar[str] = "nc"

    def __init__(self, *, threshold: float = 0.75, scale: Literal["layer", "none"] = "layer") -> None:
        super().__init__()
        if scale not in ("layer", "none"):
            raise ValueError(f"scale must be 'layer' or 'none', not {scale!r}")
        self._threshold = checked_number("threshold", threshold)
        if scale == "layer" and not 0 <= threshold <= 1:
            raise ValueError(f"threshold must be between 0 and 1 for scaled outputs, not {threshold}")
        self._scale = scale

    @property
    def options(self) -> dict[str, Any]:
        """threshold and scale."""
        return {"threshold": self._threshold, "scale": self._scale}

    def _active(self, batch: ActivationBatch) -> Tensor:
        """bool [N, M]: strictly above the threshold."""
        # NaN, which equal outputs are scaled to, is above nothing.
        outputs = batch.scaled() if self._scale == "layer" else batch.flat
        return strictly(outputs > self._threshold, batch)

    def _items(self, batch: ActivationBatch, columns: Tensor | None = None) -> Tensor:
        active = self._active(batch)
        neuron = torch.arange(self.neurons, device=batch.device)
        if columns is not None:
            active, neuron = active[:, columns], columns
        return torch.where(active, neuron, -1)

    def _fresh(self, batch: ActivationBatch, known: Bits) -> Hits:
        return hits_of(self._active(batch) & ~known.unfolded())

    def _directions(self, start: int, values: Tensor) -> Tensor:
        return self._open(start, start + values.shape[1])[:, 0].to(torch.int8).expand_as(values)

    def _gaps(self, batch: ActivationBatch) -> Tensor:
        values, limit = batch.replaced(0.0), torch.full_like(batch.flat, self._threshold)
        little = torch.full_like(limit, _LITTLE * max(1.0, abs(self._threshold)))
        if self._scale == "layer":
            for start, stop in batch.spans.values():
                low, high = torch.aminmax(values[:, start:stop], dim=1, keepdim=True)
                limit[:, start:stop] = low + self._threshold * (high - low)
                little[:, start:stop] = _LITTLE * (high - low)
        gap = (limit - values).clamp(min=0) + little
        return torch.where(self._open(0, self.neurons)[:, 0], gap, 0)
