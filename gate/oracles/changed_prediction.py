"""The prediction of a mutant differs from its label, although a person would still give that label."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gate.oracles.oracle import Observation, Oracle

__all__ = ["ChangedPrediction"]

# Another batch size moves outputs by about 3e-8 of their size; a lead below this could turn round on another machine.
MARGIN = 1e-4


class ChangedPrediction(Oracle):
    """Complains where the predicted class is not the label."""

    name: ClassVar[str] = "changed_prediction"
    rank: ClassVar[int] = 1

    def complains(self, seen: Observation) -> np.ndarray:
        """bool [N]: finite outputs with another class than the label on top."""
        wrong: np.ndarray = (seen.predicted >= 0) & (seen.predicted != seen.labels)
        return wrong

    def holds(self, seen: Observation) -> np.ndarray:
        """bool [N]: the wrong class leads the label by at least ``MARGIN`` in probability."""
        rows = np.arange(len(seen.labels))
        lead = seen.probabilities[rows, np.maximum(seen.predicted, 0)] - seen.probabilities[rows, seen.labels]
        clear: np.ndarray = self.complains(seen) & (lead >= MARGIN)
        return clear
