"""The newest entries."""

from __future__ import annotations

import numpy as np

from gate.corpus.strategies.strategy import Floats, Pool

__all__ = ["Recency"]

HALF = 64.0  # newer entries after which an entry's weight is half


class Recency:
    """The newer the likelier, falling exponentially with age, and by nothing else: a reference for the others.

    Source: A. Odena et al., "TensorFuzz", ICML 2019, section 3.2, with entries instead of seconds as the measure of age.
    """

    name = "recency"

    def weights(self, pool: Pool) -> Floats:
        """float64 [n]."""
        result: Floats = 0.5 ** (np.arange(len(pool) - 1, -1, -1, dtype=np.float64) / HALF)
        return result
