"""The model as torch.compile makes it, for as long as it answers and is watched like the plain one. Runs in the worker.

Hooks that are registered before a model is compiled are traced with it: what they record comes out of the compiled program. Whether it
does, and whether it is what the plain model gives, is tried out before the compiled model is used, since a model may do what the compiler
can't follow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from gate.coverage.recorder import Recorder
from gate.models.select import first_tensor

__all__ = ["BACKEND", "Compiled"]

BACKEND = "inductor"
# How far apart the two may be, as a share of the layer's largest number: the compiler joins operations, which rounds otherwise.
_TOLERANCE = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
_LONGEST = 300  # characters of a reason


class Compiled:
    """Runs the compiled model, or the plain one once that has become necessary; ``state`` says which and why.

    Args:
        module: the model, with the recorder's hooks on it.
        recorder: what watches it.
        backend: of ``torch.compile``, a name or a function.
    """

    def __init__(self, module: nn.Module, recorder: Recorder, backend: str | Callable[..., Any] = BACKEND) -> None:
        torch._dynamo.reset()
        # Beyond its limit of shapes the compiler would go on with the plain model without a word.
        torch._dynamo.config.fail_on_recompile_limit_hit = True
        self._module = module
        self._recorder = recorder
        self._program: Callable[[Tensor], Any] | None = torch.compile(module, backend=backend)
        self.state = backend if isinstance(backend, str) else "a function"

    def __call__(self, inputs: Tensor) -> Any:
        """One forward pass without gradients, inside of the recorder's ``recording``. Raises what the plain model raises."""
        if self._program is not None:
            try:
                return self._compiled(inputs)
            except torch.OutOfMemoryError:
                raise
            except Exception as error:
                reason = _said(error)
            with self._recorder.recording():  # what the broken pass recorded is forgotten
                answer = self._module(inputs)
            self._give_up(f"the compiled model raised {reason}")
            return answer
        return self._module(inputs)

    def compare(self, inputs: Tensor, dtype: torch.dtype) -> None:
        """Gives the compiled model up where it does not answer as the plain one does. Costs two forward passes.

        Args:
            inputs: a small batch.
            dtype: that the model computes in.
        """
        if self._program is None:
            return
        with self._recorder.recording():
            expected = first_tensor(self._module(inputs))
        wanted = self._recorder.activations(partial=True)
        try:
            with self._recorder.recording():
                answer = first_tensor(self._compiled(inputs))
            found = self._recorder.activations(partial=True)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            self._give_up(f"the model can't be compiled: {_said(error)}")
            return
        if list(found) != list(wanted):
            lost = [name for name in wanted if name not in found]
            self._give_up(f"compiled, the layers {', '.join(lost[:3])} are not recorded")
            return
        pairs = [("the output", expected, answer), *((f"the layer {name}", wanted[name], found[name]) for name in wanted)]
        for name, one, other in pairs:
            if one is None or other is None or not _alike(one, other, _TOLERANCE[dtype]):
                self._give_up(f"compiled, {name} differs from the plain model's")
                return

    def _compiled(self, inputs: Tensor) -> Any:
        assert self._program is not None
        torch._dynamo.maybe_mark_dynamic(inputs, 0)  # batches come in many sizes
        return self._program(inputs)

    def _give_up(self, reason: str) -> None:
        self._program = None
        self.state = f"off: {reason}"


def _alike(one: Tensor, other: Tensor, tolerance: float) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    usual = one[torch.isfinite(one)].abs().to(torch.float64)
    scale = float(usual.max()) if usual.numel() else 0.0
    return torch.allclose(one.double(), other.double(), rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def _said(error: Exception) -> str:
    text = " ".join(str(error).split("\n\n")[0].split())  # behind an empty line the compiler gives advice
    return f"{type(error).__name__}: {text}"[:_LONGEST]
