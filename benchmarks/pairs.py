"""Two ways of doing the same, timed turn by turn on a machine that has other things to do as well.

Each pair is measured within a fraction of a second, so what disturbs the machine for longer disturbs both sides; the ratio is taken pair by
pair, and the median of the ratios is told with an interval that assumes nothing of their distribution.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from scipy.stats import binom
from torch import Tensor

__all__ = ["Median", "Pairs", "measure", "median"]

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Median:
    """A median and the order statistics around it between which the true one lies in 95 % of all samples, or nearly so for very few."""

    value: float
    lower: float
    upper: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.lower:.3f}, {self.upper:.3f}]"


@dataclass(frozen=True)
class Pairs:
    """Seconds that each pair took, in the order of the batches."""

    bare: tuple[float, ...]
    with_coverage: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        """With coverage over without, pair by pair."""
        return [more / less for less, more in zip(self.bare, self.with_coverage, strict=True)]


def measure(bare: Callable[[Tensor], object], with_coverage: Callable[[Tensor], object], batches: Sequence[Tensor]) -> Pairs:
    """Times both on every batch, each going first every other time, because the second finds the batch in the cache."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for turn, x in enumerate(batches):
        for side in (0, 1) if turn % 2 else (1, 0):
            _wait(x)
            started = time.perf_counter()
            (bare, with_coverage)[side](x)
            _wait(x)
            seconds[side].append(time.perf_counter() - started)
    return Pairs(tuple(seconds[0]), tuple(seconds[1]))


def median(values: Sequence[float]) -> Median:
    """The median with its interval: the r-th value from either end, r being as large as the binomial distribution allows."""
    ordered, n = sorted(values), len(values)
    from_end = max(0, int(binom.ppf((1 - CONFIDENCE) / 2, n, 0.5)) - 1)
    middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    return Median(middle, ordered[from_end], ordered[n - 1 - from_end])


def _wait(x: Tensor) -> None:
    if x.is_cuda:
        torch.cuda.synchronize(x.device)
