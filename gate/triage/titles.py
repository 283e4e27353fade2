"""The title of a root cause, in one line: what happens to which class, and from which amount of which change on.

"4 read as 9 when rotated by more than 12°": the amount is the least of the root cause's minimised defects, so it tells where this model
breaks and not how hard the search had pushed. Where the defects come from several operators, or none was minimised, the family and the
least severity stand in its place.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gate.domains.image.operator_words import beyond, in_words, measured
from gate.oracles import ALL
from gate.oracles.universal_mark import AnyMark
from gate.result import Defect, UniversalMark
from gate.triage.backends import is_backend, way_in_words
from gate.triage.identity import class_name

__all__ = ["ANY_CLASS", "MARK_STEP", "main_operator", "mark_in_words", "range_of", "title_of", "title_of_mark"]

LISTED = 3  # operators that a title names
_SAYS = {oracle.name: oracle.says for oracle in ALL}
_SURELY = "confident_misclassification"
ANY_CLASS = "any class"  # the true class of root causes that have all of them, in identities
MARK_STEP = "universal_mark"  # the operator of a recipe that lays a mark
_MARKS = {"patch": "a small patch", "border": "a narrow frame", "blend": "a faint pattern"}


def title_of(defects: Sequence[Defect], example: Defect, classes: Sequence[str]) -> str:
    """The title of the root cause of these defects.

    Args:
        defects: all of one root cause.
        example: the one that is shown.
        classes: names.
    """
    if example.label is None:
        groups = " and ".join(family.removeprefix("probe_").replace("_", " ") for family in example.families)
        return f"a probe ({groups}) {_says(example)}"
    if example.oracle == AnyMark.name:
        kind = mark_in_words(example.family.removeprefix("mark_"))
        return f"{kind} makes inputs of any class read as {_outcome_class(example, classes)}"
    if is_backend(example):
        outcome = "gives no finite output" if example.predicted is None else f"read as {class_name(example.predicted, classes)}"
        return f"{class_name(example.label, classes)} {outcome} {way_in_words(example.oracle, example.detail)}".rstrip()
    return f"{_outcome(example, classes)} {_circumstance(defects, example)}"


def title_of_mark(mark: UniversalMark, classes: Sequence[str]) -> str:
    """The title of the root cause that a mark is, with the share of inputs that it moves, rounded down."""
    share = "all inputs" if mark.moved == mark.inputs else f"{100 * mark.moved // mark.inputs}% of the inputs"
    return f"{mark_in_words(mark.kind)} makes {share} read as {class_name(mark.label, classes)}"


def main_operator(defects: Sequence[Defect]) -> str | None:
    """The operator that makes more than half of the defects by itself; None where there is none."""
    alone = Counter(str(defect.recipe[0]["operator"]) for defect in defects if len(defect.recipe) == 1)
    if not alone:
        return None
    name, count = min(alone.items(), key=lambda item: (-item[1], item[0]))
    return name if 2 * count > len(defects) else None


def range_of(defects: Sequence[Defect]) -> dict[str, tuple[float, float]]:
    """Lowest and highest severity of the minimised defects, and of the parameters that tell how strong a change is, in their own units and
    with their signs, where one operator makes most of them; empty where none was minimised."""
    minimised = [defect for defect in defects if defect.minimal is not None]
    if not minimised:
        return {}
    ranges = {"severity": _ends([defect.severity for defect in minimised])}
    operator = main_operator(minimised)
    if operator is None:
        return ranges
    steps = [_parameters(defect.recipe[0]) for defect in minimised if _is_alone(defect, operator)]
    for name in measured(operator, steps[0]):
        values = [step.get(name) for step in steps]
        numbers = [float(value) for value in values if isinstance(value, int | float) and math.isfinite(value)]
        if len(numbers) == len(steps):
            ranges[name] = _ends(numbers)
    return ranges


def mark_in_words(kind: str) -> str:
    """What a mark of a kind looks like."""
    return _MARKS.get(kind) or f"one {kind}"


def _outcome_class(defect: Defect, classes: Sequence[str]) -> str:
    return "one class" if defect.predicted is None else class_name(defect.predicted, classes)


def _says(defect: Defect) -> str:
    return _SAYS.get(defect.oracle) or f"gives {defect.oracle.replace('_', ' ')}"


def _outcome(defect: Defect, classes: Sequence[str]) -> str:
    """What goes wrong with which class."""
    assert defect.label is not None
    label = class_name(defect.label, classes)
    if defect.predicted is None or defect.predicted == defect.label:
        return f"{label} {_says(defect)}"
    return f"{label} {'surely ' if defect.oracle == _SURELY else ''}read as {class_name(defect.predicted, classes)}"


def _circumstance(defects: Sequence[Defect], example: Defect) -> str:
    """Under what it does."""
    if not example.recipe:
        return "as it is"
    minimised = [defect for defect in defects if defect.minimal is not None]
    operator = main_operator(minimised)
    if operator is not None:
        words = beyond(operator, [_parameters(defect.recipe[0]) for defect in minimised if _is_alone(defect, operator)])
        if words is not None:
            return f"when {words}"
    known = minimised or defects
    counted = Counter(str(step["operator"]) for defect in known for step in defect.recipe)
    names = [in_words(name) for name, _ in sorted(counted.items(), key=lambda item: (-item[1], item[0]))]
    listed = ", ".join(names[:LISTED]) + (", …" if len(names) > LISTED else "")
    families = " and ".join(in_words(family) for family in example.families)
    least = min(defect.severity for defect in known)
    return f"under {families} ({listed}{f'; severity from {least:.2g}' if least > 0 else ''})"


def _parameters(step: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = step.get("parameters")
    return parameters if isinstance(parameters, Mapping) else {}


def _is_alone(defect: Defect, operator: str) -> bool:
    return len(defect.recipe) == 1 and defect.recipe[0]["operator"] == operator


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)
