"""The model raises an exception instead of answering."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gate.oracles.oracle import Needs, Observation, Oracle

__all__ = ["Crash"]


class Crash(Oracle):
    """Complains where the model raised: a service that runs it would answer with an error, so this comes before anything an answer says."""

    name: ClassVar[str] = "crash"
    rank: ClassVar[int] = 0
    needs: ClassVar[Needs] = Needs.NOTHING
    says: ClassVar[str] = "makes the model raise an exception"

    def complains(self, seen: Observation) -> np.ndarray:
        """bool [N]."""
        return np.isin(np.arange(len(seen.labels)), list(seen.raised))

    def holds(self, seen: Observation) -> np.ndarray:
        """bool [N]: the same; an exception has no margin."""
        return self.complains(seen)
