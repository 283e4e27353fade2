"""Do complaints that keep the class come back? A collapsed confidence and a saturated score are looked for in the answer itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gate.campaign.supervisor import Worker
from gate.models.outputs import OutputKind
from gate.oracles import Oracle, Switches
from gate.oracles.confidence_collapse import ConfidenceCollapse
from gate.oracles.saturated import Saturated
from gate.result import Defect
from gate.triage.confirm import replay

__all__ = ["doubted_again"]


def doubted_again(
    worker: Worker,
    defects: Sequence[Defect],
    mutants: np.ndarray,
    originals: np.ndarray,
    output_kind: OutputKind,
    switches: Switches,
) -> dict[str, bool]:
    """Of an earlier run's defects those whose class was kept: whether the oracle that named them complains again.

    Each takes two passes: its seed input, which the oracle compares with, and its file. A policy's thresholds count, also of an oracle that
    is off by now. Where the seed input gives no finite answer the oracle has nothing to compare with, and that is told elsewhere.

    Args:
        worker: with the model loaded.
        defects: D of them, of any kind.
        mutants: [D, ...] their inputs.
        originals: [D, ...] their seed inputs.
        output_kind: how to read the model's output.
        switches: with the thresholds.
    """
    collapse = switches.confidence_collapse
    oracles: dict[str, Oracle] = {
        ConfidenceCollapse.name: ConfidenceCollapse(collapse.below, collapse.clean),
        Saturated.name: Saturated(switches.saturated.above),
    }
    again: dict[str, bool] = {}
    for defect, mutant, original in zip(defects, mutants, originals, strict=True):
        if defect.oracle not in oracles or defect.label is None:
            continue
        clean = replay(worker, original, defect.label, output_kind, 1)[0]
        if int(clean.predicted[0]) < 0:
            continue
        seen = replay(worker, mutant, defect.label, output_kind, 1, before=clean.probabilities, raw_before=clean.raw)[0]
        again[defect.id] = bool(oracles[defect.oracle].complains(seen)[0])
    return again
