"""One verdict: every rendering of a run says the same."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from junitparser import JUnitXml
from open_metrics import parse
from sample import hostile_run, make_run, with_verdict

from gate.report import FILES, write
from gate.result import Result, Status, Verdict, exit_code_of


def _verdicts(folder: Path) -> dict[str, tuple[str, int]]:
    """(verdict, exit code) as each file says it."""
    record = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    page = (folder / "report.html").read_text(encoding="utf-8")
    word = re.search(r'id="verdict">(\w+)<', page)
    meta = {name: re.search(rf'<meta name="{name}" content="([^"]*)"', page) for name in ("gate-verdict", "gate-exit-code")}
    suite = ET.parse(folder / "junit.xml").getroot().find("testsuite")
    assert suite is not None
    properties = {p.get("name"): p.get("value") for p in suite.iter("property")}
    summary = (folder / "summary.md").read_text(encoding="utf-8")
    heading = re.match(r"## Release gate: (\w+) ", summary)
    code = re.search(r"exit code (\d)", summary)
    samples = parse((folder / "metrics.txt").read_text(encoding="utf-8"))
    states = [dict(labels)["gate_verdict"] for (name, labels), value in samples.items() if name == "gate_verdict" and value == 1]
    assert word
    assert heading
    assert code
    assert meta["gate-verdict"]
    assert meta["gate-exit-code"]
    assert len(states) == 1
    assert word[1].lower() == meta["gate-verdict"][1]
    return {
        "json": (record["verdict"], record["exit_code"]),
        "html": (meta["gate-verdict"][1], int(meta["gate-exit-code"][1])),
        "junit": (str(properties["gate.verdict"]), int(properties["gate.exit_code"] or -1)),
        "markdown": (heading[1].lower(), int(code[1])),
        "metrics": (states[0], int(samples["gate_exit_code", frozenset()])),
    }


@pytest.mark.parametrize("advisory", [False, True])
@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_rendering_says_the_same_verdict_and_exit_code(tmp_path: Path, verdict: Verdict, advisory: bool) -> None:
    assert [path.name for path in write(with_verdict(tmp_path, verdict, advisory=advisory), tmp_path)] == list(FILES)
    expected = (verdict.value, exit_code_of(verdict, advisory=advisory))
    assert _verdicts(tmp_path) == dict.fromkeys(("json", "html", "junit", "markdown", "metrics"), expected)


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_test_tab_is_green_only_for_a_pass(tmp_path: Path, verdict: Verdict) -> None:
    write(with_verdict(tmp_path, verdict), tmp_path)
    suites = JUnitXml.fromfile(str(tmp_path / "junit.xml"))
    assert (suites.failures + suites.errors == 0) is (verdict is Verdict.PASS)


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.ERROR])
def test_no_verdict_but_pass_is_green_even_without_a_single_rule(tmp_path: Path, verdict: Verdict) -> None:
    bare = with_verdict(tmp_path, Verdict.ERROR).model_copy(update={"verdict": verdict, "exit_code": exit_code_of(verdict), "reasons": ()})
    write(bare, tmp_path)
    suites = JUnitXml.fromfile(str(tmp_path / "junit.xml"))
    assert suites.failures + suites.errors == 1
    assert "No rule was evaluated" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "No rule was evaluated" in (tmp_path / "summary.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.INCONCLUSIVE])
def test_an_advisory_run_fails_no_case_and_says_so_everywhere(tmp_path: Path, verdict: Verdict) -> None:
    write(with_verdict(tmp_path, verdict, advisory=True), tmp_path)
    suites = JUnitXml.fromfile(str(tmp_path / "junit.xml"))
    assert (suites.failures, suites.errors) == (0, 0)
    assert suites.skipped >= 2
    for name in FILES:
        assert "advisory" in (tmp_path / name).read_text(encoding="utf-8").lower(), name
    assert f"the verdict is {verdict}, but it blocks nothing" in (tmp_path / "summary.md").read_text(encoding="utf-8")


def test_an_error_stays_an_error_in_an_advisory_run(tmp_path: Path) -> None:
    write(with_verdict(tmp_path, Verdict.ERROR, advisory=True), tmp_path)
    suites = JUnitXml.fromfile(str(tmp_path / "junit.xml"))
    assert suites.errors == 1


def test_a_partial_run_says_so_everywhere(tmp_path: Path) -> None:
    write(make_run(tmp_path, Verdict.INCONCLUSIVE, 3, partial=True), tmp_path)
    for name in FILES:
        text = (tmp_path / name).read_text(encoding="utf-8").lower()
        assert ("partial run" in text) if name != "result.json" else ('"partial": true' in text), name
    assert parse((tmp_path / "metrics.txt").read_text(encoding="utf-8"))["gate_partial", frozenset()] == 1


def test_every_rule_has_the_same_status_in_each_rendering(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 12)
    write(result, tmp_path)
    samples = parse((tmp_path / "metrics.txt").read_text(encoding="utf-8"))
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    cases = {case.name: case for suite in JUnitXml.fromfile(str(tmp_path / "junit.xml")) if suite.name == "gate.policy" for case in suite}
    kinds = {
        Status.FAIL: "failure",
        Status.WAIVED: "skipped",
        Status.SKIPPED: "skipped",
        Status.INCONCLUSIVE: "error",
        Status.ERROR: "error",
    }
    for rule in result.rules:
        assert samples["gate_rule", frozenset({("rule", rule.id), ("gate_rule", rule.status.value)})] == 1
        row = re.search(rf'<tr class="is-(\w+)">(?:(?!</tr>).)*?<span class="rule-id">{rule.id}<', page, re.DOTALL)
        assert row is not None
        assert row[1] == rule.status
        assert [outcome._tag for outcome in cases[rule.id].result] == (
            ["skipped"] if rule.known else [kinds[rule.status]] if rule.status in kinds else []
        )
        known = r" \(known\)" if rule.known else ""
        assert re.search(rf"^\| \S+ \**{rule.status}\**{known} \| {rule.id} \|", summary, re.MULTILINE)


def test_hostile_names_change_no_verdict(tmp_path: Path) -> None:
    write(hostile_run(tmp_path), tmp_path)
    assert set(_verdicts(tmp_path).values()) == {("fail", 1)}
    assert Result.load(tmp_path).verdict is Verdict.FAIL
