"""Curves and numbers of margins against hand cases."""

from __future__ import annotations

from pathlib import Path

import pytest
from sample import make_run

from gate.report.margins import margins_page
from gate.result import FamilyMargin, Verdict


def test_the_curve_rises_where_seed_inputs_fail_and_the_table_names_the_severities(tmp_path: Path) -> None:
    margins = (
        FamilyMargin(family="blur", seeds=20, failed=0),
        FamilyMargin(family="noise", seeds=0, failed=0),
        FamilyMargin(family="geometry", seeds=8, failed=4, severities=(0.25, 0.5, 0.5, 1.0)),
    )
    page = margins_page(make_run(tmp_path, Verdict.FAIL, 1).model_copy(update={"margins": margins}))
    assert page is not None
    worst, sound = page["panels"]
    assert (worst["name"], worst["seeds"], worst["failed"], worst["share"]) == ("geometry", "8", "4", "50.0 %")
    assert worst["reached"] == ["0.25", "0.50", "1.00"]  # of 8, 5 % is the first, a quarter the second, half the fourth
    assert sound["reached"] == ["never"] * 3
    assert "no" not in [panel["name"] for panel in page["panels"]]
    left, right, bottom = page["frame"]["left"], page["frame"]["right"], page["frame"]["bottom"]
    corners = [tuple(map(float, corner.split(","))) for corner in worst["line"].split()]
    assert corners[0] == (left, bottom)
    assert corners[-1][0] == right
    half = (left + right) / 2
    heights = [bottom - y for x, y in corners if x == half]
    assert min(heights) * 3 == pytest.approx(max(heights), abs=0.3)  # from one in eight to three in eight at severity 0.5
    assert [x for x, _ in corners] == sorted(x for x, _ in corners)
    assert all(float(corner.split(",")[1]) == bottom for corner in sound["line"].split())


def test_a_thousand_severities_are_thinned_and_the_end_stays_true(tmp_path: Path) -> None:
    many = FamilyMargin(family="blur", seeds=1000, failed=1000, severities=tuple(i / 999 for i in range(1000)))
    page = margins_page(make_run(tmp_path, Verdict.FAIL, 1).model_copy(update={"margins": (many,)}))
    assert page is not None
    assert len(page["panels"][0]["line"].split()) < 300
    assert page["panels"][0]["line"].split()[-1] == page["panels"][0]["line"].split()[-2]  # all have failed by the end
    assert page["panels"][0]["reached"] == ["0.05", "0.25", "0.50"]


def test_without_margins_there_is_no_section(tmp_path: Path) -> None:
    assert margins_page(make_run(tmp_path, Verdict.FAIL, 1).model_copy(update={"margins": ()})) is None
