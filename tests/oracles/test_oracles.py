"""Who complains about what, and which complaint counts."""

from __future__ import annotations

import numpy as np
import pytest

from gate.models.outputs import OutputKind, predictions, probabilities
from gate.oracles import ALL, ORACLES, Observation, complaints, observe
from gate.oracles.baseline_disagreement import BaselineDisagreement
from gate.oracles.changed_prediction import MARGIN, ChangedPrediction
from gate.oracles.confidence_collapse import ConfidenceCollapse
from gate.oracles.confident_misclassification import ConfidentMisclassification
from gate.oracles.crash import Crash
from gate.oracles.flaky import Flaky, answers
from gate.oracles.non_finite import NonFinite
from gate.oracles.saturated import FLOAT16_MAX, Saturated
from gate.oracles.timeout import Timeout

NAN = float("nan")


def seen(raw: list[list[float]], labels: list[int], kind: OutputKind = OutputKind.LOGITS) -> Observation:
    return observe(np.array(raw, dtype=np.float32), kind, np.array(labels))


def after(raw: list[list[float]], before: list[list[float]], labels: list[int], kind: OutputKind) -> Observation:
    numbers, clean = np.array(raw, dtype=np.float32), np.array(before, dtype=np.float32)
    return observe(numbers, kind, np.array(labels), before=probabilities(clean, kind), raw_before=clean)


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
    assert [oracle.name for oracle in ORACLES][:4] == ["crash", "timeout", "non_finite", "changed_prediction"]
    assert [oracle.rank for oracle in ALL] == list(range(len(ALL)))
    assert len({oracle.name for oracle in ALL}) == len(ALL)


def test_what_sharpens_a_changed_prediction_never_names_the_defect() -> None:
    assert ConfidentMisclassification.rank > ChangedPrediction.rank
    assert BaselineDisagreement.rank > ChangedPrediction.rank
    assert names(seen([[0, 9, 0]], [0])) == ["changed_prediction"]


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


def test_an_exception_is_a_crash_and_no_broken_number() -> None:
    found = observe(np.array([[NAN, NAN], [NAN, NAN], [3, 0]], dtype=np.float32), OutputKind.LOGITS, np.zeros(3, int), raised={0: "E: x"})
    assert names(found) == ["crash", "non_finite", None]
    assert Crash().holds(found).tolist() == [True, False, False]
    assert NonFinite().complains(found).tolist() == [False, True, False]


def test_no_answer_in_time_is_no_broken_number_either() -> None:
    found = observe(np.array([[NAN, NAN]], dtype=np.float32), OutputKind.LOGITS, np.zeros(1, int), silent=frozenset({0}))
    assert names(found) == ["timeout"]
    assert Timeout().holds(found).tolist() == [True]


def test_a_score_that_float16_cannot_hold_is_saturated_where_the_seed_inputs_was_not() -> None:
    large = FLOAT16_MAX * 2
    found = after(
        [[large, 0], [FLOAT16_MAX, 0], [large, 0], [9, 0], [np.inf, 0]],
        [[5, 0], [5, 0], [large, 0], [5, 0], [5, 0]],
        [0] * 5,
        OutputKind.LOGITS,
    )
    assert Saturated().complains(found).tolist() == [True, True, False, False, False]
    assert Saturated().holds(found).tolist() == [True, False, False, False, False]
    assert Saturated(above=8).complains(found).tolist() == [True, True, False, True, False]
    assert not Saturated().complains(after([[-large, -large]], [[-1, -1]], [0], OutputKind.LOG_PROBABILITIES)).any()
    assert not Saturated().complains(seen([[large, 0]], [0])).any()  # nothing is known of the seed input


def test_a_lead_that_is_gone_collapsed_only_where_there_was_one_and_the_label_still_comes_first() -> None:
    found = after(
        [[0.52, 0.48], [0.52, 0.48], [0.7, 0.3], [0.48, 0.52], [NAN, 0.5]],
        [[0.9, 0.1], [0.6, 0.4], [0.9, 0.1], [0.9, 0.1], [0.9, 0.1]],
        [0] * 5,
        OutputKind.PROBABILITIES,
    )
    assert ConfidenceCollapse().complains(found).tolist() == [True, False, False, False, False]
    assert ConfidenceCollapse(below=0.5).complains(found).tolist() == [True, False, True, False, False]
    assert ConfidenceCollapse(clean=0.1).complains(found).tolist() == [True, True, False, False, False]
    assert not ConfidenceCollapse().complains(seen([[0.52, 0.48]], [0], OutputKind.PROBABILITIES)).any()


@pytest.mark.parametrize(("lead", "clear"), [(0.0999999, False), (0.09, True), (1e-6, False)])
def test_a_collapse_holds_with_a_margin_on_both_sides(lead: float, clear: bool) -> None:
    found = after([[0.5 + lead / 2, 0.5 - lead / 2]], [[0.9, 0.1]], [0], OutputKind.PROBABILITIES)
    assert ConfidenceCollapse().complains(found).tolist() == [True]
    assert ConfidenceCollapse().holds(found).tolist() == [clear]


def test_a_confident_error_is_a_wrong_class_above_the_threshold_by_a_margin() -> None:
    found = seen([[0.05, 0.95], [0.2, 0.8], [0.95, 0.05], [0.1 - 2e-6, 0.9 + 2e-6], [NAN, 1.0]], [0] * 5, OutputKind.PROBABILITIES)
    assert ConfidentMisclassification().complains(found).tolist() == [True, False, False, True, False]
    assert ConfidentMisclassification().holds(found).tolist() == [True, False, False, False, False]
    assert ConfidentMisclassification(above=0.7).holds(found).tolist() == [True, True, False, True, False]


def test_the_baseline_disagrees_where_it_alone_keeps_the_label_clearly() -> None:
    kind = OutputKind.PROBABILITIES
    candidate = seen([[0.2, 0.8], [0.8, 0.2], [NAN, 0.5], [0.2, 0.8], [0.2, 0.8]], [0] * 5, kind)
    baseline = seen([[0.8, 0.2], [0.8, 0.2], [0.8, 0.2], [0.3, 0.7], [0.50001, 0.49999]], [0] * 5, kind)
    assert BaselineDisagreement().complains(candidate, baseline).tolist() == [True, False, True, False, False]


def test_replays_that_do_not_all_say_the_same_are_flaky() -> None:
    same, other, broken = seen([[3, 0]], [0]), seen([[0, 3]], [0]), seen([[NAN, 0]], [0])
    raised = observe(np.array([[NAN, NAN]], dtype=np.float32), OutputKind.LOGITS, np.array([0]), raised={0: "ValueError: no"})
    assert answers([other, other, same, broken, raised]) == {"1": 2, "0": 1, "non_finite": 1, "crash": 1}
    assert Flaky().complains([other, same], "1")
    assert not Flaky().complains([other, other], "1")
    assert Flaky().complains([other, other], "0")
