"""TKNP: the distinct sets of most active neurons that samples show.

Source: Ma et al., "DeepGauge: multi-granularity testing criteria for deep learning systems", ASE 2018. There a pattern is made of the top
k of all layers together (``joint``); on a network of many layers nearly every sample is then a pattern of its own. So here each layer
has its own patterns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from gate.coverage.activations import ActivationBatch
from gate.coverage.number_options import checked_whole
from gate.coverage.patterns import PatternCriterion, keys_of, row_name
from gate.coverage.tknc import check_widths

__all__ = ["TopKPatterns"]


class TopKPatterns(PatternCriterion):
    """A pattern is the set of the k most active neurons of a layer, in whatever order.

    Of equal outputs the neuron with the lower number comes first. Outputs that are not finite are never among the k, and a sample with
    fewer than k finite ones in a layer shows no pattern there.

    Counts are exact where w^k ≤ 2^bits for the widest layer, of w neurons, bits being 63 less the bits that number the layers: for k = 5
    and 64 layers, up to 2,702 neurons. Otherwise see ``patterns`` on how likely two patterns are to be taken for one.

    Args:
        k: how many of each layer.
        joint: one pattern over all layers, made of the k of each; a sample with a layer of fewer than k finite outputs shows none. Exact
            where the product of w^k over the layers is at most 2^63.
    """

    name: ClassVar[str] = "tknp"

    def __init__(self, *, k: int = 2, joint: bool = False) -> None:
        super().__init__()
        self._k = checked_whole("k", k)
        if not isinstance(joint, bool):
            raise ValueError(f"joint must be true or false, not {joint!r}")
        self._joint = joint
        self._weights = torch.zeros(0, dtype=torch.int64)  # [layers, k] of the places of an exact code; empty where codes are sums of keys
        self._first = torch.zeros(0, dtype=torch.int64)  # [layers, 1]: number of each layer's first neuron
        self._keys = torch.zeros(0, dtype=torch.int64)  # [neurons]; empty where codes are exact

    @property
    def options(self) -> dict[str, Any]:
        """k and joint."""
        return {"k": self._k, "joint": self._joint}

    def _groups(self) -> list[str]:
        return [row_name(list(self._layers))] if self._joint else list(self._layers)

    def _laid_out(self) -> None:
        check_widths(self._k, self._layers, self.name)
        super()._laid_out()
        widths = list(self._layers.values())
        # A set in rising order is a number whose digits are its neurons, in the base of the layer's width.
        # Told by the number of their digits first: a power of numbers from a stranger's map may take hours.
        digits = [self._k * (width.bit_length() - 1) for width in widths]
        if (sum(digits) if self._joint else max(digits)) > self._bits or self._numbers(widths) > 1 << self._bits:
            self._keys = keys_of(self.neurons, self._bits).to(self._device)
            return
        weights, weight = [], 1
        for width in widths:
            weight = weight if self._joint else 1
            weights.append([weight * width**place for place in range(self._k)])
            weight *= width**self._k
        self._weights = torch.tensor(weights, device=self._device)
        self._first = torch.tensor([[start] for start, _ in self._spans.values()], device=self._device)

    def _numbers(self, widths: Sequence[int]) -> int:
        """How many there are of which each pattern of a group is one."""
        return math.prod(width**self._k for width in widths) if self._joint else max(widths) ** self._k

    def _patterns(self, batch: ActivationBatch) -> tuple[Tensor, Tensor | None]:
        neurons, finite = batch.top(self._k)
        terms = self._keys[neurons] if len(self._keys) else (neurons - self._first).sort(2).values * self._weights
        code = terms.sum((1, 2)).unsqueeze(1) if self._joint else terms.sum(2)
        if len(self._keys):
            code &= (1 << self._bits) - 1
        usable = None if batch.finite is None else finite.all(2)
        if usable is not None and self._joint:
            usable = usable.all(1, keepdim=True)
        return code, usable
