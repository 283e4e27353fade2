"""Numbers, scales and curves say what they should."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.metrics.catalogue import CATALOGUE
from gate.policy.threshold import Threshold
from gate.report.bar import WIDTH, bar
from gate.report.curve import panels
from gate.report.numbers import amount, confidence, duration, interval, split
from gate.report.words import moment, side_facts
from gate.result import CurvePoint, Metric

FINITE = st.floats(0, 1e9, allow_nan=False)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.34, "share", "34.0 %"),
        (1.0, "share", "100 %"),
        (0.0, "share", "0 %"),
        (0.9999, "share", "99.99 %"),
        (0.9951, "share", "99.5 %"),
        (0.00761, "share", "0.76 %"),
        (0.000142, "share per execution", "0.014 % per execution"),
        (12000, "count", "12,000"),
        (36.44, "per device-hour", "36.4 per device-hour"),
        (0.22, "severity", "0.22 of 1"),
        (1.0, "severity", "1.00 of 1"),
        (None, "share", "not measured"),
        (math.nan, "share", "not measured"),
    ],
)
def test_an_amount_reads_with_its_unit(value: float | None, unit: str, text: str) -> None:
    assert amount(value, unit) == text


def test_an_interval_names_its_level() -> None:
    assert interval(0.291, 0.393, "share", 0.95) == "29.1 to 39.3 % (95 % interval)"
    assert interval(None, 0.393, "share", 0.95) == ""
    assert split(0.000142, "share per execution") == ("0.014 %", "per execution")
    assert split(2184, "per device-hour") == ("2,184", "per device-hour")


@pytest.mark.parametrize(("seconds", "text"), [(0.42, "0.4 s"), (59.6, "1 min 0 s"), (214.3, "3 min 34 s"), (7500, "2 h 5 min")])
def test_a_duration_reads_in_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_moment_loses_what_nobody_reads_and_other_text_nothing() -> None:
    assert moment("2026-11-29T14:03:11.25+00:00") == "2026-11-29 14:03 UTC"
    assert moment("yesterday") == "yesterday"


@given(FINITE, FINITE, FINITE, st.sampled_from([">", "<"]), FINITE)
def test_value_interval_and_limit_lie_on_the_scale_in_their_order(
    value: float, below: float, above: float, side: str, limit: float
) -> None:
    lower, upper = min(value, below), max(value, above)
    threshold = Threshold.parse(f"{side} {limit + 0.001:.3f}", CATALOGUE["defect_density"])
    made = bar(value, lower, upper, "per device-hour", threshold)
    assert made.lower is not None
    assert made.upper is not None
    assert made.limit is not None
    assert made.breach is not None
    assert 0 <= made.lower <= made.value <= made.upper <= WIDTH
    assert (made.limit <= made.value) or threshold.limit > value
    assert made.breach == ((made.limit, round(WIDTH - made.limit, 1)) if side == ">" else (0.0, made.limit))


@pytest.mark.parametrize("metric", ["robust_margin_p05", "defect_rate"])
def test_the_scale_of_what_cannot_exceed_one_ends_at_one(metric: str) -> None:
    spec = CATALOGUE[metric]
    made = bar(0.46, 0.0, 1.0, spec.unit, Threshold.parse("0.10", spec))
    assert made.end_text == ("100 %" if spec.is_share else "1")
    assert made.upper is not None
    assert made.upper > 0.95 * WIDTH


@pytest.mark.parametrize(
    ("unit", "extra", "words"),
    [
        (
            "share",
            {"file": 4.0, "seed": 0.0, "fresh": 1.0},
            "4 recur in the saved file, 0 recur in the unchanged seed input, 1 recurs in fresh mutants",
        ),
        ("share", {"seeds_without_valid_mutants": 0.0, "seeds_incomplete": 0.0, "mutants": 1440.0}, "1,440 mutants"),
        ("share", {"seeds_incomplete": 3.0}, "3 seed inputs with mutants not run left out"),
        ("share", {"chance": 0.21, "long_tail_errors": 24.0}, "by chance 21.0 %, 24 wrong answers in the long-tail set"),
        ("share", {"initial": 0.81, "final": 0.92}, "seeds alone 81.0 %, at the end 92.0 %"),
        ("per device-hour", {"defects": 8.0, "device_hours": 0.0004}, "8 defects, 1.4 s of device time"),
        ("severity", {"kinds_of_weather": 2.0}, "kinds of weather: 2"),
    ],
)
def test_what_was_counted_beside_a_metric_is_told_as_a_count(unit: str, extra: dict[str, float], words: str) -> None:
    assert side_facts(Metric(value=0.5, unit=unit, extra=extra)) == words


def _curve(number: int) -> list[CurvePoint]:
    return [
        CurvePoint(executions=10 * i, coverage={"kmnc": i / number}, random={"kmnc": i / number / 2}, findings=0, defects=0)
        for i in range(number + 1)
    ]


def test_a_curve_has_a_panel_for_each_criterion_and_a_line_for_each_arm() -> None:
    (panel,) = panels(_curve(50), {"kmnc": "share"})
    assert [line.arm for line in panel.lines] == ["random", "search"]
    points = [tuple(map(float, pair.split(","))) for pair in panel.lines[-1].points.split()]
    assert len(points) == 51
    assert all(a[0] < b[0] and a[1] > b[1] for a, b in pairwise(points))
    assert "from 0 % to 100 %" in panel.words


def test_a_long_curve_is_thinned_and_keeps_its_ends() -> None:
    (panel,) = panels(_curve(5000), {"kmnc": "share"})
    assert len(panel.lines[-1].points.split()) <= 300
    assert panel.lines[-1].last == "100 %"


@pytest.mark.parametrize("curve", [[], _curve(1)[:1], [CurvePoint(executions=5, coverage={"nc": 0.5}, findings=0, defects=0)] * 3])
def test_a_curve_of_one_moment_is_not_drawn(curve: list[CurvePoint]) -> None:
    assert panels(curve, {}) == []


def test_a_flat_curve_is_drawn() -> None:
    flat = [CurvePoint(executions=i, coverage={"nc": level}, findings=0, defects=0) for i in range(3) for level in (1.0,)]
    (panel,) = panels(flat, {"kmnc": "share"})
    assert len(panel.y) >= 2


@pytest.mark.parametrize(
    ("value", "words"),
    [(1.0, "100 %"), (0.99999982, "over 99.9 %"), (0.794, "79.4 %"), (0.0012, "0.1 %"), (2e-7, "under 0.1 %"), (0.0, "0 %")],
)
def test_how_sure_a_model_is_has_no_more_digits_than_mean_something(value: float, words: str) -> None:
    assert confidence(value) == words
