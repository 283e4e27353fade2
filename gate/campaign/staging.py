"""Takes batches to the device. Runs in the worker."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

__all__ = ["Staging"]


class Staging:
    """Copies arrays to the device; to a CUDA device through one page-locked buffer, so that the copy runs beside the model.

    Args:
        device: where the batches go.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._buffer = torch.empty(0, dtype=torch.uint8)
        self._copied: torch.cuda.Event | None = None

    def take(self, x: np.ndarray) -> Tensor:
        """The same numbers on the device. On the CPU they share memory with ``x``.

        On CUDA the copy may still be under way when this returns; it is in the order of the current stream, and ``x`` is free at once.
        """
        if self._device.type != "cuda":
            return torch.from_numpy(x).to(self._device)
        if self._copied is not None:
            self._copied.synchronize()  # the buffer is still being read until then
        if len(self._buffer) < x.nbytes:
            self._buffer = torch.empty(x.nbytes, dtype=torch.uint8, pin_memory=True)
        values = torch.from_numpy(x)
        staged = self._buffer[: x.nbytes].view(values.dtype).view(values.shape)
        staged.copy_(values)
        moved = staged.to(self._device, non_blocking=True)
        self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._copied.record(torch.cuda.current_stream(self._device))
        return moved
