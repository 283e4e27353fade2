"""What is commonly done before a release instead of fuzzing, measured on the same networks: four checks, each as one badness.

None has a limit of its own: each gets the one that blocks at most one in twenty of the healthy networks which limits may be chosen on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor, nn

from benchmarks.healthy import Data, accuracy, blurred, covered, moved, noisy, read, recall, stored

__all__ = ["CHECKS", "FALSE_BLOCKS", "Practice", "badness", "blocked", "limit", "measure"]

FALSE_BLOCKS = 0.05
EPSILON, STEPS, ATTACKED = 0.08, 10, 300  # of the attack, and pictures that it gets
CORRUPTIONS = ("brighter", "darker", "blurred", "noisy", "turned left", "turned right", "covered")
CHECKS = {
    "clean accuracy": "clean accuracy below a limit",
    "accuracy and recall": "clean accuracy, or the recall of one class, dropped below the champion's by more than a limit",
    "corruptions": "accuracy under one of seven corruptions below its median over healthy networks by more than a limit",
    "PGD": f"success of PGD (L-infinity, {EPSILON:g}, {STEPS} steps) above a limit",
}


@dataclass(frozen=True)
class Practice:
    """What the checks see of one network."""

    accuracy: float
    recall: tuple[float, ...]  # by class
    corrupted: tuple[float, ...]  # accuracy, by corruption
    pgd: float  # share of the pictures read rightly that the attack turns


def measure(net: nn.Module, data: Data) -> Practice:
    """Runs all checks; what is not finite counts as wrong."""
    labels = data.test_y.numpy()
    corrupted = tuple(float((read(net, x) == labels).mean()) for x in _corrupted(data.test_x))
    return Practice(accuracy(net, data), tuple(map(float, recall(net, data))), corrupted, _pgd(net, data))


def _corrupted(x: Tensor) -> list[Tensor]:
    """[N, 1, S, S] each, in the order of ``CORRUPTIONS``; the same for every network."""
    dice = Generator().manual_seed(0)
    changed = [
        (x + 0.2).clamp(0, 1),
        (x - 0.2).clamp(0, 1),
        blurred(x, dice, (0.5, 0.5)),
        noisy(x, dice),
        moved(x, dice, degrees=(-10.0, -10.0), rest=0.0),
        moved(x, dice, degrees=(10.0, 10.0), rest=0.0),
        covered(x, dice),
    ]
    return [stored(part) for part in changed]


def _pgd(net: nn.Module, data: Data) -> float:
    """Madry et al., "Towards deep learning models resistant to adversarial attacks", 2018, as foolbox has it, from the picture itself."""
    from foolbox.attacks.projected_gradient_descent import LinfProjectedGradientDescentAttack
    from foolbox.models.pytorch import PyTorchModel

    x, y = data.test_x[:ATTACKED], data.test_y[:ATTACKED]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = PyTorchModel(net, bounds=(0, 1), device="cpu")
        attack = LinfProjectedGradientDescentAttack(steps=STEPS, random_start=False)
        _, clipped, _ = attack(model, x, y, epsilons=EPSILON)
        right = read(net, x) == y.numpy()
        turned = read(net, clipped) != y.numpy()
    return float((turned & right).sum() / max(1, right.sum()))


def badness(check: str, one: Practice, champion: Practice, healthy: Sequence[Practice]) -> float:
    """How bad a network looks to a check; more is worse.

    Args:
        check: one of ``CHECKS``.
        one: of the network.
        champion: of the baseline.
        healthy: of the healthy networks that limits are chosen on.
    """
    match check:
        case "clean accuracy":
            return -one.accuracy
        case "accuracy and recall":
            drops = np.array(champion.recall) - np.array(one.recall)
            # Both are held to limits that are reached alike: a class has a tenth of the pictures.
            return float(max(10 * (champion.accuracy - one.accuracy), drops.max()))
        case "corruptions":
            medians = np.median([other.corrupted for other in healthy], axis=0)
            return float((medians - np.array(one.corrupted)).max())
        case "PGD":
            return one.pgd
    raise KeyError(check)


def limit(values: Sequence[float]) -> float:
    """The least badness of healthy networks that is exceeded by at most ``FALSE_BLOCKS`` of them."""
    return sorted(values, reverse=True)[int(FALSE_BLOCKS * len(values))]


def blocked(check: str, one: Practice, champion: Practice, healthy: Sequence[Practice]) -> bool:
    """Whether a check, with its limit chosen on ``healthy``, blocks a network."""
    return badness(check, one, champion, healthy) > limit([badness(check, other, champion, healthy) for other in healthy])
