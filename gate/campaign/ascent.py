"""The coverage gradient: moves an input so that neurons reach items which nothing has covered yet. Runs in the worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gate.coverage.items import NeuronCriterion
from gate.coverage.recorder import Recorder

__all__ = ["ascend"]

TARGETED = 0.1  # share of the neurons with something to gain that one mutant aims at: all at once would pull against each other


def ascend(
    run: Callable[[Tensor], Any],
    recorder: Recorder,
    criteria: Sequence[NeuronCriterion],
    x: Tensor,
    *,
    epsilon: float,
    bounds: tuple[float, float],
    steps: int,
    seed: int,
) -> Tensor:
    """Sign-gradient ascent on the summed activation of randomly chosen neurons, each towards its nearest uncovered item.

    A whole batch at once, each sample with target neurons of its own. Follows the joint optimisation of Pei et al., "DeepXplore",
    SOSP 2017, without its second model.

    Args:
        run: file values [N, H, W, C] -> the model's output; only what the recorder sees of it matters.
        recorder: records the watched layers.
        criteria: say which way each neuron has to move; at least one.
        x: float32 file values.
        epsilon: L-infinity bound in file values.
        bounds: lowest and highest file value.
        steps: gradient steps.
        seed: chooses the target neurons.

    Returns:
        float32, the shape of ``x``.

    Raises:
        ValueError: no criteria, so there is nowhere to go.
    """
    if not criteria:
        raise ValueError("none of the criteria says which way a neuron has to move")
    random = torch.Generator().manual_seed(seed)
    current = x.clone()
    step = 1.5 * epsilon / steps
    targets: dict[str, Tensor] = {}
    for _ in range(steps):
        current.requires_grad_(True)
        with torch.enable_grad(), recorder.recording(grad=True):
            run(current)
            acts = recorder.activations()
            wish = _wish(criteria, acts)
            targets = targets or _targets(wish, random)
            aim = {name: wish[name] * targets[name] for name in wish}
            objective = torch.stack([(aim[name] * values).sum() / values.shape[1] for name, values in acts.items()]).sum()
            (gradient,) = torch.autograd.grad(objective, current)
        current = current.detach() + step * gradient.sign()
        current = torch.minimum(torch.maximum(current, x - epsilon), x + epsilon).clamp(*bounds)
    return current.detach()


def _wish(criteria: Sequence[NeuronCriterion], acts: dict[str, Tensor]) -> dict[str, Tensor]:
    """{layer: float [N, neurons]}: -1, 0 or 1, where the criteria together want each neuron to go."""
    detached = {name: values.detach() for name, values in acts.items()}
    directions = [criterion.directions(detached) for criterion in criteria]
    return {name: torch.stack([found[name].to(values.dtype) for found in directions]).sum(0).sign() for name, values in acts.items()}


def _targets(wish: dict[str, Tensor], random: torch.Generator) -> dict[str, Tensor]:
    """{layer: bool [N, neurons]}: a random choice among each sample's neurons with something to gain, at least one where there is any.

    Chosen once for a whole ascent: other neurons in every step would undo each other's work.
    """
    open_ = torch.cat(list(wish.values()), dim=1) != 0
    # Drawn on the CPU so that the same seed aims at the same neurons on any device.
    draws = torch.rand(open_.shape, generator=random).to(open_.device).masked_fill(~open_, 2.0)
    rank = draws.argsort(dim=1).argsort(dim=1)
    chosen = open_ & (rank < (open_.sum(dim=1, keepdim=True) * TARGETED).ceil())
    return dict(zip(wish, torch.split(chosen, [values.shape[1] for values in wish.values()], dim=1), strict=True))
