"""Confident errors and missed positives: what counts, what does not, and when there is nothing to say."""

from __future__ import annotations

from typing import Any

import pytest
from scipy import stats

from gate.metrics import Evidence, compute
from gate.metrics.evidence import JudgedSeed

CLASSES = ("sound", "crack", "hole")


def judged(name: str, label: int, answers: list[tuple[int, float]], *, valid: tuple[bool, ...] | None = None) -> JudgedSeed:
    """Mutants as (class predicted, its confidence), one family after the other."""
    count = len(answers)
    return JudgedSeed(
        seed_id=name,
        label=label,
        operators=("blur", "noise")[:count],
        families=("blur", "noise")[:count],
        severities=(0.5,) * count,
        valid=valid or (True,) * count,
        failed=tuple(predicted != label for predicted, _ in answers),
        predicted=tuple(predicted for predicted, _ in answers),
        confidence=tuple(confidence for _, confidence in answers),
    )


def evidence(*seeds: JudgedSeed, **more: Any) -> Evidence:
    return Evidence(seed=1, classes=CLASSES, judged=seeds, judging_mutants_per_seed=2, **more)


FIVE = (
    judged("sure and wrong", 0, [(0, 0.99), (1, 0.9)]),
    judged("unsure and wrong", 0, [(1, 0.89), (2, 0.6)]),
    judged("sure and right", 1, [(1, 1.0), (1, 0.95)]),
    judged("taken for another positive", 1, [(2, 0.97), (1, 0.7)]),
    judged("missed without being sure", 2, [(0, 0.5), (2, 0.9)]),
)


def test_only_a_sure_wrong_answer_is_a_confident_error() -> None:
    metric = compute(evidence(*FIVE))["confident_error_rate"]
    assert (metric.value, metric.n) == (2 / 5, 5)
    low, high = stats.binomtest(2, 5).proportion_ci(0.95, method="exact")
    assert (metric.lower, metric.upper) == pytest.approx((low, high))
    assert {name: part.value for name, part in metric.slices["class"].items()} == {"sound": 0.5, "crack": 0.5, "hole": 0.0}
    assert {name: part.value for name, part in metric.slices["family"].items()} == {"blur": 0.2, "noise": 0.2}


def test_what_is_read_as_another_positive_class_is_no_miss() -> None:
    metric = compute(evidence(*FIVE, positive=(1, 2)))["missed_positive_rate"]
    assert (metric.value, metric.n) == (1 / 3, 3)
    assert {name: part.value for name, part in metric.slices["class"].items()} == {"crack": 0.0, "hole": 1.0}


def test_an_invalid_mutant_is_neither() -> None:
    seen = compute(evidence(judged("a", 1, [(0, 0.99), (1, 0.8)], valid=(False, True)), positive=(1,)))
    assert seen["confident_error_rate"].value == seen["missed_positive_rate"].value == 0.0


def test_an_output_that_is_not_finite_misses_a_positive_and_is_sure_of_nothing() -> None:
    seen = compute(evidence(judged("a", 1, [(-1, 0.0), (1, 0.8)]), positive=(1,)))
    assert (seen["confident_error_rate"].value, seen["missed_positive_rate"].value) == (0.0, 1.0)


def test_evidence_of_a_run_that_recorded_no_confidence_still_loads_and_says_so() -> None:
    stored = evidence(*FIVE, positive=(1,)).model_dump(mode="json")
    for row in stored["judged"]:
        del row["confidence"]
    seen = compute(Evidence.model_validate(stored))
    assert seen["confident_error_rate"].value is None
    assert "did not record how sure" in (seen["confident_error_rate"].reason or "")
    assert seen["missed_positive_rate"].value is not None


def test_without_a_positive_class_or_without_its_seed_inputs_nothing_is_missed() -> None:
    assert compute(evidence(*FIVE))["missed_positive_rate"].reason == "the policy names no positive classes"
    reason = compute(evidence(FIVE[0], positive=(1,)))["missed_positive_rate"].reason
    assert reason == "the judging arm ran no seed input of the positive classes"
