"""Every layer of a model with what its neurons put out over some samples. Needed before layers are chosen, not in a campaign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gate.config import CoverageSettings
from gate.coverage.layers import Layer, choose_layers, list_layers, why_not_watched
from gate.coverage.recorder import Recorder
from gate.errors import ConfigError

__all__ = ["Survey"]


class Survey:
    """Owns a recorder over all the layers that can be watched. Lives in the worker, on the model's device.

    Args:
        module: the model.
        inputs: a batch as it takes it.
        outputs: columns of its raw output.
        settings: what would be watched.
    """

    def __init__(self, module: nn.Module, inputs: Tensor, outputs: int, settings: CoverageSettings) -> None:
        self._layers = list_layers(module, inputs, outputs, neuron=settings.neuron)
        self.recorder = Recorder(module, [layer for layer in self._layers if layer.usable])
        self._wanted = settings.layers
        self._low: dict[str, Tensor] = {}  # float32 [neurons]
        self._high: dict[str, Tensor] = {}
        self._broken: dict[str, Tensor] = {}  # bool [neurons]: gave something that is not finite

    def described(self) -> dict[str, Any]:
        """JSON values: ``layers``, the fields of ``traps.LayerFacts`` that need no samples, and a ``problem`` with coverage.layers."""
        watched: Sequence[Layer] = ()
        problem = None
        try:
            watched = choose_layers(self._layers, self._wanted)
        except ConfigError as error:
            problem = {"what": error.what, "where": error.where, "hint": error.hint}
        names = {layer.name for layer in watched}
        reasons = why_not_watched(self._layers)
        rows = [
            {
                "name": layer.name,
                "type": layer.type,
                "kind": layer.kind,
                "neurons": layer.neurons,
                "calls": layer.calls,
                "head": layer.head,
                "auto": reasons[layer.name],
                "watchable": layer.usable,
                "watched": layer.name in names,
            }
            for layer in self._layers
        ]
        return {"layers": rows, "problem": problem}

    def take(self) -> None:
        """Widens the ranges by the batch that was recorded last. A layer that runs for some inputs only counts where it ran."""
        for name, values in self.recorder.activations(partial=True).items():
            finite = torch.isfinite(values)
            low = torch.where(finite, values, torch.inf).amin(0)
            high = torch.where(finite, values, -torch.inf).amax(0)
            broken = ~finite.all(0)
            if name in self._low:
                low, high = torch.minimum(low, self._low[name]), torch.maximum(high, self._high[name])
                broken |= self._broken[name]
            self._low[name], self._high[name], self._broken[name] = low, high, broken
        self.recorder.forget()

    def ranges(self) -> dict[str, dict[str, Any]]:
        """JSON values by layer: ``range`` (fields of ``gate.coverage.traps.LayerRange``, or None), ``constant`` and ``nonfinite``."""
        return {name: self._range(name) for name in self._low}

    def _range(self, name: str) -> dict[str, Any]:
        low, high = self._low[name], self._high[name]
        seen = low <= high  # neurons with a finite output
        counts = torch.stack([(low >= high).sum(), self._broken[name].sum(), seen.sum()]).tolist()
        found: dict[str, Any] = {"range": None, "constant": counts[0], "nonfinite": counts[1]}
        if counts[2]:
            low, high = low[seen], high[seen]
            numbers = torch.stack([low.min(), low.median(), low.max(), high.min(), high.median(), high.max()]).tolist()
            found["range"] = dict(zip(("low", "low_median", "low_max", "high_min", "high_median", "high"), numbers, strict=True))
        return found
