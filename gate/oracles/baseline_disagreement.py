"""The model in production answers right where the candidate does not."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gate.oracles.changed_prediction import ChangedPrediction
from gate.oracles.oracle import MARGIN, Observation
from gate.oracles.pair import PairOracle

__all__ = ["BaselineDisagreement"]


class BaselineDisagreement(PairOracle):
    """Complains where the candidate (first) has another class than the label, or a fault, and the baseline (second) keeps the label.

    It ranks behind the oracle that found the candidate wrong: a new baseline must not give old root causes new names.
    """

    name: ClassVar[str] = "baseline_disagreement"
    rank: ClassVar[int] = 10
    says: ClassVar[str] = "is answered right by the baseline"

    def complains(self, first: Observation, second: Observation) -> np.ndarray:
        """bool [N]: both answers clear by a margin."""
        wrong = (first.predicted < 0) | ChangedPrediction().holds(first)
        return np.asarray(wrong & self.keeps(second))

    def keeps(self, second: Observation) -> np.ndarray:
        """bool [N]: the baseline has the label, by a margin."""
        rows = np.flatnonzero((second.labels >= 0) & (second.predicted == second.labels))
        keeps = np.zeros(len(second.labels), dtype=bool)
        others = second.probabilities[rows].copy()
        others[np.arange(len(rows)), second.labels[rows]] = -np.inf
        own = second.probabilities[rows, second.labels[rows]]
        keeps[rows] = own - others.max(axis=1, initial=-np.inf) >= MARGIN
        return keeps
