"""What the model in production makes of the candidate's defects: does this release bring them in, or has it got them already?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gate.campaign.answered import answered as answers_of
from gate.campaign.raising import Raising
from gate.campaign.supervisor import Worker
from gate.models.outputs import OutputKind
from gate.oracles import observe
from gate.oracles.baseline_disagreement import BaselineDisagreement
from gate.oracles.crash import Crash
from gate.oracles.non_finite import NonFinite
from gate.oracles.oracle import Observation
from gate.oracles.unjustified_confidence import UnjustifiedConfidence
from gate.result import Defect
from gate.triage.backends import is_backend, run_as_found

__all__ = ["answered", "brought_in", "fails_too"]

_NOBODY = -1  # the label of a probe


def brought_in(defect: Defect) -> bool:
    """Whether the baseline answers the defect's file rightly and the candidate does not."""
    return BaselineDisagreement.name in defect.also


def fails_too(defect: Defect, answer: Observation) -> bool | None:
    """Whether the baseline's answer to a defect's file is a failure, too; None where that can't be said.

    An exception counts for an exception, and no finite answer for one that is not finite; where the candidate answers wrongly, any other
    class than the true one counts, and no answer. Where it keeps the class (confidence_collapse, saturated) that would need the baseline's
    answer to the seed input.

    Args:
        defect: of the candidate.
        answer: the baseline's, one row.
    """
    if defect.oracle == Crash.name:
        return 0 in answer.raised
    if defect.oracle == NonFinite.name:
        return bool(answer.predicted[0] < 0)
    if defect.label is not None and defect.predicted != defect.label:
        return bool(answer.predicted[0] != defect.label)
    return bool(UnjustifiedConfidence().complains(answer)[0]) if defect.oracle == UnjustifiedConfidence.name else None


def answered(
    worker: Worker,
    defects: Sequence[Defect],
    x: np.ndarray,
    output_kind: OutputKind,
    batch_size: int,
    value_range: tuple[float, float],
    *,
    book: Callable[[int], None] = lambda _: None,
) -> list[Defect]:
    """The defects with the baseline's answer to their files, and ``baseline_disagreement`` among their oracles where it is right.

    What came from how the model is run is asked in that way; where the baseline can't be run so, its answer is not known. Where it raises
    on a file, as the candidate may do as well, it has no answer.

    Args:
        worker: with the baseline loaded.
        defects: D of them.
        x: [D, ...] their mutants in the file dtype.
        output_kind: how to read the baseline's output.
        batch_size: largest batch.
        value_range: of a file.
        book: told of forward passes beside one of each defect: of files among which the baseline raises.
    """
    labels = np.array([_NOBODY if defect.label is None else defect.label for defect in defects], dtype=np.int64)
    plain = [row for row, defect in enumerate(defects) if not is_backend(defect)]
    found = list(defects)
    if plain:
        raw, raised, wasted = answers_of(worker, x[plain], batch_size, Raising())
        book(wasted)
        seen = observe(raw, output_kind, labels[plain], raised=raised)
        for place, row in enumerate(plain):
            found[row] = _noted(defects[row], _one(seen, place))
    for row, defect in enumerate(defects):
        if row in plain or defect.detail is None:
            continue
        _, answer = run_as_found(worker, x[row], defect.oracle, defect.detail, int(labels[row]), output_kind, value_range)
        if answer is not None:
            found[row] = _noted(defect, answer)
    return found


def _noted(defect: Defect, answer: Observation) -> Defect:
    predicted = int(answer.predicted[0])
    also = tuple(name for name in defect.also if name != BaselineDisagreement.name)
    if defect.predicted != defect.label and BaselineDisagreement().keeps(answer)[0]:
        also = (*also, BaselineDisagreement.name)
    update = {"baseline": None if predicted < 0 else predicted, "also": also, "known": fails_too(defect, answer)}
    return defect.model_copy(update=update)


def _one(seen: Observation, row: int) -> Observation:
    rows = slice(row, row + 1)
    raised = {0: seen.raised[row]} if row in seen.raised else {}
    return Observation(seen.raw[rows], seen.probabilities[rows], seen.predicted[rows], seen.labels[rows], seen.kind, raised=raised)
