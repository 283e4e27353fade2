"""One thread for work that is too small to share out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["one_thread"]

# Read when PyTorch's threads are made, and so once.
_THREADS_SLEEP = os.environ.get("OMP_WAIT_POLICY", "").upper() == "PASSIVE"


@contextmanager
def one_thread(device: torch.device) -> Iterator[None]:
    """On the CPU, and where PyTorch's threads sleep while they wait for work, it computes with one thread inside; else nothing changes.

    Criteria look at a few hundred thousand numbers at a time, a hundred times over, and each look takes some hundredths of a millisecond.
    To wake another thread for it takes as long again, and many times as long where other programs want the processors. The gate's worker
    lets its threads sleep (OMP_WAIT_POLICY=PASSIVE), because on a busy machine those that spin are worse still.

    The number of threads is the process's: a model that another Python thread runs at the same time is slower meanwhile.
    """
    before = torch.get_num_threads()
    if not _THREADS_SLEEP or device.type != "cpu" or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
