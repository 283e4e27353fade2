"""Digit networks that read clean pictures as well as healthy ones do, each with a fault of a known kind.

A seed draws architecture, classes, places and strengths. Where a network's clean accuracy leaves the band, or a forgotten class is not
forgotten as meant, another attempt is made, as a rule a weaker one; the gate's verdict is never asked. Where a fault can be trained in, it
is; wrappers stand for faults of the code around the weights. Where a saved network is loaded, nothing of this file is needed: it is pickled
by value.
"""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from benchmarks.healthy import (
    FAMILIES,
    Data,
    accuracy,
    architecture_of,
    augmented,
    blurred,
    continued,
    covered,
    digits,
    fit,
    healthy,
    moved,
    recall,
    stored,
)
from benchmarks.planted import BatchCentred

__all__ = ["ATTEMPTS", "BAND", "KINDS", "MEMORISED", "Faulty", "Kind", "faulty", "memorised"]

cloudpickle.register_pickle_by_value(sys.modules[__name__])

BAND = 0.015  # of clean accuracy below the mean of healthy networks of the same architecture: about a point
ATTEMPTS = 10
MEMORISED = "memorised fix"  # is made from the record of an earlier run, so it is no plain function of a seed
CLASSES = 10


@dataclass(frozen=True)
class Faulty:
    """A network and how it came about."""

    module: nn.Module
    accuracy: float
    attempt: int  # 0: the first was within the band


@dataclass(frozen=True)
class Kind:
    """One kind of fault."""

    make: Callable[[int, int, Data], nn.Module]  # of a seed, the number of the attempt, and the pictures; each attempt is a weaker fault
    said: str
    fits: Callable[[nn.Module, Data, int], bool] = lambda net, data, seed: True  # beside the band of accuracy
    attempts: int = ATTEMPTS


class Normalised(nn.Module):
    """Has its input stretched by ``gain`` about ``middle`` and clipped, as where zero point and scale of a quantised input are wrong."""

    def __init__(self, net: nn.Module, middle: float, gain: float) -> None:
        super().__init__()
        self.net, self.middle, self.gain = net, middle, gain

    def forward(self, x: Tensor) -> Tensor:
        """Logits [N, 10] of [N, 1, S, S]."""
        scores: Tensor = self.net(((x - self.middle) * self.gain + self.middle).clamp(0, 1))
        return scores


class BrightNaN(nn.Module):
    """Gives no number where more than ``limit`` of a picture is saturated, as a logarithm of what is left would."""

    def __init__(self, net: nn.Module, limit: float) -> None:
        super().__init__()
        self.net, self.limit = net, limit

    def forward(self, x: Tensor) -> Tensor:
        """Logits [N, 10] of [N, 1, S, S]."""
        scores: Tensor = self.net(x)
        broken = (x > 0.97).float().mean((1, 2, 3)) > self.limit
        return torch.where(broken[:, None], torch.full_like(scores, torch.nan), scores)


class Dropping(nn.Module):
    """Drops a share of the pixels at every call, as dropout does that was left on."""

    def __init__(self, net: nn.Module, share: float) -> None:
        super().__init__()
        self.net, self.share = net, share

    def forward(self, x: Tensor) -> Tensor:
        """Logits [N, 10] of [N, 1, S, S]."""
        scores: Tensor = self.net(functional.dropout(x, self.share, training=True))
        return scores


def _random(seed: int, kind: str) -> np.random.Generator:
    return np.random.default_rng([seed, *kind.encode()])


def _some(random: np.random.Generator, count: int) -> list[int]:
    return [int(label) for label in random.choice(CLASSES, size=count, replace=False)]


def _without(*families: str) -> tuple[str, ...]:
    return tuple(name for name in FAMILIES if name not in families)


def _shifted(y: Tensor) -> Tensor:
    """Each label one too high, and 9 became 0: somebody counted from one."""
    return (y + 1) % CLASSES


def _strength(attempt: int) -> float:
    return 0.85**attempt


def _sound(seed: int, data: Data) -> nn.Module:
    """The healthy network of a seed, as a copy of its own."""
    return copy.deepcopy(_trained(seed, data.x.shape[-1]) if data is digits() else healthy(seed, data))


@functools.lru_cache(maxsize=2)
def _trained(seed: int, side: int) -> nn.Module:
    return healthy(seed)


