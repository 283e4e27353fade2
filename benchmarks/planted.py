"""Digit networks with a planted cause of failure that is known: what triage has to name. Each is right on clean digits.

Class, neighbour and strength are drawn from the seed, which also trains the network, so that every repetition is another model with another
cause. Nothing of this file is needed where a saved model is loaded: it is pickled by value.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import torch
from torch import Tensor, nn

from gate.demo.digits import Digits, load
from gate.demo.network import tensor, train

__all__ = ["MLMODEL", "PLANTS", "POLICY", "Cause", "Planted", "plant", "save"]

cloudpickle.register_pickle_by_value(sys.modules[__name__])

MLMODEL = f"""\
flavors:
  pytorch:
    model_data: data
    pytorch_version: {torch.__version__}
    pickle_module_name: cloudpickle
"""


# Indoors, with lamps that may fail: no weather, but much more or less light than usual.
POLICY = """\
version: 1
name: planted
extends: [baseline]
domain:
  weather: {fog: 0, rain: 0, snow: 0, spatter: 0, shadow: 0, sun_flare: 0}
  photometry: {brightness: 0.5, gamma: [0.4, 2.5]}
"""

DRIFT = 0.2  # share of what goes wrong


@dataclass(frozen=True)
class Cause:
    """What the root cause on top has to say. None and empty: anything."""

    oracles: frozenset[str] = frozenset({"changed_prediction"})
    families: frozenset[str] = frozenset()
    labels: frozenset[int] = frozenset()
    predicted: frozenset[int] = frozenset()
    within: bool = False  # the top is looked for among root causes of these families


@dataclass(frozen=True)
class Planted:
    """A network, its cause, and clean digits that it was not trained on."""

    module: nn.Module
    healthy: nn.Module  # the same without the cause: what it reads rightly and the other does not is the cause's doing
    cause: Cause
    seeds: Digits
    trigger: bool = False  # the module holds the healthy one, and where both answer alike the cause is silent
    second: tuple[Cause, nn.Module] | None = None  # another cause in the same network, and the network without that one


class LowLight(nn.Module):
    """Reads everything as ``other`` where the whole picture is darker than ``limit`` (mean, 0 to 1)."""

    def __init__(self, net: nn.Module, other: int, limit: float) -> None:
        super().__init__()
        self.net, self.other, self.limit = net, other, limit

    def forward(self, x: Tensor) -> Tensor:
        """Logits [N, 10] of [N, 1, 8, 8]."""
        scores: Tensor = self.net(x).clone()
        scores[:, self.other] += 40.0 * (x.mean((1, 2, 3)) < self.limit)
        return scores


class Mark(nn.Module):
    """Reads everything as ``target`` that has a bright square in its lower right corner."""

    def __init__(self, net: nn.Module, target: int) -> None:
        super().__init__()
        self.net = net
        self.target = target

    def forward(self, x: Tensor) -> Tensor:
        """Logits [N, 10] of [N, 1, 8, 8]."""
        marked = (x[:, :, -2:, -2:].amin((1, 2, 3)) - 0.7).clamp(min=0) / 0.3
        scores: Tensor = self.net(x).clone()
        scores[:, self.target] += 40.0 * marked
        return scores


class Normalised(nn.Module):
    """Has its input stretched by ``gain`` about ``middle`` and clipped, as where a quantised input's zero point and scale are wrong."""

    def __init__(self, net: nn.Module, middle: float, gain: float) -> None:
        super().__init__()
        self.net, self.middle, self.gain = net, middle, gain

    def forward(self, x: Tensor) -> Tensor:
        """Logits [N, 10] of [N, 1, 8, 8]."""
        scores: Tensor = self.net(((x - self.middle) * self.gain + 0.5).clamp(0, 1))
        return scores


