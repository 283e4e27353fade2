"""The coverage gradient: moves inputs so that neurons reach items which nothing has covered yet. Runs in the worker.

Follows the joint optimisation of Pei et al., "DeepXplore", SOSP 2017, without its second model, and differs in four things:

* **Every step is an execution.** A step is quantised to the file's dtype before its forward pass, so what the pass shows is what the file
  shows: n steps give more than n mutants, and their activations and outputs need no second pass.
* **A gradient serves several lengths.** One gradient costs three forward passes, another length along it costs one.
* **Each sample has its own targets**: one neuron that it was chosen for, and those that lack least, with some luck among them.
* **The length follows from what is lacking.** The objective is the sum of what its targets lack, which is 0 where all are reached, so
  the step that a linear model would need is known: objective / dual norm of its gradient (Polyak, "Introduction to optimization", 1987).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gate.campaign.ascent_options import Ascent
from gate.campaign.iterates import Iterates
from gate.coverage.activations import ActivationBatch
from gate.coverage.items import NeuronCriterion

__all__ = ["climb"]

Watched = Callable[[Tensor], tuple[ActivationBatch, Tensor]]
"""File values float32 [N, H, W, C] -> activations and raw outputs float32 [N, K]."""

_TINY = 1e-12
_ROUNDED_UP = 0.51  # of a whole step: less would be rounded away
_LEAST_LUCK = 0.25  # a target counts as lacking between this and 1.25 times what it lacks, so that equal samples differ in their targets


def climb(
    watched: Watched,
    forward: Watched,
    criteria: Sequence[NeuronCriterion],
    x: Tensor,
    targets: Tensor,
    scale: Tensor,
    *,
    ascent: Ascent,
    epsilon: float,
    bounds: tuple[float, float],
    whole: bool,
    luck: Tensor,
) -> Iterates:
    """Climbs from a batch of samples, each towards items of its own.

    Args:
        watched: one pass whose activations can be differentiated.
        forward: one pass whose activations can not.
        criteria: say what each neuron lacks; at least one.
        x: float32 file values.
        targets: int64 [N], ``criterion * neurons + neuron``: what each sample was chosen for.
        scale: float32 [neurons], usual spread of each neuron: what is lacking is measured in it.
        ascent: how.
        epsilon: L-infinity bound in file values.
        bounds: lowest and highest file value.
        whole: whether files hold whole numbers only.
        luck: float32 [N, neurons] in 0..1, which makes samples differ in their other targets.

    Raises:
        ValueError: no criteria, so there is nowhere to go.
    """
    if not criteria:
        raise ValueError("none of the criteria says which way a neuron has to move")
    reach = float(int(epsilon)) if whole else epsilon  # whole steps only, so that rounding can't cross the bound
    lowest, highest = (x - reach).clamp(*bounds), (x + reach).clamp(*bounds)
    made: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    rows = torch.arange(len(x), device=x.device)
    current, before, work = x, None, 0
    for step in range(ascent.num_steps):
        if not len(rows):
            break
        current.requires_grad_(True)
        with torch.enable_grad():
            batch, raw = watched(current)
            lacking = _objective(criteria, batch, targets[rows], scale, ascent.targets, luck[rows])
            (slope,) = torch.autograd.grad(-lacking.sum(), current, materialize_grads=True)
        current, lacking = current.detach(), lacking.detach()
        work += 3 * len(rows)
        if step:
            made.append((current, rows, batch.flat.detach(), raw))
        goes_on = (lacking > 0) & (slope.flatten(1).abs().amax(1) > 0)
        if before is not None:
            goes_on &= lacking < before * (1.0 - ascent.least_progress) + _TINY
        length, way = _step(slope, lacking, ascent, reach, step)
        tried_before = [current]
        for place, multiple in enumerate(ascent.multiples):
            moved = current + (multiple * length).clamp(min=_ROUNDED_UP if whole else 0.0) * way
            if whole:
                moved = moved.round()
            moved = torch.minimum(torch.maximum(moved, lowest[rows]), highest[rows])
            # What a file can't tell from an input that was tried is no new input.
            kept = goes_on & torch.stack([(moved != other).flatten(1).any(1) for other in tried_before]).all(0)
            tried_before.append(moved)
            if place == 0:
                following, following_rows, following_lacking = moved[kept], rows[kept], lacking[kept]
                if step + 1 < ascent.num_steps:
                    continue
            if bool(kept.any()):
                tried = moved[kept]
                seen, answered = forward(tried)
                work += len(tried)
                made.append((tried, rows[kept], seen.flat, answered))
        current, rows, before = following, following_rows, following_lacking
    if not made:
        return Iterates(x[:0], rows[:0], scale.new_zeros(0, len(scale)), x.new_zeros(0, 0), work)
    mutants, from_rows, flat_acts, answers = (torch.cat(parts) for parts in zip(*made, strict=True))
    return Iterates(mutants, from_rows, flat_acts, answers, work)


def _objective(
    criteria: Sequence[NeuronCriterion], batch: ActivationBatch, targets: Tensor, scale: Tensor, others: int, luck: Tensor
) -> Tensor:
    """float32 [N]: what each sample's targets lack together, in usual spreads; 0 where all are reached. Can be differentiated."""
    lacking = torch.stack([criterion.gaps(batch) for criterion in criteria]).abs() / scale  # [criteria, N, neurons]
    open_ = torch.where(lacking == 0, torch.inf, lacking).detach()
    nearest, which = open_.min(0)
    weights = torch.zeros_like(nearest)
    if others:
        near = (nearest * (_LEAST_LUCK + luck)).topk(min(others, nearest.shape[1]), dim=1, largest=False).indices
        weights.scatter_(1, near, 1.0)
    weights.masked_fill_(torch.isinf(nearest), 0.0)
    row, neuron = torch.arange(len(targets), device=targets.device), targets % len(scale)
    own = lacking[targets // len(scale), row, neuron]
    weights[row, neuron] = 0.0  # it counts for what it was chosen for alone
    rest = lacking.gather(0, which[None])[0]
    return (weights * rest).sum(1) + max(1.0, others / 2) * own


def _step(slope: Tensor, lacking: Tensor, ascent: Ascent, reach: float, step: int) -> tuple[Tensor, Tensor]:
    """How far to go, [N, 1, 1, 1] in file values, and which way, [N, ...] with a largest component of 1."""
    flat = slope.flatten(1)
    if ascent.direction == "sign":
        way, dual = slope.sign(), flat.abs().sum(1)
    else:
        largest = flat.abs().amax(1).clamp(min=_TINY)
        way, dual = slope / largest.view(-1, 1, 1, 1), (flat * flat).sum(1) / largest
    length = lacking / dual.clamp(min=_TINY) if ascent.step_size is None else torch.full_like(lacking, ascent.step_size * reach)
    if ascent.progressive:
        length = length * ((step + 1) / ascent.num_steps)
    return length.clamp(max=reach).view(-1, 1, 1, 1), way