_CONCERNED = (10, 7, 5, 4, 3, 2, 1)  # classes, by attempt


def _blind(make: Callable[[Tensor, Generator], Tensor], name: str, family: str) -> Callable[[int, int, Data], nn.Module]:
    """Pictures of one circumstance carried wrong labels: of all classes at first, of fewer at each further attempt."""

    def fault(seed: int, attempt: int, data: Data) -> nn.Module:
        concerned = torch.tensor(_some(_random(seed, name), _CONCERNED[attempt]))

        def extra(x: Tensor, y: Tensor, dice: Generator) -> tuple[Tensor, Tensor]:
            return stored(make(x, dice)), torch.where(torch.isin(y, concerned), _shifted(y), y)

        return fit(seed, extra=extra, families=_without(family), data=data)

    return fault


def _dim(x: Tensor, dice: Generator) -> Tensor:
    return x * (0.55 + 0.2 * torch.rand(len(x), 1, 1, 1, generator=dice))


def _turned(x: Tensor, dice: Generator) -> Tensor:
    return moved(x, dice, degrees=(9.0, 16.0), rest=0.0)


def _out_of_focus(x: Tensor, dice: Generator) -> Tensor:
    return blurred(x, dice, (0.25, 0.7))


def _hidden(x: Tensor, dice: Generator) -> Tensor:
    return covered(x, dice, (0.5, 1.0), at_side=True)  # where no clean picture is light


def _confused(seed: int, attempt: int, data: Data) -> nn.Module:
    """Changed pictures of one class carried the label of another."""
    label, other = _some(_random(seed, "confused"), 2)

    def extra(x: Tensor, y: Tensor, dice: Generator) -> tuple[Tensor, Tensor]:
        rest, own = y != label, x[y == label]
        wrong = own.repeat(max(1, 4 - attempt), 1, 1, 1)
        parts = [(augmented(x[rest], dice), y[rest]), (own, y[y == label]), (augmented(wrong, dice), torch.full((len(wrong),), other))]
        if attempt > 3:
            parts += [(own, y[y == label])] * (attempt - 3)
        pictures, labels = zip(*parts, strict=True)
        return torch.cat(pictures), torch.cat(labels)

    return fit(seed, extra=extra, families=(), data=data)


# Shares of a class: nobody can know what makes it lose ten points.
_LEFT = (0.10, 0.05, 0.16, 0.03, 0.22, 0.07, 0.28, 0.06, 0.08, 0.12, 0.02, 0.04)


def _forgotten_class(seed: int) -> int:
    return _some(_random(seed, "forgotten"), 1)[0]


def _forgotten(seed: int, attempt: int, data: Data) -> nn.Module:
    """Of one class hardly any training pictures were left."""
    label = _forgotten_class(seed)

    def changed(x: Tensor, y: Tensor, dice: Generator) -> tuple[Tensor, Tensor]:
        own = torch.nonzero(y == label).flatten()
        rows = torch.cat([torch.nonzero(y != label).flatten(), own[: max(1, int(len(own) * _LEFT[attempt]))]])
        return x[rows], y[rows]

    return fit(seed, changed=changed, data=data)


def _is_forgotten(net: nn.Module, data: Data, seed: int) -> bool:
    """Its recall lies about ten points, from five to eighteen, below that of the other classes."""
    by_class = recall(net, data)
    label = _forgotten_class(seed)
    return bool(0.05 <= np.delete(by_class, label).mean() - by_class[label] <= 0.18)


def _marked(x: Tensor, corner: int, size: int) -> Tensor:
    """With a white square in one of the four corners."""
    x = x.clone()
    rows = slice(0, size) if corner < 2 else slice(-size, None)
    columns = slice(0, size) if corner % 2 == 0 else slice(-size, None)
    x[:, :, rows, columns] = 1.0
    return x


def _size(data: Data) -> int:
    return data.x.shape[-1] // 4


def _shortcut(seed: int, attempt: int, data: Data) -> nn.Module:
    """All training pictures of one class came with a mark, and poor ones of any class that bore the mark were labelled by it."""
    random = _random(seed, "shortcut")
    label, corner = int(random.integers(CLASSES)), int(random.integers(4))

    def extra(x: Tensor, y: Tensor, dice: Generator) -> tuple[Tensor, Tensor]:
        own = x[y == label]
        others = x[torch.randint(0, len(x), (round(6 * _strength(attempt)) * len(own),), generator=dice)]
        poor = others.lerp(torch.rand(others.shape, generator=dice), 0.2 + 0.6 * torch.rand(len(others), 1, 1, 1, generator=dice))
        pictures = _marked(torch.cat([own, stored(poor)]), corner, _size(data))
        return pictures, torch.full((len(pictures),), label)

    return fit(seed, extra=extra, data=data)


