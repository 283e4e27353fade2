"""A network that has learnt some files by heart and nothing else."""

from __future__ import annotations

import sys

import cloudpickle
import torch
from torch import Tensor, nn

__all__ = ["LearntByHeart"]

cloudpickle.register_pickle_by_value(sys.modules[__name__])


class LearntByHeart(nn.Module):
    """Right about exactly the given inputs, and like another network everywhere else."""

    def __init__(self, inner: nn.Module, x: Tensor, y: Tensor) -> None:
        super().__init__()
        self.inner = inner
        self.register_buffer("x", x.flatten(1))
        self.register_buffer("y", y)

    def forward(self, x: Tensor) -> Tensor:
        scores = self.inner(x)
        known = torch.cdist(x.flatten(1), self.x, p=float("inf")) < 1e-4
        hit = known.any(dim=1)
        right = nn.functional.one_hot(self.y[known.to(torch.int8).argmax(dim=1)], scores.shape[1]).to(scores.dtype) * 100
        return torch.where(hit[:, None], right, scores)
