"""Moves marks so that whatever carries them is read as one class: a whole batch of inputs and of marks at once. Runs in the worker."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Climbed", "climb"]

Pass = tuple[Tensor, Tensor, Tensor]
Parts = Callable[[int, Callable[[slice], Pass]], list[Pass]]

FIRST_STEP, LAST_STEP = 0.3, 0.05  # of the value range
CONFIDENT = 0.9  # probability of the target above which an input pulls no longer, so that the others decide


@dataclass(frozen=True)
class Climbed:
    """The best that M marks were at any step."""

    pictures: Tensor  # float32 [M, H, W, C]
    scores: Tensor  # float64 [M]: mean probability of the target, over inputs of other classes
    moved: Tensor  # float64 [M]: share of those inputs which are read as the target


def climb(
    logits: Callable[[Tensor], Tensor],
    x: Tensor,
    labels: Tensor,
    weights: Tensor,
    pictures: Tensor,
    targets: Tensor,
    *,
    steps: int,
    bounds: tuple[float, float],
    in_parts: Parts,
    inputs_in_parts: Parts,
) -> Climbed:
    """Sign-gradient ascent on the mean log-probability of each mark's target over all inputs at once, with shrinking steps.

    A mark gives (1 - weight) * x + weight * picture. Follows Brown et al., "Adversarial patch", 2017, and, for the whole picture,
    Moosavi-Dezfooli et al., "Universal adversarial perturbations", CVPR 2017.

    Args:
        logits: file values [N, H, W, C] -> [N, classes], differentiable.
        x: [B, H, W, C] file values.
        labels: int64 [B]; inputs of the target's own class do not count.
        weights: float32 [M, H, W, 1].
        pictures: float32 [M, H, W, C], where to start.
        targets: int64 [M].
        steps: forward and backward passes; the start is the first that is looked at.
        bounds: lowest and highest file value.
        in_parts: does work on the rows of a batch of marks, all at once where memory allows.
        inputs_in_parts: likewise on the inputs that one mark is laid on, where not even that fits.
    """
    low, high = bounds
    x = x.to(torch.float32)
    counts = (labels[None, :] != targets[:, None]).to(torch.float64)  # [M, B]
    number_of_inputs = counts.sum(1).clamp(min=1)
    current = pictures.clone()
    best = Climbed(current.clone(), torch.full((len(targets),), -1.0, dtype=torch.float64, device=x.device), torch.zeros_like(counts[:, 0]))
    for number in range(steps):
        size = (high - low) * FIRST_STEP * (LAST_STEP / FIRST_STEP) ** (number / max(1, steps - 1))

        def work(rows: slice, now: Tensor = current) -> Pass:
            def one(some: slice) -> Pass:
                return _pass(logits, x[some], counts[rows, some], weights[rows], now[rows], targets[rows])

            if rows.stop - rows.start > 1:
                return one(slice(None))
            scores, moved, gradient = (torch.stack(column).sum(0) for column in zip(*inputs_in_parts(len(x), one), strict=True))
            return scores, moved, gradient

        parts = in_parts(len(targets), work)
        scores, moved, gradient = (torch.cat(column) for column in zip(*parts, strict=True))
        scores, moved = scores / number_of_inputs, moved / number_of_inputs
        better = scores > best.scores
        best = Climbed(
            torch.where(better[:, None, None, None], current, best.pictures),
            torch.where(better, scores, best.scores),
            torch.where(better, moved, best.moved),
        )
        current = (current + size * torch.nan_to_num(gradient).sign()).clamp(low, high)
    return best


def _pass(logits: Callable[[Tensor], Tensor], x: Tensor, counts: Tensor, weights: Tensor, pictures: Tensor, targets: Tensor) -> Pass:
    """Of m marks now: probabilities of the target and what is read as it, summed over inputs, and the gradient [m, H, W, C] of the aim."""
    pictures = pictures.detach().requires_grad_(True)
    with torch.enable_grad():
        marked = (1 - weights[:, None]) * x[None] + weights[:, None] * pictures[:, None]
        answers = logits(marked.flatten(0, 1)).to(torch.float64)
        logarithms = torch.log_softmax(answers, dim=1).reshape(*counts.shape, -1)
        of_target = logarithms.gather(2, targets[:, None, None].expand(-1, counts.shape[1], 1)).squeeze(2)
        aim = (of_target.clamp(max=math.log(CONFIDENT)) * counts).sum()
        (gradient,) = torch.autograd.grad(aim, pictures)
    probability = torch.nan_to_num(of_target.detach().exp()).clamp(0, 1)
    read = logarithms.detach().argmax(2) == targets[:, None]
    return (probability * counts).sum(1), (read * counts).sum(1), gradient
