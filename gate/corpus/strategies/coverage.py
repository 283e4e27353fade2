"""Entries from which the model's neurons can be moved most towards what is not covered yet."""

from __future__ import annotations

from gate.corpus.selection import by_rank
from gate.corpus.strategies.strategy import Floats, Pool

__all__ = ["Coverage"]


class Coverage:
    """By the norm of the gradient of the uncovered neurons' joint activation.

    The objective is that of Pei et al., "DeepXplore", SOSP 2017. That the length of a gradient tells which input promises the largest
    change is from B. Settles, M. Craven and S. Ray, "Multiple-instance active learning", NIPS 2007 (expected gradient length).
    """

    name = "coverage"

    def weights(self, pool: Pool) -> Floats:
        """float64 [n]."""
        return by_rank(pool.gradients) * pool.worth
