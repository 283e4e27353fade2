"""What only the model can say of corpus entries: how far a step towards uncovered items would lead, and how sure the answer is.

Runs in the worker, whole batches at a time. N is the number of entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from gate.coverage.items import NeuronCriterion
from gate.coverage.recorder import Recorder

__all__ = ["agreement", "dropout_variance", "gradient_norms", "has_dropout"]


def gradient_norms(run: Callable[[Tensor], Any], recorder: Recorder, criteria: Sequence[NeuronCriterion], x: Tensor) -> Tensor:
    """Norm of the gradient of the uncovered neurons' joint activation: each neuron towards its nearest uncovered item.

    Every layer counts by the mean over its neurons, so that a wide layer does not drown the others.

    Args:
        run: file values [N, ...] -> the model's output, with a graph; only what the recorder sees of it matters.
        recorder: records the watched layers.
        criteria: say which way each neuron has to move; at least one.
        x: float32 file values.

    Returns:
        float64 [N]; 0 where nothing is left to cover, or where the gradient is not finite.
    """
    values = x.detach().clone().requires_grad_(True)
    with torch.enable_grad(), recorder.recording(grad=True):
        run(values)
        acts = recorder.activations()
        joint = torch.zeros((), dtype=torch.float32, device=x.device)
        for name, found in acts.items():
            wish = sum(criterion.directions({name: found.detach()})[name].to(torch.float32) for criterion in criteria)
            # No neuron that is not finite: zero times NaN would be NaN, and so would be the gradient of the whole batch.
            wanted = torch.where(torch.isfinite(found), torch.sign(torch.as_tensor(wish)) * found, 0.0)
            joint = joint + wanted.sum() / found.shape[1]
        if not joint.requires_grad:
            return torch.zeros(len(x), dtype=torch.float64, device=x.device)
        (gradient,) = torch.autograd.grad(joint, values, allow_unused=True)
    if gradient is None:
        return torch.zeros(len(x), dtype=torch.float64, device=x.device)
    norms = torch.linalg.vector_norm(gradient.detach().flatten(1).to(torch.float64), dim=1)
    return torch.nan_to_num(norms, nan=0.0, posinf=0.0, neginf=0.0)


def has_dropout(module: nn.Module) -> bool:
    """Whether a module of the model drops anything in training mode.

    Dropout that is written as a function, or that an export has taken out, can't be switched on again and does not count.
    """
    return bool(_dropouts(module))


def dropout_variance(answer: Callable[[], Tensor], module: nn.Module, *, passes: int, seed: int, device: torch.device) -> Tensor:
    """Variance of the probabilities over passes with dropout switched on, summed over classes; everything else stays in its mode.

    Source: Y. Gal and Z. Ghahramani, "Dropout as a Bayesian approximation", ICML 2016.

    Args:
        answer: one forward pass over the batch -> probabilities float [N, C].
        module: the model.
        passes: how many.
        seed: of what is dropped; torch's generators are left as they were.
        device: the model's.

    Returns:
        float64 [N]; 0 where an answer is not finite.
    """
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), _dropping(module):
        torch.manual_seed(seed)
        answers = torch.stack([answer().to(torch.float64) for _ in range(passes)])
    return torch.nan_to_num(answers.var(dim=0, correction=0).sum(dim=1), nan=0.0, posinf=0.0, neginf=0.0)


def agreement(answer: Callable[[], Tensor], *, replays: int) -> Tensor:
    """Share of the replays of a batch that gave the commonest class.

    Args:
        answer: one forward pass over the batch -> logits or probabilities float [N, C].
        replays: how many.

    Returns:
        float64 [N], 1 / replays to 1; answers that are not finite are a class of their own.
    """
    classes = []
    for _ in range(replays):
        found = answer()
        classes.append(torch.where(torch.isfinite(found).all(dim=1), found.argmax(dim=1), -1))
    given = torch.stack(classes)
    same = (given[:, None] == given[None, :]).sum(dim=1)
    return same.amax(dim=0).to(torch.float64) / replays


def _dropouts(module: nn.Module) -> list[nn.Module]:
    return [child for child in module.modules() if isinstance(child, _DropoutNd) and child.p > 0]


@contextmanager
def _dropping(module: nn.Module) -> Iterator[None]:
    """Inside, the dropout modules alone are in training mode."""
    modes = [(child, child.training) for child in _dropouts(module)]
    try:
        for child, _ in modes:
            child.train()
        yield
    finally:
        for child, mode in modes:
            child.train(mode)
