"""Oracles: who says that an output is wrong. One file each, the same declarations, the rank decides between them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gate.oracles.baseline_disagreement import BaselineDisagreement
from gate.oracles.batch_dependence import BatchDependence
from gate.oracles.changed_prediction import ChangedPrediction
from gate.oracles.confidence_collapse import ConfidenceCollapse
from gate.oracles.confident_misclassification import ConfidentMisclassification
from gate.oracles.crash import Crash
from gate.oracles.flaky import Flaky
from gate.oracles.non_finite import NonFinite
from gate.oracles.numeric_path import NumericPath
from gate.oracles.oracle import Declared, Needs, Observation, Oracle, observe
from gate.oracles.saturated import Saturated
from gate.oracles.switches import Switches, panel
from gate.oracles.timeout import Timeout
from gate.oracles.universal_mark import AnyMark
from gate.oracles.unjustified_confidence import UnjustifiedConfidence

__all__ = ["ALL", "ORACLES", "Declared", "Needs", "Observation", "Oracle", "Switches", "complaints", "observe", "panel"]

ALL: tuple[type[Declared], ...] = (  # by rank
    Crash,
    Timeout,
    NonFinite,
    Saturated,
    BatchDependence,
    AnyMark,
    ChangedPrediction,
    ConfidentMisclassification,
    ConfidenceCollapse,
    NumericPath,
    BaselineDisagreement,
    UnjustifiedConfidence,
    Flaky,
)

ORACLES: tuple[Oracle, ...] = panel()  # those that look at every mutant where no policy says otherwise


def complaints(seen: Observation, oracles: Sequence[Oracle] = ORACLES) -> np.ndarray:
    """int64 [N]: for each sample the position in ``oracles`` of the one that complains, the lowest rank first; -1 for none."""
    chosen = np.full(len(seen.labels), -1, dtype=np.int64)
    for position in sorted(range(len(oracles)), key=lambda i: oracles[i].rank, reverse=True):
        chosen[oracles[position].complains(seen)] = position
    return chosen
