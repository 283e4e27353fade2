"""Networks in which it is known which hidden unit turns the answer, and how the worker's patching is called on them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from gate.campaign.patching import Patched, patch
from gate.coverage.layers import choose_layers, list_layers

PLANTED = 5  # of the neurons of the planted layer


class PlantedConv(nn.Module):
    """Reads the mean brightness as class 0; channel ``PLANTED`` sees a white corner, which pushes class 1."""

    def __init__(self, watched: int = 8, in_place: bool = True) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.hidden = nn.Conv2d(1, watched, 3, padding=1)
        self.act = nn.ReLU(inplace=in_place)
        self.head = nn.Linear(watched, 2)
        with torch.no_grad():
            self.hidden.weight.mul_(0.05)
            self.hidden.bias.fill_(0.5)
            self.hidden.weight[PLANTED] = 0
            self.hidden.weight[PLANTED, 0, 1, 1] = 40.0  # only full white passes the threshold
            self.hidden.bias[PLANTED] = -36.0
            self.head.weight.zero_()
            self.head.weight[0] = 1.0
            self.head.weight[0, PLANTED] = 0
            self.head.weight[1, PLANTED] = 100.0
            self.head.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.act(self.hidden(x)).mean((2, 3)))


class PlantedLinear(nn.Module):
    """Unit ``PLANTED`` of the hidden layer is on for every clean picture and keeps class 0; a white corner shuts it."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.hidden = nn.Linear(64, width)
        self.head = nn.Linear(width, 3)
        with torch.no_grad():
            self.hidden.weight.mul_(0.1)
            self.hidden.weight[PLANTED] = 0
            self.hidden.weight[PLANTED, 0] = -20.0
            self.hidden.bias[PLANTED] = 10.0
            self.head.weight.mul_(0.1)
            self.head.weight[:, PLANTED] = torch.tensor([3.0, 0.0, 0.0])
            self.head.bias.copy_(torch.tensor([0.0, 4.0, 0.0]))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.hidden(x.flatten(1)).relu())


class PlantedTransformer(nn.Module):
    """Rows as tokens, one block of attention and MLP; feature ``PLANTED`` of the MLP's output carries the white corner to class 1."""

    def __init__(self, batch_first: bool = True) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.tokens = nn.Linear(8, 16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=batch_first)
        self.up, self.down = nn.Linear(16, 24), nn.Linear(24, 16)
        self.head = nn.Linear(16, 2)
        with torch.no_grad():
            self.tokens.weight.mul_(0.05)
            self.attention.out_proj.weight.mul_(0.05)
            self.down.weight.mul_(0.01)
            self.head.weight.mul_(0.02)
            self.tokens.weight[15] = 0
            self.tokens.weight[15, 0] = 8.0
            self.up.weight[3] = 0
            self.up.weight[3, 15] = 5.0
            self.up.bias[3] = -20.0  # only full white passes the threshold
            self.down.weight[:, 3] = 0
            self.down.weight[PLANTED, 3] = 1.0
            self.head.weight[:, 15] = 0
            self.head.weight[:, PLANTED] = torch.tensor([0.0, 3.0])
            self.head.bias.copy_(torch.tensor([2.0, 0.0]))

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.tokens(x[:, 0])
        if not self.attention.batch_first:
            tokens = tokens.transpose(0, 1)
        tokens = tokens + self.attention(tokens, tokens, tokens, need_weights=False)[0]
        tokens = tokens + self.down(self.up(tokens).relu())
        return self.head(tokens.mean(1 if self.attention.batch_first else 0))


def pair(corner: float = 1.0, seed: int = 0) -> Tensor:
    """float [2, 8, 8, 1]: a dim picture, and the same with a white corner pixel."""
    clean = torch.rand(8, 8, 1, generator=torch.Generator().manual_seed(seed)) * 0.3
    clean[0, 0] = 0.1
    mutant = clean.clone()
    mutant[0, 0] = corner
    return torch.stack([clean, mutant])


def in_one(count: int, work: Any) -> list[Any]:
    return [work(slice(0, count))]


def restored(
    module: nn.Module, both: Tensor, *, label: int = 0, most: int = 1000, gradients: bool = True, batch: int = 7, **options: Any
) -> tuple[list[tuple[str, int, float, bool]], Patched, list[str]]:
    """What patching finds, by name; what it returned; the watched layers."""

    def logits(x: Tensor) -> Tensor:
        found = module(x.permute(0, 3, 1, 2).to(torch.float32))
        return (found if isinstance(found, Tensor) else found[0]).to(torch.float64)

    wanted, neuron = options.get("layers", "auto"), options.get("neuron", "mean")
    inputs = both.permute(0, 3, 1, 2).to(torch.float32)
    outputs = logits(both).shape[1]
    layers = choose_layers(list_layers(module, inputs, outputs, neuron=neuron), wanted)
    found = patch(module, layers, logits, options.get("parts", in_one), both, label=label, most=most, batch=batch, gradients=gradients)
    named = [
        (layers[layer].name, unit, effect, back)
        for layer, unit, effect, back in zip(
            found.layers.tolist(), found.neurons.tolist(), found.effects.tolist(), found.restores.tolist(), strict=True
        )
    ]
    return named, found, [layer.name for layer in layers]
