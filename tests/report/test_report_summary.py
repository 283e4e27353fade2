"""summary.md as GitHub shows it."""

from __future__ import annotations

from pathlib import Path

from markdown_it import MarkdownIt
from sample import hostile_run, make_run

from gate.report import markdown
from gate.result import Metric, Result, Verdict


def _parsed(result: Result) -> list[str]:
    """The kinds of everything in it."""
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    kinds: list[str] = []
    for token in parser.parse(markdown.render(result)):
        kinds.append(token.type)
        kinds.extend(child.type for child in token.children or [])
    return kinds


def test_it_holds_rules_defects_and_next_steps_in_words(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 60)
    text = markdown.render(result)
    assert text.startswith("## Release gate: Fail — digits, version 2\n")
    assert "### What to do next" in text
    assert "one became two" in text
    assert "at severity" in text
    assert "50 more are in `report.html`" in text
    assert all(f"| {rule.id} |" in text for rule in result.rules)


def test_faults_found_before_the_fuzzing_come_before_the_rules(tmp_path: Path) -> None:
    text = markdown.render(make_run(tmp_path, Verdict.FAIL, 3, faults=True))
    assert text.index("### Found before the fuzzing") < text.index("### Rules")
    assert "Switch dropout off" in text


def test_hostile_names_make_no_markup_no_cell_and_no_command(tmp_path: Path) -> None:
    result = hostile_run(tmp_path)
    kinds = _parsed(result)
    assert not {"html_inline", "html_block", "link_open", "image", "fence"} & set(kinds)
    text = markdown.render(result)
    assert not any(line.lstrip().startswith(("::", "##[", "##vso")) for line in text.splitlines())
    head = [line for line in text.splitlines() if line.startswith("| Status")]
    assert len(head) == 1


def test_it_stays_under_a_mebibyte_however_much_there_is_to_say(tmp_path: Path) -> None:
    base = hostile_run(tmp_path)
    long = "猫*" * 5000
    rules = tuple(
        base.rules[0].model_copy(update={"id": f"{i}{long}", "explanation": long, "next_step": long, "waiver": long, "slice": long})
        for i in range(500)
    )
    huge = base.model_copy(
        update={
            "rules": rules,
            "reasons": (long,) * 500,
            "next_steps": (long,) * 500,
            "root_causes": base.root_causes * 1000,
            "defects": base.defects * 1000,
            "metrics": {name: Metric(value=None, unit="", reason=long) for name in base.metrics},
            "preflight": base.preflight * 100,
        }
    )
    text = markdown.render(huge)
    assert len(text.encode("utf-8")) < 1 << 20
    assert "440 more rules" in text
