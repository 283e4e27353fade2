"""NC: a neuron is covered once some sample drives it above a threshold.

Source: Pei, Cao, Yang, Jana, "DeepXplore: automated whitebox testing of deep learning systems", SOSP 2017.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from gate.coverage.items import Criterion

__all__ = ["NeuronCoverage"]


class NeuronCoverage(Criterion):
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
        if not abs(threshold) < float("inf") or (scale == "layer" and not 0 <= threshold <= 1):
            raise ValueError(f"threshold must be between 0 and 1 for scaled outputs and finite for raw ones, not {threshold}")
        self._threshold = float(threshold)
        self._scale = scale

    @property
    def options(self) -> dict[str, Any]:
        """threshold and scale."""
        return {"threshold": self._threshold, "scale": self._scale}

    def _items(self, flat: Tensor, finite: Tensor) -> Tensor:
        if self._scale == "layer":
            parts = []
            for start, stop in self._spans().values():
                values, usable = flat[:, start:stop], finite[:, start:stop]
                low = torch.where(usable, values, torch.inf).amin(1, keepdim=True)
                high = torch.where(usable, values, -torch.inf).amax(1, keepdim=True)
                # Equal values give 0/0 = NaN, which is above nothing.
                parts.append((values - low) / (high - low))
            flat = torch.cat(parts, 1)
        neuron = torch.arange(flat.shape[1], device=flat.device)
        return torch.where(flat > self._threshold, neuron, -1)

    def _directions(self, start: int, values: Tensor) -> Tensor:
        free = self._state[start : start + values.shape[1]] != 2
        return free.to(torch.int8).expand_as(values)
