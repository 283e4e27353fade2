"""MAP, multi-layer activation patterns: the distinct joint patterns of active and inactive neurons over layers in a row.

Sources: which units of a ReLU network are active names the linear piece that an input lies in (Montúfar, Pascanu, Cho, Bengio, "On the
number of linear regions of deep neural networks", NeurIPS 2014); whether a pattern has occurred before tells known from unknown
behaviour (Cheng, Nührenberg, Yasuoka, "Runtime monitoring neuron activation patterns", DATE 2019). Counting the patterns of windows of
layers as coverage is our form of it.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from gate.coverage.activations import ActivationBatch
from gate.coverage.number_options import checked_number
from gate.coverage.patterns import PatternCriterion, keys_of, row_name
from gate.errors import ConfigError

__all__ = ["ActivationPatterns"]


class ActivationPatterns(PatternCriterion):
    """A pattern is the set of neurons whose output lies strictly above a threshold, over ``window`` layers in a row.

    A sample with an output in the window that is not finite shows no pattern there.

    Counts are exact where all layers together have no more neurons than bits, 63 less the bits that number the windows. Otherwise see
    ``patterns`` on how likely two patterns are to be taken for one.

    Args:
        threshold: on the raw output.
        window: layers in a row, in the order of the first activations seen; every such row is a group of its own, so L layers give
            L - window + 1 groups. None: all layers, one group.
    """

    name: ClassVar[str] = "map"

    def __init__(self, *, threshold: float = 0.0, window: int | None = None) -> None:
        super().__init__()
        self._threshold = checked_number("threshold", threshold)
        if window is not None and (isinstance(window, bool) or not isinstance(window, int) or window < 1):
            raise ValueError(f"window must be a whole number of layers from 1, or None for all, not {window!r}")
        self._window = window
        self._keys = torch.zeros(0, dtype=torch.int64)  # [neurons]

    @property
    def options(self) -> dict[str, Any]:
        """threshold and window."""
        return {"threshold": self._threshold, "window": self._window}

    @property
    def _width(self) -> int:
        """Layers of a window."""
        return self._window or len(self._layers)

    def _groups(self) -> list[str]:
        names = list(self._layers)
        return [row_name(names[start : start + self._width]) for start in range(len(names) - self._width + 1)]

    def _laid_out(self) -> None:
        if self._width > len(self._layers):
            raise ConfigError(
                f"Patterns over {self._width} layers in a row can't be counted: {len(self._layers)} are watched.",
                where="coverage.map_window",
                hint=f"Set it to at most {len(self._layers)}, or watch more layers (coverage.layers).",
            )
        super()._laid_out()
        # With a bit for every neuron the sum of the keys is the pattern itself.
        exact = self.neurons <= self._bits
        keys = 1 << torch.arange(self.neurons) if exact else keys_of(self.neurons, self._bits)
        self._keys = keys.to(self._device)

    def _patterns(self, batch: ActivationBatch) -> tuple[Tensor, Tensor | None]:
        terms = torch.where(batch.flat > self._threshold, self._keys, 0)
        # An overflow drops bits above the 64th, and so none of those that count.
        code = self._over_windows(terms) & ((1 << self._bits) - 1)
        return code, None if batch.finite is None else self._over_windows((~batch.finite).to(torch.int64)) == 0

    def _over_windows(self, terms: Tensor) -> Tensor:
        """int64 [N, windows]: sums of int64 [N, M]."""
        if self._width == len(self._layers):
            return terms.sum(1, keepdim=True)
        ends = torch.stack([terms[:, start:stop].sum(1) for start, stop in self._spans.values()], 1).cumsum(1)
        ends = torch.nn.functional.pad(ends, (1, 0))
        return ends[:, self._width :] - ends[:, : -self._width]
