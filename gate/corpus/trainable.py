"""Which defects a training set can use, and which operators made them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gate.domains.image.operators import OPERATORS
from gate.result import Defect

__all__ = ["FailingOperator", "failing_operators", "severities_found", "trainable"]

# What these complain of goes away with better weights. Faults, and answers that depend on how the model is run, do not.
_OF_WEIGHTS = ("changed_prediction", "confident_misclassification", "confidence_collapse")


@dataclass(frozen=True)
class FailingOperator:
    """A natural operator in the recipes of defects."""

    name: str
    defects: int  # whose recipe holds it
    mildest: float  # severity, 0 to 1 of the policy's limit, in any of them
    severest: float


def trainable(defect: Defect) -> bool:
    """Whether a training set can use it: found by the search, with a true class, and wrong because of the weights.

    Never one of the judging arm: its mutants are the same for every model, so training on them would be training on the next exam.
    """
    return defect.arm == "search" and defect.label is not None and defect.predicted is not None and defect.oracle in _OF_WEIGHTS


def failing_operators(defects: Sequence[Defect]) -> tuple[FailingOperator, ...]:
    """The natural operators in the defects' recipes, the most frequent first."""
    count: Counter[str] = Counter()
    found: dict[str, list[float]] = {}
    for defect in defects:
        steps = severities_found(defect)
        count.update(steps.keys())
        for name, severities in steps.items():
            found.setdefault(name, []).extend(severities)
    order = sorted(count, key=lambda name: (-count[name], name))
    return tuple(FailingOperator(name, count[name], min(found[name]), max(found[name])) for name in order)


def severities_found(defect: Defect) -> dict[str, tuple[float, ...]]:
    """By natural operator of its recipe, the severities: as it is now and, where it was minimised, as the campaign had found it.

    A minimised severity is where this one seed input just fails; others of the root cause fail a little later.
    """
    steps = _severities(defect.recipe)
    before = {} if defect.minimal is None else _severities(defect.minimal.found_recipe)
    return {name: (*severities, *before.get(name, ())) for name, severities in steps.items()}


def _severities(recipe: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, ...]]:
    """A record may have been edited, so names and numbers count only where they can be true."""
    found: dict[str, tuple[float, ...]] = {}
    for step in recipe:
        name, severity = step.get("operator"), step.get("severity")
        usable = isinstance(severity, int | float) and not isinstance(severity, bool) and math.isfinite(severity) and 0 <= severity <= 1
        if isinstance(name, str) and name in OPERATORS and usable:
            found[name] = (*found.get(name, ()), float(severity or 0))
    return found
