"""The prediction is kept, and hardly anything speaks for it any more."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gate.oracles.oracle import MARGIN, Needs, Observation, Oracle

__all__ = ["ConfidenceCollapse"]


class ConfidenceCollapse(Oracle):
    """Complains where the label still comes first, but hardly leads the second class, though for the seed input it led clearly.

    Args:
        below: lead in probability, 0 to 1, under which it counts as gone.
        clean: lead that the seed input must have had; one that was never sure can't lose much.
    """

    name: ClassVar[str] = "confidence_collapse"
    rank: ClassVar[int] = 8
    needs: ClassVar[Needs] = Needs.SEED
    says: ClassVar[str] = "is hardly told from another class any more"

    def __init__(self, below: float = 0.1, clean: float = 0.5) -> None:
        self._below = below
        self._clean = clean

    def complains(self, seen: Observation) -> np.ndarray:
        """bool [N]; none where the seed inputs' answers are not known."""
        return self._gone(seen, self._below)

    def holds(self, seen: Observation) -> np.ndarray:
        """bool [N]: the lead lies below by another ``MARGIN``, and the label's own is as large, so that it is no flip elsewhere."""
        lead = _lead(seen.probabilities)
        return np.asarray(self._gone(seen, self._below - MARGIN) & (lead >= MARGIN))

    def _gone(self, seen: Observation, below: float) -> np.ndarray:
        if seen.before is None:
            return np.zeros(len(seen.labels), dtype=bool)
        kept = (seen.predicted >= 0) & (seen.predicted == seen.labels)
        return np.asarray(kept & (_lead(seen.probabilities) < below) & (_lead(seen.before) >= self._clean))


def _lead(probabilities: np.ndarray) -> np.ndarray:
    """float64 [N]: how far the first class of [N, C] leads the second; 1 where there is only one."""
    known = np.nan_to_num(probabilities)
    if known.shape[1] < 2:
        return np.ones(len(known))
    top = np.partition(known, known.shape[1] - 2, axis=1)[:, -2:]
    return np.asarray(top[:, 1] - top[:, 0])
