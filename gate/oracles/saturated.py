"""A score grows beyond what half precision can hold."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gate.models.outputs import OutputKind
from gate.oracles.oracle import MARGIN, Needs, Observation, Oracle

__all__ = ["FLOAT16_MAX", "Saturated"]

FLOAT16_MAX = 65504.0  # the largest finite float16; IEEE 754-2008, binary16
_SCORES = (OutputKind.LOGITS, OutputKind.SIGMOID_LOGIT)


class Saturated(Oracle):
    """Complains about scores of at least ``above`` in magnitude where the seed input's were smaller: served in float16 they are infinite.

    A fault of the numbers, so it ranks before a wrong class, which may be its consequence. Of models that answer with scores only:
    probabilities have no such magnitude, and a logarithm of one may be as low as it likes.

    Args:
        above: magnitude from which on a score counts as saturated.
    """

    name: ClassVar[str] = "saturated"
    rank: ClassVar[int] = 3
    needs: ClassVar[Needs] = Needs.SEED
    says: ClassVar[str] = "gives a score that float16 can't hold"

    def __init__(self, above: float = FLOAT16_MAX) -> None:
        self._above = above

    def complains(self, seen: Observation) -> np.ndarray:
        """bool [N]; none where the seed inputs' scores are not known."""
        return self._beyond(seen, self._above)

    def holds(self, seen: Observation) -> np.ndarray:
        """bool [N]: larger by a share of ``MARGIN``."""
        return self._beyond(seen, self._above * (1 + MARGIN))

    def _beyond(self, seen: Observation, limit: float) -> np.ndarray:
        if seen.kind not in _SCORES or seen.raw_before is None:
            return np.zeros(len(seen.labels), dtype=bool)
        now = np.abs(np.where(np.isfinite(seen.raw), seen.raw, 0.0)).max(axis=1, initial=0.0)
        was = np.abs(seen.raw_before).max(axis=1, initial=0.0)
        return np.asarray((seen.predicted >= 0) & (now >= limit) & (was < self._above))
