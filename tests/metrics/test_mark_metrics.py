"""Metrics of universal marks and of probes, against values worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from scipy import stats

from gate.metrics import Evidence, compute
from gate.metrics.evidence import MarkEvidence


def evidence(**more: Any) -> Evidence:
    return Evidence(**{"seed": 3, "classes": ("cat", "truck"), **more})


def exact(k: int, n: int, confidence: float) -> tuple[float, float]:
    interval = stats.binomtest(k, n).proportion_ci(confidence, method="exact")
    return float(interval.low), float(interval.high)


MARKS = (
    MarkEvidence(kind="patch", label=0, moved=30, inputs=100),
    MarkEvidence(kind="blend", label=1, moved=12, inputs=30),
    MarkEvidence(kind="border", label=1, moved=0, inputs=90),
)


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_the_largest_share_has_an_interval_that_holds_for_all_marks_together(confidence: float) -> None:
    rate = compute(evidence(marks=MARKS), confidence=confidence)["universal_mark_rate"]
    assert (rate.value, rate.n, rate.extra) == (0.4, 30, {"marks": 3.0})
    each = 1 - (1 - confidence) / 3
    assert rate.lower == pytest.approx(max(exact(one.moved, one.inputs, each)[0] for one in MARKS))
    assert rate.upper == pytest.approx(max(exact(one.moved, one.inputs, each)[1] for one in MARKS))
    assert rate.lower == pytest.approx(exact(12, 30, each)[0], abs=0.06)


def test_one_mark_alone_has_the_plain_interval() -> None:
    rate = compute(evidence(marks=MARKS[:1]))["universal_mark_rate"]
    assert (rate.lower, rate.upper) == pytest.approx(exact(30, 100, 0.95))


def test_without_a_mark_the_reason_is_the_searchs() -> None:
    assert compute(evidence(marks_reason="too few seed inputs"))["universal_mark_rate"].reason == "too few seed inputs"
    assert compute(evidence())["universal_mark_rate"].reason == "no marks were searched for"


def test_disagreements_are_probes_and_zero_means_that_some_were_compared() -> None:
    found = compute(evidence(probes_compared=96, probes_disagreeing=3))["backend_disagreements"]
    assert (found.value, found.n) == (3, 96)
    assert compute(evidence(probes_compared=96))["backend_disagreements"].value == 0
    none = compute(evidence(probes_reason="the model is not deterministic"))["backend_disagreements"]
    assert (none.value, none.reason) == (None, "the model is not deterministic")
