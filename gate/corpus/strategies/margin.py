"""Entries nearest to the decision boundary: for the time when coverage has saturated and defects are what is left to find."""

from __future__ import annotations

import numpy as np

from gate.corpus.selection import by_rank
from gate.corpus.strategies.strategy import Floats, Pool

__all__ = ["Margin"]


class Margin:
    """By the smallest margin, on either side: what lies just beyond the boundary can still be moved to a third class.

    Source: T. Scheffer, C. Decomain and S. Wrobel, "Active hidden Markov models for information extraction", IDA 2001 (margin sampling).
    """

    name = "margin"

    def weights(self, pool: Pool) -> Floats:
        """float64 [n]."""
        result: Floats = by_rank(-np.abs(pool.margins)) / (1.0 + pool.picks)
        return result
