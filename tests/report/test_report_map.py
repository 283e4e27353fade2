"""The map of features: which two classes stand out, what a ring says, and where it leads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from page_visit import Visit
from sample import make_run

from gate.report.feature_map import map_page
from gate.result import FeatureMap, MapPoint, Verdict


def _seeds(label: int, x: float) -> list[MapPoint]:
    return [MapPoint(x=x, y=y / 4, label=label) for y in range(5)]


def test_the_pair_of_the_largest_root_cause_stands_out_and_the_table_says_where_mutants_lie(tmp_path: Path) -> None:
    base = make_run(tmp_path, Verdict.FAIL, 12)
    largest = base.root_causes[0].model_copy(update={"size": 99, "label": 4, "predicted": 9})
    d = [defect.id for defect in base.defects]
    mutants = [
        MapPoint(x=0.9, y=0.5, label=4, defect=d[0]),
        MapPoint(x=0.8, y=0.4, label=4, defect=d[1]),
        MapPoint(x=0.1, y=0.5, label=4, defect=d[2]),
        MapPoint(x=0.5, y=0.5, label=7, defect="d-gone"),
    ]
    points = (*_seeds(4, 0.0), *_seeds(9, 1.0), *_seeds(7, 0.5), *mutants)
    result = base.model_copy(update={"root_causes": (*base.root_causes, largest), "feature_map": FeatureMap(method="tsne", points=points)})
    page = map_page(result, {d[0]: d[0], d[1]: d[1]})
    assert page is not None
    assert page["pair"] == (4, 9)
    assert [group for *_, group in page["seeds"]].count("a") == 5
    assert [group for *_, group in page["seeds"]].count("b") == 5
    assert [one["anchor"] for one in page["mutants"]] == [d[0], d[1], None, None]
    assert page["rows"][0] == {"name": "four", "mutants": "3", "own": "1 (33.3 %)", "other": "nine (2)"}
    assert page["rows"][1]["other"] == "none"


def test_where_there_is_no_map_its_reason_stands_in_its_place(tmp_path: Path) -> None:
    base = make_run(tmp_path, Verdict.FAIL, 3)
    assert map_page(base.model_copy(update={"feature_map": None}), {}) is None
    page = map_page(base.model_copy(update={"feature_map": FeatureMap(method="none", reason="there are too few defects")}), {})
    assert page is not None
    assert page["reason"] == "There are too few defects."


@pytest.mark.browser
def test_two_classes_are_chosen_rings_speak_and_open_their_defect(run_named: Callable[[str], Path], visit: Visit) -> None:
    page = visit.page
    page.goto((run_named("fail with 300 defects") / "report.html").as_uri())
    page.locator("#map-a").select_option(label="eight")
    page.locator("#map-b").select_option(label="three")
    dots = "group => [...new Set([...document.querySelectorAll(`#map g .seed.${group}`)].map(dot => dot.dataset.l))]"
    assert page.evaluate(dots, "a") == ["8"]
    assert page.evaluate(dots, "b") == ["3"]
    assert page.locator(".map-legend").inner_text().split()[:2] == ["eight", "three"]
    shapes = "group => [...new Set([...document.querySelectorAll(`#map .seed.${group}`)].map(dot => dot.getAttribute('d')))]"
    a, b, rest = (page.evaluate(shapes, group) for group in ("a", "b", "rest"))  # of the dots and of the legend
    assert [len(a), len(b), len(rest)] == [1, 1, 1]
    assert len({a[0], b[0], rest[0]}) == 3  # told apart without colour as well

    assert page.locator("#map a.mutant[tabindex='0']").count() == 1  # one stop of the Tab key
    page.locator("#map-b").focus()
    page.keyboard.press("Tab")
    first = page.evaluate("document.activeElement.getAttribute('href')")
    assert page.locator(".map-said").inner_text().startswith(("eight read as", "three read as"))
    page.keyboard.press("ArrowRight")
    second = page.evaluate("document.activeElement.getAttribute('href')")
    assert second != first
    assert page.evaluate("['3', '8'].includes(document.activeElement.dataset.l)")
    page.keyboard.press("Enter")
    assert page.locator(f"[id='{second[1:]}']").is_visible()
    assert page.evaluate("document.activeElement.id") == second[1:]
    assert visit.complaints == []
