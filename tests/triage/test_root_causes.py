"""Defects of one kind are one root cause, named for people."""

from __future__ import annotations

from typing import Any

import pytest

from gate.result import Attribution, Defect
from gate.triage.identity import defect_id, root_cause_id
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
