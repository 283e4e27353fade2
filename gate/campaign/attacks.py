"""Adversarial operators: foolbox's attacks, whole batches at once. Runs in the worker.

Sources: fgsm: Goodfellow et al., ICLR 2015. pgd: Madry et al., ICLR 2018. deepfool, deepfool_linf: Moosavi-Dezfooli et al., CVPR 2016.
carlini_wagner: Carlini and Wagner, IEEE S&P 2017, with the L2 norm. boundary: Brendel et al., ICLR 2018.

The work of each, which ``gate.domains.model_operators`` declares, is in forward-equivalents of one mutant (a backward pass is 2):
fgsm 3; pgd 3 a step; deepfool 1, then 3 for each of the 2 classes it goes for in each step; carlini_wagner 3 a step in each of 2 rounds;
boundary 2 to look at both ends, 8 for the line between them, 1 to begin, and 1 a step with 1 more in every tenth. The last four take up
to 3 more to get past rounding. That is the most: deepfool ends when the whole batch is misclassified, and others leave out samples for
which there is nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["attack"]

_CANDIDATES = 3  # deepfool: the predicted class and the two next likely
_OVERSHOOT = 0.05  # deepfool
_ROUNDS = 2  # carlini_wagner: trade-offs between distance and class
_TRADE_OFF = 0.1  # carlini_wagner: the first of them, ten times as much in the second where nothing was found
_ADAM_STEP = 0.05  # carlini_wagner
_HALVINGS = 8  # boundary: of the line between the input and its starting point
_ALONG, _TOWARDS = 0.2, 0.01  # boundary: first step along the boundary and towards the input, shares of the distance
_FARTHER = (1.0, 2.0, 4.0)  # times the change, until it survives rounding


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
    whole: bool,
    starts: Tensor | None = None,
) -> tuple[Tensor, int]:
    """Mutants of a batch that push the model away from the labels, and the work that took.

    fgsm and pgd use the whole of ``epsilon``. The others look for the nearest misclassified input and know no bound: the supervisor
    brings what they find to the operator's bound. What boundary gets no use of stays as it is: inputs that are misclassified already,
    or whose starting point is classified as their label.

    Args:
        name: see the top of this file.
        model: file values [N, H, W, C] -> logits [N, K]; differentiable, except for boundary.
        x: float32 file values.
        labels: int64 [N].
        epsilon: bound of fgsm and pgd in file values.
        bounds: lowest and highest file value.
        steps: of the attack.
        seed: of everything that is drawn.
        device: where the model is.
        whole: whether files hold whole numbers only.
        starts: of boundary: inputs of other classes, the shape of ``x``; it begins with them.

    Returns:
        float32, the shape of ``x``; and forward-equivalents, counted.
    """
    from foolbox.criteria import Misclassification
    from foolbox.models.pytorch import PyTorchModel

    counted = _Counted(model)
    devices = [device] if device.type == "cuda" else []
    # foolbox draws from torch's global generator; the fork gives it back as it was.
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        if name in ("fgsm", "pgd"):
            wrapped = PyTorchModel(counted, bounds=bounds, device=device)
            mutants = _within(name, steps).run(wrapped, x, Misclassification(labels), epsilon=epsilon)
            return mutants.detach(), counted.calls
        low, extent = bounds[0], bounds[1] - bounds[0]
        # From 0 to 1: distances, step sizes and trade-offs of these attacks are meant for that.
        share = ((x - low) / extent).clamp(0, 1)
        wrapped = PyTorchModel(_Shares(counted, low, extent), bounds=(0, 1), device=device)
        if name == "boundary":
            assert starts is not None
            found = _along_boundary(wrapped, share, labels, ((starts - low) / extent).clamp(0, 1), steps)
        else:
            found = _nearest(name, steps).run(wrapped, share, Misclassification(labels)).detach()
            if name == "carlini_wagner":
                # Where it found nothing, its answer is zero throughout.
                nothing = (found == 0).flatten(1).all(dim=1)
                found = torch.where(_like(nothing, share), share, found)
        farther = _past_rounding(wrapped, share, found, labels, extent if whole else None)
        return farther * extent + low, counted.calls


def _within(name: str, steps: int) -> Any:
    from foolbox.attacks.fast_gradient_method import LinfFastGradientAttack
    from foolbox.attacks.projected_gradient_descent import LinfProjectedGradientDescentAttack

    # Steps of 2.5 bounds in all, so that every corner of the bound can be reached from any random start (Madry et al.).
    return LinfFastGradientAttack() if name == "fgsm" else LinfProjectedGradientDescentAttack(steps=steps, rel_stepsize=2.5 / steps)


def _nearest(name: str, steps: int) -> Any:
    from foolbox.attacks.carlini_wagner import L2CarliniWagnerAttack
    from foolbox.attacks.deepfool import L2DeepFoolAttack, LinfDeepFoolAttack

    if name == "carlini_wagner":
        return L2CarliniWagnerAttack(
            binary_search_steps=_ROUNDS, steps=steps, stepsize=_ADAM_STEP, initial_const=_TRADE_OFF, abort_early=False
        )
    kind = {"deepfool": L2DeepFoolAttack, "deepfool_linf": LinfDeepFoolAttack}[name]
    return kind(steps=steps, candidates=_CANDIDATES, overshoot=_OVERSHOOT)


def _along_boundary(model: Any, x: Tensor, labels: Tensor, starts: Tensor, steps: int) -> Tensor:
    """Inputs near the boundary, on the side that is not the label's: along the line from each starting point, then along the boundary."""
    from foolbox.attacks.boundary_attack import BoundaryAttack
    from foolbox.criteria import Misclassification

    found = x.clone()
    rows = torch.nonzero((model(x).argmax(dim=1) == labels) & (model(starts).argmax(dim=1) != labels)).flatten()
    if not len(rows):
        return found
    inside, outside, label = x[rows], starts[rows], labels[rows]
    near, far = torch.zeros(len(rows), device=x.device), torch.ones(len(rows), device=x.device)
    for _ in range(_HALVINGS):
        middle = (near + far) / 2
        away = model(torch.lerp(inside, outside, _like(middle, inside))).argmax(dim=1) != label
        near, far = torch.where(away, near, middle), torch.where(away, middle, far)
    nearest = torch.lerp(inside, outside, _like(far, inside))
    chosen = BoundaryAttack(steps=steps, spherical_step=_ALONG, source_step=_TOWARDS, tensorboard=False)
    try:
        found[rows] = chosen.run(model, inside, Misclassification(label), starting_points=nearest)
    except ValueError:
        # A model whose answer depends on the batch may now see a starting point as its label, which foolbox refuses.
        found[rows] = nearest
    return found