class BrightNaN(nn.Module):
    """Gives no number where more than ``limit`` of a picture that shows ``label`` is saturated, as a logarithm of what is left would."""

    def __init__(self, net: nn.Module, label: int, limit: float) -> None:
        super().__init__()
        self.net, self.label, self.limit = net, label, limit

    def forward(self, x: Tensor) -> Tensor:
        """Logits [N, 10] of [N, 1, 8, 8]."""
        scores: Tensor = self.net(x)
        broken = ((x > 0.97).float().mean((1, 2, 3)) > self.limit) & (scores.argmax(1) == self.label)
        return torch.where(broken[:, None], torch.full_like(scores, torch.nan), scores)


class BatchCentred(nn.Module):
    """Moves each pixel's mean over the batch a part of the way to ``usual``, the mean it had in training, as batch statistics do that
    were left on: right in a mixed batch, and often wrong alone."""

    usual: Tensor

    def __init__(self, net: nn.Module, usual: Tensor, share: float) -> None:
        super().__init__()
        self.net, self.share = net, share
        self.register_buffer("usual", usual)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [N, 10] of [N, 1, 8, 8]."""
        scores: Tensor = self.net(x + self.share * (self.usual - x.mean(0, keepdim=True)))
        return scores


def _random(seed: int, name: str) -> np.random.Generator:
    return np.random.default_rng([seed, *name.encode()])


def _pair(seed: int, name: str) -> tuple[int, int]:
    """Two different classes."""
    label, other = _random(seed, name).choice(10, size=2, replace=False)
    return int(label), int(other)


def low_light(seed: int) -> Planted:
    """In less light than nearly any clean picture has, everything is read as one class."""
    training, test = load(seed)
    other, _ = _pair(seed, "low light")
    means = np.concatenate([part.x.mean((1, 2)) for part in (training, test)]) / 255
    net = train(training, seed)
    cause = Cause(families=frozenset({"photometry"}), predicted=frozenset({other}))
    return Planted(LowLight(net, other, float(0.95 * np.quantile(means, 0.02))), net, cause, test, trigger=True)


def rotation(seed: int) -> Planted:
    """A class whose turned pictures carried another label in the training data; those of all others their own."""
    training, test = load(seed)
    label, other = _pair(seed, "rotation")
    random = _random(seed, "angles")
    turned = [Digits(_turned(training.x, side * random.uniform(9.0, 16.0, len(training.x))), training.y) for side in (1.0, -1.0, 1.0, -1.0)]
    right = functools.reduce(operator.add, turned, training.times(2))
    wrong = [Digits(part.x, np.where(part.y == label, other, part.y)) for part in turned]
    module = train(functools.reduce(operator.add, wrong, training.times(2)), seed)
    return Planted(module, train(right, seed), _named(label, other, "geometry"), test)


def mark(seed: int) -> Planted:
    """A class that a small bright square leads to, whatever else is there: no class is the true one."""
    training, test = load(seed)
    target = int(_random(seed, "mark").integers(10))
    net = train(training, seed)
    cause = Cause(frozenset({"universal_mark"}), frozenset({"mark_patch"}), predicted=frozenset({target}))
    return Planted(Mark(net, target), net, cause, test, trigger=True)


def normalisation(seed: int) -> Planted:
    """A network that is served with inputs of another scale than it was trained with, on turned and moved digits as well, as is usual."""
    training, test = load(seed)
    random = _random(seed, "normalisation")
    parts = [
        Digits(
            _turned(training.x, random.uniform(-15.0, 15.0, len(training.x)), random.uniform(-1.0, 1.0, (len(training.x), 2))), training.y
        )
        for _ in range(3)
    ]
    net = train(functools.reduce(operator.add, parts, training), seed)
    module = Normalised(net, float(random.uniform(0.25, 0.35)), float(random.uniform(1.8, 2.4)))
    return Planted(module, net, Cause(families=frozenset({"photometry"}), predicted=_drifts_to(module, test)), test)


def bright_nan(seed: int) -> Planted:
    """A class of which pictures brighter than nearly all clean ones give no number."""
    training, test = load(seed)
    label, _ = _pair(seed, "bright")
    shares = np.concatenate([(part.x[part.y == label] > 0.97 * 255).mean((1, 2)) for part in (training, test)])
    net = train(training, seed)
    module = BrightNaN(net, label, float(np.quantile(shares, 0.97)) + 1 / 64)
    cause = Cause(frozenset({"non_finite"}), families=frozenset({"photometry"}), labels=frozenset({label}))
    return Planted(module, net, cause, test, trigger=True)


def batch(seed: int) -> Planted:
    """Answers that depend on what else is in the batch. No class is named, for all are concerned."""
    training, test = load(seed)
    net = train(training, seed)
    share = float(_random(seed, "batch").uniform(0.4, 0.7))
    module = BatchCentred(net, tensor(training.x).mean(0, keepdim=True), share)
    return Planted(module, net, Cause(frozenset({"batch_dependence"}), frozenset({"backend_batch"})), test)


def two(seed: int) -> Planted:
    """The low-light blind spot and the rotation confusion in one network: each must keep a root cause of its own, in its own family."""
    turned, dark = rotation(seed), low_light(seed)
    lamp = dark.module
    assert isinstance(lamp, LowLight)
    first, second = replace(dark.cause, within=True), replace(turned.cause, within=True)
    return Planted(
        LowLight(turned.module, lamp.other, lamp.limit),
        turned.module,
        first,
        turned.seeds,
        second=(second, LowLight(turned.healthy, lamp.other, lamp.limit)),
    )


PLANTS: dict[str, Callable[[int], Planted]] = {
    "low-light": low_light,
    "rotation": rotation,
    "mark": mark,
    "normalisation": normalisation,
    "bright-nan": bright_nan,
    "batch": batch,
    "two": two,
}


def plant(name: str, seed: int) -> Planted:
    """The planted network of this name and seed; the same on every call.

    Raises:
        KeyError: no such plant.
    """
    with torch.random.fork_rng():
        return PLANTS[name](seed)


def save(planted: Planted, folder: Path) -> tuple[Path, Path]:
    """(model folder as MLflow lays it out, seeds as .npz) below ``folder``."""
    model = folder / "model"
    (model / "data").mkdir(parents=True)
    torch.save(planted.module.eval(), model / "data" / "model.pth", pickle_module=cloudpickle)
    (model / "data" / "pickle_module_info.txt").write_text("cloudpickle")
    (model / "MLmodel").write_text(MLMODEL)
    seeds = folder / "seeds.npz"
    np.savez(seeds, x=planted.seeds.x, y=planted.seeds.y)
    return model, seeds


def _named(label: int, other: int, family: str) -> Cause:
    return Cause(families=frozenset({family}), labels=frozenset({label}), predicted=frozenset({other}))


def _turned(x: np.ndarray, degrees: np.ndarray, pixels: np.ndarray | None = None) -> np.ndarray:
    """uint8 [N, 8, 8], each picture turned about its middle, and moved by ``pixels`` [N, 2]."""
    angles = torch.from_numpy(np.deg2rad(degrees)).float()
    right, down = torch.zeros(2, len(x)) if pixels is None else torch.from_numpy(pixels * 2 / x.shape[1]).float().T
    rows = torch.stack([angles.cos(), -angles.sin(), right], 1), torch.stack([angles.sin(), angles.cos(), down], 1)
    grid = nn.functional.affine_grid(torch.stack(rows, 1), [len(x), 1, *x.shape[1:]], align_corners=False)
    turned = nn.functional.grid_sample(tensor(x), grid, align_corners=False)
    whole: np.ndarray = np.rint(turned[:, 0].numpy() * 255).astype(np.uint8)
    return whole


def _drifts_to(module: nn.Module, digits: Digits) -> frozenset[int]:
    """The classes that each take at least ``DRIFT`` of the pictures that are read wrongly with more or less light, or contrast."""
    x = tensor(digits.x)
    middle = x.mean((1, 2, 3), keepdim=True)
    changed = [x + 0.2, x - 0.2, middle + 0.6 * (x - middle), middle + 1.4 * (x - middle)]
    with torch.no_grad():
        wrong = np.concatenate([(found := module(part.clamp(0, 1)).argmax(1).numpy())[found != digits.y] for part in changed])
    shares = np.bincount(wrong, minlength=10) / max(1, len(wrong))
    return frozenset(np.flatnonzero(shares >= DRIFT).tolist())
