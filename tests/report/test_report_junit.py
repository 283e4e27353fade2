"""junit.xml as CI systems read it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from junitparser import JUnitXml
from sample import hostile_run, make_run

from gate.report import junit
from gate.result import PreflightCheck, Result, RootCause, Status, Verdict, exit_code_of


def _root(result: Result, folder: Path) -> ET.Element:
    return ET.fromstring(junit.render(result, folder).encode("utf-8"))


def _case(root: ET.Element, suite: str, name: str) -> ET.Element:
    found = root.find(f"testsuite[@name='{suite}']/testcase[@name='{name}']")
    assert found is not None
    return found


def test_a_breach_explains_itself_in_message_and_text(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 60)
    rule = result.rules[0]
    failure = _case(_root(result, tmp_path), "gate.policy", "defect-rate").find("failure")
    assert failure is not None
    message, text = failure.get("message", ""), failure.text or ""
    assert message.startswith("defect_rate is 34.0 % (95 % interval 29.1 to 39.3 %), over the limit of 20 % by 14.0 points.")
    assert f"Shown by: {', '.join(rule.evidence)} and 55 more defects." in message
    assert f"To do: {rule.next_step}" in message
    assert rule.explanation in text
    assert "Distance: 14.0 points beyond the limit." in text
    assert "This breach was decided at 99.58 % confidence" in text
    assert f"gate replay RUN {rule.evidence[0]}" in text
    assert "To do: " in text


def test_a_comparison_says_how_far_it_rose_and_what_was_allowed(tmp_path: Path) -> None:
    failure = _case(_root(make_run(tmp_path, Verdict.FAIL, 3), tmp_path), "gate.policy", "no-worse").find("failure")
    assert failure is not None
    assert "Value: +6.2 points beside the baseline; +4.1 to +8.3 points (95 % interval)" in (failure.text or "")
    assert "284 inputs; it may rise by 2 points over the baseline." in (failure.text or "")


def test_a_breach_that_the_baseline_has_too_blocks_nothing_and_is_seen(tmp_path: Path) -> None:
    case = _case(_root(make_run(tmp_path, Verdict.FAIL, 3), tmp_path), "gate.policy", "failing-mutants")
    skipped = case.find("skipped")
    assert skipped is not None
    assert skipped.get("message", "").startswith("Known to the baseline, not blocking: mutant_failure_rate is 8.3 %")
    assert "without what the baseline fails on too it is 2.0 %" in (skipped.text or "")


def test_the_verdict_tells_what_its_evidence_is_worth(tmp_path: Path) -> None:
    out = _case(_root(make_run(tmp_path, Verdict.PASS, 0), tmp_path), "gate.verdict", "verdict").findtext("system-out") or ""
    assert "by Holm's step-down" in out
    assert "4 of 5 faults planted on purpose" in out
    assert "What the baseline reads rightly and the candidate wrongly: 1.1 % of the clean samples, 2.1 % of" in out


@pytest.mark.parametrize("run", [make_run, lambda folder: make_run(folder, Verdict.ERROR), hostile_run])
def test_counts_and_times_are_there_and_add_up(tmp_path: Path, run: object) -> None:
    root = _root(run(tmp_path), tmp_path)  # type: ignore[operator]
    cases = list(root.iter("testcase"))
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(root.get(name, "-1")) == len(list(root.iter(tag)))
    assert int(root.get("tests", "-1")) == len(cases)
    assert root.get("name") == "gate"
    assert all(float(element.get("time", "0")) > 0 for element in (root, *root, *cases))
    assert all(len(list(case)) <= 2 for case in cases)


def test_names_are_unique_within_a_suite(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 3)
    twice = result.model_copy(update={"rules": (*result.rules, *result.rules, *result.rules)})
    names = [case.get("name") for case in _root(twice, tmp_path).findall("testsuite[@name='gate.policy']/testcase")]
    assert len(names) == 3 * len(result.rules)
    assert len(set(names)) == len(names)


def test_a_rule_without_enough_evidence_is_an_error_and_a_waived_one_is_skipped(tmp_path: Path) -> None:
    unsure = _case(_root(make_run(tmp_path, Verdict.INCONCLUSIVE, 3), tmp_path), "gate.policy", "defect-rate").find("error")
    assert unsure is not None
    assert unsure.get("type") == "inconclusive"
    waived = _case(_root(make_run(tmp_path, Verdict.FAIL, 3), tmp_path), "gate.policy", "margin").find("skipped")
    assert waived is not None
    assert "until 2027-03-31" in waived.get("message", "")


def test_a_preflight_fault_fails_its_case_but_never_turns_a_pass_red(tmp_path: Path) -> None:
    failed = make_run(tmp_path, Verdict.FAIL, 3, faults=True)
    assert _case(_root(failed, tmp_path), "gate.preflight", "deterministic").find("failure") is not None
    passed = make_run(tmp_path, Verdict.PASS, 0).model_copy(
        update={"preflight": (PreflightCheck(name="eval_mode", status="fault", seen="train mode"),)}
    )
    case = _case(_root(passed, tmp_path), "gate.preflight", "eval_mode")
    assert case.find("failure") is None
    assert case.find("skipped") is not None


def test_root_causes_stand_there_only_when_a_rule_about_the_model_is_breached(tmp_path: Path) -> None:
    failed = _root(make_run(tmp_path, Verdict.FAIL, 60), tmp_path).find("testsuite[@name='gate.root_causes']")
    assert failed is not None
    assert len(failed.findall("testcase")) == 10
    first = failed.find("testcase/failure")
    assert first is not None
    assert ": new, numeric fault, 1 defect" in first.get("message", ""), "the gravest, however few its defects are"
    assert any("To do: Add photometry mutants" in (one.text or "") for one in failed.iter("failure"))
    assert "more" in (failed.findtext("system-out") or "") or "smaller" in (failed.findtext("system-out") or "")
    assert _root(make_run(tmp_path, Verdict.INCONCLUSIVE, 60), tmp_path).find("testsuite[@name='gate.root_causes']") is None


def test_pictures_are_attached_when_the_run_lies_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = make_run(tmp_path / "gate-out", Verdict.FAIL, 3)
    attached = [out.text or "" for out in _root(result, Path("gate-out")).iter("system-out") if "ATTACHMENT" in (out.text or "")]
    assert attached
    for text in attached:
        path = Path(text.strip().removeprefix("[[ATTACHMENT|").removesuffix("]]"))
        assert not path.is_absolute()
        assert path.is_file()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert "ATTACHMENT" not in junit.render(result, tmp_path / "gate-out")


def test_hostile_names_leave_it_well_formed_for_another_reader(tmp_path: Path) -> None:
    text = junit.render(hostile_run(tmp_path), tmp_path)
    suites = JUnitXml.fromstring(text.encode("utf-8"))
    assert {suite.name for suite in suites} == {"gate.verdict", "gate.policy", "gate.preflight", "gate.root_causes"}
    assert "\x1b" not in text
    assert "<script" not in text


def test_a_rule_in_error_is_an_error_also_in_an_advisory_run(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 3)
    broken = result.rules[0].model_copy(update={"status": Status.ERROR})
    root = _root(
        result.model_copy(
            update={"rules": (broken,), "verdict": Verdict.ERROR, "advisory": True, "exit_code": exit_code_of(Verdict.ERROR, advisory=True)}
        ),
        tmp_path,
    )
    assert _case(root, "gate.policy", "defect-rate").find("error") is not None


def test_a_root_cause_without_its_example_still_gets_a_case(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 3)
    lost = (RootCause(id="rc-1", title="one becomes two", size=2, example="d-gone"),)
    assert (
        _root(result.model_copy(update={"root_causes": lost}), tmp_path).find("testsuite[@name='gate.root_causes']/testcase/failure")
        is not None
    )
