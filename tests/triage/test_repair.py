"""What a root cause's repair says follows from its type, its operators and its neurons, and names no class."""

from __future__ import annotations

from typing import Any

import pytest

from gate.domains.image.augmentation import change_in_words, limit_of
from gate.domains.image.limits import Domain
from gate.domains.image.operators import OPERATORS
from gate.report.text import SENTENCE
from gate.result import Attribution, Defect, NeuronEffect, PreflightCheck, RootCause
from gate.triage.classify import TYPES
from gate.triage.repair import repair_of, with_repairs


def defect(operator: str = "rotation", severity: float = 0.6, family: str = "geometry", **changes: Any) -> Defect:
    fields: dict[str, Any] = {
        "id": "d-000000000000",
        "arm": "search",
        "seed_id": "s",
        "label": 4,
        "predicted": 9,
        "confidence_before": 1.0,
        "confidence_after": 1.0,
        "oracle": "changed_prediction",
        "operator": operator,
        "family": family,
        "families": (family,),
        "natural": True,
        "severity": severity,
        "recipe": ({"operator": operator, "severity": severity, "draw": 1, "parameters": {}},),
        "root_cause": "rc-000000000000",
    }
    return Defect.model_validate({**fields, **changes})


def repair(*members: Defect, kind: str | None = None, preflight: tuple[PreflightCheck, ...] = (), domain: Domain | None = None) -> str:
    one = members[0]
    cause = RootCause(
        id=one.root_cause, title="<b>hostile</b>", type=kind, size=len(members), example=one.id, oracle=one.oracle, family=one.family
    )
    return repair_of(cause, members, domain or Domain(), preflight)


@pytest.mark.parametrize("kind", [None, *TYPES])
def test_there_is_a_repair_for_every_type_and_for_none(kind: str | None) -> None:
    said = repair(defect(), kind=kind)
    assert 80 < len(said) <= 600
    assert said.endswith(".")
    assert "hostile" not in said


def test_the_range_to_train_with_ends_at_the_policys_limit_and_says_where_failing_begins() -> None:
    said = repair(defect(severity=0.8), defect(severity=0.45), domain=Domain.model_validate({"geometry": {"rotation": 20.0}}))
    assert "turned by up to 20 degrees either way" in said
    assert "45%" in said
    assert "gate corpus export RUN --out DIR --for-training" in said


def test_the_operators_of_most_defects_are_told() -> None:
    said = repair(defect("fog", family="weather"), defect("snow", family="weather"), defect("snow", family="weather"))
    assert said.index("in snow") < said.index("in fog")
    assert "in rain" not in said


def test_tone_and_contrast_send_to_the_preprocessing_first() -> None:
    drift = repair(defect("brightness", family="photometry"), kind="global-drift")
    assert drift.startswith("Check first that pictures are read as in training")
    assert "brighter and darker" in drift
    assert "already points there" not in drift
    doubt = PreflightCheck(name="clean_accuracy", status="note", seen="With input.scale [0, 255] it would be 98%.")
    assert "already points there" in repair(defect("brightness", family="photometry"), kind="global-drift", preflight=(doubt,))
    assert repair(defect("brightness", family="photometry")).startswith("Check first")  # no type is known
    assert "Check first" not in repair(defect())


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("concept-confusion", "margin loss between these two classes"),
        ("shortcut", "remove it or mask it"),
        ("local-sensitive", "random erasing"),
    ],
)
def test_each_type_has_its_own_remedy(kind: str, words: str) -> None:
    assert words in repair(defect(), kind=kind)


def test_a_numeric_fault_names_the_layer_whose_clean_values_bring_the_answer_back() -> None:
    effects = (
        NeuronEffect(layer="norm", neuron=3, effect=1.0, restores=True),
        NeuronEffect(layer="head", neuron=1, effect=0.2, restores=False),
    )
    fault = {"oracle": "non_finite", "predicted": None, "confidence_after": None}
    said = repair(defect(**fault, attribution=Attribution(neurons=effects, patched=8, of=8)))
    assert "the layer norm" in said
    assert "epsilon" in said
    assert "clamp" in said
    assert "head" not in said
    assert "Find the first layer" in repair(defect(**fault))
    long = NeuronEffect(layer="x" * 5000, neuron=0, effect=1.0, restores=True)
    assert len(repair(defect(**fault, attribution=Attribution(neurons=(long,))))) < 600


@pytest.mark.parametrize(
    ("oracle", "words"),
    [
        ("numeric_path", "export and serving"),
        ("batch_dependence", "other inputs of a batch"),
        ("crash", "refused there with a clear error"),
        ("timeout", "time limit"),
        ("unjustified_confidence", "knows nothing"),
    ],
)
def test_faults_of_the_program_are_no_matter_of_training(oracle: str, words: str) -> None:
    said = repair(defect(oracle=oracle))
    assert words in said
    assert "augmentation" not in said


def test_attacks_and_splices_have_no_operator_to_train_with() -> None:
    step = {"operator": "pgd", "severity": 0.0, "draw": 1, "parameters": {}}
    assert "adversarial training" in repair(defect("pgd", 0.0, "adversarial", natural=False, recipe=(step,)))
    step = {"operator": "splice", "severity": 0.5, "draw": 1, "parameters": {}}
    assert "patched together" in repair(defect("splice", 0.5, "splicing", natural=False, recipe=(step,)))


def test_a_repair_that_is_known_already_stays() -> None:
    one, other = defect(), defect(root_cause="rc-000000000001")
    causes = [RootCause(id=d.root_cause, title="t", size=1, example=d.id, family=d.family) for d in (one, other)]
    causes[0] = causes[0].model_copy(update={"repair": "As it was."})
    repaired = with_repairs(causes, (one, other), Domain(), ())
    assert repaired[0].repair == "As it was."
    assert "turned by up to" in (repaired[1].repair or "")


def test_none_is_longer_than_what_a_rendering_shows() -> None:
    longest = sorted(OPERATORS, key=lambda name: -len(change_in_words(name, limit_of(Domain(), name) or 0.25)))[:2]
    members = [defect(name, family=OPERATORS[name].family) for name in longest]
    assert max(len(repair(*members, kind=kind)) for kind in (None, *TYPES)) <= SENTENCE
