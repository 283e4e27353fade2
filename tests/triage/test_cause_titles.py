"""A title says what happens to which class from which amount of which change on, in plain words."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from gate.domains.image.domain import ImageDomain
from gate.domains.image.limits import Domain
from gate.domains.image.operator_words import OPERATOR_WORDS, beyond, in_words
from gate.domains.image.operators import OPERATORS
from gate.domains.image.splicing import SPLICING
from gate.domains.model_operators import MODEL_OPERATORS
from gate.oracles import ALL
from gate.oracles.universal_mark import AnyMark
from gate.result import Defect, Minimal, UniversalMark
from gate.triage.root_causes import root_causes
from gate.triage.titles import title_of_mark

CLASSES = ("4", "9")
ON = {
    "geometry": {"horizontal_flip": 1.0, "vertical_flip": 1.0, "transpose": 1.0},
    "photometry": {"solarize": 0.3, "invert": 1.0},
    "adversarial": {"carlini_wagner": 0.02},
}
DOMAIN = ImageDomain(Domain.model_validate(ON), (64, 64, 3), np.uint8, (0.0, 255.0))


def defect(number: int, *steps: Any, minimal: bool = True, **changes: Any) -> Defect:
    recipe = tuple(step.to_json() for step in steps)
    families = tuple(sorted({DOMAIN.family(step.operator) for step in steps}))
    known = Minimal(found_recipe=recipe, found_severity=1.0, found_area=1.0, area=0.5, model_calls=9, complete=True)
    fields = {
        "id": f"d-{number:012x}",
        "arm": "search",
        "seed_id": f"s-{number}",
        "label": 0,
        "predicted": 1,
        "confidence_before": 1.0,
        "confidence_after": 0.9,
        "oracle": "changed_prediction",
        "operator": steps[-1].operator if steps else "probe",
        "family": "+".join(families),
        "families": families,
        "natural": all(step.operator in DOMAIN.natural for step in steps),
        "severity": sum(step.severity for step in steps),
        "recipe": recipe,
        "root_cause": "rc-000000000000",
        "minimal": known if minimal else None,
    }
    return Defect.model_validate({**fields, **changes})


def title(*defects: Defect) -> str:
    (cause,) = root_causes(defects, CLASSES)
    return cause.title


def turned(degrees: float) -> Any:
    draw = next(draw for draw in range(99) if np.sign(DOMAIN.step("rotation", 0.5, draw).parameters["degrees"]) == np.sign(degrees))
    return DOMAIN.step("rotation", abs(degrees) / 15, draw)


def test_the_range_comes_from_the_minimised_defects() -> None:
    found = [defect(1, turned(12.3)), defect(2, turned(-14.0)), defect(3, turned(3.0), minimal=False)]
    (cause,) = root_causes(found, CLASSES)
    assert cause.title == "4 read as 9 when rotated by more than 12°"
    assert cause.range["degrees"] == pytest.approx((-14.0, 12.3))
    assert cause.range["severity"] == pytest.approx((12.3 / 15, 14 / 15))
    assert (cause.oracle, cause.label, cause.predicted, cause.family) == ("changed_prediction", 0, 1, "geometry")
    assert cause.example == found[0].id  # the mildest of those that were minimised


def test_a_direction_that_all_share_is_named_as_it_looks() -> None:
    assert title(defect(1, turned(12.3)), defect(2, turned(14.0))) == "4 read as 9 when turned counter-clockwise by more than 12°"
    picture = np.zeros((64, 64, 3), dtype=np.uint8)
    picture[4:8, 30:34] = 255  # above the middle
    after = DOMAIN.replay(picture, [turned(12.3)])
    assert np.nonzero(after[..., 0] > 100)[1].mean() < 31


def test_the_range_leaves_out_where_and_with_which_grain_a_change_lies() -> None:
    (cause,) = root_causes([defect(1, DOMAIN.step("shadow", 0.5, 1)), defect(2, DOMAIN.step("shadow", 0.7, 4))], CLASSES)
    assert set(cause.range) == {"severity", "darkness"}
    assert cause.range["darkness"] == pytest.approx((0.25, 0.35))


def test_what_was_not_minimised_has_no_threshold() -> None:
    assert title(defect(1, turned(12.0), minimal=False)) == "4 read as 9 under geometry (rotation; severity from 0.8)"


def test_many_operators_of_a_family_are_told_by_their_least_severity() -> None:
    found = [defect(n, DOMAIN.step(name, 0.3 + n / 10, 1)) for n, name in enumerate(("fog", "rain", "snow", "shadow"))]
    assert title(*found) == "4 read as 9 under weather (fog, rain, shadow, …; severity from 0.3)"
    assert title(defect(1, DOMAIN.step("fog", 0.2, 1), DOMAIN.step("gamma", 0.3, 1))) == (
        "4 read as 9 under photometry and weather (fog, gamma; severity from 0.5)"
    )


@pytest.mark.parametrize("severity", [0.017, 0.3, 1.0])
@pytest.mark.parametrize("operator", DOMAIN.natural)
def test_every_natural_operator_has_words_for_what_it_does(operator: str, severity: float) -> None:
    for draws in ((3,), (1, 2, 3, 4, 5, 6)):
        said = title(*(defect(draw, DOMAIN.step(operator, severity, draw)) for draw in draws))
        assert said.startswith("4 read as 9 when ")
        assert not re.search(r"_|\{|\}|nan|inf\b|e-\d", said)
        assert len(said) < 140
        words = OPERATOR_WORDS[operator]
        assert words.amount is None or re.search(r"\d", said.removeprefix("4 read as 9"))


def test_no_operator_is_without_words_and_no_words_without_operator() -> None:
    assert set(OPERATOR_WORDS) == {*OPERATORS, *MODEL_OPERATORS, *SPLICING}
    assert set(DOMAIN.natural) == set(OPERATORS)


@pytest.mark.parametrize("operator", [*MODEL_OPERATORS, *SPLICING])
def test_stored_steps_have_words_too(operator: str) -> None:
    if operator in DOMAIN.splicing:
        one = np.array([0.5]), np.array([1], dtype=np.int64)
        step = DOMAIN.splice_steps(operator, *one, ["s-9"] if DOMAIN.takes_donors(operator) else None)[0]
    elif operator in DOMAIN.model_bounds:
        step = DOMAIN.model_step(operator, 1)
    said = title(defect(1, step))
    assert said.startswith("4 read as 9 when ")
    assert "_" not in said


@pytest.mark.parametrize(
    ("operator", "severity", "draws", "words"),
    [
        ("brightness", 0.5, "added", "darkened by more than 12% of the value range"),
        ("gamma", 0.6, "gamma", "lightened by a gamma below 0.66"),
        ("jpeg", 0.6, None, "stored as JPEG of quality 55 or less"),
        ("crop", 0.6, None, "cropped by more than 7.2% of each side"),
        ("translation", 0.6, None, "moved by more than 3 pixels"),
        ("gaussian_noise", 0.6, None, "covered by Gaussian noise above 6% of the value range"),
    ],
)
def test_amounts_are_told_in_their_units(operator: str, severity: float, draws: str | None, words: str) -> None:
    def negative(draw: int) -> bool:
        value = DOMAIN.step(operator, severity, draw).parameters[str(draws)]
        return bool(value < (1 if draws == "gamma" else 0))

    draw = 1 if draws is None else next(draw for draw in range(99) if negative(draw))
    assert beyond(operator, [DOMAIN.step(operator, severity, draw).parameters]) == words


def test_both_directions_are_told_where_they_differ() -> None:
    steps = [{"added": 0.2}, {"added": -0.1}, {"added": -0.15}]
    assert beyond("brightness", steps) == "brightened by more than 20% of the value range or darkened by more than 10% of the value range"


@pytest.mark.parametrize("parameters", [{}, {"degrees": "far"}, {"degrees": None}, {"degrees": float("nan")}, {"degrees": []}])
def test_parameters_that_nobody_knows_leave_the_severity_to_tell(parameters: dict[str, Any]) -> None:
    assert beyond("rotation", [parameters]) is None
    broken = defect(1, turned(12.0)).model_copy(update={"recipe": ({"operator": "rotation", "severity": 0.8, "parameters": parameters},)})
    assert title(broken) == "4 read as 9 under geometry (rotation; severity from 0.8)"
    assert beyond("unheard_of", [{}]) is None
    assert in_words("rgb_shift") == "RGB shift"


@pytest.mark.parametrize("oracle", [oracle.name for oracle in ALL if oracle is not AnyMark])
def test_every_oracle_gives_a_title_that_can_be_read(oracle: str) -> None:
    for predicted in (None, 0, 1):
        way = {"numeric_path": "bfloat16", "batch_dependence": "alone"}.get(oracle)
        said = title(defect(1, turned(12.0), oracle=oracle, predicted=predicted, detail=way))
        assert said.startswith("4 ")
        # What changes the answer there is how the model is run, whatever the input is.
        ends = {"bfloat16": "when served in half precision (bfloat16)", "alone": "when asked alone, not beside other inputs"}
        assert said.endswith(ends.get(way or "", "turned counter-clockwise by more than 12°"))
        assert "_" not in said
    probe = defect(1, turned(12.0), oracle=oracle).model_copy(update={"label": None, "families": ("probe_constant",), "recipe": ()})
    assert title(probe).startswith("a probe (constant) ")


def test_oracles_are_told_apart() -> None:
    fog = DOMAIN.step("fog", 0.6, 1)
    assert title(defect(1, fog, oracle="non_finite", predicted=None)) == "4 gives no finite output when behind fog that hides more than 30%"
    assert title(defect(1, fog, oracle="confident_misclassification")).startswith("4 surely read as 9 when behind fog")
    path = defect(1, fog, oracle="numeric_path", detail="bfloat16")
    assert title(path) == "4 read as 9 when served in half precision (bfloat16)"


def test_a_mark_is_told_by_what_it_looks_like_and_how_many_inputs_it_moves() -> None:
    marked = {"oracle": "universal_mark", "predicted": 1, "family": "mark_blend", "families": ("mark_blend",)}
    name = CLASSES[1]
    assert title(defect(1, turned(12.0)).model_copy(update=marked)) == f"a faint pattern makes inputs of any class read as {name}"
    mark = {
        "kind": "patch",
        "label": 1,
        "inputs": 150,
        "rate": 1,
        "lower": 0.9,
        "upper": 1,
        "confidence": 0.95,
        "outlier": 3,
        "shortcut": True,
    }
    said = [title_of_mark(UniversalMark.model_validate({**mark, "moved": moved}), CLASSES) for moved in (150, 149, 105)]
    shares = ("all inputs", "99% of the inputs", "70% of the inputs")
    assert said == [f"a small patch makes {share} read as {name}" for share in shares]
