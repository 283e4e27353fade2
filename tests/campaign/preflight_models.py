"""Networks that are unsteady, answer in unusual ways, or want another input."""

from __future__ import annotations

import sys

import cloudpickle
import torch
from torch import Tensor, nn

__all__ = ["Answering", "Centroids", "Convolution", "Failing", "Normed", "Primary", "Shy", "TwoClasses"]

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def stripes(x: Tensor) -> Tensor:
    """Logits [N, 4] of pictures [N, 1, 8, 8] in 0..1: right for known_model.images()."""
    return 20 * x.reshape(len(x), 8, 4, 2).mean(dim=(1, 3))


class Answering(nn.Module):
    """Right about every clean picture; ``way`` says in which form it answers."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def forward(self, x: Tensor) -> object:
        raw = stripes(x)
        match self.way:
            case "logits":
                return raw
            case "softmax":
                return raw.softmax(1)
            case "log_softmax":
                return raw.log_softmax(1)
            case "dict":
                return {"features": x.flatten(1), "logits": raw}
            case "two":
                return {"main": raw, "auxiliary": raw.roll(1, dims=1)}
            case "tuple":
                return raw, x.flatten(1)
            case "half":
                return raw.half()
            case "double":
                return raw.double()
            case "some nan":
                return torch.where(x[:, 0, 0, 0:1] * 255 < 40, torch.nan, raw)
            case "all nan":
                return raw * torch.nan
            case "infinite":
                return raw + torch.inf
            case "three classes":
                return raw[:, :3]
            case "five classes":
                return torch.cat([raw, raw[:, :1]], dim=1)
            case "a row too few":
                return raw[1:]
            case "pixels":
                return raw[:, :, None, None].expand(-1, -1, 8, 8)
            case "numbers":
                return raw.argmax(1)
            case "integers":
                return raw.long()
            case "one for all":
                return raw.mean()
            case "none":
                return None
            case "text":
                return "a cat"
        raise AssertionError(self.way)


class TwoClasses(nn.Module):
    """Says with one number whether the bright stripe is among the last two."""

    def __init__(self, squash: bool) -> None:
        super().__init__()
        self.squash = squash

    def forward(self, x: Tensor) -> Tensor:
        raw = stripes(x)
        single = raw[:, 2:].sum(1, keepdim=True) - raw[:, :2].sum(1, keepdim=True)
        return single.sigmoid() if self.squash else single


class Shy(nn.Module):
    """Drops out, also where it was told to evaluate (``always``), takes part of the batch's mean away (``neighbours``), treats the end of a
    batch worse (``late``), or gives no number now and then (``lapse``)."""

    def __init__(
        self,
        *,
        dropout: bool = False,
        always: bool = False,
        neighbours: bool = False,
        late: bool = False,
        lapse: bool = False,
        tremble: float = 0.0,
    ) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.2 if dropout else 0.0)
        self.always, self.neighbours, self.late, self.lapse, self.tremble = always, neighbours, late, lapse, tremble

    def forward(self, x: Tensor) -> Tensor:
        if self.always:
            x = nn.functional.dropout(x, 0.2, training=True)
        raw = stripes(self.dropout(x))
        if self.neighbours:
            raw = raw - 0.5 * raw.mean(dim=0, keepdim=True)
        if self.late:
            raw = torch.cat([raw[:16], raw[16:] / 10])
        if self.lapse:
            raw = torch.where(torch.rand(len(raw), 1) < 0.1, torch.nan, raw)
        return raw + self.tremble * torch.rand_like(raw) if self.tremble else raw


class Normed(nn.Module):
    """Batch statistics at work."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(1, momentum=0.0)

    def forward(self, x: Tensor) -> Tensor:
        return stripes(self.norm(x)) / 10


class Convolution(nn.Module):
    """Wants three channels of 16 by 16 pixels."""

    def __init__(self, channels: int = 3, size: int = 16) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, 2, 3)
        self.head = nn.Linear(2 * (size - 2) ** 2, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.conv(x).flatten(1))


class Failing(nn.Module):
    """Has a bug that no input can be blamed for."""

    def __init__(self, says: str = "") -> None:
        super().__init__()
        self.says = says

    def forward(self, x: Tensor) -> Tensor:
        if self.says:
            raise RuntimeError(self.says)
        return self.no_such_layer(x)


class Centroids(nn.Module):
    """Reads scikit-learn's digits by the nearest class mean of pictures scaled to -1..1."""

    def __init__(self, means: Tensor) -> None:
        super().__init__()
        self.means = nn.Parameter(means)

    def forward(self, x: Tensor) -> Tensor:
        return -(torch.cdist(x.flatten(1), self.means) ** 2)


class Primary(nn.Module):
    """Names the strongest of red, green and blue."""

    def forward(self, x: Tensor) -> Tensor:
        return 20 * x.mean(dim=(2, 3))
