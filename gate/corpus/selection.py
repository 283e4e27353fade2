"""Drawing entries: in proportion to weights, and weights by rank where only the order of scores means something."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["by_rank", "draw"]

HALVING = 8  # the weight halves this often from the best entry to the last


def by_rank(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Weights that halve with every eighth of the entries, from the highest score down, whatever the scores' scale.

    Ranks and not values, because scores such as the norm of a gradient spread over many orders of magnitude, and others hardly at all.

    Args:
        scores: [n]; NaN where an entry has none. Equal scores share their ranks.

    Returns:
        float64 [n], 1 for the best (less where several share it), 0 where there is no score.
    """
    weights = np.zeros(len(scores))
    known = np.flatnonzero(~np.isnan(scores))
    if len(known):
        _, same, times = np.unique(-scores[known], return_inverse=True, return_counts=True)
        first = np.cumsum(times) - times
        ranks = (first + (times - 1) / 2)[same]
        weights[known] = 0.5 ** (HALVING * ranks / len(known))
    return weights


def draw(weights: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """int64 [count]: positions drawn with replacement in proportion to ``weights`` [N]."""
    total = np.cumsum(weights)
    positions: np.ndarray = np.searchsorted(total, random.random(count) * total[-1], side="right")
    capped: np.ndarray = np.minimum(positions, len(weights) - 1).astype(np.int64)
    return capped
