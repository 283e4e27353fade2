"""Networks that tell how they are run: in which precision, in how large batches, compiled or not."""

from __future__ import annotations

import sys

import cloudpickle
import torch
from torch import Tensor, nn

__all__ = ["Broken", "Precise", "Roomy", "Wavering"]

cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Precise(nn.Module):
    """[N, 1, 8, 8] in 0..1 -> 4 scores. The highest is the first in full precision and the third in any other."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(64, 4)
        self.head = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.hidden(x.flatten(1))
        scores: Tensor = self.head(torch.relu(hidden))
        told = torch.zeros_like(scores)
        told[:, 0 if hidden.dtype == torch.float32 else 2] = 100
        return scores + told


class Roomy(nn.Module):
    """[N, 1, 8, 8] in 0..1 -> 4 scores. Its memory is full beyond so many samples at once, sooner where gradients are on."""

    def __init__(self, most: int, most_with_gradients: int | None = None) -> None:
        super().__init__()
        self.most, self.most_with_gradients = most, most_with_gradients or most
        self.hidden = nn.Linear(64, 6)
        self.head = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > (self.most_with_gradients if torch.is_grad_enabled() and x.requires_grad else self.most):
            raise torch.OutOfMemoryError(f"no room for {len(x)}")
        hidden = torch.relu(self.hidden(x.flatten(1)))
        if len(x) > self.most:
            raise torch.OutOfMemoryError("no room behind the first layer")
        scores: Tensor = self.head(hidden)
        return scores


class Broken(nn.Module):
    """[N, 1, 8, 8] in 0..1 -> 4 scores, with something in the middle that a compiler has to leave out."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(64, 6)
        self.head = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.hidden(x.flatten(1))
        torch._dynamo.graph_break()
        scores: Tensor = self.head(torch.relu(hidden))
        return scores


class Wavering(nn.Module):
    """[N, 1, 8, 8] in 0..1 -> 4 logits: the brightest of four stripes in full precision, the one beside it in any other.

    Its memory is full beyond 20 samples at once.
    """

    def __init__(self) -> None:
        super().__init__()
        weight = torch.zeros(4, 8, 4, 2)
        for stripe in range(4):
            weight[stripe, :, stripe] = 20 / 16
        self.hidden = nn.Linear(64, 4, bias=False)
        self.hidden.weight.data = weight.reshape(4, 64)
        self.head = nn.Linear(4, 4, bias=False)
        self.head.weight.data = torch.eye(4)

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > 20:
            raise torch.OutOfMemoryError(f"no room for {len(x)}")
        hidden = self.hidden(x.flatten(1))
        scores: Tensor = self.head(hidden if hidden.dtype == torch.float32 else hidden.roll(1, dims=1))
        return scores
