"""Where a transformer's attention blocks and MLPs are, told from names and shapes: most are written by hand, each in its own way."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Protocol

__all__ = ["attention_modules", "mlp_inputs"]

_ATTENTION = re.compile(r"attention|attn|(^|_)mha(_|$)", re.IGNORECASE)
_MORE_THAN_THAT = re.compile(r"block|layer|encoder|decoder|stage|former|pool", re.IGNORECASE)
_FUSED = frozenset({"qkv", "kv", "qkv_proj", "kv_proj", "in_proj", "to_qkv", "to_kv", "c_attn", "wqkv", "query_key_value"})
_PROJECTIONS = frozenset(
    {f"{part}{end}" for part in ("q", "k", "v", "query", "key", "value") for end in ("", "_proj", "_lin", "_linear")}
    | {f"{start}{part}" for start in ("to_", "w", "w_") for part in "qkv"}
)
_MATRICES = ("linear", "custom", "conv", "attention")


class _Layer(Protocol):
    """What is needed of ``gate.coverage.layers.Layer``."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def order(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def neuron_axis(self) -> int: ...
    @property
    def input_width(self) -> int: ...


def attention_modules(layers: Sequence[_Layer]) -> set[str]:
    """Names of the outermost modules that are attention over tokens: ``nn.MultiheadAttention``, and hand-written blocks.

    A hand-written one is a container called so (by its class or its own name), or with projections to queries, keys and values as its
    children, that gives tokens with the features last. One with an MLP inside is a whole transformer block and does not count, nor does the
    attention over channels that convolutional networks have.

    Args:
        layers: of one model; their order does not matter.
    """
    found: set[str] = set()
    for layer in sorted(layers, key=lambda one: one.name.count(".")):
        if layer.order < 0 or any(layer.name.startswith(f"{name}.") for name in found):
            continue
        if layer.kind == "attention" or (layer.kind == "container" and _is_attention(layer, layers)):
            found.add(layer.name)
    return found


def mlp_inputs(linear: Sequence[_Layer], layers: Sequence[_Layer]) -> dict[str, str]:
    """{linear layer inside an MLP: the one which brings its width back}.

    The two stand between the same attention blocks: the first widens (or narrows) what it gets, the second undoes it.

    Args:
        linear: the linear layers outside of attention blocks.
        layers: all layers.
    """
    attention = [layer.order for layer in layers if layer.kind == "attention"]
    found: dict[str, str] = {}
    for first in linear:
        until = min((order for order in attention if order > first.order), default=math.inf)
        last = next((other for other in linear if first.order < other.order < until and _undoes(first, other)), None)
        if last is not None:
            found[first.name] = last.name
    return found


def _is_attention(layer: _Layer, layers: Sequence[_Layer]) -> bool:
    if len(layer.shape) < 3 or layer.neuron_axis != len(layer.shape) - 1:
        return False
    inside = [other for other in layers if other.name.startswith(f"{layer.name}.")]
    if not any(other.kind in _MATRICES for other in inside) or _holds_mlp(inside):
        return False
    children = {_last(other.name).lower() for other in inside if other.name.count(".") == layer.name.count(".") + 1}
    if children & _FUSED or len(children & _PROJECTIONS) > 1:
        return True
    class_name = _last(layer.type)
    called = _ATTENTION.search(class_name) or _ATTENTION.search(_last(layer.name))
    return bool(called) and not _MORE_THAN_THAT.search(class_name)


def _holds_mlp(inside: Sequence[_Layer]) -> bool:
    linear = [layer for layer in inside if layer.kind == "linear" and layer.order >= 0]
    firsts = [layer for layer in linear if _last(layer.name).lower() not in _FUSED | _PROJECTIONS]
    return any(
        first.input_width != first.shape[-1] and first.order < other.order and _undoes(first, other) for first in firsts for other in linear
    )


def _undoes(first: _Layer, last: _Layer) -> bool:
    return bool(first.shape and last.shape) and first.input_width == last.shape[-1] > 0 and first.shape[-1] == last.input_width


def _last(name: str) -> str:
    return name.rpartition(".")[2]
