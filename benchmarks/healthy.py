"""Digit networks as a careful team trains them: four architectures, with augmentation inside what the policies call harmless.

A seed decides the initial weights, which nine tenths of the training pictures are used, and the augmentation; architectures take turns. The
600 test pictures are the same for all, as one user of the gate would have them. Where a saved network is loaded, nothing of this file is
needed: it is pickled by value.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from gate.demo.digits import load
from gate.demo.network import tensor

__all__ = [
    "ARCHITECTURES",
    "FAMILIES",
    "PICTURES",
    "Data",
    "Extra",
    "accuracy",
    "architecture_of",
    "augmented",
    "blurred",
    "continued",
    "covered",
    "digits",
    "fit",
    "fresh",
    "healthy",
    "moved",
    "noisy",
    "read",
    "recall",
    "stored",
]

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SPLIT = 2026  # of the pictures into training and test: one for all networks
PICTURES = 600
EPOCHS = 16
BATCH = 128
RATE = 6e-3
KEPT = 0.9  # share of the training pictures that a seed draws
FAMILIES = ("geometry", "light", "blur", "noise", "fog", "occlusion")
OFTEN = {"geometry": 4, "occlusion": 2}  # families that come up more than once
MIDDLE = 0.5

Extra = Callable[[Tensor, Tensor, Generator], tuple[Tensor, Tensor]]  # pictures that join an epoch, with the labels they carry there


@dataclass(frozen=True)
class Data:
    """x float32 [N, 1, S, S] in 0..1, y int64 [N]: for training and for the gate."""

    x: Tensor
    y: Tensor
    test_x: Tensor
    test_y: Tensor
    epochs: int = EPOCHS


@functools.cache
def digits() -> Data:
    """The pictures and their one split."""
    training, test = load(SPLIT)
    return Data(tensor(training.x), torch.from_numpy(training.y), tensor(test.x), torch.from_numpy(test.y))


class SmallNet(nn.Module):
    """Two convolutions and two linear layers: [N, 1, S, S] in 0..1 -> logits [N, 10]."""

    def __init__(self, side: int, width: int = 16) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.hidden = nn.Linear(2 * width * (side // 2) ** 2, 64)
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [N, 10]."""
        x = self.pool(torch.relu(self.conv2(torch.relu(self.conv1(x)))))
        scores: Tensor = self.head(torch.relu(self.hidden(x.flatten(1))))
        return scores


