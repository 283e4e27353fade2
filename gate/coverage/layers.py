"""Which layers there are to watch, and which are watched.

What is watched is what a module returns. For a convolution or a linear layer followed by an activation function that is the value *before*
the activation, which keeps apart what a ReLU would make equal; name the activation module itself to watch the value after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from torch import Tensor, nn

from gate.errors import ConfigError
from gate.models.head import find_head
from gate.models.trace import Call, kind_of, named_modules, trace, type_of
from gate.strict_yaml import nearest

__all__ = ["Layer", "choose_layers", "list_layers"]

FEW = 12  # models with at most this many hidden layers are watched whole
LAST = 8  # of others, so many from the end

_CORE = ("conv", "linear", "attention", "recurrent", "custom")
_CHANNELS_FIRST = ("conv", "BatchNorm", "InstanceNorm", "GroupNorm", "LayerNorm2d", "Pool")


@dataclass(frozen=True)
class Layer:
    """A module of the model as coverage sees it."""

    name: str
    type: str  # dotted name of its class
    kind: str  # see gate.models.trace.kind_of
    order: int  # by the end of its first call; -1 where it does not run
    calls: int  # in one forward pass; the neurons' outputs are averaged over them
    shape: tuple[int, ...]  # of its output for one batch
    neurons: int  # 0 where it can't be watched
    batch_axis: int
    neuron_axis: int  # always behind the batch axis; channels of a convolution, else features
    head: bool  # the classifier head
    why_not: str | None = None  # why it can't be watched

    @property
    def usable(self) -> bool:
        """Whether it can be watched."""
        return self.why_not is None


def list_layers(module: nn.Module, inputs: Tensor, outputs: int | None = None) -> list[Layer]:
    """Every module but the model itself, in the order of execution; those that do not run stand at the end.

    The batch axis is the one as long as the batch. Where two are, a second pass with one sample less tells which.

    Args:
        inputs: a batch as the model takes it, from which up to three samples are run.
        outputs: columns of the model's raw output, from which the classifier head is found.
    """
    samples = min(len(inputs), 3)
    calls = trace(module, inputs[:samples])
    head = None if outputs is None else find_head(module, calls, outputs)
    by_name: dict[str, list[Call]] = {}
    for call in calls:
        by_name.setdefault(call.name, []).append(call)
    shorter: dict[str, list[Call]] = {}
    if samples > 1 and any(call.output_shape is not None and call.output_shape[:2] == (samples, samples) for call in calls):
        for call in trace(module, inputs[: samples - 1]):
            shorter.setdefault(call.name, []).append(call)
    order = {name: position for position, name in enumerate(by_name)}
    layers = {}
    for name, child in named_modules(module):
        if name and name not in layers:
            layers[name] = _described(name, child, by_name.get(name, []), shorter.get(name, []), samples, order.get(name, -1), name == head)
    return sorted(layers.values(), key=lambda layer: (layer.order < 0, layer.order))


def choose_layers(layers: Sequence[Layer], wanted: Literal["auto"] | Sequence[str] = "auto") -> list[Layer]:
    """The layers to watch, in the order of execution.

    ``auto`` takes the hidden layers that compute something (convolutions, linear, attention and recurrent layers, and modules with
    parameters of their own): all of them in a model of up to 12, else the last 8 together with the layer normalisations among them, which
    see the sum that a residual block leaves. Never the classifier head, never a layer of one neuron, and no batch normalisation, which only
    rescales the convolution before it.

    A name takes that module, whatever it is. A pattern with ``*`` takes every matching module that is no container.

    Raises:
        ConfigError: an unknown name, with the nearest known one; a pattern without a match; a module that can't be watched, with the
            reason; or a model without hidden layers.
    """
    if isinstance(wanted, str):
        return _automatic(layers)
    known = {layer.name: layer for layer in layers}
    chosen: set[str] = set()
    for name in wanted:
        if name in known:
            layer = known[name]
            if not layer.usable:
                raise ConfigError(
                    f"The layer {name!r} can't be watched: {layer.why_not}.",
                    where="coverage.layers",
                    hint="Choose another; see `gate layers`.",
                )
            chosen.add(name)
            continue
        matching = [layer.name for layer in layers if fnmatchcase(layer.name, name) and layer.usable and layer.kind != "container"]
        if not matching:
            close = nearest(name, known)
            raise ConfigError(
                f"No layer that can be watched matches {name!r}." if any(c in name for c in "*?[") else f"The model has no layer {name!r}.",
                where="coverage.layers",
                hint=f"Did you mean {close!r}?" if close else f"Known layers: {', '.join(list(known)[:20])}.",
            )
        chosen.update(matching)
    return [layer for layer in layers if layer.name in chosen]


def _automatic(layers: Sequence[Layer]) -> list[Layer]:
    hidden = [layer for layer in layers if layer.usable and not layer.head and layer.neurons > 1]
    core = [layer for layer in hidden if layer.kind in _CORE]
    if not core:
        others = ", ".join(layer.name for layer in layers if layer.usable)[:300]
        raise ConfigError(
            "The model has no hidden convolution, linear, attention or recurrent layer to watch beside its classifier head.",
            where="coverage.layers: auto",
            hint=f"Name what to watch in coverage.layers; this model has {others}."
            if others
            else "No module of this model can be watched.",
        )
    if len(core) <= FEW:
        return core
    kept = core[-LAST:]
    norms = [layer for layer in hidden if layer.order > kept[0].order and _class_name(layer.type) in ("LayerNorm", "RMSNorm")]
    return sorted([*kept, *norms], key=lambda layer: layer.order)


def _described(name: str, module: nn.Module, calls: Sequence[Call], shorter: Sequence[Call], samples: int, order: int, head: bool) -> Layer:
    kind, typed = kind_of(module), type_of(module)
    shape = calls[0].output_shape if calls else None
    why_not, batch_axis, neuron_axis = None, 0, 1
    if not calls:
        why_not = "it does not run in a forward pass"
    elif shape is None or not calls[0].floating:
        why_not = "it returns no floating tensor"
    elif len(shape) < 2:
        why_not = f"its output {list(shape)} has no axis of neurons"
    else:
        neuron_axis = _neuron_axis(kind, typed, len(shape))
        found = _batch_axis(shape, shorter[0].output_shape if shorter else None, samples, neuron_axis)
        widths = {call.output_shape[neuron_axis] if call.output_shape and len(call.output_shape) > neuron_axis else 0 for call in calls}
        if found is None:
            why_not = f"no axis of its output {list(shape)} is the batch of {samples}"
        elif len(widths) > 1:
            why_not = f"it is called {len(calls)} times with different numbers of neurons ({', '.join(map(str, sorted(widths)))})"
        else:
            batch_axis = found
    neurons = shape[neuron_axis] if shape is not None and why_not is None else 0
    return Layer(name, typed, kind, order, len(calls), shape or (), neurons, batch_axis, neuron_axis, head, why_not)


def _neuron_axis(kind: str, typed: str, dimensions: int) -> int:
    name = _class_name(typed)
    if kind == "conv" or any(word in name for word in _CHANNELS_FIRST):
        return 1
    if kind in ("linear", "norm", "attention", "recurrent", "embedding") or dimensions <= 3:
        return dimensions - 1
    return 1


def _batch_axis(shape: tuple[int, ...], shorter: tuple[int, ...] | None, samples: int, neuron_axis: int) -> int | None:
    fitting = [axis for axis in (0, 1) if axis != neuron_axis and axis < len(shape) and shape[axis] == samples]
    if len(fitting) > 1 and shorter is not None and len(shorter) == len(shape):
        fitting = [axis for axis in fitting if shorter[axis] == samples - 1]
    return fitting[0] if fitting else None


def _class_name(typed: str) -> str:
    return typed.rpartition(".")[2]
