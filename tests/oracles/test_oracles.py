"""Who complains about what, and which complaint counts."""

from __future__ import annotations

import numpy as np
import pytest

from gate.models.outputs import OutputKind, predictions, probabilities
from gate.oracles import ORACLES, Observation, complaints
from gate.oracles.changed_prediction import MARGIN, ChangedPrediction
from gate.oracles.non_finite import NonFinite


def seen(raw: list[list[float]], labels: list[int], kind: OutputKind = OutputKind.LOGITS) -> Observation:
    numbers = np.array(raw, dtype=np.float32)
    return Observation(numbers, probabilities(numbers, kind), predictions(numbers, kind), np.array(labels))


def names(found: Observation) -> list[str | None]:
    return [None if position < 0 else ORACLES[position].name for position in complaints(found)]


def test_each_sample_gets_the_complaint_that_fits() -> None:
    found = seen(
        [[3, 0, 0], [0, 3, 0], [np.nan, 9, 0], [0, np.inf, 0], [-np.inf, 3, 0], [0, 0, 0]],
        [0, 0, 1, 1, 1, 0],
    )
    assert names(found) == [None, "changed_prediction", "non_finite", "non_finite", "non_finite", None]
    assert complaints(found).dtype == np.int64


def test_a_fault_outranks_a_wrong_class() -> None:
    assert NonFinite.rank < ChangedPrediction.rank
    assert sorted({oracle.rank for oracle in ORACLES}) == [0, 1]
    assert len({oracle.name for oracle in ORACLES}) == len(ORACLES)


def test_an_empty_batch_has_no_complaints() -> None:
    nothing = np.empty((0, 3), dtype=np.float32)
    found = Observation(
        nothing, probabilities(nothing, OutputKind.LOGITS), predictions(nothing, OutputKind.LOGITS), np.empty(0, dtype=np.int64)
    )
    assert complaints(found).shape == (0,)


@pytest.mark.parametrize(("lead", "clear"), [(MARGIN / 4, False), (MARGIN * 4, True)])
def test_a_wrong_class_holds_only_with_a_lead(lead: float, clear: bool) -> None:
    half = (1 - lead) / 2
    found = seen([[half, half + lead]], [0], OutputKind.PROBABILITIES)
    assert ChangedPrediction().complains(found).tolist() == [True]
    assert ChangedPrediction().holds(found).tolist() == [clear]


def test_the_lead_is_over_the_label_not_over_the_second_best() -> None:
    found = seen([[0.2, 0.4, 0.39999]], [0], OutputKind.PROBABILITIES)
    assert ChangedPrediction().holds(found).tolist() == [True]


def test_what_is_right_or_not_finite_never_holds_as_a_wrong_class() -> None:
    found = seen([[3, 0], [np.nan, 1]], [0, 0])
    assert ChangedPrediction().holds(found).tolist() == [False, False]
    assert NonFinite().holds(found).tolist() == [False, True]


def test_one_sigmoid_is_judged_like_two_classes() -> None:
    found = seen([[2.0], [-2.0], [np.nan]], [0, 0, 0], OutputKind.SIGMOID_LOGIT)
    assert names(found) == ["changed_prediction", None, "non_finite"]
    assert ChangedPrediction().holds(found).tolist() == [True, False, False]
