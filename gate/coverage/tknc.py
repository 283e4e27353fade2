"""TKNC: a neuron is covered once it is among the k most active ones of its layer for some sample.

Source: Ma et al., "DeepGauge: multi-granularity testing criteria for deep learning systems", ASE 2018.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from gate.coverage.items import Criterion
from gate.errors import ConfigError

__all__ = ["TopK"]


class TopK(Criterion):
    """One item a neuron.

    Of equal outputs the neuron with the lower number comes first, so that every device answers alike. Outputs that are not finite are
    never among the k.

    Args:
        k: how many of each layer.
    """

    name: ClassVar[str] = "tknc"

    def __init__(self, *, k: int = 2) -> None:
        super().__init__()
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ValueError(f"k must be a whole number of at least 1, not {k!r}")
        self._k = k

    @property
    def options(self) -> dict[str, Any]:
        """k."""
        return {"k": self._k}

    def _lay_out(self, layers: Mapping[str, int], device: torch.device) -> None:
        for name, width in layers.items():
            if self._k > width:
                raise ConfigError(
                    f"The top {self._k} of layer {name!r} can't be counted: it has {width} neurons.",
                    where="coverage.tknc_k",
                    hint=f"Set it to at most {width}, or leave the layer out in coverage.layers.",
                )
        super()._lay_out(layers, device)

    def _items(self, flat: Tensor, finite: Tensor) -> Tensor:
        usable = torch.where(finite, flat, -torch.inf)
        parts = []
        for start, stop in self._spans().values():
            values = usable[:, start:stop]
            last = values.topk(self._k, dim=1).values[:, -1:]
            above = values > last
            tied = values == last
            room = self._k - above.sum(1, keepdim=True)
            parts.append(above | (tied & (tied.cumsum(1) <= room)))
        neuron = torch.arange(flat.shape[1], device=flat.device)
        return torch.where(torch.cat(parts, 1), neuron, -1)

    def _directions(self, start: int, values: Tensor) -> Tensor:
        free = self._state[start : start + values.shape[1]] != 2
        return free.to(torch.int8).expand_as(values)
