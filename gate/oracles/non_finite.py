"""The output holds NaN or an infinity where numbers were due."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gate.oracles.oracle import Needs, Observation, Oracle

__all__ = ["NonFinite"]


class NonFinite(Oracle):
    """Complains about NaN and infinite outputs; a fault outranks a wrong class."""

    name: ClassVar[str] = "non_finite"
    rank: ClassVar[int] = 2
    needs: ClassVar[Needs] = Needs.NOTHING
    says: ClassVar[str] = "gives no finite output"

    def complains(self, seen: Observation) -> np.ndarray:
        """bool [N]: answers without a prediction."""
        rows = np.arange(len(seen.labels))
        broken: np.ndarray = (seen.predicted < 0) & ~np.isin(rows, [*seen.raised, *seen.silent])
        return broken

    def holds(self, seen: Observation) -> np.ndarray:
        """bool [N]: the same; there is no nearly finite."""
        return self.complains(seen)
