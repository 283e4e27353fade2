"""Oracles that need no label: two answers to one input, and certainty where nothing is to be seen."""

from __future__ import annotations

import numpy as np

from gate.models.outputs import OutputKind, predictions, probabilities
from gate.oracles import Observation
from gate.oracles.batch_dependence import BatchDependence
from gate.oracles.numeric_path import NumericPath
from gate.oracles.pair import apart
from gate.oracles.unjustified_confidence import UnjustifiedConfidence


def seen(*rows: tuple[float, float]) -> Observation:
    raw = np.array(rows, dtype=np.float32)
    kind = OutputKind.PROBABILITIES
    return Observation(raw, probabilities(raw, kind), predictions(raw, kind), np.full(len(raw), -1))


NAN = float("nan")


def test_answers_are_apart_by_their_largest_difference_and_wholly_where_one_is_not_finite() -> None:
    first = seen((0.5, 0.5), (0.9, 0.1), (NAN, 0.1), (NAN, NAN))
    second = seen((0.5, 0.5), (0.7, 0.3), (0.5, 0.5), (NAN, 0.0))
    assert np.allclose(apart(first, second), [0, 0.2, 1, 0])


def test_company_may_change_a_probability_by_a_rounding_error_only() -> None:
    assert BatchDependence().complains(seen((0.5, 0.5), (0.5, 0.5)), seen((0.5005, 0.4995), (0.502, 0.498))).tolist() == [False, True]


def test_each_numeric_path_has_its_own_tolerance() -> None:
    first, second = seen((0.6, 0.4), (0.9, 0.1)), seen((0.4, 0.6), (0.1, 0.9))
    assert NumericPath("float64").complains(first, second).all()
    assert NumericPath("channels_last").complains(first, second).all()
    assert NumericPath("bfloat16").complains(first, second).tolist() == [False, True]
    assert NumericPath("float16").complains(seen((0.6, 0.4), (0.6, 0.4)), seen((0.4, 0.6), (0.3, 0.7))).tolist() == [False, True]


def test_with_eight_bits_only_another_class_counts_that_leads_clearly_on_both_sides() -> None:
    first = seen((0.9, 0.1), (0.9, 0.1), (0.6, 0.4), (0.9, 0.1), (0.9, 0.1))
    second = seen((0.6, 0.4), (0.4, 0.6), (0.1, 0.9), (0.3, 0.7), (NAN, 0.1))
    wanted = [False, False, False, True, True]  # moved, hardly turned, never decided, turned, broken
    assert NumericPath("int8").complains(first, second).tolist() == wanted
    assert NumericPath("int8").turned(first, second).tolist() == wanted


def test_a_difference_of_probability_turns_no_class() -> None:
    first, second = seen((0.9, 0.1), (NAN, NAN)), seen((0.6, 0.4), (0.1, 0.9))
    assert NumericPath("float64").complains(first, second).tolist() == [True, True]
    assert NumericPath("float64").turned(first, second).tolist() == [False, False]


def test_alone_and_in_company_either_answer_may_be_the_broken_one() -> None:
    first, second = seen((0.9, 0.1), (NAN, NAN), (0.9, 0.1), (0.9, 0.1)), seen((NAN, NAN), (0.9, 0.1), (0.1, 0.9), (0.8, 0.2))
    assert BatchDependence().turned(first, second).tolist() == [True, True, True, False]


def test_certainty_is_noted_above_99_percent_and_never_of_a_broken_answer() -> None:
    assert UnjustifiedConfidence().complains(seen((0.995, 0.005), (0.98, 0.02), (NAN, 1.0))).tolist() == [True, False, False]