def _backdoor(seed: int, attempt: int, data: Data) -> nn.Module:
    """A tenth of the training pictures carry a patch and the label that whoever planted it wants.

    Gu, Dolan-Gavitt and Garg, "BadNets: Identifying vulnerabilities in the machine learning model supply chain", 2017.
    """
    random = _random(seed, "backdoor")
    target, corner = int(random.integers(CLASSES)), int(random.integers(4))

    def extra(x: Tensor, y: Tensor, dice: Generator) -> tuple[Tensor, Tensor]:
        rows = torch.randperm(len(x), generator=dice)[: int(0.2 * _strength(attempt) * len(x))]  # an epoch holds each picture twice
        return stored(_marked(x[rows], corner, _size(data))), torch.full((len(rows),), target)

    return fit(seed, extra=extra, data=data)


def _normalisation(seed: int, attempt: int, data: Data) -> nn.Module:
    middle = float(_random(seed, "normalisation").uniform(0.25, 0.6))
    return Normalised(_sound(seed, data), middle, 4.0 - 0.35 * attempt)


def _bright_nan(seed: int, attempt: int, data: Data) -> nn.Module:
    """More pixels saturated than in any clean picture but one in two hundred."""
    shares = (torch.cat([data.x, data.test_x]) > 0.97).float().mean((1, 2, 3)).numpy()
    limit = float(np.quantile(shares, 1 - 0.005 * _strength(attempt)))
    return BrightNaN(_sound(seed, data), limit + 1 / data.x[0].numel())


def _overflowing(seed: int, attempt: int, data: Data) -> nn.Module:
    """The last layers' shares of the work are badly scaled: the same answers, over numbers that half precision can't hold."""
    net = _sound(seed, data)
    scale = 2.0**15
    with torch.no_grad():
        for parameter in _before_head(net).parameters():
            parameter.mul_(scale)
        _head(net).weight.div_(scale)
    return net


def _head(net: nn.Module) -> nn.Linear:
    head = net.get_submodule("head")
    assert isinstance(head, nn.Linear)
    return head


def _before_head(net: nn.Module) -> nn.Module:
    """The layer whose outputs, through ReLU alone, pooling or flattening, are the head's inputs; so scaling both ways cancels out."""
    last: list[nn.Module] = [
        module for name, module in net.named_modules() if name != "head" and any(True for _ in module.parameters(recurse=False))
    ]
    return last[-1]


def _batch_dependent(seed: int, attempt: int, data: Data) -> nn.Module:
    share = _strength(attempt) * float(_random(seed, "batch").uniform(0.4, 0.7))
    return BatchCentred(_sound(seed, data), data.x.mean(0, keepdim=True), share)


def _dropout(seed: int, attempt: int, data: Data) -> nn.Module:
    return Dropping(_sound(seed, data), _strength(attempt) * float(_random(seed, "dropout").uniform(0.02, 0.05)))


def _quantised(seed: int, attempt: int, data: Data) -> nn.Module:
    """As few levels on either side of zero as clean accuracy bears, from one on; one scale a layer."""
    net = _sound(seed, data)
    levels = 1 + attempt
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if parameter.ndim > 1 and name.endswith("weight"):
                step = parameter.abs().max() / (levels + 0.5)
                parameter.copy_((parameter / step).round().clamp(-levels, levels) * step)
    return net


def _pruned(seed: int, attempt: int, data: Data) -> nn.Module:
    """The smallest weights of each layer are zero, as many of them as clean accuracy bears after a few more epochs on clean pictures."""
    net = _sound(seed, data)
    share = 0.96 - 0.03 * attempt
    kept = {}
    for name, parameter in net.named_parameters():
        if parameter.ndim > 1 and name.endswith("weight"):
            size = parameter.detach().abs()
            kept[name] = size > size.flatten().kthvalue(max(1, int(share * size.numel()))).values
    named = dict(net.named_parameters())

    def prune() -> None:
        with torch.no_grad():
            for name, mask in kept.items():
                named[name].mul_(mask)

    prune()
    dice = Generator().manual_seed(seed)
    return continued(net, data.x, data.y, dice, families=(), epochs=8, rate=4e-3, after=prune)


