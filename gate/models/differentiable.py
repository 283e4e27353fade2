"""A model as attacks want it: one tensor in, logits [N, C] out, gradients all the way."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gate.models.outputs import OutputKind
from gate.models.select import Key, pick

__all__ = ["Differentiable", "to_logits"]

_SMALLEST = 1e-12  # a probability of 0 would have no finite logarithm, nor a finite gradient


def to_logits(raw: Tensor, kind: OutputKind | str) -> Tensor:
    """Logits [N, C] whose softmax gives the model's probabilities.

    Args:
        raw: float [N, K], or [N] for a single output.
        kind: how to read it.
    """
    kind = OutputKind(kind)
    if kind in (OutputKind.LOGITS, OutputKind.LOG_PROBABILITIES):
        return raw
    if kind is OutputKind.PROBABILITIES:
        return raw.clamp(min=_SMALLEST).log()
    single = raw.reshape(len(raw))
    if kind is OutputKind.SIGMOID:
        return torch.stack([(1 - single).clamp(min=_SMALLEST).log(), single.clamp(min=_SMALLEST).log()], dim=1)
    return torch.stack([torch.zeros_like(single), single], dim=1)


class Differentiable(nn.Module):
    """``before`` (if any), then the model, then the chosen output as logits.

    The model keeps the mode it is in. Calling ``train`` or ``eval`` on this wrapper changes the wrapper alone: a gradient must be taken
    of the very model that is judged.

    Args:
        module: the model.
        kind, key: as ``recognise`` and ``choose_key`` found them.
        before: what stands between a file's values and the model, such as ``Preprocess``.
    """

    def __init__(self, module: nn.Module, kind: OutputKind | str, key: Key = None, before: nn.Module | None = None) -> None:
        super().__init__()
        self.module = module
        self.before = nn.Identity() if before is None else before
        self._kind = kind
        self._key = key
        self.training = False

    def train(self, mode: bool = True) -> Differentiable:
        """Sets the mode of the wrapper only; see the class."""
        self.training = mode
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Logits [N, C] for a batch."""
        return to_logits(pick(self.module(self.before(x)), self._key), self._kind)
