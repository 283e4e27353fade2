"""Searches beside each other at equal work: what each had reached, and how sure the difference is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gate.metrics.intervals import Interval, seed_bootstrap
from gate.randomness import generator

__all__ = ["CONFIDENCE", "LEAST_REPEATS", "Difference", "Trace", "compared", "equal_work"]

CONFIDENCE = 0.95
LEAST_REPEATS = 5  # below that, resampling so few pairs says nothing that could be relied on

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Trace:
    """One campaign's search: what it had reached after how much work. ``work`` rises; every series has a value for each of its points."""

    work: Floats  # [P]: forward-equivalents of the search, those spent on scoring entries included; the first is 0
    series: Mapping[str, Floats]  # by measure, [P]: valid coverage of a criterion, or defects

    def at(self, measure: str, work: Floats | float) -> Floats:
        """The measure after so much work, interpolated between the ends of steps; where the trace has ended, its last value."""
        return np.asarray(np.interp(np.asarray(work), self.work, self.series[measure]), dtype=np.float64)


@dataclass(frozen=True)
class Difference:
    """One way to search beside the reference, by one measure, at equal work."""

    mean: float  # of the way, over the repeats
    reference: float  # of the reference
    difference: float  # mean over the pairs
    interval: Interval | None  # of that mean; None where it can't be told
    pairs: int
    wins: int  # repeats in which the way was ahead
    losses: int

    @property
    def words(self) -> str:
        """``more``, ``less`` or ``no difference shown``: the first two only where the whole interval lies on one side of zero."""
        if self.pairs >= LEAST_REPEATS:
            # Where all pairs differ by the same amount, resampling gives no interval, and none is needed.
            low, high = self.interval or (self.difference, self.difference)
            if low > 0:
                return "more"
            if high < 0:
                return "less"
        return "no difference shown"


def equal_work(traces: Sequence[Trace]) -> float:
    """The most work that every campaign has done."""
    return min(float(trace.work[-1]) for trace in traces)


def compared(way: Sequence[Trace], reference: Sequence[Trace], measure: str, work: float, *, seed: int) -> Difference:
    """Compares two ways to search in R repeats each, where repeat by repeat both had the same campaign seed.

    The interval is a percentile bootstrap over the pairs (B. Efron and R. J. Tibshirani, "An Introduction to the Bootstrap", chapter 13).
    With few pairs such an interval is rather too narrow, and it allows for chance in the campaigns only: other seed inputs or another model
    may give another answer.

    Args:
        way: R campaigns.
        reference: R campaigns, in the same order of seeds.
        measure: of their series.
        work: at which they are compared.
        seed: of the resampling.

    Raises:
        ValueError: no pairs, or not as many of one as of the other.
    """
    if not way or len(way) != len(reference):
        raise ValueError(f"{len(way)} campaigns can't be paired with {len(reference)}")
    mine, theirs = (np.array([float(trace.at(measure, work)) for trace in traces]) for traces in (way, reference))
    apart = mine - theirs
    interval = None
    if len(apart) > 1:
        interval = seed_bootstrap(apart, np.ones(len(apart)), CONFIDENCE, generator(seed, "comparison", measure))
    return Difference(
        mean=float(mine.mean()),
        reference=float(theirs.mean()),
        difference=float(apart.mean()),
        interval=interval,
        pairs=len(apart),
        wins=int((apart > 0).sum()),
        losses=int((apart < 0).sum()),
    )