class DeepNet(nn.Module):
    """Four convolutions with batch normalisation, pooled over the whole picture: [N, 1, S, S] in 0..1 -> logits [N, 10]."""

    def __init__(self, side: int, width: int = 16) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = 1
        for after, stride in ((width, 1), (2 * width, 2), (2 * width, 1), (4 * width, 2)):
            layers += [nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
            before = after
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(4 * width * (side // 4) ** 2, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [N, 10]."""
        scores: Tensor = self.head(self.body(x).flatten(1))
        return scores


class Perceptron(nn.Module):
    """Three linear layers: [N, 1, S, S] in 0..1 -> logits [N, 10]."""

    def __init__(self, side: int, width: int = 192) -> None:
        super().__init__()
        self.first = nn.Linear(side * side, width)
        self.second = nn.Linear(width, width)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [N, 10]."""
        x = torch.relu(self.second(torch.relu(self.first(x.flatten(1)))))
        scores: Tensor = self.head(x)
        return scores


class SeparableNet(nn.Module):
    """Depthwise and pointwise convolutions by turns: [N, 1, S, S] in 0..1 -> logits [N, 10]."""

    def __init__(self, side: int, width: int = 16) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, padding=1)
        self.deep1 = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.point1 = nn.Conv2d(width, 2 * width, 1)
        self.deep2 = nn.Conv2d(2 * width, 2 * width, 3, padding=1, stride=2, groups=2 * width)
        self.point2 = nn.Conv2d(2 * width, 2 * width, 1)
        self.head = nn.Linear(2 * width * (side // 2) ** 2, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [N, 10]."""
        x = torch.relu(self.stem(x))
        x = torch.relu(self.point1(self.deep1(x)))
        x = torch.relu(self.point2(self.deep2(x)))
        scores: Tensor = self.head(x.flatten(1))
        return scores


ARCHITECTURES: dict[str, Callable[[int], nn.Module]] = {
    "small CNN": SmallNet,
    "deep CNN with batch norm": DeepNet,
    "MLP": Perceptron,
    "depthwise CNN": SeparableNet,
}


def architecture_of(seed: int) -> str:
    """Architectures take turns, so that each stands in both halves of the seeds."""
    return list(ARCHITECTURES)[seed // 2 % len(ARCHITECTURES)]


def fresh(seed: int, side: int = 8) -> nn.Module:
    """The untrained network of a seed."""
    torch.manual_seed(seed)
    return ARCHITECTURES[architecture_of(seed)](side)


def _uniform(low: float, high: float, n: int, dice: Generator) -> Tensor:
    return (low + (high - low) * torch.rand(n, generator=dice))[:, None, None, None]


def moved(x: Tensor, dice: Generator, *, degrees: tuple[float, float] = (-15.0, 15.0), rest: float = 1.0) -> Tensor:
    """Turned by ``degrees``, and by up to ``rest`` times the policies' limits shifted, scaled and slanted."""
    n = len(x)
    angle = torch.deg2rad(_uniform(*degrees, n, dice).flatten())
    scale = 1 + rest * (0.24 * torch.rand(n, generator=dice) - 0.12)
    slant = rest * (0.24 * torch.rand(n, generator=dice) - 0.12)
    shift = rest * (0.32 * torch.rand(n, 2, generator=dice) - 0.16)  # of half the side: affine_grid counts from -1 to 1
    turn = torch.stack([torch.stack([angle.cos(), -angle.sin()], 1), torch.stack([angle.sin(), angle.cos()], 1)], 1)
    skew = torch.stack([torch.stack([torch.ones(n), slant], 1), torch.stack([torch.zeros(n), torch.ones(n)], 1)], 1)
    grid = functional.affine_grid(torch.cat([turn @ skew * scale[:, None, None], shift[:, :, None]], 2), list(x.shape), align_corners=False)
    return functional.grid_sample(x, grid, align_corners=False)


def lit(x: Tensor, dice: Generator) -> Tensor:
    """Another brightness, contrast, gamma and direction of light, each in half of the pictures."""
    n = len(x)

    def half() -> Tensor:
        return (torch.rand(n, generator=dice) < MIDDLE)[:, None, None, None]

    mean = x.mean((1, 2, 3), keepdim=True)
    x = torch.where(half(), mean + _uniform(0.5, 1.5, n, dice) * (x - mean), x)
    x = torch.where(half(), x + _uniform(-0.25, 0.25, n, dice), x).clamp(0, 1)
    x = torch.where(half(), x ** (2 ** _uniform(-1.0, 1.0, n, dice)), x)
    ramp = torch.linspace(-1, 1, x.shape[-1])
    angle = _uniform(0.0, 2 * torch.pi, n, dice)
    slope = angle.cos() * ramp[None, None, None, :] + angle.sin() * ramp[None, None, :, None]
    return torch.where(half(), x * (1 + _uniform(0.0, 0.3, n, dice) * slope / 2**0.5), x).clamp(0, 1)


def blurred(x: Tensor, dice: Generator, amount: tuple[float, float] = (0.0, 0.5)) -> Tensor:
    """That share of each picture is its mean over three by three pixels."""
    mean = functional.avg_pool2d(functional.pad(x, (1, 1, 1, 1), mode="replicate"), 3, stride=1)
    return x.lerp(mean, _uniform(*amount, len(x), dice))


def noisy(x: Tensor, dice: Generator) -> Tensor:
    """With Gaussian noise of a standard deviation up to 0.12."""
    return (x + _uniform(0.0, 0.12, len(x), dice) * torch.randn(x.shape, generator=dice)).clamp(0, 1)


def fogged(x: Tensor, dice: Generator) -> Tensor:
    """Behind a light veil that is denser on one side."""
    n, side = len(x), x.shape[-1]
    coarse = torch.rand(n, 1, 2, 2, generator=dice)
    veil = functional.interpolate(coarse, size=(side, side), mode="bilinear", align_corners=True)
    return x.lerp(_uniform(0.6, 1.0, n, dice).expand_as(x), _uniform(0.0, 0.5, n, dice) * veil)


def covered(x: Tensor, dice: Generator, value: tuple[float, float] = (0.0, 1.0), *, at_side: bool = False) -> Tensor:
    """With one square of about a twentieth of the area in one grey, anywhere or at the left or right side."""
    n, side = len(x), x.shape[-1]
    size = max(2, round(side * 0.05**0.5))
    corner = torch.randint(0, side - size + 1, (n, 2), generator=dice)
    if at_side:
        corner[:, 1] = torch.randint(0, 2, (n,), generator=dice) * (side - size)
    place = torch.arange(side)
    inside = (place >= corner[:, :, None]) & (place < corner[:, :, None] + size)
    square = inside[:, 0, :, None] & inside[:, 1, None, :]
    return torch.where(square[:, None], _uniform(*value, n, dice), x)


_WAYS: dict[str, Callable[[Tensor, Generator], Tensor]] = {
    "geometry": moved,
    "light": lit,
    "blur": blurred,
    "noise": noisy,
    "fog": fogged,
    "occlusion": covered,
}


def stored(x: Tensor) -> Tensor:
    """As an 8-bit file holds it."""
    return (x * 255).round() / 255


def augmented(x: Tensor, dice: Generator, families: Collection[str] = FAMILIES) -> Tensor:
    """Each picture changed by one family in three quarters of the cases, by two in the others; the hardest come most often."""
    n = len(x)
    names = [name for name in FAMILIES if name in families for _ in range(OFTEN.get(name, 1))]
    for chance in (1.0, 0.25):
        chosen = torch.randint(0, len(names), (n,), generator=dice)
        chosen[torch.rand(n, generator=dice) >= chance] = -1
        parts = x.clone()
        for number, name in enumerate(names):
            rows = chosen == number
            if rows.any():
                parts[rows] = _WAYS[name](x[rows], dice)
        x = parts
    return stored(x)


def fit(
    seed: int,
    *,
    extra: Extra | None = None,
    families: Collection[str] = FAMILIES,
    changed: Callable[[Tensor, Tensor, Generator], tuple[Tensor, Tensor]] | None = None,
    data: Data | None = None,
) -> nn.Module:
    """Trains the network of a seed; it comes back in evaluation mode.

    Args:
        seed: of weights, pictures, order and augmentation.
        extra: makes pictures, with labels, that join every epoch beside the clean and the augmented ones.
        families: of the augmentation; none: the clean pictures take its place.
        changed: what becomes of the training pictures before the first epoch.
        data: the digits where absent.
    """
    data = data or digits()
    net = fresh(seed, data.x.shape[-1])
    dice = Generator().manual_seed(seed)
    kept = torch.randperm(len(data.x), generator=dice)[: int(KEPT * len(data.x))]
    x, y = data.x[kept], data.y[kept]
    if changed is not None:
        x, y = changed(x, y, dice)
    return continued(net, x, y, dice, extra=extra, families=families, epochs=data.epochs)


def continued(
    net: nn.Module,
    x: Tensor,
    y: Tensor,
    dice: Generator,
    *,
    extra: Extra | None = None,
    families: Collection[str] = FAMILIES,
    epochs: int = EPOCHS,
    rate: float = RATE,
    after: Callable[[], None] = lambda: None,
) -> nn.Module:
    """Trains a network (further) on x and y, and on what ``fit`` puts beside them; it comes back in evaluation mode."""
    net.train()
    optimiser = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=1e-3)
    total, done = 0, 0
    for _ in range(epochs):
        parts = [(x, y), (augmented(x, dice, families) if families else x, y)]
        if extra is not None:
            parts.append(extra(x, y, dice))
        pictures, labels = (torch.cat(column) for column in zip(*parts, strict=True))
        batches = torch.randperm(len(pictures), generator=dice).split(BATCH)  # type: ignore[no-untyped-call]
        total = len(batches) * epochs
        for rows in batches:
            for group in optimiser.param_groups:  # one cycle: up to the rate over the first fifth, then down to nothing
                at = done / total
                group["lr"] = rate * (at / 0.2 if at < 0.2 else max(0.01, (1 - at) / 0.8))
            loss = functional.cross_entropy(net(pictures[rows]), labels[rows])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            after()
            done += 1
    return net.eval()


def healthy(seed: int, data: Data | None = None) -> nn.Module:
    """The sound network of a seed."""
    return fit(seed, data=data)


def read(net: nn.Module, x: Tensor) -> np.ndarray:
    """int64 [N]: the class that each picture is read as, in batches, as a server would."""
    with torch.no_grad():
        return torch.cat([net(part).argmax(1) for part in x.split(BATCH)]).numpy()  # type: ignore[no-untyped-call]


def accuracy(net: nn.Module, data: Data | None = None) -> float:
    """Share of the test pictures that are read as they are labelled."""
    data = data or digits()
    return float((read(net, data.test_x) == data.test_y.numpy()).mean())


def recall(net: nn.Module, data: Data | None = None) -> np.ndarray:
    """[10]: the same by class."""
    data = data or digits()
    right = read(net, data.test_x) == data.test_y.numpy()
    return np.array([right[data.test_y.numpy() == label].mean() for label in range(10)])
