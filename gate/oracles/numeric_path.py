"""An input gets another answer in another precision or memory layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gate.oracles.oracle import Observation
from gate.oracles.pair import PairOracle, apart, changed

__all__ = ["NumericPath", "Path"]


@dataclass(frozen=True)
class Path:
    """One numeric path and what it may do to an answer, in probability."""

    served: str  # how a model is served that runs so, after "when served"
    drift: float | None  # two answers may be so far apart; None: any distance, as long as they agree on a class
    margin: float  # by which both answers must lead the other's class before the change of class counts
    passes: int = 1  # that one pass may take as long as, where the device has no fast kernels for it, as CPUs have none


class NumericPath(PairOracle):
    """Complains where probabilities on two numeric paths are further apart than the path explains.

    Args:
        path: one of ``PATHS``.
    """

    name: ClassVar[str] = "numeric_path"
    rank: ClassVar[int] = 9
    says: ClassVar[str] = "is answered otherwise in another precision or layout"
    # The first three compute the same numbers in another order or with more digits, so next to nothing may change. Half precision rounds
    # every value: float16 keeps 11 bits (a relative error of 0.05 %) and bfloat16 8 bits (0.4 %), which adds up over layers and turns an
    # undecided answer, never a decided one. With 8-bit integers answers move legitimately, so only another class, held on both sides by a
    # clear lead, counts.
    PATHS: ClassVar[dict[str, Path]] = {
        "channels_last": Path("with channels last in memory", 1e-3, 1e-3),
        "float64": Path("in double precision (float64)", 1e-3, 1e-3, 8),
        "compiled": Path("compiled by torch.compile", 1e-3, 1e-3),
        "float16": Path("in half precision (float16)", 0.25, 0.125, 16),
        "bfloat16": Path("in half precision (bfloat16)", 0.5, 0.25),
        "int8": Path("with 8-bit integers (int8, dynamic quantisation)", None, 0.25),
    }
    PLAIN: ClassVar[tuple[str, ...]] = ("channels_last", "bfloat16", "int8", "float64", "float16")  # that need no preparation
    SPARSE: ClassVar[int] = 4  # a path of several passes is taken by one input in so many

    def __init__(self, path: str) -> None:
        self.path = path
        self._may = self.PATHS[path]

    @classmethod
    def sparsely(cls, path: str, count: int) -> range:
        """Which of ``count`` inputs take a path, evenly spaced."""
        return range(0, count, 1 if cls.PATHS[path].passes == 1 else cls.SPARSE)

    @classmethod
    def passes_per_input(cls) -> int:
        """Forward passes that one input takes on all plain paths, on average, rounded up."""
        return sum(-(-cls.PATHS[path].passes // cls.SPARSE) if cls.PATHS[path].passes > 1 else 1 for path in cls.PLAIN)

    def complains(self, first: Observation, second: Observation) -> np.ndarray:
        """bool [N]: answers further apart than the path explains."""
        if self._may.drift is None:
            return self.turned(first, second)
        return np.asarray(apart(first, second) > self._may.drift)

    def turned(self, first: Observation, second: Observation) -> np.ndarray:
        """bool [N]: another class on the path, by a margin on both sides, or none because the path's answer alone is not finite."""
        return changed(first, second, self._may.margin)
