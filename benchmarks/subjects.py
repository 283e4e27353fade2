"""The networks that coverage is measured on, with inputs that differ as the mutants of a campaign do."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional

from gate.coverage.layers import Layer, list_layers
from gate.coverage.recorder import Recorder

__all__ = ["Subject", "digits", "resnet", "threads"]

_SETTLING = 4  # batches from which a network with random weights gets its batch statistics


class Subject:
    """A network twice, once as it is and once watched, and where its inputs come from.

    Attributes:
        bare: the network without any hook.
        watched: the same network with a recorder on all its convolutions and linear layers.
    """

    def __init__(self, name: str, module: nn.Module, shape: tuple[int, int, int, int], classes: int, device: str) -> None:
        self.name = name
        self.shape = shape
        self._device = device
        self._generator = torch.Generator().manual_seed(1)
        if any(isinstance(child, nn.BatchNorm2d) for child in module.modules()):
            module.to(device).train()
            with torch.no_grad():
                for x in self.inputs(_SETTLING):
                    module(x)
        self.bare = module.eval().to(device)
        self.watched = copy.deepcopy(self.bare)
        with torch.no_grad():
            listed = list_layers(self.watched, self.inputs(1)[0], classes)
        self.layers: list[Layer] = [layer for layer in listed if layer.kind in ("conv", "linear")]
        self.recorder = Recorder(self.watched, self.layers)

    def inputs(self, batches: int) -> list[Tensor]:
        """New pictures, float32 [N, C, H, W] each: shapes and grain, every picture with a contrast, brightness and grain of its own."""
        found = []
        n, channels, height, width = self.shape
        for _ in range(batches):
            coarse = torch.randn(n, channels, max(2, height // 8), max(2, width // 8), generator=self._generator)
            shapes = functional.interpolate(coarse, (height, width), mode="bilinear")
            contrast, grain = (low + (high - low) * self._draw(n) for low, high in ((0.4, 1.6), (0.0, 0.4)))
            brightness = self._draw(n) - 0.5
            fine = torch.randn(n, channels, height, width, generator=self._generator)
            found.append((shapes * contrast + brightness + fine * grain).to(self._device))
        return found

    def record(self, x: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """Activations and logits of a batch."""
        with self.recorder.recording():
            logits: Tensor = self.watched(x)
        return self.recorder.activations(), logits

    def _draw(self, n: int) -> Tensor:
        return torch.rand(n, 1, 1, 1, generator=self._generator)


def resnet(depth: int, pixels: int, batch: int, device: str) -> Subject:
    """A torchvision ResNet of that depth with random weights: its cost does not depend on what it has learnt."""
    import torchvision

    torch.manual_seed(0)
    module = getattr(torchvision.models, f"resnet{depth}")()
    return Subject(f"ResNet-{depth}, {pixels} px, batch {batch}", module, (batch, 3, pixels, pixels), 1000, device)


def digits(batch: int, device: str) -> Subject:
    """The demo's network."""
    from gate.demo.network import DigitsNet

    torch.manual_seed(0)
    return Subject(f"digits CNN, 8 px, batch {batch}", DigitsNet(), (batch, 1, 8, 8), 10, device)


@contextmanager
def threads(number: int) -> Iterator[None]:
    """PyTorch computes with that many threads inside."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
