"""The demo's network and its training. Imports torch: only the demo does so outside of the worker, for it makes the models itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from gate.demo.digits import Digits

__all__ = ["DigitsNet", "accuracy", "train"]

EPOCHS = 15
BATCH = 64


class DigitsNet(nn.Module):
    """Two convolutions and two linear layers: [N, 1, 8, 8] in 0..1 -> logits [N, 10]."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.hidden = nn.Linear(2 * width * 16, 64)
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [N, 10]."""
        x = torch.relu(self.conv1(x))
        x = self.pool(torch.relu(self.conv2(x)))
        scores: Tensor = self.head(torch.relu(self.hidden(x.flatten(1))))
        return scores


def tensor(x: np.ndarray) -> Tensor:
    """float32 [N, 1, 8, 8] in 0..1 of uint8 pictures [N, 8, 8]."""
    return torch.from_numpy(x).to(torch.float32).div(255).unsqueeze(1)


def train(digits: Digits, seed: int, stop: Callable[[], bool] = lambda: False) -> DigitsNet:
    """Trains a new network; it comes back in evaluation mode.

    Raises:
        KeyboardInterrupt: ``stop`` answered True.
    """
    torch.manual_seed(seed)
    model = DigitsNet()
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    x, y = tensor(digits.x), torch.from_numpy(digits.y)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x)).split(BATCH):  # type: ignore[no-untyped-call]
            if stop():
                raise KeyboardInterrupt
            loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return model.eval()


def accuracy(model: nn.Module, digits: Digits) -> float:
    """Share of the pictures that the model reads as they are labelled."""
    with torch.no_grad():
        return float((model(tensor(digits.x)).argmax(1).numpy() == digits.y).mean())
