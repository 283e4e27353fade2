"""Every rendering says the same about limits, skipped rules, the judged half and how to do it again."""

from __future__ import annotations

import html as escapes
from pathlib import Path

import pytest
from sample import make_run

from gate.report import html, junit, markdown
from gate.report.words import limits_in_words
from gate.result import Result, RuleResult, Status, Verdict


def _with_rule(result: Result, **changes: object) -> Result:
    """The run with its defect-rate rule alone, changed."""
    return result.model_copy(update={"rules": (result.rules[0].model_copy(update=changes),)})


def _page(result: Result, folder: Path) -> str:
    return escapes.unescape(html.render(result, folder)).replace("\u00a0", " ")


def _section(page: str, name: str) -> str:
    start = page.index(f'<section id="{name}"')
    return page[start : page.index("</section>", start)]


def test_a_rule_that_only_warns_is_not_said_to_be_breached(tmp_path: Path) -> None:
    result = _with_rule(make_run(tmp_path, Verdict.PASS, 0), threshold="> 0.10", warn="> 0.10")
    for text in (_page(result, tmp_path), markdown.render(result).replace("\\", ""), escapes.unescape(junit.render(result, tmp_path))):
        assert "arns above 10 %" in text
        assert "reached above 10 %" not in text


def test_a_rule_with_both_limits_names_both(tmp_path: Path) -> None:
    result = _with_rule(make_run(tmp_path, Verdict.PASS, 0), threshold="> 0.20", warn="> 0.10")
    for text in (_page(result, tmp_path), markdown.render(result).replace("\\", "")):
        assert "breached above 20 %; warns above 10 %" in text


@pytest.mark.parametrize(
    ("metric", "unit", "text", "said"),
    [
        ("clean_accuracy", "share", "< 0.60", "breached below 60 %"),
        ("coverage_gain", "share", "<= 0", "breached at 0 % or less"),
        ("crashes", "count", ">= 1", "breached at 1 or more"),
        ("executions", "count", "< 1000", "breached below 1,000"),
        ("crashes", "count", "as agreed", "breached when as agreed"),
    ],
)
def test_a_limit_is_said_in_the_unit_that_the_value_is_shown_in(metric: str, unit: str, text: str, said: str) -> None:
    rule = RuleResult(id="r", metric=metric, kind="quality", status=Status.PASS, value=0.0, unit=unit, threshold=text, explanation="")
    assert limits_in_words(rule) == said


def test_the_summary_gives_a_rule_that_holds_one_short_row(tmp_path: Path) -> None:
    row = next(line for line in markdown.render(make_run(tmp_path, Verdict.PASS, 0)).splitlines() if "| defect-rate |" in line)
    assert " % interval" in row.split("|")[3]
    assert row.split("|")[6].strip() == "–"


def test_a_skipped_rule_shows_no_value_though_its_metric_has_one(tmp_path: Path) -> None:
    result = _with_rule(make_run(tmp_path, Verdict.PASS, 0), status=Status.SKIPPED, explanation="No slice has enough samples.")
    assert result.rules[0].value is not None
    rules = _section(_page(result, tmp_path), "rules")
    assert "not measured" in rules
    assert '<svg class="scale"' not in rules
    assert "interval)" not in rules
    assert "| not measured | breached above" in markdown.render(result)
    numbers = _section(_page(result, tmp_path), "numbers")
    assert "limit 20" not in numbers  # a limit for slices is none for the whole


def test_doing_it_again_needs_the_settings_file_and_a_new_folder(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 3)
    for text in (_page(result, tmp_path), markdown.render(result)):
        assert "with the same settings file:" in text
        assert "--out again" in text
        assert "--judge-half" not in text
        assert "of the seed inputs only" not in text


def test_numbers_from_half_of_the_seed_inputs_say_so(tmp_path: Path) -> None:
    whole = make_run(tmp_path, Verdict.FAIL, 3)
    assert whole.campaign is not None
    result = whole.model_copy(update={"campaign": whole.campaign.model_copy(update={"judge_half": "b"})})
    for text in (_page(result, tmp_path), markdown.render(result)):
        assert "from half b of the seed inputs only" in text
        assert "--judge-half b" in text