def _past_rounding(model: Callable[[Tensor], Tensor], x: Tensor, found: Tensor, labels: Tensor, levels: float | None) -> Tensor:
    """The first of a few multiples of each change that is misclassified as the file will hold it; the plain change where none is.

    The nearest misclassified input is often less than one step of a byte away, and rounding would bring it back.
    """
    kept = _as_file(found, levels)
    rows = torch.arange(len(x), device=x.device)
    for times in _FARTHER:
        tried = _as_file(torch.lerp(x[rows], found[rows], times).clamp(0, 1), levels)
        away = model(tried).argmax(dim=1) != labels[rows]
        kept[rows[away]] = tried[away]
        rows = rows[~away]
        if not len(rows):
            break
    return kept


def _as_file(share: Tensor, levels: float | None) -> Tensor:
    return share.clone() if levels is None else (share * levels).round() / levels


def _like(values: Tensor, x: Tensor) -> Tensor:
    """[N] as [N, 1, 1, 1], the dimensions of ``x``."""
    return values.reshape(-1, *[1] * (x.ndim - 1))


class _Counted(nn.Module):
    """The same model; counts what is asked of it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._model = model
        self.calls = 0
        self.training = False  # of the wrapper alone: a gradient must be taken of the very model that is judged

    def forward(self, x: Tensor) -> Tensor:
        """Logits; a pass counts 1 a sample, and 2 more when a gradient comes back through it."""
        logits: Tensor = self._model(x).to(torch.float32)
        self.calls += len(x)
        if logits.requires_grad:
            logits.register_hook(self._backward)  # type: ignore[no-untyped-call]
        return logits

    def _backward(self, gradient: Tensor) -> None:
        self.calls += 2 * len(gradient)


class _Shares(nn.Module):
    """The same model for values from 0 to 1."""

    def __init__(self, model: nn.Module, low: float, extent: float) -> None:
        super().__init__()
        self._model = model
        self._low, self._extent = low, extent
        self.training = False

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self._model(x * self._extent + self._low)
        return logits
