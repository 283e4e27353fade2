"""Recipes as a person reads them."""

from __future__ import annotations

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
    assert recipe_in_words(_defect(rotation, attack)) == "rotation at severity 0.50 (degrees 7.5), then pgd within 3.0% of the value range"


def test_what_only_makes_a_draw_repeatable_is_not_told() -> None:
    fog = {"operator": "fog", "severity": 0.25, "draw": 1, "parameters": {"density": 0.125, "grain": 2077145240, "seed": 4}}
    assert recipe_in_words(_defect(fog)) == "fog at severity 0.25 (density 0.125)"
