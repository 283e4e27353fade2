"""Batches that do not fit on the device are cut in half until they do. Runs in the worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from gate.errors import ModelError

__all__ = ["Halving"]

T = TypeVar("T")


class Halving:
    """The largest number of samples that go through the device at once: no limit until one was met, and then never more again.

    The size of a micro-batch changes the last bits of what a model answers, so it must not go up and down with the state of the memory.

    Args:
        device: where the work is done.
        release: lets go of whatever can be made again; called when the memory was too small.
    """

    def __init__(self, device: torch.device, release: Callable[[], None]) -> None:
        self._device = device
        self._release = release
        self.size: int | None = None  # None: whole batches have fitted so far
        self.working = False  # whether a part is being worked on, which may be tried again

    def parts(self, count: int, work: Callable[[slice], T]) -> list[T]:
        """What ``work`` gives for consecutive rows of a batch of ``count``; all rows at once where they fit.

        Args:
            count: samples in the batch.
            work: takes the rows to work on. It must leave nothing behind where it raises ``torch.OutOfMemoryError``: its rows are tried
                again, half as many at once.

        Raises:
            ModelError: not even one sample fits.
        """
        done: list[T] = []
        start = 0
        while start < count:
            size = min(self.size or count, count - start)
            result = self._tried(slice(start, start + size), work)
            if result:
                done += result
                start += size
                continue
            if size == 1:
                raise ModelError(
                    "The device's memory is too small for even one sample.",
                    where=str(self._device),
                    hint="Free the device of other programs, take a larger one, or set device: cpu.",
                )
            self.size = size // 2
            self._release()
            if self._device.type == "cuda":
                torch.cuda.empty_cache()
        return done

    def _tried(self, rows: slice, work: Callable[[slice], T]) -> list[T]:
        """One result, or none where the memory was too small. The error ends here: its frames would hold on to that memory."""
        outer, self.working = self.working, True
        try:
            return [work(rows)]
        except torch.OutOfMemoryError:  # a kind of torch.AcceleratorError, after which nothing else would work
            return []
        finally:
            self.working = outer
