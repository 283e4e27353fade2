"""Which layers there are to watch, and which are watched.

What is watched is what a module returns. For a convolution or a linear layer followed by an activation function that is the value *before*
the activation, which keeps apart what a ReLU would make equal; name the activation module itself to watch the value after it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal

from torch import Tensor, nn

from gate.coverage.attention import attention_modules, mlp_inputs
from gate.errors import ConfigError
from gate.models.head import find_head
from gate.models.trace import Call, kind_of, named_modules, trace, type_of
from gate.strict_yaml import nearest

__all__ = ["Layer", "Neuron", "choose_layers", "list_layers", "why_not_watched"]

FEW = 12  # models with at most this many hidden layers are watched whole
LAST = 8  # of others, so many from the end

_CORE = ("conv", "linear", "attention", "recurrent", "custom")
_OWN_AXIS = ("conv", "linear", "norm", "attention", "recurrent", "embedding")
_CHANNELS_FIRST = ("conv", "BatchNorm", "InstanceNorm", "GroupNorm", "LayerNorm2d", "Pool")

Neuron = Literal["mean", "max", "element"]
"""What one neuron's output is: the mean of a channel or feature over its positions, the largest there, or every single number."""


@dataclass(frozen=True)
class Layer:
    """A module of the model as coverage sees it."""

    name: str
    type: str  # dotted name of its class
    kind: str  # see gate.models.trace.kind_of; a hand-written attention block counts as attention
    order: int  # by the end of its first call; -1 where it does not run
    calls: int  # in one forward pass; see Recorder for what becomes of several
    shape: tuple[int, ...]  # of its output for one batch
    neurons: int  # 0 where it can't be watched
    batch_axis: int
    neuron_axis: int  # always behind the batch axis; channels of a convolution, else features
    head: bool  # gives the model's answer: the classifier head, and what comes after it with as many numbers
    why_not: str | None = None  # why it can't be watched
    neuron: Neuron = "mean"
    input_width: int = 0  # last axis of its first input, 0 where that is unknown

    @property
    def usable(self) -> bool:
        """Whether it can be watched."""
        return self.why_not is None


def list_layers(module: nn.Module, inputs: Tensor, outputs: int | None = None, *, neuron: Neuron = "mean") -> list[Layer]:
    """Every module but the model itself, in the order of execution; those that do not run stand at the end.

    The batch axis is the one as long as the batch. Where two are, a second pass with one sample less tells which. The neuron axis is that
    of channels for convolutions and of features for layers of tokens; a module without an own one (an activation function, a container)
    has that of the last layer before it whose output has the same shape.

    Args:
        inputs: a batch as the model takes it, from which up to three samples are run.
        outputs: columns of the model's raw output, from which the classifier head is found.
        neuron: what a neuron of a layer with several positions is.
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
    modules: dict[str, nn.Module] = {}
    for name, child in named_modules(module):
        if name:
            modules.setdefault(name, child)
    axes = _neuron_axes(modules, calls)
    layers = [
        _described(name, child, by_name.get(name, []), shorter.get(name, []), samples, order.get(name, -1), axes.get(name, 1), neuron)
        for name, child in modules.items()
    ]
    layers = sorted(layers, key=lambda layer: (layer.order < 0, layer.order))
    attention = attention_modules(layers)
    layers = [replace(layer, kind="attention") if layer.name in attention else layer for layer in layers]
    answer = next((layer for layer in layers if layer.name == head), None)
    if answer is None:
        return layers
    return [replace(layer, head=True) if layer is answer or _repeats(layer, answer) else layer for layer in layers]


def choose_layers(layers: Sequence[Layer], wanted: Literal["auto"] | Sequence[str] = "auto") -> list[Layer]:
    """The layers to watch, in the order of execution.

    ``auto`` takes the hidden layers that compute something: convolutions, linear and recurrent layers, and modules with parameters of their
    own; of transformers the output of each attention block (not the projections inside it) and the last linear layer of each MLP. All of
    them in a model of up to 12, else the last 8, in models without attention together with the layer normalisations among them, which see
    the sum that a residual block leaves. Never the classifier head or what follows it, never a layer of one neuron, and no batch
    normalisation, which only rescales the convolution before it. See ``why_not_watched``.

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


def why_not_watched(layers: Sequence[Layer]) -> dict[str, str | None]:
    """{layer: why ``auto`` leaves it out, None where it takes it}."""
    reasons: dict[str, str | None] = {layer.name: _unsuitable(layer) for layer in layers}
    attention = [layer.name for layer in layers if layer.kind == "attention"]
    for layer in layers:
        around = next((name for name in attention if layer.name.startswith(f"{name}.")), None)
        if around is not None and layer.usable:
            reasons[layer.name] = f"inside {around}"
    if attention:
        linear = [layer for layer in layers if layer.kind == "linear" and reasons[layer.name] is None]
        for first, last in mlp_inputs(linear, layers).items():
            reasons[first] = f"inside an MLP, whose output {last} gives"
    core = [layer for layer in layers if reasons[layer.name] is None]
    if len(core) > FEW:
        kept = core[-LAST:]
        for layer in core[:-LAST]:
            reasons[layer.name] = f"before the last {LAST}"
        if not attention:
            for layer in layers:
                if (
                    layer.order > kept[0].order
                    and _class_name(layer.type) in ("LayerNorm", "RMSNorm")
                    and layer.usable
                    and layer.neurons > 1
                ):
                    reasons[layer.name] = None
    return reasons


