"""Every rendering says the same about limits, skipped rules, the judged half and how to do it again."""

from __future__ import annotations

import html as escapes
from pathlib import Path

from sample import make_run

from gate.report import html, junit, markdown
from gate.result import Result, Status, Verdict


def _with_rule(result: Result, **changes: object) -> Result:
    """The run with its defect-rate rule alone, changed."""
    return result.model_copy(update={"rules": (result.rules[0].model_copy(update=changes),)})


def _page(result: Result, folder: Path) -> str:
    return escapes.unescape(html.render(result, folder))


def _section(page: str, name: str) -> str:
    start = page.index(f'<section id="{name}"')
    return page[start : page.index("</section>", start)]


def test_a_rule_that_only_warns_is_not_said_to_be_breached(tmp_path: Path) -> None:
    result = _with_rule(make_run(tmp_path, Verdict.PASS, 0), threshold="> 0.10", warn="> 0.10")
    for text in (_page(result, tmp_path), markdown.render(result).replace("\\", ""), escapes.unescape(junit.render(result, tmp_path))):
        assert "arns when > 0.10" in text
        assert "reached when > 0.10" not in text


def test_a_rule_with_both_limits_names_both(tmp_path: Path) -> None:
    result = _with_rule(make_run(tmp_path, Verdict.PASS, 0), threshold="> 0.20", warn="> 0.10")
    for text in (_page(result, tmp_path), markdown.render(result).replace("\\", "")):
        assert "breached when > 0.20; warns when > 0.10" in text


def test_a_skipped_rule_shows_no_value_though_its_metric_has_one(tmp_path: Path) -> None:
    result = _with_rule(make_run(tmp_path, Verdict.PASS, 0), status=Status.SKIPPED, explanation="No slice has enough samples.")
    assert result.rules[0].value is not None
    rules = _section(_page(result, tmp_path), "rules")
    assert "not measured" in rules
    assert '<svg class="scale"' not in rules
    assert "interval)" not in rules
    assert "| not measured | breached when" in markdown.render(result)
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
