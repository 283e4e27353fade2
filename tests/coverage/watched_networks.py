"""Small networks of the kinds that people release."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class SmallCNN(nn.Module):
    """Convolutions, batch normalisation, in-place ReLU, dropout; 10 classes from [N, 1, 8, 8]."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(inplace=True), nn.Conv2d(6, 8, 3), nn.ReLU(inplace=True)
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.hidden = nn.Linear(8, 12)
        self.relu = nn.ReLU(inplace=True)
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(12, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.features(x)).flatten(1)
        return self.head(self.dropout(self.relu(self.hidden(x))))


class Transformer(nn.Module):
    """Two encoder layers over the rows of [N, 5, 8]; 3 classes. Time first inside unless ``batch_first``."""

    def __init__(self, batch_first: bool = True) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=batch_first), 2, enable_nested_tensor=False)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        if self.batch_first:
            return self.head(self.encoder(x).mean(1))
        return self.head(self.encoder(x.transpose(0, 1)).mean(0))


class Recurrent(nn.Module):
    """An LSTM over [N, 5, 8], whose output is a tuple; 3 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 6, batch_first=True)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(x)
        return self.head(states[:, -1])


class Shared(nn.Module):
    """One linear layer called twice, one ReLU called at two widths; 3 classes from [N, 4]."""

    def __init__(self) -> None:
        super().__init__()
        self.twice = nn.Linear(4, 4)
        self.relu = nn.ReLU()
        self.wide = nn.Linear(4, 7)
        self.unused = nn.Linear(2, 2)
        self.head = nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.twice(x))
        x = self.twice(x)
        return self.head(self.relu(self.wide(x)))


class Framed(nn.Module):
    """A convolution and a reshape, whose sizes an exported program writes down."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        return x.reshape(x.shape[0], x.shape[1] * x.shape[2], x.shape[3]).reshape(x.shape)


class SharedConv(nn.Module):
    """One block called at two resolutions, so that an exported program holds it twice; 3 classes from [N, 2, 8, 8]."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Framed()
        self.head = nn.Linear(2, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.block(self.block(x)).mean((2, 3)))


def made(network: type[nn.Module], **options: object) -> nn.Module:
    """An instance in evaluation mode with fixed random weights and batch statistics that are not the identity."""
    torch.manual_seed(7)
    module = network(**options)
    for child in module.modules():
        if isinstance(child, nn.BatchNorm2d):
            nn.init.normal_(child.running_mean, std=0.3)
            nn.init.uniform_(child.running_var, 0.5, 2)
    return module.eval()


def exported(module: nn.Module, example: Tensor) -> nn.Module:
    """The module after a trip through torch.export, with a batch of any size."""
    program = torch.export.export(module, (example,), dynamic_shapes=[{0: torch.export.Dim.AUTO}])
    return torch.export.unflatten(program)
