"""Entries that the model is unsure of."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gate.corpus.selection import by_rank
from gate.corpus.strategies.strategy import Floats, Pool

__all__ = ["Uncertainty", "doubt", "entropies"]


class Uncertainty:
    """By the variance of the answer under dropout where the model has dropout, else by margin and entropy.

    Variance: Y. Gal and Z. Ghahramani, "Dropout as a Bayesian approximation", ICML 2016. Margin and entropy as measures of uncertainty:
    B. Settles, "Active learning literature survey", 2009, section 3.1.

    Args:
        dropout: whether variances are known; entries whose variance is not known yet are left out then.
    """

    name = "uncertainty"

    def __init__(self, *, dropout: bool = False) -> None:
        self._dropout = dropout

    def weights(self, pool: Pool) -> Floats:
        """float64 [n]."""
        return by_rank(pool.variances if self._dropout else doubt(pool.margins, pool.entropies)) * pool.worth


def doubt(margins: Floats, entropy: Floats) -> Floats:
    """Half of it how near the answer is to another class, half its entropy: 0 to 1.

    Args:
        margins: [n], -1 to 1; near 0 two classes are nearly as likely, and whether the label is the first of them does not matter.
        entropy: [n], 0 to 1; where it is NaN the margin counts alone.

    Returns:
        float64 [n].
    """
    near = 1.0 - np.abs(margins)
    found: Floats = np.where(np.isnan(entropy), near, 0.5 * near + 0.5 * entropy)
    return found


def entropies(probabilities: npt.NDArray[np.floating]) -> Floats:
    """Entropy of answers over that of an even one, 0 to 1.

    Args:
        probabilities: [n, C].

    Returns:
        float64 [n]; NaN where an answer is not finite.
    """
    values = np.asarray(probabilities, dtype=np.float64)
    finite = np.asarray(np.isfinite(values).all(axis=1))
    safe = np.where((values > 0) & finite[:, None], values, 1.0)
    found = -(safe * np.log(safe)).sum(axis=1) / max(np.log(values.shape[1]), np.finfo(np.float64).tiny)
    result: Floats = np.where(finite, np.clip(found, 0.0, 1.0), np.nan)
    return result
