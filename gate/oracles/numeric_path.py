"""An input gets another answer in another precision or memory layout."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gate.oracles.oracle import Observation
from gate.oracles.pair import PairOracle, apart

__all__ = ["NumericPath"]


class NumericPath(PairOracle):
    """Complains where probabilities on two numeric paths are further apart than the path explains.

    Args:
        path: one of ``TOLERANCES``.
    """

    name: ClassVar[str] = "numeric_path"
    # In probability. The first two compute the same numbers in another order or with more digits, so next to nothing may change. bfloat16
    # keeps 8 bits: a relative error of 0.4 % in every score, which moves an undecided answer but not a decided one.
    TOLERANCES: ClassVar[dict[str, float]] = {"channels_last": 1e-3, "float64": 1e-3, "bfloat16": 0.5}

    def __init__(self, path: str) -> None:
        self.path = path

    def complains(self, first: Observation, second: Observation) -> np.ndarray:
        """bool [N]."""
        return np.asarray(apart(first, second) > self.TOLERANCES[self.path])