def _unsuitable(layer: Layer) -> str | None:
    if layer.why_not is not None:
        return layer.why_not
    if layer.head:
        return "the model's answer"
    if layer.neurons == 1:
        return "one neuron"
    if layer.kind == "container":
        return "holds other layers"
    if layer.kind == "norm":
        return "rescales what stands before it"
    if layer.kind == "embedding":
        return "an embedding"
    return None if layer.kind in _CORE else "computes nothing new"


def _automatic(layers: Sequence[Layer]) -> list[Layer]:
    reasons = why_not_watched(layers)
    chosen = [layer for layer in layers if reasons[layer.name] is None]
    if not chosen:
        others = ", ".join(layer.name for layer in layers if layer.usable)[:300]
        raise ConfigError(
            "The model has no hidden convolution, linear, attention or recurrent layer to watch beside its classifier head.",
            where="coverage.layers: auto",
            hint=f"Name what to watch in coverage.layers; this model has {others}."
            if others
            else "No module of this model can be watched.",
        )
    return chosen


def _repeats(layer: Layer, answer: Layer) -> bool:
    """Whether a layer behind the classifier head gives its numbers again: a pool, a softmax, a container that ends in it."""
    return layer.order > answer.order and layer.kind in ("container", "function") and layer.neurons == answer.neurons


def _described(
    name: str,
    module: nn.Module,
    calls: Sequence[Call],
    shorter: Sequence[Call],
    samples: int,
    order: int,
    neuron_axis: int,
    neuron: Neuron,
) -> Layer:
    shape = calls[0].output_shape if calls else None
    why_not, batch_axis, neurons = None, 0, 0
    if not calls:
        why_not = "it does not run in a forward pass"
    elif shape is None or not calls[0].floating:
        why_not = "it returns no floating tensor"
    elif len(shape) < 2:
        why_not = f"its output {list(shape)} has no axis of neurons"
    elif any(call.ragged for call in calls) and neuron == "element":
        why_not = "its samples have different numbers of positions, so its elements are not the same neurons"
    else:
        found = 0 if calls[0].ragged else _batch_axis(shape, shorter[0].output_shape if shorter else None, samples, neuron_axis)
        batch_axis = found or 0
        widths = {_width(call.output_shape, batch_axis, neuron_axis, neuron) for call in calls}
        if found is None:
            why_not = f"no axis of its output {list(shape)} is the batch of {samples}"
        elif len(widths) > 1:
            why_not = f"it is called {len(calls)} times with different numbers of neurons ({', '.join(map(str, sorted(widths)))})"
        else:
            neurons = widths.pop()
            why_not = None if neurons else "its output is empty"
    given = calls[0].input_shape if calls else None
    return Layer(
        name,
        type_of(module),
        kind_of(module),
        order,
        len(calls),
        shape or (),
        neurons,
        batch_axis,
        neuron_axis,
        False,
        why_not,
        neuron,
        given[-1] if given else 0,
    )


def _width(shape: tuple[int, ...] | None, batch_axis: int, neuron_axis: int, neuron: Neuron) -> int:
    """Neurons of an output; 0 where it has no such axis."""
    if shape is None or len(shape) <= neuron_axis:
        return 0
    return shape[neuron_axis] if neuron != "element" else math.prod(side for axis, side in enumerate(shape) if axis != batch_axis)


def _neuron_axes(modules: Mapping[str, nn.Module], calls: Sequence[Call]) -> dict[str, int]:
    """{module: neuron axis of its first call}."""
    axes: dict[str, int] = {}
    by_shape: dict[tuple[int, ...], int] = {}
    for call in calls:
        shape = call.output_shape
        if shape is None or len(shape) < 2 or not call.name:
            continue
        module = modules[call.name]
        kind = kind_of(module)
        axis = _neuron_axis(module, kind, type_of(module), shape, by_shape)
        axes.setdefault(call.name, axis)
        if kind in _OWN_AXIS:
            by_shape[shape] = axis
    return axes


def _neuron_axis(module: nn.Module, kind: str, typed: str, shape: tuple[int, ...], known: Mapping[tuple[int, ...], int]) -> int:
    last = len(shape) - 1
    name = _class_name(typed)
    if kind == "conv" or any(word in name for word in _CHANNELS_FIRST):
        return 1
    if kind == "norm":
        # A layer normalisation over whole pictures has weights of that shape, and its first axis is that of the channels.
        weight = next((part for part in module.parameters(recurse=False)), None)
        return last if weight is None or weight.ndim < 3 else max(1, len(shape) - weight.ndim)
    if kind in _OWN_AXIS:
        return last
    if kind == "custom":
        # One number for each neuron, as a scale or an offset is.
        widths = {len(part) for part in module.parameters(recurse=False) if part.ndim == 1}
        fitting = [axis for axis in range(1, last + 1) if shape[axis] in widths]
        if len(fitting) == 1:
            return fitting[0]
    return known.get(shape, last if len(shape) <= 3 else 1)


def _batch_axis(shape: tuple[int, ...], shorter: tuple[int, ...] | None, samples: int, neuron_axis: int) -> int | None:
    fitting = [axis for axis in (0, 1) if axis != neuron_axis and axis < len(shape) and shape[axis] == samples]
    if len(fitting) > 1 and shorter is not None and len(shorter) == len(shape):
        fitting = [axis for axis in fitting if shorter[axis] == samples - 1]
    return fitting[0] if fitting else None


def _class_name(typed: str) -> str:
    return typed.rpartition(".")[2]
