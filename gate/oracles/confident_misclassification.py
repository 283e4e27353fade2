"""The model is wrong, and sure of it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gate.oracles.oracle import MARGIN, Needs, Observation, Oracle

__all__ = ["ConfidentMisclassification"]


class ConfidentMisclassification(Oracle):
    """Complains where another class than the label has a probability above ``above``.

    Every such input is a changed prediction too, and how sure a model is moves from release to release. So this oracle ranks behind: it
    sharpens a defect and does not name it, for otherwise one root cause would look fixed and another new where only the confidence moved.
    Where the policy switches changed predictions off, confident errors are what is left, and then they do name it.

    Args:
        above: probability of the wrong class, 0 to 1.
    """

    name: ClassVar[str] = "confident_misclassification"
    rank: ClassVar[int] = 7
    needs: ClassVar[Needs] = Needs.LABEL
    says: ClassVar[str] = "is surely read as another class"

    def __init__(self, above: float = 0.9) -> None:
        self._above = above

    def complains(self, seen: Observation) -> np.ndarray:
        """bool [N]."""
        return self._sure(seen, self._above)

    def holds(self, seen: Observation) -> np.ndarray:
        """bool [N]: surer by ``MARGIN`` of what is left to 1."""
        return self._sure(seen, self._above + MARGIN * (1 - self._above))

    def _sure(self, seen: Observation, above: float) -> np.ndarray:
        wrong = (seen.predicted >= 0) & (seen.labels >= 0) & (seen.predicted != seen.labels)
        return np.asarray(wrong & (np.nan_to_num(seen.probabilities).max(axis=1, initial=0.0) > above))
