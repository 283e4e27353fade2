"""Any entry."""

from __future__ import annotations

import numpy as np

from gate.corpus.strategies.strategy import Floats, Pool

__all__ = ["Uniform"]


class Uniform:
    """Every entry alike, whatever its quality: the reference that a strategy has to beat."""

    name = "uniform"

    def weights(self, pool: Pool) -> Floats:
        """float64 [n]."""
        return np.ones(len(pool))
