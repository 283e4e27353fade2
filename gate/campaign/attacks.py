"""Adversarial operators: foolbox's attacks within an L-infinity bound. Runs in the worker."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["attack"]


def attack(
    name: str,
    model: nn.Module,
    x: Tensor,
    labels: Tensor,
    *,
    epsilon: float,
    bounds: tuple[float, float],
    steps: int,
    seed: int,
    device: torch.device,
) -> Tensor:
    """Mutants of a batch that push the model away from the labels.

    Sources: fgsm: Goodfellow et al., ICLR 2015; pgd: Madry et al., ICLR 2018.

    Args:
        name: fgsm | pgd.
        model: file values [N, H, W, C] -> logits [N, C], differentiable.
        x: float32 file values.
        labels: int64 [N].
        epsilon: bound in file values.
        bounds: lowest and highest file value.
        steps: gradient steps.
        seed: of the random start.
        device: where the model is.

    Returns:
        float32, the shape of ``x``.
    """
    from foolbox.attacks.fast_gradient_method import LinfFastGradientAttack
    from foolbox.attacks.projected_gradient_descent import LinfProjectedGradientDescentAttack
    from foolbox.criteria import Misclassification
    from foolbox.models.pytorch import PyTorchModel

    wrapped = PyTorchModel(model, bounds=bounds, device=device)
    # Steps of 2.5 bounds in all, so that every corner of the bound can be reached from any random start (Madry et al.).
    descent = LinfProjectedGradientDescentAttack(steps=steps, rel_stepsize=2.5 / steps)
    chosen = LinfFastGradientAttack() if name == "fgsm" else descent
    devices = [device] if device.type == "cuda" else []
    # foolbox draws from torch's global generator; the fork gives it back as it was.
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        mutants: Tensor = chosen.run(wrapped, x, Misclassification(labels), epsilon=epsilon)
    return mutants.detach()
