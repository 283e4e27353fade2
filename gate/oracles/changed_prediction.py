"""The prediction of a mutant differs from its label, although a person would still give that label."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gate.oracles.oracle import MARGIN, Needs, Observation, Oracle

__all__ = ["MARGIN", "ChangedPrediction"]


class ChangedPrediction(Oracle):
    """Complains where the predicted class is not the label."""

    name: ClassVar[str] = "changed_prediction"
    rank: ClassVar[int] = 6
    needs: ClassVar[Needs] = Needs.LABEL
    says: ClassVar[str] = "is read as another class"

    def complains(self, seen: Observation) -> np.ndarray:
        """bool [N]: finite outputs with another class than the label on top."""
        wrong: np.ndarray = (seen.predicted >= 0) & (seen.labels >= 0) & (seen.predicted != seen.labels)
        return wrong

    def holds(self, seen: Observation) -> np.ndarray:
        """bool [N]: the wrong class leads the label by at least ``MARGIN`` in probability."""
        wrong = self.complains(seen)
        rows = np.flatnonzero(wrong)
        clear = np.zeros(len(wrong), dtype=bool)
        lead = seen.probabilities[rows, seen.predicted[rows]] - seen.probabilities[rows, seen.labels[rows]]
        clear[rows] = lead >= MARGIN
        return clear
