"""Recipes as a person reads them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gate.domains.image.domain import ImageDomain
from gate.domains.image.limits import Domain
from gate.domains.image.operator_words import OPERATOR_WORDS
from gate.report.words import recipe_in_words
from gate.result import Defect


def _defect(*recipe: dict[str, object]) -> Defect:
    return Defect(
        id="d-1",
        arm="search",
        seed_id="s-1",
        label=0,
        predicted=1,
        confidence_before=0.9,
        confidence_after=0.8,
        oracle="changed_prediction",
        operator=str(recipe[-1]["operator"]),
        family="x",
        families=("x",),
        natural=False,
        severity=0.0,
        recipe=recipe,
        root_cause="rc-1",
    )


def test_an_attack_is_told_by_its_bound_and_a_natural_operator_by_its_severity() -> None:
    rotation = {"operator": "rotation", "severity": 0.5, "draw": 1, "parameters": {"degrees": 7.5}}
    attack = {"operator": "pgd", "severity": 0.0, "draw": 2, "parameters": {"linf": 0.03}}
    assert recipe_in_words(_defect(rotation, attack)) == (
        "rotation at severity 0.50 (turned counter-clockwise by 7.5°), then pgd within 3.0% of the value range"
    )


def test_what_only_makes_a_draw_repeatable_is_not_told() -> None:
    fog = {"operator": "fog", "severity": 0.25, "draw": 1, "parameters": {"density": 0.125, "grain": 2077145240, "seed": 4}}
    assert recipe_in_words(_defect(fog)) == "fog at severity 0.25 (behind fog that hides 12.5%)"


def test_a_mark_is_told_by_what_it_looks_like() -> None:
    mark: dict[str, Any] = {"operator": "universal_mark", "parameters": {"kind": "border"}}
    assert recipe_in_words(_defect(mark)) == "a narrow frame, the same on every input"


def test_no_natural_operator_is_told_by_the_names_of_its_parameters() -> None:
    domain = ImageDomain(Domain(), (16, 16, 3), np.uint8, (0.0, 255.0))
    for name in domain.natural:
        step: dict[str, Any] = domain.step(name, 0.5, 1).to_json()
        said = recipe_in_words(_defect(step))
        assert not any(f"({key.replace('_', ' ')} " in said or f", {key.replace('_', ' ')} " in said for key in step["parameters"]), said
        assert not any(word in said for word in ("more than", "above", "below", " than ", "or less")), said
        assert OPERATOR_WORDS[name].amount is None or "(" in said


def test_an_operator_that_is_not_known_is_told_by_its_parameters() -> None:
    step: dict[str, Any] = {"operator": "of_tomorrow", "severity": 0.5, "parameters": {"how_much": 3}}
    assert recipe_in_words(_defect(step)) == "of tomorrow at severity 0.50 (how much 3)"
