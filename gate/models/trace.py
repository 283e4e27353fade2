"""What runs when a model runs: its modules in the order of execution, with the shapes that went in and came out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.export.unflatten import InterpreterModule, UnflattenedModule

from gate.models.ragged import Ragged, first_output
from gate.models.select import first_tensor

__all__ = ["Call", "kind_of", "named_modules", "trace", "type_of"]

_AT = re.compile(r"@\d+(?=\.|$)")

_KINDS: tuple[tuple[str, tuple[type[nn.Module], ...]], ...] = (
    ("conv", (nn.modules.conv._ConvNd,)),
    ("linear", (nn.Linear, nn.Bilinear)),
    ("attention", (nn.MultiheadAttention,)),
    ("recurrent", (nn.RNNBase, nn.RNNCellBase)),
    (
        "norm",
        (
            nn.modules.batchnorm._BatchNorm,
            nn.modules.instancenorm._InstanceNorm,
            nn.LayerNorm,
            nn.GroupNorm,
            nn.RMSNorm,
            nn.LocalResponseNorm,
        ),
    ),
    ("embedding", (nn.Embedding, nn.EmbeddingBag)),
)
_BY_TYPE_NAME = {
    f"{c.__module__}.{c.__qualname__}": kind
    for kind, bases in _KINDS
    for c in vars(nn).values()
    if isinstance(c, type) and issubclass(c, bases)
}


@dataclass(frozen=True)
class Call:
    """One module that was called."""

    name: str  # as in named_modules of this file; "" is the model itself
    input_shape: tuple[int, ...] | None  # of its first tensor argument
    output_shape: tuple[int, ...] | None  # of the first tensor it returned; of sequences, [N, longest, ...]
    floating: bool  # whether that one holds floating numbers
    ragged: bool = False  # whether it holds sequences of different lengths, see gate.models.ragged


def named_modules(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Every module with its name.

    An exported program gives a module that is called twice a second copy, ``name@1``: it gets the name of the first, so that names agree
    with those of the model it was exported from. A name can therefore come more than once.
    """
    exported = isinstance(module, UnflattenedModule)
    for name, child in module.named_modules():
        yield (_AT.sub("", name) if exported else name), child


def type_of(module: nn.Module) -> str:
    """The dotted type of a module; in an exported program, of the module it was exported from."""
    if isinstance(module, (InterpreterModule, UnflattenedModule)):
        return module.type_name() or "exported"
    return f"{type(module).__module__}.{type(module).__qualname__}"


def kind_of(module: nn.Module) -> str:
    """conv | linear | attention | recurrent | norm | embedding; custom: another one with parameters of its own and no modules inside;
    container: another one with modules inside; function: the rest (activations, pools, dropout).
    """
    for kind, bases in _KINDS:
        if isinstance(module, bases):
            return kind
    if isinstance(module, InterpreterModule):
        told = _BY_TYPE_NAME.get(module.type_name() or "") or _kind_by_operators(module)
        if told:
            return told
    if any(True for _ in module.children()):
        return "container"
    return "custom" if any(True for _ in module.parameters(recurse=False)) else "function"


def _kind_by_operators(module: InterpreterModule) -> str | None:
    """For a subclass whose type the name alone does not tell: what its graph computes, where that is one such operator.

    It may have modules inside, such as the padding of a convolution, as long as all parameters are its own.
    """
    if any(True for child in module.children() for _ in child.parameters()):
        return None
    found = set()
    for node in module.graph.nodes:
        if node.op == "call_function":
            operator = str(node.target).removeprefix("aten.").split(".")[0]
            if operator in ("conv1d", "conv2d", "conv3d", "convolution"):
                found.add("conv")
            elif operator == "linear":
                found.add("linear")
    return found.pop() if len(found) == 1 else None


def trace(module: nn.Module, inputs: Tensor) -> list[Call]:
    """Runs the model once, without gradients, and returns every call in the order in which the calls ended.

    The model's mode stays as it is; one in train mode updates its running statistics as it does in any forward pass.

    Args:
        inputs: one batch, as the model takes it.
    """
    calls: list[Call] = []

    def watch(name: str) -> Any:
        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            given = first_tensor([*args, *kwargs.values()])
            found = first_output(output)
            got = found.values if isinstance(found, Ragged) else found
            calls.append(
                Call(
                    name,
                    None if given is None or given.is_nested else tuple(given.shape),
                    None if got is None else tuple(got.shape),
                    got is not None and got.is_floating_point(),
                    isinstance(found, Ragged),
                )
            )

        return hook

    handles = [child.register_forward_hook(watch(name), with_kwargs=True) for name, child in named_modules(module)]
    try:
        with torch.no_grad():
            module(inputs)
    finally:
        for handle in handles:
            handle.remove()
    return calls
