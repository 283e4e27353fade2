"""How a mutant was made: operators in order, with explicit parameters, exactly as they are written to files.

A step's parameters are derived from its operator, severity, draw, the domain's limits and the picture's shape, and from nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gate.errors import DataError

__all__ = ["Recipe", "Step", "recipe_from_json", "recipe_to_json"]


@dataclass(frozen=True)
class Step:
    """One operator as it was used.

    ``parameters`` holds JSON values only (numbers, strings, lists), so that ``Step.from_json(step.to_json()) == step`` also after a
    file lies between them.
    """

    operator: str
    severity: float  # 0 to 1; 1 is the domain's limit
    draw: int  # addresses the random numbers of this step; not negative
    parameters: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """A new dict of JSON values."""
        return {"operator": self.operator, "severity": self.severity, "draw": self.draw, "parameters": dict(self.parameters)}

    @classmethod
    def from_json(cls, data: Any) -> Step:
        """The step that ``to_json`` wrote.

        Raises:
            DataError: fields are missing, unknown or of another type.
        """
        if not isinstance(data, Mapping) or set(data) != {"operator", "severity", "draw", "parameters"}:
            raise _malformed("a step needs exactly operator, severity, draw and parameters")
        operator, severity, draw, parameters = data["operator"], data["severity"], data["draw"], data["parameters"]
        if not isinstance(operator, str):
            raise _malformed("operator must be a name")
        if isinstance(severity, bool) or not isinstance(severity, int | float) or not math.isfinite(severity) or severity < 0:
            raise _malformed("severity must be a number that is not negative")
        if isinstance(draw, bool) or not isinstance(draw, int) or draw < 0:
            raise _malformed("draw must be a whole number that is not negative")
        if not isinstance(parameters, Mapping) or not all(isinstance(key, str) for key in parameters):
            raise _malformed("parameters must be a mapping of names to values")
        return cls(operator, float(severity), draw, dict(parameters))


Recipe = tuple[Step, ...]


def recipe_to_json(recipe: Sequence[Step]) -> list[dict[str, Any]]:
    """The steps in order, as JSON values."""
    return [step.to_json() for step in recipe]


def recipe_from_json(data: Any) -> Recipe:
    """The recipe that ``recipe_to_json`` wrote.

    Raises:
        DataError: it is no list of steps.
    """
    if not isinstance(data, Sequence) or isinstance(data, str | bytes):
        raise _malformed("it must be a list of steps")
    return tuple(Step.from_json(step) for step in data)


def _malformed(reason: str) -> DataError:
    return DataError(f"The recipe can't be read: {reason}.", hint="Use a recipe as the gate wrote it.")
