"""The coverage gradient: moves an input so that neurons reach items which nothing has covered yet. Runs in the worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gate.coverage.items import Criterion
from gate.coverage.recorder import Recorder

__all__ = ["ascend"]

TARGETED = 0.1  # share of the neurons with something to gain that one mutant aims at: all at once would pull against each other


def ascend(
    run: Callable[[Tensor], Any],
    recorder: Recorder,
    criteria: Sequence[Criterion],
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
        criteria: say which way each neuron has to move.
        x: float32 file values.
        epsilon: L-infinity bound in file values.
        bounds: lowest and highest file value.
        steps: gradient steps.
        seed: chooses the target neurons.

    Returns:
        float32, the shape of ``x``.
    """
    random = torch.Generator().manual_seed(seed)
    current = x.clone()
    step = 1.5 * epsilon / steps
    for _ in range(steps):
        current.requires_grad_(True)
        with torch.enable_grad(), recorder.recording(grad=True):
            run(current)
            acts = recorder.activations()
            aim = _aim(criteria, acts, random)
            objective = torch.stack([(aim[name] * values).sum() / values.shape[1] for name, values in acts.items()]).sum()
            (gradient,) = torch.autograd.grad(objective, current)
        current = current.detach() + step * gradient.sign()
        current = torch.minimum(torch.maximum(current, x - epsilon), x + epsilon).clamp(*bounds)
    return current.detach()


def _aim(criteria: Sequence[Criterion], acts: dict[str, Tensor], random: torch.Generator) -> dict[str, Tensor]:
    """{layer: float [N, neurons]}: -1, 0 or 1, the criteria's directions on a random choice of neurons."""
    detached = {name: values.detach() for name, values in acts.items()}
    directions = [criterion.directions(detached) for criterion in criteria]
    aims = {}
    for name, values in acts.items():
        wish = torch.stack([found[name].to(values.dtype) for found in directions]).sum(0).sign()
        # Drawn on the CPU so that the same seed aims at the same neurons on any device.
        chosen = torch.rand(values.shape, generator=random) < TARGETED
        aims[name] = wish * chosen.to(values.device)
    return aims
