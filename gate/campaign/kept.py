"""Forward passes of clean samples, kept so that the same batch need not run twice. Lives in the worker."""

from __future__ import annotations

import hashlib

import numpy as np
from torch import Tensor

__all__ = ["KeptPasses"]

LIMIT = 256 << 20  # bytes of activations and outputs

Pass = tuple[dict[str, Tensor], Tensor]  # {layer: float32 [N, neurons]}, raw outputs float32 [N, K]


class KeptPasses:
    """What the model answered to batches, found again by the batch's content; a batch that no longer fits is not kept.

    Args:
        limit: bytes that may be held, on whatever device the tensors are.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._held = 0
        self._passes: dict[bytes, Pass] = {}

    def keep(self, x: np.ndarray, acts: dict[str, Tensor], raw: Tensor) -> None:
        """Notes the pass of a batch; the tensors must not be changed afterwards."""
        size = sum(values.nbytes for values in (*acts.values(), raw))
        key = _key(x)
        if key not in self._passes and self._held + size <= self._limit:
            self._passes[key] = (acts, raw)
            self._held += size

    def find(self, x: np.ndarray) -> Pass | None:
        """The pass of a batch of exactly these samples in this order, or None."""
        return self._passes.get(_key(x)) if self._passes else None

    def clear(self) -> None:
        """Lets go of everything."""
        self._passes, self._held = {}, 0


def _key(x: np.ndarray) -> bytes:
    found = hashlib.blake2b(f"{x.dtype.str} {x.shape}".encode(), digest_size=32)
    found.update(np.ascontiguousarray(x).data)
    return found.digest()
