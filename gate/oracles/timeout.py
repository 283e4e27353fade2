"""The model gives no answer in time."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gate.oracles.oracle import Needs, Observation, Oracle

__all__ = ["Timeout"]


class Timeout(Oracle):
    """Complains where the model was ended because no answer came. In a campaign that ends the run; a replay tells it of one input."""

    name: ClassVar[str] = "timeout"
    rank: ClassVar[int] = 1
    needs: ClassVar[Needs] = Needs.NOTHING
    says: ClassVar[str] = "gives no answer in time"

    def complains(self, seen: Observation) -> np.ndarray:
        """bool [N]."""
        return np.isin(np.arange(len(seen.labels)), list(seen.silent))

    def holds(self, seen: Observation) -> np.ndarray:
        """bool [N]: the same; the time that is waited is margin enough."""
        return self.complains(seen)
