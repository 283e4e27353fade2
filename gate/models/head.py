"""The classifier head, and the penultimate features: what goes into it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from gate.errors import ModelError
from gate.models.select import first_tensor
from gate.models.trace import Call, kind_of, named_modules

__all__ = ["FeatureTap", "find_head"]


def find_head(module: nn.Module, calls: Sequence[Call], outputs: int) -> str | None:
    """The name of the last linear layer or 1x1 convolution that ran and gives as many numbers as the model does.

    Args:
        calls: of ``trace``.
        outputs: columns of the model's raw output.

    Returns:
        None where there is none, as in a model that computes its scores outside of any module.
    """
    modules = dict(named_modules(module))
    for call in reversed(calls):
        shape = call.output_shape
        if not call.name or shape is None or len(shape) < 2:
            continue
        kind = kind_of(modules[call.name])
        if kind == "linear" and shape[-1] == outputs:
            return call.name
        if kind == "conv" and shape[1] == outputs and _is_pointwise(modules[call.name]):
            return call.name
    return None


class FeatureTap:
    """Records the input of the head. The hook is registered once and idle outside of ``recording``.

    Args:
        module: the model.
        head: a name that ``find_head`` gave.

    Raises:
        ModelError: no such module.
    """

    def __init__(self, module: nn.Module, head: str) -> None:
        self.head = head
        self._taken: Tensor | None = None
        self._on = False
        self._grad = False
        self._handles = []
        for name, child in named_modules(module):
            if name == head:
                self._pointwise = kind_of(child) == "conv"
                self._handles.append(child.register_forward_pre_hook(self._hook, with_kwargs=True))
        if not self._handles:
            raise ModelError(f"The model has no module {head!r}.", where="the classifier head")

    @contextmanager
    def recording(self, *, grad: bool = False) -> Iterator[FeatureTap]:
        """While open, the next forward passes are recorded; the last one counts. With ``grad`` the features keep their graph."""
        self._taken, self._on, self._grad = None, True, grad
        try:
            yield self
        finally:
            self._on = False

    @property
    def features(self) -> Tensor:
        """float32 [N, F]: the head's input, averaged over positions (of a 1x1 convolution: pixels; of a linear layer: tokens).

        Raises:
            ModelError: the head did not run.
        """
        if self._taken is None:
            raise ModelError(f"The classifier head {self.head!r} did not run in this forward pass.", where="the model")
        return self._taken

    def close(self) -> None:
        """Removes the hook."""
        for handle in self._handles:
            handle.remove()

    def _hook(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not self._on:
            return
        given = first_tensor([*args, *kwargs.values()])
        if given is None:
            return
        given = given if self._grad else given.detach()
        last = given.ndim - 1
        positions = tuple(range(2, given.ndim)) if self._pointwise else tuple(range(1, last))
        self._taken = given.mean(dim=positions, dtype=torch.float32) if positions else given.to(torch.float32, copy=True)


def _is_pointwise(module: nn.Module) -> bool:
    weight = next((p for name, p in module.named_parameters(recurse=False) if name == "weight"), None)
    return weight is not None and all(side == 1 for side in weight.shape[2:])
