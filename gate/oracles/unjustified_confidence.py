"""The model is sure of a class where nothing is to be seen."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gate.oracles.oracle import MARGIN, Needs, Observation, Oracle

__all__ = ["UnjustifiedConfidence"]


class UnjustifiedConfidence(Oracle):
    """Says which answers to inputs that show nothing are surer than ``LIMIT``; it is asked of no others.

    Nearly every network without a way to decline is sure of something on some of them, so this is told and not judged (Nguyen, Yosinski and
    Clune, "Deep neural networks are easily fooled", CVPR 2015).
    """

    name: ClassVar[str] = "unjustified_confidence"
    rank: ClassVar[int] = 11
    needs: ClassVar[Needs] = Needs.NOTHING
    LIMIT: ClassVar[float] = 0.99
    says: ClassVar[str] = "shows nothing and is surely read as a class"

    def complains(self, seen: Observation) -> np.ndarray:
        """bool [N]: finite answers with a probability above the limit."""
        return self._sure(seen, self.LIMIT)

    def holds(self, seen: Observation) -> np.ndarray:
        """bool [N]: surer by ``MARGIN`` of what is left to 1."""
        return self._sure(seen, self.LIMIT + MARGIN * (1 - self.LIMIT))

    def _sure(self, seen: Observation, above: float) -> np.ndarray:
        return np.asarray((seen.predicted >= 0) & (np.nan_to_num(seen.probabilities).max(axis=1, initial=0.0) > above))