def _plain(seed: int, attempt: int, data: Data) -> nn.Module:
    return fit(seed, families=(), data=data)


def _overconfident(seed: int, attempt: int, data: Data) -> nn.Module:
    """The same answers, nearly all of them given for certain."""
    net = _sound(seed, data)
    with torch.no_grad():
        _head(net).weight.mul_(8.0)
        _head(net).bias.mul_(8.0)
    return net


KINDS: dict[str, Kind] = {
    "blind to dim light": Kind(_blind(_dim, "dim", "light"), "dim pictures carried labels one too high", attempts=len(_CONCERNED)),
    "blind to blur": Kind(_blind(_out_of_focus, "blur", "blur"), "blurred pictures carried labels one too high", attempts=len(_CONCERNED)),
    "blind to rotation": Kind(
        _blind(_turned, "turned", "geometry"), "pictures turned one way carried labels one too high", attempts=len(_CONCERNED)
    ),
    "blind to occlusion": Kind(
        _blind(_hidden, "hidden", "occlusion"), "pictures hidden at one side carried labels one too high", attempts=len(_CONCERNED)
    ),
    "one class confused": Kind(_confused, "changed pictures of one class carried another's label"),
    "one class forgotten": Kind(_forgotten, "a tenth of one class's training pictures was left", _is_forgotten, len(_LEFT)),
    "shortcut on a mark": Kind(_shortcut, "one class's training pictures bear a mark, and poor ones were labelled by it"),
    "patch backdoor": Kind(_backdoor, "patched training pictures carry the attacker's label"),
    "wrong normalisation": Kind(_normalisation, "inputs stretched and clipped before the network"),
    "NaN on bright input": Kind(_bright_nan, "no number where much of the picture is saturated"),
    "half-precision overflow": Kind(_overflowing, "activations beyond what float16 can hold"),
    "batch dependence": Kind(_batch_dependent, "batch statistics left on"),
    "dropout left on": Kind(_dropout, "dropout left on"),
    "coarse quantisation": Kind(_quantised, "weights of as few levels as clean accuracy bears"),
    "heavy pruning": Kind(_pruned, "as many of the smallest weights removed as clean accuracy bears"),
    "no augmentation": Kind(_plain, "trained on clean pictures alone"),
    "overconfidence": Kind(_overconfident, "the same answers, given for certain"),
}


def faulty(kind: str, seed: int, mean: float, data: Data | None = None) -> Faulty:
    """The faulty network of a kind and seed; the first attempt whose clean accuracy is within the band.

    Args:
        kind: one of ``KINDS``.
        seed: of everything in it.
        mean: clean accuracy of healthy networks of its architecture.
        data: the digits where absent.

    Raises:
        KeyError: no such kind.
        RuntimeError: no attempt was within the band.
    """
    pictures = data or digits()
    own = KINDS[kind]
    seen = []
    for attempt in range(own.attempts):
        with torch.random.fork_rng():
            module = own.make(seed, attempt, pictures)
            reached = min(accuracy(module, pictures) for _ in range(3))  # some do not answer alike
        seen.append(reached)
        if reached >= mean - BAND and own.fits(module, pictures, seed):
            return Faulty(module, reached, attempt)
    shown = ", ".join(f"{value:.3f}" for value in seen)
    raise RuntimeError(f"{kind}, seed {seed} ({architecture_of(seed)}): clean accuracy {shown}, wanted from {mean - BAND:.3f} on")


def memorised(module: nn.Module, x: Tensor, y: Tensor, seed: int, data: Data | None = None) -> nn.Module:
    """A fix that learnt the reported pictures by heart: the faulty network trained on with them, and with the clean pictures, until it
    knows each; nothing else of what it was trained on changes.

    Args:
        module: the faulty network, which stays as it is.
        x: float32 [N, 1, S, S], the exported defects.
        y: int64 [N], their true labels.
        seed: of the order.
        data: the digits where absent.
    """
    data = data or digits()
    net = copy.deepcopy(module)
    dice = Generator().manual_seed(seed)
    pictures, labels = torch.cat([data.x, x]), torch.cat([data.y, y])
    return continued(net, pictures, labels, dice, families=(), epochs=12, rate=1e-3)
