"""One small mark, the same for all inputs, is read as one class whatever the input shows."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gate.oracles.changed_prediction import ChangedPrediction
from gate.oracles.oracle import Declared, Needs, Observation

__all__ = ["AnyMark"]


class AnyMark(Declared):
    """Complains about inputs that carry a mark and are read as the class it leads to; asked only of marks that were found to be a shortcut.

    It ranks before changed predictions: whoever knows the mark can choose the answer, and every figure about a class that it leads to or
    away from is about the mark as well.
    """

    name: ClassVar[str] = "universal_mark"
    rank: ClassVar[int] = 5
    needs: ClassVar[Needs] = Needs.LABEL
    says: ClassVar[str] = "of any class is read as one class once it carries a mark"

    def complains(self, seen: Observation, target: int) -> np.ndarray:
        """bool [N]: inputs of other classes that are read as ``target``."""
        return np.asarray((seen.predicted == target) & (seen.labels >= 0) & (seen.labels != target))

    def holds(self, seen: Observation, target: int) -> np.ndarray:
        """bool [N]: and ``target`` leads the label by a margin."""
        return np.asarray(self.complains(seen, target) & ChangedPrediction().holds(seen))
