"""How the worker runs the model: in which precision, compiled or plain, and in how large pieces.

There are two ways. The *exact* one, in full precision and with the plain model, is what judging, preflight and confirmation use. The
*search's* one may use mixed precision and a compiled model; the ranges that coverage is measured against and the seeds' coverage come from
it too, so that they can be compared. Without these settings the two are the same.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from gate.campaign.compiled import Compiled
from gate.campaign.halving import Halving
from gate.campaign.kept import KeptPasses
from gate.coverage.recorder import Recorder
from gate.errors import ConfigError, ModelError
from gate.models.differentiable import Differentiable
from gate.models.outputs import OutputKind, check
from gate.models.select import Key, choose_key, pick

__all__ = ["Forward", "ModelRaised"]

T = TypeVar("T")

_DTYPES = {"off": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class ModelRaised(Exception):
    """The model's own code raised an exception; the text is its."""


class Forward:
    """Owns the model's calls and what they count. Lives in the worker.

    Args:
        module: the model, on its device.
        device: the model's.
        key: ``output.key`` of the settings.
        classes: number of classes, if known.
        amp: off | bf16 | fp16: precision of the search's way.
        compiled: whether the search's way runs a compiled model.

    Raises:
        ConfigError: this device does not compute in that precision.
    """

    def __init__(
        self,
        module: nn.Module,
        device: torch.device,
        *,
        key: Key = None,
        classes: int | None = None,
        amp: str = "off",
        compiled: bool = False,
    ) -> None:
        _supported(device, amp)
        self.module = module
        self.device = device
        self.model_calls = 0
        self.last_input: str | None = None
        self.key: Key = None
        self._key_chosen = False
        self._wanted_key, self._classes = key, classes
        self._dtype = _DTYPES[amp]
        self._wants_compiled = compiled
        self._compiled: Compiled | None = None
        self._forward = Halving(device, self._release)
        self._backward = Halving(device, self._release)
        self.kept = KeptPasses()

    def around(self, wrapper: nn.Module) -> Forward:
        """The same way of running a wrapper around the model that returns the chosen output alone; not compiled, with a count of its own.

        To be called once the model has answered.
        """
        other = copy.copy(self)
        other.module, other.key, other.model_calls = wrapper, None, 0
        other._compiled, other.kept = None, KeptPasses()
        other._forward, other._backward = Halving(self.device, other._release), Halving(self.device, other._release)
        other._forward.size, other._backward.size = self._forward.size, self._backward.size
        return other

    def state(self) -> dict[str, Any]:
        """How it runs by now: ``compile`` (off, the compiler, or off and why), ``micro_batch`` and ``gradient_batch`` (the most samples at
        once in a forward pass and with gradients; None: whole batches have fitted)."""
        return {
            "compile": "off" if self._compiled is None else self._compiled.state,
            "micro_batch": self._forward.size,
            "gradient_batch": self._backward.size,
        }

    def in_parts(self, count: int, work: Callable[[slice], T]) -> list[T]:
        """``work`` on the rows of a batch, all at once where the device's memory is large enough; see ``Halving.parts``.

        Every way of running the model that looks at more than the answer, such as hooks, must run and look inside of ``work``.
        """
        return self._forward.parts(count, work)

    def with_gradients(self, count: int, work: Callable[[slice], T]) -> list[T]:
        """The same for work that takes gradients of the model for the search.

        In bf16 it runs in the search's precision. In fp16 it runs in full precision: without scaling, small gradients vanish there.
        """

        def mixed(rows: slice) -> T:
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self._dtype is torch.bfloat16):
                return work(rows)

        return self._backward.parts(count, mixed)

    def answer(self, x: Tensor, preprocess: nn.Module) -> Tensor:
        """Raw outputs of a batch the exact way: the chosen output, float32 [N, K].

        Args:
            x: file values [N, H, W, C].
            preprocess: what stands between them and the model.

        Raises:
            ModelRaised: the model's code raised something.
            ModelError: the output can't be the answer; or not even one sample fits on the device.
        """
        return torch.cat(self.in_parts(len(x), lambda rows: self.once(x[rows], preprocess)))

    def once(self, x: Tensor, preprocess: nn.Module) -> Tensor:
        """The same in one pass, for ``in_parts``; used outside of it, a memory that is too small ends in an error."""
        return self._read(self.run(x, preprocess), len(x))

    def run(self, x: Tensor, preprocess: nn.Module) -> Any:
        """What the model itself returns, in one pass, with a graph where gradients are on; counts no model calls."""
        return self._guarded(self.module, x, preprocess)

    def recorded(self, x: Tensor, preprocess: nn.Module, recorder: Recorder) -> tuple[dict[str, Tensor], Tensor]:
        """Activations {layer: float32 [N, neurons]} and raw outputs float32 [N, K] of a batch, the search's way."""
        program = self.module if self._compiled is None else self._compiled

        def work(rows: slice) -> tuple[dict[str, Tensor], Tensor]:
            with torch.no_grad(), recorder.recording(), self._mixed():
                output = self._guarded(program, x[rows], preprocess)
            found = recorder.activations(), self._read(output, len(x[rows]))
            recorder.forget()
            return found

        parts = self.in_parts(len(x), work)
        if len(parts) == 1:
            return parts[0]
        return {name: torch.cat([acts[name] for acts, _ in parts]) for name in parts[0][0]}, torch.cat([raw for _, raw in parts])

    def watched_by(self, recorder: Recorder, x: Tensor, preprocess: nn.Module) -> None:
        """Compiles the model with a new recorder's hooks, where that was asked for, and tries it out on a small batch."""
        self.kept.clear()
        self._compiled = None
        if not self._wants_compiled:
            return
        self._compiled = Compiled(self.module, recorder)
        compare = self._compiled.compare

        def work(rows: slice) -> None:
            with torch.no_grad(), self._mixed():
                compare(preprocess(x[rows]), self._dtype)
            self.model_calls += 2 * len(x[rows])

        self.in_parts(len(x), work)
        recorder.forget()

    def has_gradients(self, x: Tensor, preprocess: nn.Module, kind: OutputKind) -> bool:
        """Whether the model's answer depends on its input in a way that autograd can follow. In full precision."""

        def work(rows: slice) -> bool:
            values = x[rows].to(torch.float32).requires_grad_(True)
            try:
                logits = Differentiable(self.module, kind, self.key, preprocess)(values)
                (gradient,) = torch.autograd.grad(logits.sum(), values, allow_unused=True)
            except torch.OutOfMemoryError:
                raise
            except RuntimeError as error:
                print(f"no gradients: {error}", file=sys.stderr)
                return False
            self.model_calls += 3 * len(values)
            return gradient is not None and bool(torch.isfinite(gradient).all())

        return all(self._backward.parts(len(x), work))

    def _mixed(self) -> torch.autocast:
        """The search's precision."""
        return torch.autocast(self.device.type, self._dtype, enabled=self._dtype is not torch.float32)

    def _guarded(self, program: Callable[[Tensor], Any], x: Tensor, preprocess: nn.Module) -> Any:
        inputs = preprocess(x)
        self.last_input = f"{list(inputs.shape)} {str(inputs.dtype).removeprefix('torch.')}"
        try:
            return program(inputs)
        except torch.OutOfMemoryError as error:
            if self._forward.working or self._backward.working:
                raise
            raise ModelError(
                f"The device's memory is too small for a batch of {len(x)}.", where=str(self.device), hint="Set a smaller batch_size."
            ) from error
        except ModelError:  # of the hooks that record the layers
            raise
        except Exception as error:  # the model may raise anything
            self.model_calls += len(x)  # what it did until then is not known
            raise ModelRaised(f"{type(error).__name__}: {error}") from error

    def _read(self, output: Any, count: int) -> Tensor:
        self.model_calls += count
        if not self._key_chosen:
            self.key = choose_key(output, self._wanted_key, samples=count, classes=self._classes)
            self._key_chosen = True
        raw = pick(output, self.key)
        if raw.is_floating_point():
            raw = raw.to(torch.float32)
        # Looks at shape and dtype alone: the numbers would have to be waited for.
        alike = np.empty(tuple(raw.shape), dtype=str(raw.dtype).removeprefix("torch."))
        return raw.reshape(check(alike, count, self._classes).shape)

    def _release(self) -> None:
        self.kept.clear()


def _supported(device: torch.device, amp: str) -> None:
    if amp == "fp16" and device.type == "cpu":
        raise ConfigError(
            "On the CPU there is no mixed precision in fp16.",
            where="search.amp",
            hint="Set search.amp to bf16 or off, or run on a CUDA device.",
        )
    if amp == "bf16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise ConfigError(
            f"{torch.cuda.get_device_name(device)} does not compute in bf16.", where="search.amp", hint="Set search.amp to fp16 or off."
        )
