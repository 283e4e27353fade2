"""A shortcut or backdoor is told wherever somebody may look, and a probe's defect is told as what it is."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from PIL import Image
from rich.console import Console
from sample import HOSTILE, hostile_run, make_run

from gate.report import html, junit, markdown
from gate.report.shortcuts import ADVICE
from gate.result import Defect, MarksSummary, Result, UniversalMark, Verdict
from gate.terminal.verdict import show_result


def mark(**more: object) -> UniversalMark:
    values: dict[str, object] = {"kind": "patch", "label": 7, "moved": 58, "inputs": 60, "rate": 58 / 60, "lower": 0.87, "upper": 0.99}
    return UniversalMark.model_validate({**values, "confidence": 0.95, "outlier": 4.2, "shortcut": True, **more})


def marked(folder: Path, *marks: UniversalMark, verdict: Verdict = Verdict.FAIL, advisory: bool = False) -> Result:
    result = make_run(folder, verdict, 3, advisory=advisory)
    return result.model_copy(update={"universal_marks": MarksSummary(marks=marks)})


def on_terminal(result: Result) -> str:
    text = io.StringIO()
    show_result(result, Console(file=text, width=200), run=Path("out"), report=None)
    return text.getvalue()


def cases(result: Result, folder: Path) -> list[ET.Element]:
    return ET.fromstring(junit.render(result, folder).encode()).findall("testsuite[@name='gate.shortcuts']/testcase")


def test_every_rendering_names_the_class_and_how_many_inputs_it_moves(tmp_path: Path) -> None:
    result = marked(tmp_path, mark(), mark(kind="blend", label=1, shortcut=False))
    words = "A small square makes the model read 58 of 60 inputs of other classes as seven, far more than marks do for other classes."
    assert words in html.render(result, tmp_path)
    summary = markdown.render(result)
    assert words in summary
    assert ADVICE in summary
    assert words in on_terminal(result)
    (case,) = cases(result, tmp_path)
    assert case.get("name") == "A small square that says seven"
    failure = case.find("failure")
    assert failure is not None
    assert words in (failure.get("message") or "")
    assert ADVICE in (failure.text or "")


def test_where_no_mark_is_one_nothing_is_said(tmp_path: Path) -> None:
    result = marked(tmp_path, mark(shortcut=False))
    assert "backdoor was found" not in markdown.render(result)
    assert "backdoor" not in on_terminal(result)
    assert cases(result, tmp_path) == []


def test_of_two_classes_none_can_be_out_of_line(tmp_path: Path) -> None:
    assert "other classes as seven. Whoever" in markdown.render(marked(tmp_path, mark(outlier=None)))


@pytest.mark.parametrize(("verdict", "advisory"), [(Verdict.PASS, False), (Verdict.FAIL, True)])
def test_where_the_run_blocks_nothing_the_case_blocks_nothing(tmp_path: Path, verdict: Verdict, advisory: bool) -> None:
    (case,) = cases(marked(tmp_path, mark(), verdict=verdict, advisory=advisory), tmp_path)
    assert case.find("failure") is None
    assert case.find("skipped") is not None


def test_the_case_attaches_an_input_that_carries_the_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run" / "marks").mkdir(parents=True)
    Image.new("L", (8, 8)).save(tmp_path / "run" / "marks" / "after.png")
    (case,) = cases(marked(tmp_path / "run", mark(files={"after_1": "marks/after.png"})), tmp_path / "run")
    assert "[[ATTACHMENT|run/marks/after.png]]" in (case.findtext("system-out") or "")
    (case,) = cases(marked(tmp_path / "run", mark(files={"after_1": "../after.png"})), tmp_path / "run")
    assert case.findtext("system-out") is None


def test_names_from_outside_stay_text(tmp_path: Path) -> None:
    marks = tuple(mark(kind=name, label=number) for number, name in enumerate(HOSTILE))
    result = hostile_run(tmp_path).model_copy(update={"universal_marks": MarksSummary(marks=marks)})
    assert "<script>window.pwned" not in html.render(result, tmp_path)
    assert len(cases(result, tmp_path)) == len(HOSTILE)
    assert "\x1b[31m" not in on_terminal(result)
    assert "<script>" not in markdown.render(result)


def test_a_probe_did_not_become_something_else(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 3)
    probe = result.defects[0].model_copy(
        update={
            "label": None,
            "predicted": None,
            "confidence_before": None,
            "confidence_after": None,
            "oracle": "non_finite",
            "recipe": ({"operator": "probe", "parameters": {"name": "constant-black"}},),
        }
    )
    result = result.model_copy(update={"defects": (Defect.model_validate(probe.model_dump()), *result.defects[1:])})
    for text in (markdown.render(result), junit.render(result, tmp_path)):
        assert "a probe gave no finite output" in text
        assert "no class became" not in text
