"""Where in a picture the model's answers come from: which method fits the model, and Grad-CAM++. Runs in the worker.

Chattopadhay et al., "Grad-CAM++: Improved Visual Explanations for Deep Convolutional Networks", 2018, by torchcam.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torchcam.methods import GradCAMpp

from gate.campaign.attention_heat import attention_over_tokens, rollout
from gate.campaign.occlusion import occlusion
from gate.coverage.layers import Layer, list_layers
from gate.models.trace import named_modules

__all__ = ["HeatMaps", "Sight", "find_sight", "heat_maps"]

_PICTURE = 4  # axes of an output that has places: batch, channels, rows, columns


@dataclass(frozen=True)
class Sight:
    """What of a model can see places."""

    target: str | None  # the last layer whose output has rows and columns
    module: nn.Module | None  # it
    channels_last: bool
    attention: tuple[nn.MultiheadAttention, ...]  # whose weights can be read
    last_attention: str | None


@dataclass(frozen=True)
class HeatMaps:
    """Of a few pictures."""

    method: str  # grad_cam_pp | rollout | occlusion
    layer: str | None  # looked at; None for occlusion
    maps: Tensor  # float32 [N, h, w] >= 0, in the resolution of the method


def find_sight(module: nn.Module, inputs: Tensor, outputs: int) -> Sight:
    """Looks for what sees places.

    The last layer counts that gives one tensor with rows and columns, more than one place in all, as an activation or a block does; of one
    that is called several times, its last call. But not where tokens attend to each other after it, as after the patches of a transformer:
    what it shows is mixed with everything later.

    Args:
        module: the model.
        inputs: a batch as it takes it.
        outputs: columns of its raw output.
    """
    layers = {layer.name: layer for layer in list_layers(module, inputs, outputs)}
    ends = _last_calls(module, inputs)
    seeing = [layers[name] for name, shape in ends.items() if shape is not None and _sees(layers[name], shape, len(inputs))]
    last = seeing[-1] if seeing else None
    if last is not None:
        order = {name: place for place, name in enumerate(ends)}
        attending = [name for name, layer in layers.items() if layer.kind == "attention" and name in order]
        if any(order[name] > order[last.name] for name in attending):
            last = None
    found = attention_over_tokens(module)
    return Sight(
        None if last is None else last.name,
        None if last is None else [child for name, child in named_modules(module) if name == last.name][-1],
        last is not None and last.neuron_axis == _PICTURE - 1,
        tuple(child for _, child in found),
        found[-1][0] if found else None,
    )


def heat_maps(
    module: nn.Module,
    sight: Sight,
    logits: Callable[[Tensor], Tensor],
    parts: Callable[[int, Callable[[slice], Any]], list[Any]],
    x: Tensor,
    classes: Tensor,
    *,
    gradients: bool,
    grid: int,
    batch: int,
) -> HeatMaps | None:
    """By the first method that fits and finds something: Grad-CAM++, attention rollout, occlusion. None where none finds anything.

    Args:
        module: the model.
        sight: of it.
        logits: one pass: file values [N, H, W, C] -> float64 [N, C], with a graph where gradients are on.
        parts: runs work on the rows of a batch, see ``gate.campaign.halving``.
        x: file values [N, H, W, C].
        classes: int64 [N]: of each picture, the class whose place is looked for.
        gradients: whether the model has usable ones.
        grid: squares along each side that occlusion covers.
        batch: pictures in one pass.
    """
    if sight.module is not None and gradients:
        maps = torch.cat(parts(len(x), lambda rows: _grad_cam_pp(module, sight, logits, x[rows], classes[rows])))
        if _says_something(maps):
            return HeatMaps("grad_cam_pp", sight.target, maps)
    if sight.attention:
        rolled = parts(len(x), lambda rows: rollout(sight.attention, logits, x[rows]))
        if all(one is not None and _says_something(one) for one in rolled):
            return HeatMaps("rollout", sight.last_attention, torch.cat(rolled))
    maps = occlusion(logits, parts, x, classes, grid=grid, batch=batch)
    return HeatMaps("occlusion", None, maps) if _says_something(maps) else None


class _GradCAMpp(GradCAMpp):  # type: ignore[misc,unused-ignore]
    """torchcam's, with the weights of the paper.

    In torchcam 0.5 the division by the paper's denominator acts on a copy and is lost, which leaves the cube of the gradient as the weight.
    """

    def _get_weights(self, class_idx: int | list[int], scores: Tensor, eps: float = 0.0, **kwargs: Any) -> list[Tensor]:
        """[N, channels] for each layer: sum over places of alpha * ReLU(gradient), equation 19 of the paper."""
        self._backprop(scores, class_idx, **kwargs)
        found = []
        for values, slope in zip(self.hook_a, self.hook_g, strict=True):
            values, slope = values.to(torch.float64), slope.to(torch.float64)  # cubes of small gradients would vanish
            square = slope.square()
            below = eps + 2 * square + (values * square * slope).flatten(2).sum(2)[..., None, None]
            alpha = torch.where(square > 0, square / torch.where(below != 0, below, 1.0), 0.0)
            found.append((alpha * slope.relu()).flatten(2).sum(2))
        return found


def _grad_cam_pp(module: nn.Module, sight: Sight, logits: Callable[[Tensor], Tensor], x: Tensor, classes: Tensor) -> Tensor:
    """float32 [N, h, w], from one pass forward and back."""
    turned = (lambda values: values.permute(0, 3, 1, 2)) if sight.channels_last else None
    with _GradCAMpp(module, sight.module, reshape_transform=turned) as cam, torch.enable_grad():
        scores = logits(x.to(torch.float32).requires_grad_(True))
        (maps,) = cam(classes.tolist(), scores, normalized=False)
    return torch.nan_to_num(maps.to(torch.float32), nan=0.0, posinf=0.0, neginf=0.0).clamp(min=0)


def _says_something(maps: Tensor) -> bool:
    return bool(torch.isfinite(maps).all() and (maps.flatten(1).amax(1) > 0).all())


def _sees(layer: Layer, shape: tuple[int, ...], samples: int) -> bool:
    if layer.head or len(shape) != _PICTURE or shape[0] != samples or layer.neuron_axis not in (1, _PICTURE - 1):
        return False
    rows, columns = shape[1:3] if layer.neuron_axis == _PICTURE - 1 else shape[2:4]
    return rows * columns > 1


def _last_calls(module: nn.Module, inputs: Tensor) -> dict[str, tuple[int, ...] | None]:
    """Shapes of what modules returned last, in that order; None where it was not one floating tensor."""
    found: dict[str, tuple[int, ...] | None] = {}

    def watch(name: str) -> Any:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            plain = isinstance(output, Tensor) and not output.is_nested and output.is_floating_point()
            found.pop(name, None)
            found[name] = tuple(output.shape) if plain else None

        return hook

    handles = [child.register_forward_hook(watch(name)) for name, child in named_modules(module) if name]
    try:
        with torch.no_grad():
            module(inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found
