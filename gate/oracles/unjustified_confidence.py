"""The model is sure of a class where nothing is to be seen."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gate.oracles.oracle import Observation

__all__ = ["UnjustifiedConfidence"]


class UnjustifiedConfidence:
    """Says which answers to inputs that show nothing are surer than ``LIMIT``.

    Nearly every network without a way to decline is sure of something on some of them, so this is told and not judged (Nguyen, Yosinski and
    Clune, "Deep neural networks are easily fooled", CVPR 2015).
    """

    name: ClassVar[str] = "unjustified_confidence"
    LIMIT: ClassVar[float] = 0.99

    def complains(self, seen: Observation) -> np.ndarray:
        """bool [N]: finite answers with a probability above the limit."""
        return np.asarray((seen.predicted >= 0) & (np.nan_to_num(seen.probabilities).max(axis=1, initial=0.0) > self.LIMIT))
