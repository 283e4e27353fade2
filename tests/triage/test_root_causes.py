"""Defects of one kind are one root cause, named for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gate.report import junit, markdown
from gate.report.causes import causes_page
from gate.report.difference import Run, compare
from gate.report.gallery import choose
from gate.result import Attribution, Defect, ModelInfo, Result, RuleResult, Status
from gate.triage.feature_space import by_turns
from gate.triage.gravity import gravest_first, gravity
from gate.triage.identity import defect_id, root_cause_id
from gate.triage.minimise import in_turn
from gate.triage.root_causes import root_causes

CLASSES = ("cat", "dog", "truck")


def defect(number: int, **changes: Any) -> Defect:
    label, predicted = changes.get("label", 0), changes.get("predicted", 1)
    families = changes.get("families", ("weather",))
    outcome = "non-finite" if predicted is None else CLASSES[predicted]
    fields = {
        "id": f"d-{number:012x}",
        "arm": "search",
        "seed_id": f"s-{number}",
        "label": label,
        "predicted": predicted,
        "confidence_before": 1.0,
        "confidence_after": None,
        "oracle": "non_finite" if predicted is None else "changed_prediction",
        "operator": "fog",
        "family": "+".join(families),
        "families": families,
        "natural": True,
        "severity": 0.5,
        "recipe": ({"operator": "fog", "severity": 0.5, "draw": 1, "parameters": {"density": 0.25, "grain": 7}},),
        "root_cause": root_cause_id("changed_prediction", CLASSES[label], outcome, "+".join(families)),
    }
    return Defect.model_validate({**fields, **changes})


def test_the_largest_comes_first_and_shows_its_mildest_defect() -> None:
    found = [defect(1), defect(2, predicted=2), defect(3, predicted=2, severity=0.2), defect(4, predicted=2, severity=0.9)]
    causes = root_causes(found, CLASSES)
    assert [(cause.size, cause.example, cause.title) for cause in causes] == [
        (3, "d-000000000003", "cat read as truck under weather (fog; severity from 0.2)"),
        (1, "d-000000000001", "cat read as dog under weather (fog; severity from 0.5)"),
    ]


def test_the_graver_complaint_comes_first_however_few_its_defects_are() -> None:
    kinds = ("numeric_path", "changed_prediction", "universal_mark", "batch_dependence", "saturated", "non_finite", "timeout", "crash")
    found = [
        defect(10 * number + one, oracle=oracle, root_cause=f"rc-{oracle}")
        for number, oracle in enumerate(kinds)
        for one in range(8 - number)
    ]
    assert [cause.oracle for cause in root_causes(found, CLASSES)] == list(reversed(kinds))
    turns = [defect.oracle for defect in by_turns(found, 8, 3)]
    assert turns == [one.oracle for one in in_turn(found)[:8]] == list(reversed(kinds))


def test_every_list_of_root_causes_goes_by_the_same_order(tmp_path: Path) -> None:
    found = [*(defect(number) for number in range(3)), defect(5, oracle="crash", predicted=None, root_cause="rc-crash")]
    causes = root_causes(found, CLASSES)
    assert [cause.oracle for cause in causes] == ["crash", "changed_prediction"]
    record = {"verdict": "fail", "exit_code": 1, "reasons": (), "candidate": ModelInfo(uri="m", resolved_uri="m"), "classes": CLASSES}
    result = Result.model_validate({**record, "defects": tuple(found), "root_causes": causes[::-1]})
    assert choose(result)[0].oracle == "crash"
    assert [one.oracle for one in gravest_first(result.root_causes)] == ["crash", "changed_prediction"]
    page = causes_page(result, tmp_path, {})
    assert [card["id"] for card in page["cards"]] == [cause.id for cause in causes]
    text = markdown.render(result)
    assert text.index(causes[0].example) < text.index(causes[1].example)
    broken = RuleResult(id="r", metric="defect_rate", kind="quality", status=Status.FAIL, value=1, threshold="> 0", explanation="x")
    text = junit.render(result.model_copy(update={"rules": (broken,)}), tmp_path)
    assert text.index(f"({causes[0].id})") < text.index(f"({causes[1].id})")
    nothing = result.model_copy(update={"root_causes": (), "defects": ()})
    changes = compare(Run(nothing, tmp_path), Run(result, tmp_path)).causes
    assert [change.id for change in changes] == [cause.id for cause in causes]


def test_an_oracle_that_is_not_known_comes_last() -> None:
    assert gravity("of tomorrow", 100, "a") > gravity("flaky", 1, "z")


def test_a_root_cause_counts_its_explained_defects() -> None:
    found = [defect(1, attribution=Attribution()), defect(2), defect(3, predicted=2)]
    assert [cause.explained for cause in root_causes(found, CLASSES)] == [1, 0]


def test_class_prediction_and_family_tell_them_apart() -> None:
    found = [defect(1), defect(2, label=2), defect(3, predicted=2), defect(4, families=("blur", "weather")), defect(5, predicted=None)]
    assert len(root_causes(found, CLASSES)) == 5
    titles = {cause.title for cause in root_causes(found, CLASSES)}
    assert "cat gives no finite output under weather (fog; severity from 0.5)" in titles
    assert "cat read as dog under blur and weather (fog; severity from 0.5)" in titles


def test_neither_order_nor_arm_nor_seed_input_changes_them() -> None:
    found = [defect(n, predicted=1 + n % 2, arm=("search", "judging")[n % 3 == 0]) for n in range(9)]
    assert root_causes(found, CLASSES) == root_causes(found[::-1], CLASSES)
    assert root_causes([], CLASSES) == ()


def test_a_class_without_a_name_is_shown_by_its_number() -> None:
    assert root_causes([defect(1, label=0, predicted=1)], ())[0].title == "0 read as 1 under weather (fog; severity from 0.5)"


def test_identities_never_change() -> None:
    import hashlib

    text = "\x1f".join(("s-1", "changed_prediction", "dog", "blur", "weather"))
    assert defect_id("s-1", "changed_prediction", "dog", ("blur", "weather")) == "d-" + hashlib.sha256(text.encode()).hexdigest()[:12]
    text = "\x1f".join(("changed_prediction", "cat", "dog", "weather"))
    assert root_cause_id("changed_prediction", "cat", "dog", "weather") == "rc-" + hashlib.sha256(text.encode()).hexdigest()[:12]


@pytest.mark.parametrize("name", ["\x00", "lone \ud800", "x" * 10_000, "=cmd"])
def test_any_class_name_gives_an_identity(name: str) -> None:
    identity = root_cause_id("changed_prediction", name, "dog", "weather")
    assert len(identity) == 15
    assert identity.isascii()


def test_a_probe_is_of_no_class_and_named_by_its_group() -> None:
    probe = defect(1, predicted=None, families=("probe_constant",)).model_copy(update={"label": None})
    assert root_causes([probe], CLASSES)[0].title == "a probe (constant) gives no finite output"
