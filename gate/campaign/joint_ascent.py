"""The coverage gradient for several neurons at once: one step brings each of them to an item of its own. Runs in the worker.

Near inputs that were run already several neurons lack little at the same time. With the gradient of each, taken apart from one
another, the smallest step that changes all of them by given amounts is known for a linear model: the minimum-norm solution of the normal
equations (Gauss and Newton; see Nocedal and Wright, "Numerical optimization", 2006, chapter 10), here damped a little. Any number of such
steps cost no further pass until they are run, so many are drawn, brought to values that a file can hold, and only those run of which
the linear model says that they cover most together.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gate.campaign.ascent import Watched
from gate.campaign.iterates import Iterates
from gate.campaign.screening import best_together, uncovered
from gate.coverage.activations import ActivationBatch
from gate.coverage.items import NeuronCriterion

__all__ = ["climb_jointly"]

DAMPING = 1e-3  # of the mean squared gradient
FARTHER = 3.0  # times what the neuron that lacks most does: so far other neurons are moved as well, for there may be more than one item
LEFT_OUT = 0.3  # chance of a neuron to be left alone in a step
CANDIDATES = 256  # steps that are drawn for a sample at most
VALUES = 1 << 24  # numbers that the steps of one batch, or the activations expected of them, may take


def climb_jointly(
    watched: Watched,
    forward: Watched,
    criteria: Sequence[NeuronCriterion],
    x: Tensor,
    scale: Tensor,
    *,
    together: int,
    epsilon: float,
    bounds: tuple[float, float],
    whole: bool,
    luck: torch.Generator,
) -> tuple[Iterates, Tensor]:
    """Takes one step from each of a batch of samples in several versions, at most twice ``together`` a sample in the mean.

    Args:
        watched: one pass whose activations can be differentiated.
        forward: one pass whose activations can not.
        criteria: say what each neuron lacks; at least one.
        x: float32 file values.
        scale: float32 [neurons], usual spread of each neuron: what is lacking is measured in it.
        together: neurons whose gradients are taken.
        epsilon: L-infinity bound in file values.
        bounds: lowest and highest file value.
        whole: whether files hold whole numbers only.
        luck: draws which neurons a step moves and how far; on the CPU.

    Returns:
        What it came to, and the targets, int64 [t]: ``criterion * neurons + neuron``, once for each sample that had them.

    Raises:
        ValueError: no criteria, so there is nowhere to go.
    """
    if not criteria:
        raise ValueError("none of the criteria says which way a neuron has to move")
    reach = float(int(epsilon)) if whole else epsilon  # whole steps only, so that rounding can't cross the bound
    x = x.detach().requires_grad_(True)
    with torch.enable_grad():
        batch, _ = watched(x)
        at = ActivationBatch(batch.layers, batch.flat.detach())
        gap, neurons, which = _nearest(criteria, at, scale, together)
        slopes = [
            torch.autograd.grad(batch.flat.gather(1, one[:, None]).sum(), x, retain_graph=True, materialize_grads=True)[0]
            for one in neurons.unbind(1)
        ]
    x = x.detach()
    slope = torch.stack(slopes, 1).flatten(2)  # [N, k, values]
    work = len(x) * (1 + 2 * neurons.shape[1])
    steps = max(1, min(CANDIDATES, VALUES // (len(x) * max(x[0].numel(), len(scale)))))
    moved = _moved(x, slope, _wanted(gap, scale[neurons], steps, luck), reach, bounds, whole=whole)
    change = (moved - x[:, None]).flatten(2) @ slope.mT  # [N, steps, k]
    flat = at.flat[:, None].expand(-1, steps, -1).scatter_add(2, neurons[:, None].expand_as(change), change)
    owner, item = uncovered(criteria, ActivationBatch(at.layers, flat.flatten(0, 1)))
    chosen = best_together(owner, item, len(x) * steps, 2 * len(x) * together)[0]
    targets = (which * len(scale) + neurons)[gap != 0]
    rows = chosen // steps
    if not len(chosen):
        return Iterates(x[:0], rows, scale.new_zeros(0, len(scale)), x.new_zeros(0, 0), work), targets
    mutants = moved.flatten(0, 1)[chosen]
    seen, raw = forward(mutants)
    return Iterates(mutants, rows, seen.flat, raw, work + len(mutants)), targets


def _nearest(criteria: Sequence[NeuronCriterion], at: ActivationBatch, scale: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of the neurons that lack least what they lack (0 where too few lack anything), their numbers and criteria. All [N, k]."""
    gaps = torch.stack([criterion.gaps(at) for criterion in criteria])
    lacking = torch.where(gaps == 0, torch.inf, gaps.abs() / scale)
    least, which = lacking.min(0)
    neurons = least.topk(min(count, least.shape[1]), dim=1, largest=False).indices
    which = which.gather(1, neurons)
    return (
        gaps.gather(0, which[None].new_zeros(1, *least.shape).scatter(2, neurons[None], which[None]))[0].gather(1, neurons),
        neurons,
        which,
    )


def _wanted(gap: Tensor, scale: Tensor, steps: int, luck: torch.Generator) -> Tensor:
    """float32 [N, steps, k]: by how much each step is to change each neuron.

    The first changes all by what they lack, others some of them by that, and the rest all by anything up to ``FARTHER``.
    """
    left, farther = (torch.rand(len(gap), steps, gap.shape[1], generator=luck).to(gap.device) for _ in range(2))
    most = FARTHER * (gap.abs() / scale).amax(1, keepdim=True) * scale
    wanted = torch.where(left >= LEFT_OUT, gap[:, None], 0.0)
    wanted[:, 0] = gap
    half = (steps + 1) // 2
    wanted[:, half:] = (2.0 * farther[:, half:] - 1.0) * most[:, None]
    return wanted


def _moved(x: Tensor, slope: Tensor, wanted: Tensor, reach: float, bounds: tuple[float, float], *, whole: bool) -> Tensor:
    """float32 [N, steps, ...]: the inputs after the smallest steps that change the neurons so, within the bound."""
    wide = slope.to(torch.float64)
    gram = wide @ wide.mT
    mean = gram.diagonal(dim1=1, dim2=2).mean(1).clamp(min=torch.finfo(torch.float64).tiny)
    gram = gram + DAMPING * mean[:, None, None] * torch.eye(gram.shape[1], dtype=gram.dtype, device=gram.device)
    parts = torch.linalg.solve(gram, wanted.to(torch.float64).mT).to(torch.float32)  # [N, k, steps]
    step = (parts.mT @ slope).clamp(-reach, reach).view(len(x), -1, *x.shape[1:])
    moved: Tensor = (x[:, None] + step).clamp(*bounds)
    return moved.round() if whole else moved
