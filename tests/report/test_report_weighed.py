"""What the page and the summary say of weighed evidence: distances, defects behind a rule, the baseline, canaries, early decisions."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest
from open_metrics import parse
from sample import DIGITS, make_run
from weighed_sample import paired

from gate.report import html, markdown, openmetrics
from gate.report.beside_baseline import beside_baseline_page, flips_in_words, worse_metrics
from gate.report.canaries import silence_in_words
from gate.report.decided import distance_in_words, early_in_words, evidence_in_words, multiplicity_in_words
from gate.report.numbers import difference, difference_interval
from gate.report.rise import WIDTH, rise
from gate.report.slices import MOST_SLICES, slices_page
from gate.report.words import limits_in_words, rule_result_in_words
from gate.result import CanaryResult, CanarySummary, EarlyDecision, Metric, Multiplicity, Result, RuleResult, Status, Verdict


def text_of(page: str) -> str:
    body = re.sub(r"<(style|script).*?</\1>", "", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", body)).replace("\u00a0", " "))


def section(page: str, name: str) -> str:
    found = re.search(rf'<section id="{name}".*?</section>', page, re.DOTALL)
    assert found is not None, name
    return found.group()


def rule_named(result: Result, name: str) -> RuleResult:
    return next(rule for rule in result.rules if rule.id == name)


def test_each_rule_links_to_the_defects_that_show_it(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 60)
    page = html.render(result, tmp_path)
    rules = section(page, "rules")
    anchors = re.findall(r'<a href="#(d-[0-9a-f]+)">', rules)
    assert set(rule_named(result, "defect-rate").evidence) <= set(anchors)
    assert all(f'id="{anchor}"' in page for anchor in anchors)
    assert "and 55 more defects." in text_of(rules)


def test_a_rule_shows_distance_adjusted_level_and_that_it_is_known(tmp_path: Path) -> None:
    said = text_of(section(html.render(make_run(tmp_path, Verdict.FAIL, 12), tmp_path), "rules"))
    assert "14.0 points beyond the limit" in said
    assert "15.7 points within the limit" in said
    assert "This breach was decided at 99.58 % confidence" in said
    assert "warn known failing-mutants" in said


def test_a_rule_that_only_compares_shows_the_difference_and_no_limit_of_its_own(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 12)
    rule = rule_named(result, "no-worse")
    assert rule_result_in_words(rule) == "+6.2 points beside the baseline"
    assert limits_in_words(rule) == ""
    assert distance_in_words(rule) == "4.2 points beyond what is allowed beside the baseline"
    said = text_of(section(html.render(result, tmp_path), "rules"))
    assert "+6.2 points +4.1 to +8.3 points (95 % interval) 34.0 % here, 27.8 % in the baseline; may rise by 2 points" in said


def test_the_distance_is_read_off_the_limit_in_a_record_without_one() -> None:
    plain = {"id": "a", "metric": "defect_rate", "kind": "quality", "unit": "share", "explanation": "", "threshold": "> 0.20"}
    rule = RuleResult(status=Status.PASS, value=0.05, **plain)  # type: ignore[arg-type]
    assert distance_in_words(rule) == "15.0 points within the limit"
    assert distance_in_words(rule.model_copy(update={"value": 0.25})) == "5.0 points beyond the limit"
    assert distance_in_words(rule.model_copy(update={"value": 0.2})) == "on the limit itself"
    assert distance_in_words(rule.model_copy(update={"status": Status.SKIPPED})) == ""
    assert distance_in_words(rule.model_copy(update={"value": None})) == ""


def test_metrics_beside_the_baseline_stand_worst_first_with_their_intervals(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 12)
    page = beside_baseline_page(result)
    assert page is not None
    sides = [row["side"] for row in page["rows"]]
    assert sides == ["worse"] * 3 + ["no difference shown"] * 2
    assert worse_metrics(result) == ["defect_rate", "mutant_failure_rate", "robust_margin_p05"]
    said = text_of(section(html.render(result, tmp_path), "baseline"))
    assert "Defect rate 34.0 % 27.8 % +6.2 points +4.1 to +8.3 points (95 % interval) 22 % more than the baseline" in said
    assert "1.1 % of the clean samples, 2.1 % of the long-tail samples and 0.7 % of the mutants" in said
    assert "Of 12 defects it was asked about, 8 are new with this candidate and 4 are in the baseline, too." in said
    assert "16 judged seed inputs were not run because the budget ended." in said
    assert "Regression rate: The baseline was the earlier run's candidate." in said
    assert "| Defect rate | 34.0 % | 27.8 % | +6.2 points |" in markdown.render(result)


def test_a_drop_is_the_worse_side_of_an_accuracy(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.PASS, 0)
    worse = result.metrics["clean_accuracy"].model_copy(update={"paired": paired(0.9, 0.95, 0.02, 300)})
    better = worse.model_copy(update={"paired": paired(0.95, 0.9, 0.02, 300)})
    assert "clean_accuracy" in worse_metrics(result.model_copy(update={"metrics": {"clean_accuracy": worse}}))
    assert worse_metrics(result.model_copy(update={"metrics": {"clean_accuracy": better}})) == []


def test_slices_beside_the_baseline_are_sorted_by_how_much_worse_they_became(tmp_path: Path) -> None:
    page = beside_baseline_page(make_run(tmp_path, Verdict.FAIL, 12))
    assert page is not None
    by_class = next(table for table in page["tables"] if table["title"] == "Defect rate by class")
    values = [float(row["rise"].removesuffix(" points").replace("\u2212", "-")) for row in by_class["rows"]]
    assert values == sorted(values, reverse=True)
    assert by_class["worse"] == sum(row["side"] == "worse" for row in by_class["rows"]) > 0
    assert page["tables"][0]["worse"] >= page["tables"][-1]["worse"]


def test_without_a_baseline_there_is_no_such_section(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 3)
    alone = {name: metric.model_copy(update={"paired": None, "paired_reason": None}) for name, metric in result.metrics.items()}
    del alone["negative_flip_rate"]
    bare = result.model_copy(update={"metrics": alone, "canaries": None, "early": None, "multiplicity": None, "against_baseline": None})
    page, summary = html.render(bare, tmp_path), markdown.render(bare)
    for words in ("Beside the baseline, on the same", "What the search finds when", "### Faults planted", "How this was decided"):
        assert words not in page
        assert words not in summary
    assert "gate_compared" not in openmetrics.render(bare)
    assert flips_in_words(bare) is None


def test_slices_stand_weakest_first_and_what_was_not_measured_is_named(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 12)
    part = Metric(value=0.9, lower=0.8, upper=0.95, confidence=0.95, n=40, unit="share")
    parts = {f"class {i}": part.model_copy(update={"value": 0.5 + i / 100}) for i in range(40)}
    forgotten = Metric(value=None, unit="share", reason="no seed input of it is read rightly")
    metrics = {
        "clean_accuracy": result.metrics["clean_accuracy"].model_copy(update={"slices": {"class": {**parts, "nine": forgotten}}}),
        "defect_rate": result.metrics["defect_rate"],
    }
    tables = slices_page(result.model_copy(update={"metrics": metrics}))
    assert [table["title"] for table in tables] == ["Defect rate by class", "Defect rate by family of mutations", "Clean accuracy by class"]
    accuracy = tables[-1]
    assert accuracy["rows"][0]["name"] == "class 0"
    assert accuracy["rows"][0]["interval"] == "80.0 to 95.0 % (95 % interval)"
    assert (len(accuracy["rows"]), accuracy["left_out"]) == (MOST_SLICES, 10)
    assert accuracy["unmeasured"] == "Not measured: nine."
    rates = [float(row["value"].removesuffix(" %")) for row in tables[0]["rows"]]
    assert rates == sorted(rates, reverse=True)
    assert {row["name"] for row in tables[0]["rows"]} == set(DIGITS)


def test_canaries_stand_with_those_missed_first_and_what_silence_is_worth(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.PASS, 0)
    said = text_of(section(html.render(result, tmp_path), "canaries"))
    assert "The search found 4 of 5 faults planted on purpose, with at most " in said
    assert "A real fault of the kind that it missed may be missed, too: that it found none says little about it." in said
    assert "80.0 % found" in said
    order = [said.index(name) for name in ("small mark", "half precision", "deep neuron", "nan on bright")]
    assert order == sorted(order)
    assert "not in 600 executions" in said
    assert "after 590 executions" in said
    assert "The model has no layer that it could be planted in." in said
    assert "small mark: missed in 600 executions. A bright corner makes it seven." in markdown.render(result)
    samples = parse(openmetrics.render(result))
    assert samples["gate_canaries", frozenset({("outcome", "found")})] == 4
    assert samples["gate_canaries", frozenset({("outcome", "missed")})] == 1


@pytest.mark.parametrize(
    ("found", "says"), [([False, False], "says nothing about the model"), ([True, True], "all 2 faults"), ([True], "the only fault")]
)
def test_silence_is_worth_what_the_canaries_say(tmp_path: Path, found: list[bool], says: str) -> None:
    result = make_run(tmp_path, Verdict.PASS, 0)
    assert result.canaries is not None
    canaries = tuple(result.canaries.canaries[0].model_copy(update={"found": one}) for one in found)
    assert says in (silence_in_words(result.model_copy(update={"canaries": CanarySummary(canaries=canaries)})) or "")


@pytest.mark.parametrize(("planted", "said"), [(1, "So few say little"), (5, "So few say little"), (6, "unlikely to be there")])
def test_all_canaries_found_mean_something_only_where_they_are_several(tmp_path: Path, planted: int, said: str) -> None:
    found = tuple(CanaryResult(name=f"c{number}", title="x", found=True) for number in range(planted))
    result = make_run(tmp_path, Verdict.PASS, 0).model_copy(update={"canaries": CanarySummary(canaries=found)})
    assert said in (silence_in_words(result) or "")


def test_the_reason_for_no_canary_is_said(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.PASS, 0).model_copy(update={"canaries": CanarySummary(reason="the campaign was aborted")})
    assert silence_in_words(result) is None
    assert "The campaign was aborted." in text_of(section(html.render(result, tmp_path), "canaries"))


def test_an_early_decision_says_what_it_saved_or_what_was_open(tmp_path: Path) -> None:
    said = early_in_words(make_run(tmp_path, Verdict.FAIL, 3))
    assert said is not None
    assert said.startswith("Decided early: after 12,000 of 30,000 executions and 14 looks, which saved 60 % of the budget.")
    still = early_in_words(make_run(tmp_path, Verdict.INCONCLUSIVE, 3))
    assert still is not None
    assert still == "Not decided early: 40 looks in 12,000 executions; still open: defect-rate."
    timed = EarlyDecision(stopped=True, reason="settled", looks=1, executions=10, seconds=30.0, of_seconds=120.0)
    by_time = make_run(tmp_path, Verdict.PASS, 0).model_copy(update={"early": timed})
    assert "saved 75 % of the budget" in (early_in_words(by_time) or "")
    assert parse(openmetrics.render(by_time))["gate_budget_saved", frozenset()] == 0.75


def test_several_rules_are_said_to_be_allowed_for(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.PASS, 0)
    said = multiplicity_in_words(result) or ""
    assert "12 rules and slices" in said
    assert "at most 5 %" in said
    assert said in markdown.render(result).replace("\\", "")
    alone = multiplicity_in_words(result.model_copy(update={"multiplicity": Multiplicity(tests=1, error=0.1)})) or ""
    assert alone.startswith("One rule")


def test_defects_behind_a_rule_are_counted_beyond_those_named(tmp_path: Path) -> None:
    rule = rule_named(make_run(tmp_path, Verdict.FAIL, 12), "defect-rate")
    assert evidence_in_words(rule.model_copy(update={"evidence": ("d-1",), "evidence_count": 1})) == "d-1"
    assert evidence_in_words(rule.model_copy(update={"evidence": ("d-1", "d-2"), "evidence_count": 3})) == "d-1, d-2 and 1 more defect"
    assert evidence_in_words(rule.model_copy(update={"evidence": (), "evidence_count": 0})) == ""


def test_a_difference_has_its_sign_and_its_unit() -> None:
    assert [difference(value, "share") for value in (0.062, -0.004, 0.0)] == ["+6.2 points", "\u22120.4 points", "none"]
    assert difference(-3, "count") == "\u22123"
    assert difference_interval(-0.01, 0.02, "share", 0.95) == "\u22121.0 to +2.0 points (95 % interval)"
    assert difference_interval(None, 0.02, "share", 0.95) == ""


def test_a_plot_of_what_a_rule_compares_shows_what_is_allowed() -> None:
    up = rise(0.05, 0.02, 0.08, "share", higher_is_worse=True, to=0.1, allowed=0.04)
    down = rise(-0.05, -0.08, -0.02, "share", higher_is_worse=False, to=0.1, allowed=-0.04)
    assert up.limit is not None
    assert down.limit is not None
    assert WIDTH / 2 < up.limit < up.value
    assert (up.worse_from, round(up.worse_from + up.worse_width, 1)) == (up.limit, WIDTH)
    assert down.value < down.limit < WIDTH / 2
    assert (down.worse_from, down.worse_width) == (0.0, down.limit)
    assert up.words.endswith("allowed +4.0 points.")


def test_the_page_draws_what_a_rule_allows_where_its_distance_says(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 3)
    (rule,) = [rule for rule in result.rules if rule.id == "no-worse"]
    page = html.render(result.model_copy(update={"rules": (rule,)}), tmp_path)
    assert (rule.paired.rise if rule.paired else None, rule.distance) == (pytest.approx(0.062), pytest.approx(-0.042))
    assert "allowed +2.0 points." in page.replace("\u00a0", " ")


def test_a_plot_of_a_difference_is_around_zero_and_says_which_side_is_worse() -> None:
    worse = rise(0.05, 0.02, 0.08, "share", higher_is_worse=True, to=0.1)
    assert worse.lower is not None
    assert WIDTH / 2 < worse.lower < worse.value < WIDTH
    assert (worse.side, worse.worse_from, worse.worse_width, worse.limit) == ("worse", WIDTH / 2, WIDTH / 2, None)
    assert (
        rise(0.05, 0.02, 0.08, "share", higher_is_worse=False, to=0.1).side,
        rise(0.05, 0.0, 0.1, "share", higher_is_worse=True, to=0.1).side,
    ) == (
        "better",
        "open",
    )
    assert rise(0.5, None, None, "share", higher_is_worse=False, to=0.1).value <= WIDTH
    assert worse.words == "Difference from the baseline: +5.0 points, interval from +2.0 to +8.0 points."
