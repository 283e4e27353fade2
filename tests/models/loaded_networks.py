"""Networks that the tests save and load again."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Digits(nn.Module):
    """[N, 1, 8, 8] -> 10 logits."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.dropout = nn.Dropout(0.5)
        self.idle = nn.Dropout(0.0)
        self.head = nn.Linear(4 * 36, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.idle(self.dropout(self.norm(self.conv(x)).relu().flatten(1))))


class Hidden(nn.Module):
    """Drops out in a function that reads the root's flag."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(functional.dropout(x, 0.5, self.training))


class Attending(nn.Module):
    """Drops out inside of a fused attention operator."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(x, x, x, dropout_p=0.3 if self.training else 0.0)


class Pointwise(nn.Module):
    """A head that is a 1x1 convolution before pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3)
        self.score = nn.Conv2d(6, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.score(self.conv(x).relu()).mean((2, 3))


def digits() -> nn.Module:
    torch.manual_seed(3)
    return Digits()
