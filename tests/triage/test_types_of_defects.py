"""Each rule of the types fits what it says, in the declared order, and says nothing where too little is known."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gate.domains.image.operators import OPERATORS
from gate.oracles import ORACLES
from gate.result import Attribution, Defect, Heat
from gate.triage import classify as rules
from gate.triage import facts as sources
from gate.triage.classify import TYPES, Facts, Kinship, classified, classify, most_common_type, type_of_oracle, types_of_causes

DOCS = Path(__file__).parents[2] / "docs" / "triage.md"
BETWEEN = Kinship(own=0.85, other=0.80, third=0.7, neighbours=True)
INSIDE = Kinship(own=0.2, other=0.9, third=0.7, neighbours=True)
STILL_OWN = Kinship(own=0.9, other=0.4, third=0.7, neighbours=True)
WITH_A_THIRD = Kinship(own=0.6, other=0.65, third=0.7, neighbours=True)
STRANGERS = Kinship(own=0.85, other=0.80, third=0.7, neighbours=False)


def heat(focus: float, where: str = "unclear") -> Attribution:
    fields = {"method": "occlusion", "layer": None, "overlap": 0.5, "focus_before": 0.1, "focus_after": focus, "moved": 0.1, "where": where}
    return Attribution(heat=Heat.model_validate(fields))


def defect(number: int = 1, **changes: Any) -> Defect:
    fields = {
        "id": f"d-{number:012x}",
        "arm": "search",
        "seed_id": f"s-{number}",
        "label": 0,
        "predicted": 1,
        "confidence_before": 1.0,
        "confidence_after": 0.9,
        "oracle": "changed_prediction",
        "operator": "gaussian_noise",
        "family": "noise",
        "families": ("noise",),
        "natural": True,
        "severity": 0.5,
        "recipe": (),
        "root_cause": "rc-1",
    }
    return Defect.model_validate({**fields, **changes})


def kind(facts: Facts, **changes: Any) -> str | None:
    return classify(defect(**changes), facts)[0]


@pytest.mark.parametrize(
    ("oracle", "expected"),
    [("crash", "crash"), ("timeout", "crash"), ("non_finite", "numeric"), ("saturated", "numeric"), ("numeric_path", "backend"),
     ("numeric_path:float16", "backend"), ("batch_dependence", "backend")],
)  # fmt: skip
def test_a_fault_is_told_by_its_oracle_whatever_else_is_known(oracle: str, expected: str) -> None:
    assert kind(Facts(area=0.01, shortcut="one mark"), oracle=oracle, predicted=None) == expected
    assert oracle in classify(defect(oracle=oracle), Facts())[1]


def test_every_oracle_of_faults_that_there_is_has_a_type() -> None:
    judged_by_class = {
        "changed_prediction",
        "confidence_collapse",
        "confident_misclassification",
        "baseline_disagreement",
        "unjustified_confidence",
    }
    for oracle in ORACLES:
        assert (type_of_oracle(oracle.name) is None) == (oracle.name in judged_by_class), oracle.name


def test_a_local_change_counts_with_focused_heat_or_none_and_not_with_diffuse() -> None:
    assert kind(Facts(area=0.049, tone=0.0), attribution=heat(0.25)) == "local-sensitive"
    assert kind(Facts(area=0.049, tone=0.0)) == "local-sensitive"
    assert kind(Facts(area=0.05, tone=0.0), attribution=heat(0.1)) != "local-sensitive"
    assert kind(Facts(area=0.01, tone=0.0), attribution=heat(0.26)) != "local-sensitive"
    assert kind(Facts(area=0.01, tone=0.0), attribution=heat(0.26, "on_the_change")) == "local-sensitive"


def test_a_shortcut_comes_before_what_a_local_change_would_be() -> None:
    assert classify(defect(), Facts(area=0.01, shortcut="One patch.")) == ("shortcut", "One patch.")


def test_a_mark_to_its_class_is_the_answer_where_no_other_rule_has_one() -> None:
    led: dict[str, Any] = {"leads_there": "one patch leads there"}
    turned = {"families": ("geometry",), "attribution": heat(0.1)}
    assert kind(Facts(area=0.6, tone=0.1, kinship=STILL_OWN, **led), **turned) == "shortcut"
    assert kind(Facts(area=0.6, tone=0.1, **led), families=("geometry",)) == "shortcut"
    assert kind(Facts(area=0.6, tone=0.1, kinship=BETWEEN, **led), **turned) == "concept-confusion"
    assert kind(Facts(area=0.9, tone=0.9, **led)) == "global-drift"


def test_a_change_of_tone_is_global_drift() -> None:
    assert kind(Facts(area=0.9, tone=0.75)) == "global-drift"
    assert kind(Facts(area=0.9, tone=0.74)) is None
    # Clipping hides that a change was one of brightness; its family says it.
    assert kind(Facts(area=0.9, tone=0.2), families=("photometry",)) == "global-drift"
    assert kind(Facts(area=0.9, tone=0.2), families=("noise", "photometry")) is None


def test_a_change_nearly_everywhere_is_global_drift_where_the_heat_is_diffuse() -> None:
    assert kind(Facts(area=0.5, tone=0.1), attribution=heat(0.3)) == "global-drift"
    assert kind(Facts(area=0.49, tone=0.1), attribution=heat(0.3)) != "global-drift"
    assert kind(Facts(area=0.9, tone=0.1), attribution=heat(0.2)) != "global-drift"


@pytest.mark.parametrize("family", ["geometry", "splicing", "adversarial", "coverage_gradient"])
def test_what_moves_the_content_or_follows_the_gradient_is_no_drift(family: str) -> None:
    assert kind(Facts(area=0.9, tone=0.9, kinship=STILL_OWN), families=(family,), attribution=heat(0.4)) == "unclear"


def test_concepts_are_confused_between_neighbours_where_the_heat_stays() -> None:
    turned = {"families": ("geometry",), "attribution": heat(0.1)}
    assert kind(Facts(area=0.6, tone=0.1, kinship=BETWEEN), **turned) == "concept-confusion"
    assert kind(Facts(area=0.6, tone=0.1, kinship=INSIDE), **turned) == "concept-confusion"
    for kinship in (STILL_OWN, WITH_A_THIRD, STRANGERS):
        assert kind(Facts(area=0.6, tone=0.1, kinship=kinship), **turned) == "unclear"
    elsewhere = {**turned, "attribution": heat(0.1, "elsewhere")}
    assert kind(Facts(area=0.6, tone=0.1, kinship=BETWEEN), **elsewhere) == "unclear"


def test_nothing_is_forced_where_a_fact_is_missing_and_the_reason_names_it() -> None:
    found, reason = classify(defect(), Facts(area=0.3, tone=0.1, kinship=STILL_OWN))
    assert found is None
    assert "where the answer comes from" in reason
    assert "features" not in reason
    found, reason = classify(defect(attribution=heat(0.1)), Facts(area=0.3, tone=0.1))
    assert found is None
    assert "features" in reason
    # A kept class lies between no two classes: no features are missed.
    assert kind(Facts(area=0.3, tone=0.1), predicted=0, oracle="confidence_collapse", attribution=heat(0.1)) == "unclear"


def test_a_root_cause_is_of_the_most_common_type_and_ties_go_by_the_declared_order() -> None:
    assert most_common_type(["global-drift", None, "unclear", "global-drift"]) == "global-drift"
    assert most_common_type(["concept-confusion", "local-sensitive"]) == "local-sensitive"
    assert most_common_type([None, None]) is None
    assert most_common_type([]) is None


def test_those_of_which_too_little_is_known_are_like_most_of_their_root_cause_and_say_so() -> None:
    found = [defect(1), defect(2), defect(3), defect(4, root_cause="rc-2")]
    drift = Facts(area=0.9, tone=0.9)
    said = classified(found, {"d-000000000001": drift, "d-000000000002": Facts(area=0.3, tone=0.0)})
    assert [one.type for one in said] == ["global-drift", "global-drift", "global-drift", None]
    assert "like most" in str(said[1].type_reason)
    assert "like most" in str(said[2].type_reason)
    assert said[3].type_reason
    causes = types_of_causes(said)
    assert causes["rc-1"][0] == "global-drift"
    assert "tone" in str(causes["rc-1"][1])
    assert causes["rc-2"][0] is None
    # Whoever was only taken to be like the others does not count again.
    assert classified(said, {"d-000000000001": drift})[2].type == "global-drift"


def test_the_reason_of_a_root_cause_counts_those_that_could_be_told() -> None:
    drift, more, local = Facts(area=0.9, tone=0.80), Facts(area=0.9, tone=0.95), Facts(area=0.01, tone=0.0)
    facts = {"d-000000000001": drift, "d-000000000002": more, "d-000000000003": local}
    found = classified([defect(1, severity=0.9), defect(2, severity=0.1), defect(3)], facts)
    kind, reason = types_of_causes(found)["rc-1"]
    assert kind == "global-drift"
    assert str(reason).startswith("2 of the 3 defects whose type could be told are of this type. ")
    assert "95%" in str(reason)  # the mildest


def rows(heading: str, columns: int) -> list[list[str]]:
    text = DOCS.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")]
    return [row for row in cells if len(row) == columns]


def test_the_documented_types_and_thresholds_are_the_ones_in_force() -> None:
    assert tuple(row[0].strip("`") for row in rows("Types", 2)[1:]) == TYPES
    documented = {row[0]: float(row[1]) for row in rows("Types", 3)[1:]}
    assert documented == {
        "local": rules.LOCAL,
        "everywhere": rules.EVERYWHERE,
        "focused": rules.FOCUSED,
        "tone": rules.TONE,
        "mark": sources.MARKED,
        "faint": sources.FAINT,
        "shortcut share": sources.ALIKE,
        "shortcut seed inputs": sources.FROM_SEEDS,
        "shortcut classes": sources.FROM_CLASSES,
        "neighbours": sources.NEAREST,
    }
    named = set(re.findall(r"`(\w+)`", " ".join(row[1] for row in rows("Types", 2)[1:])))
    assert {one for one in named if type_of_oracle(one)} >= {
        "crash",
        "timeout",
        "non_finite",
        "saturated",
        "numeric_path",
        "batch_dependence",
    }
    assert {operator.family for operator in OPERATORS.values()} >= rules.TONE_FAMILIES | {"geometry"}
