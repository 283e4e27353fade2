"""Moves inputs over the decision boundary within an L-infinity bound. Runs in the worker.

Projected gradient descent (Madry et al., ICLR 2018) on the difference of two logits (Carlini and Wagner, IEEE S&P 2017), with the step that
a linear model needs (Moosavi-Dezfooli et al., CVPR 2016). It differs from such attacks in three things:

* **Every step is an execution.** A step is quantised to the file's dtype before its forward pass, so that what the pass shows is what the
  file shows. The pass that gives the next gradient is the execution of the step before.
* **It stops at success**, sample by sample, and nothing is spent on what is over the boundary.
* **It gives up early.** The first gradient tells how far the boundary is by a linear model; where that is far beyond the bound, nothing
  more is spent.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gate.campaign.descent_options import Descent
from gate.campaign.iterates import Iterates

__all__ = ["descend"]

Watched = Callable[[Tensor, bool], tuple[Tensor, Tensor]]
"""File values float32 [N, H, W, C], whether with gradients -> activations float32 [N, neurons] and raw outputs float32 [N, K]."""

_TINY = 1e-12
_ROUNDED_UP = 0.51  # of a whole step: less would be rounded away


def descend(
    watched: Watched,
    logits: Callable[[Tensor], Tensor],
    x: Tensor,
    labels: Tensor,
    targets: Tensor,
    *,
    descent: Descent,
    epsilon: float,
    bounds: tuple[float, float],
    whole: bool,
) -> Iterates:
    """Descends from a batch of samples, each towards a class of its own.

    Args:
        watched: one pass.
        logits: raw outputs -> logits [N, C].
        x: float32 file values.
        labels: int64 [N], the classes to get away from.
        targets: int64 [N], the classes to get to; the label itself stands for the nearest other class.
        descent: how.
        epsilon: L-infinity bound in file values.
        bounds: lowest and highest file value.
        whole: whether files hold whole numbers only.
    """
    reach = float(int(epsilon)) if whole else epsilon  # whole steps only, so that rounding can't cross the bound
    lowest, highest = (x - reach).clamp(*bounds), (x + reach).clamp(*bounds)
    made: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    rows = torch.arange(len(x), device=x.device)
    current, work, columns = x.detach(), 0, (0, 0)
    for step in range(descent.num_steps):
        if not len(rows):
            break
        current.requires_grad_(True)
        with torch.enable_grad():
            flat, raw = watched(current, True)
            scores = logits(raw)
            margin, reached = _margin(scores, labels[rows], targets[rows])
            (slope,) = torch.autograd.grad(margin.sum(), current, materialize_grads=True)
        current, margin, flat, raw = current.detach(), margin.detach(), flat.detach(), raw.detach()
        columns = flat.shape[1], raw.shape[1]
        work += 3 * len(rows)
        if step:
            made.append((current, rows, flat, raw))
        low, high = lowest[rows], highest[rows]
        room = torch.where(slope > 0, current - low, high - current)
        most = (slope.abs() * room).flatten(1).sum(1)
        goes_on = ~reached & (most > 0) & (margin <= descent.hopeless * most)
        moved = torch.minimum(torch.maximum(current - _step(slope, margin, descent, reach, whole), low), high)
        goes_on &= (moved != current).flatten(1).any(1)
        current, rows = moved[goes_on], rows[goes_on]
    if len(rows):
        flat, raw = watched(current, False)
        work += len(rows)
        made.append((current, rows, flat.detach(), raw.detach()))
    if not made:
        return Iterates(x[:0], rows[:0], x.new_zeros(0, columns[0]), x.new_zeros(0, columns[1]), work)
    mutants, from_rows, flats, raws = (torch.cat(parts) for parts in zip(*made, strict=True))
    return Iterates(mutants, from_rows, flats, raws, work)


def _margin(scores: Tensor, labels: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """float [N]: how far the class to get away from, of a target whichever lies highest, is above the class to get to; bool [N]: whether
    the model answers as wanted."""
    predicted, any_other = scores.argmax(1), targets == labels
    one, rest = scores.gather(1, targets[:, None])[:, 0], scores.scatter(1, targets[:, None], -torch.inf).amax(1)
    # The label itself as a target stands for any other class, so the two change sides.
    return torch.where(any_other, one - rest, rest - one), torch.where(any_other, predicted != labels, predicted == targets)


def _step(slope: Tensor, margin: Tensor, descent: Descent, reach: float, whole: bool) -> Tensor:
    """How far each value moves, [N, ...] in file values; a whole number where files hold such only."""
    flat = slope.flatten(1)
    if descent.direction == "sign":
        way, dual = slope.sign(), flat.abs().sum(1)
    else:
        largest = flat.abs().amax(1).clamp(min=_TINY)
        way, dual = slope / largest.view(-1, 1, 1, 1), (flat * flat).sum(1) / largest
    if descent.step_size is None:
        length = descent.overshoot * margin.clamp(min=0) / dual.clamp(min=_TINY)
    else:
        length = torch.full_like(margin, descent.step_size * reach)
    moved = length.clamp(min=_ROUNDED_UP if whole else 0.0, max=reach).view(-1, 1, 1, 1) * way
    return moved.round() if whole else moved
