"""An input's answer depends on what else is in its batch."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gate.oracles.oracle import Observation
from gate.oracles.pair import PairOracle, apart, changed

__all__ = ["BatchDependence"]


class BatchDependence(PairOracle):
    """Complains where one input, alone and in company, gets probabilities further apart than ``TOLERANCE``."""

    name: ClassVar[str] = "batch_dependence"
    rank: ClassVar[int] = 4
    says: ClassVar[str] = "is answered otherwise in other company"
    TOLERANCE: ClassVar[float] = 1e-3  # far above what another batch size does to floats, far below what batch statistics do

    def complains(self, first: Observation, second: Observation) -> np.ndarray:
        """bool [N]."""
        return np.asarray(apart(first, second) > self.TOLERANCE)

    def turned(self, alone: Observation, company: Observation) -> np.ndarray:
        """bool [N]: another class alone than in company, by ``TOLERANCE`` on both sides, or only one of the two answers is finite."""
        return np.asarray(changed(alone, company, self.TOLERANCE) | changed(company, alone, self.TOLERANCE))
