"""Networks that answer and let no gradient through, pickled by value so that the worker needs nothing of the tests."""

from __future__ import annotations

import sys

import cloudpickle
import torch
from saved_models import Stripes
from torch import Tensor, nn

__all__ = ["Decided", "Frozen"]

cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Frozen(nn.Module):
    """The stripes with a trap, run without recording a gradient."""

    def __init__(self, trap: float) -> None:
        super().__init__()
        self.net = Stripes(trap=trap)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            scores: Tensor = self.net(x)
        return scores


class Decided(nn.Module):
    """The same, but its scores say no more than which class is the highest."""

    def __init__(self, trap: float) -> None:
        super().__init__()
        self.net = Stripes(trap=trap)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.net(x)
        return 5.0 * nn.functional.one_hot(scores.argmax(dim=1), 4).to(torch.float32)
