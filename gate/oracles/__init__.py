"""Oracles: who says that an output is wrong. One file each, the same two methods, the rank decides between them."""

from __future__ import annotations

import numpy as np

from gate.oracles.changed_prediction import ChangedPrediction
from gate.oracles.non_finite import NonFinite
from gate.oracles.oracle import Observation, Oracle

__all__ = ["ORACLES", "Observation", "Oracle", "complaints"]

ORACLES: tuple[Oracle, ...] = (NonFinite(), ChangedPrediction())


def complaints(seen: Observation) -> np.ndarray:
    """int64 [N]: for each sample the position in ``ORACLES`` of the oracle that complains, the lowest rank first; -1 for none."""
    chosen = np.full(len(seen.labels), -1, dtype=np.int64)
    for position in sorted(range(len(ORACLES)), key=lambda i: ORACLES[i].rank, reverse=True):
        chosen[ORACLES[position].complains(seen)] = position
    return chosen
