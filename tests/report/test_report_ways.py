"""What the report says of other ways of running the model, and of the baseline."""

from __future__ import annotations

from pathlib import Path

import pytest
from sample import make_run

from gate.report import write
from gate.report.ways import ways_page
from gate.result import BaselineSummary, PathsSummary, PathTally, Result, Verdict

TALLIES = {
    "batch_dependence": PathTally(tried=20, findings=0, worst=1e-7),
    "numeric_path:float16": PathTally(tried=20, findings=3, worst=1.0),
}


@pytest.fixture
def run(tmp_path: Path) -> Result:
    return make_run(tmp_path, Verdict.PASS, 0)


def test_a_run_without_either_has_no_such_section(run: Result) -> None:
    assert ways_page(run.model_copy(update={"paths": None, "against_baseline": None})) is None


def test_each_way_has_a_row_that_says_how_many_inputs_it_changes(run: Result) -> None:
    paths = PathsSummary(seeds=10, mutants=10, disagreeing=3, ways=TALLIES, untaken={"numeric_path:int8": "no linear layer"})
    page = ways_page(run.model_copy(update={"paths": paths}))
    assert page is not None
    assert [(row["title"], row["status"], row["found"]) for row in page["rows"]] == [
        ("Alone and beside other inputs", "pass", "none of 20"),
        ("In half precision (float16)", "fail", "3 of 20: another class, or no finite output"),
    ]
    assert page["untaken"] == ["With 8-bit integers (int8, dynamic quantisation): no linear layer"]
    assert "10 seed inputs and 10 mutants" in page["lead"]


def test_the_baseline_is_told_in_words_also_where_it_was_not_asked(run: Result) -> None:
    asked = ways_page(run.model_copy(update={"against_baseline": BaselineSummary(asked=9, brought_in=4, same=5, sure_of_nothing=2)}))
    assert asked is not None
    for words in ("asked about 9 defects", "new with this candidate: 4", "has already: 5", "sure of a class on 2"):
        assert words in asked["baseline"]
    left_out = ways_page(run.model_copy(update={"against_baseline": BaselineSummary(reason="the budget ended")}))
    assert left_out is not None
    assert left_out["baseline"] == "The baseline was not asked: the budget ended."


def test_the_page_shows_it_and_hostile_text_stays_text(run: Result, tmp_path: Path) -> None:
    said = "<script>alert(1)</script>"
    paths = PathsSummary(seeds=1, ways={**TALLIES, said: TALLIES["batch_dependence"]}, untaken={said: said})
    write(run.model_copy(update={"paths": paths, "against_baseline": BaselineSummary(reason=said)}), tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'id="ways"' in page
    assert "In half precision (float16)" in page
    assert said not in page


def test_why_nothing_was_compared_is_said(run: Result) -> None:
    page = ways_page(run.model_copy(update={"paths": PathsSummary(reason="the model is not deterministic")}))
    assert page is not None
    assert (page["reason"], page["rows"], page["lead"]) == ("The model is not deterministic.", [], "")
