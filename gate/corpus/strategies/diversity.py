"""Entries that lie far out among the others, as the model sees them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gate.corpus.selection import by_rank
from gate.corpus.strategies.strategy import Floats, Pool

__all__ = ["Diversity", "novelty"]

NEAREST = 5


class Diversity:
    """By the distance from the entries that are nearest in the model's penultimate features.

    Farther is better as in T. Y. Chen, H. Leung and I. K. Mak, "Adaptive random testing", ASIAN 2004; see ``novelty`` for the measure.
    """

    name = "diversity"

    def weights(self, pool: Pool) -> Floats:
        """float64 [n]."""
        return by_rank(pool.novelties) * pool.worth


def novelty(features: npt.NDArray[np.floating]) -> Floats:
    """Mean Euclidean distance from the ``NEAREST`` nearest others.

    Source: J. Lehman and K. O. Stanley, "Abandoning objectives: evolution through the search for novelty alone", Evolutionary
    Computation 19 (2011): sparseness.

    Args:
        features: [n, F], of a random sample of the pool; a feature that is not finite counts as 0.

    Returns:
        float64 [n]; zeros for fewer than two.
    """
    count = len(features)
    if count < 2:
        return np.zeros(count)
    values = np.nan_to_num(np.asarray(features, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    values = values - values.mean(axis=0)  # near the origin the products below lose the least
    squares = np.einsum("nf,nf->n", values, values)
    apart = np.sqrt(np.maximum(squares[:, None] + squares[None, :] - 2.0 * (values @ values.T), 0.0))
    np.fill_diagonal(apart, np.inf)
    nearest = min(NEAREST, count - 1)
    found: Floats = np.partition(apart, nearest - 1, axis=1)[:, :nearest].mean(axis=1)
    return found
