"""What a module of an exported program is, where its type is a class of the model's own."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from gate.models.trace import kind_of, named_modules


class PaddedConv(nn.Conv2d):
    """A convolution that pads by a module of its own, as in EfficientNet."""

    def __init__(self, given: int, made: int) -> None:
        super().__init__(given, made, 3)
        self.padding_before = nn.ZeroPad2d(1)

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv2d(self.padding_before(x), self.weight, self.bias)


class Scaled(nn.Linear):
    """A linear layer of another name."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight * 2, self.bias)


class Block(nn.Conv2d):
    """A convolution with a second one inside."""

    def __init__(self) -> None:
        super().__init__(3, 3, 1)
        self.inner = PaddedConv(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(functional.conv2d(x, self.weight, self.bias))


class Network(nn.Module):
    """[N, 3, 8, 8] -> [N, 4]."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = PaddedConv(3, 3)
        self.block = Block()
        self.head = Scaled(192, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.block(self.stem(x)).flatten(1))


def test_a_subclass_in_an_exported_program_is_what_its_graph_computes() -> None:
    batch = torch.zeros(2, 3, 8, 8)
    exported = torch.export.unflatten(torch.export.export(Network().eval(), (batch,)))
    kinds = {name: kind_of(module) for name, module in named_modules(exported) if name}
    assert kinds["stem"] == "conv"
    assert kinds["stem.padding_before"] == "function"
    assert kinds["head"] == "linear"
    assert (kinds["block"], kinds["block.inner"]) == ("container", "conv")
