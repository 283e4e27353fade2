"""The natural operators of one policy, for one kind of picture: makes steps and applies them to batches in the file's own dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gate.domains.chains import Steps
from gate.domains.image.limits import Domain
from gate.domains.image.operators import OPERATORS, Operator
from gate.domains.image.recipe import Step
from gate.errors import DataError, UsageError

__all__ = ["NaturalOperators"]


class NaturalOperators:
    """The operators that a domain switches on.

    Every step ends in the file's dtype, quantised and clipped to the value range; so a chain applied step by step to files gives the
    same bytes as ``replay``. Nothing here depends on the batch: a sample's result follows from its own picture and step.

    Args:
        domain: the policy's limits.
        shape: (H, W, C) of the pictures.
        dtype: of the files: uint8 or float32.
        value_range: lowest and highest value a file may hold.

    Raises:
        UsageError: another dtype, or a range without extent.
    """

    def __init__(self, domain: Domain, shape: tuple[int, int, int], dtype: npt.DTypeLike, value_range: tuple[float, float]) -> None:
        self._shape = shape
        self._dtype = np.dtype(dtype)
        self._low, self._high = float(value_range[0]), float(value_range[1])
        if self._dtype not in (np.dtype(np.uint8), np.dtype(np.float32)):
            raise UsageError(f"Pictures of dtype {self._dtype} can't be mutated.", hint="Give uint8 or float32 data.")
        if not self._low < self._high:
            raise UsageError(f"The value range [{self._low:g}, {self._high:g}] has no extent.", where="input.range")
        self._operators: dict[str, Operator] = {}
        for name, operator in OPERATORS.items():
            limit = getattr(getattr(domain, operator.family), name)
            if not operator.off(limit):
                self._operators[name] = operator(limit)

    @property
    def names(self) -> tuple[str, ...]:
        """Those switched on, in a fixed order."""
        return tuple(self._operators)

    def family_of(self, name: str) -> str:
        """The family of a natural operator, switched on or not.

        Raises:
            UsageError: there is none of that name.
        """
        if name not in OPERATORS:
            raise UsageError(f"There is no natural operator {name!r}.", hint=f"Known ones: {', '.join(OPERATORS)}.")
        return OPERATORS[name].family

    def step(self, name: str, severity: float, draw: int) -> Step:
        """The step of an operator at a severity between 0 and 1; ``draw`` (not negative) decides direction, place and grain.

        Raises:
            UsageError: the operator is unknown or switched off, or the severity is not in [0, 1].
        """
        self.family_of(name)
        if name not in self._operators:
            raise UsageError(f"The operator {name!r} is switched off.", hint="The policy's domain sets its limit to null or 0.")
        if not 0 <= severity <= 1:
            raise UsageError(f"The severity {severity!r} of {name!r} is not between 0 and 1.")
        return Step(name, float(severity), int(draw), self._operators[name].parameters(float(severity), int(draw), self._shape))

    def steps(self, operators: npt.NDArray[np.int64], severities: npt.NDArray[np.float64], draws: npt.NDArray[np.int64]) -> Steps:
        """N steps by column; row by row what ``step`` makes of the same arguments.

        Args:
            operators: positions in ``names``, [N].
            severities: 0 to 1, [N].
            draws: not negative, [N].
        """
        parameters: dict[int, tuple[npt.NDArray[np.int64], dict[str, Any]]] = {}
        for position, operator in enumerate(self._operators.values()):
            rows = np.flatnonzero(operators == position)
            if len(rows):
                made = [operator.parameters(float(severities[row]), int(draws[row]), self._shape) for row in rows]
                parameters[position] = (rows, {name: [one[name] for one in made] for name in made[0]})
        return Steps(self.names, operators, severities, draws, parameters, Step)

    def apply(self, x: npt.NDArray[Any], steps: Sequence[Step]) -> npt.NDArray[Any]:
        """One step for each sample.

        Args:
            x: [N, H, W, C] in the file's dtype.
            steps: N steps of natural operators.

        Returns:
            A new array [N, H, W, C] in the file's dtype.

        Raises:
            DataError: a step's operator is no natural one.
        """
        if x.shape != (len(steps), *self._shape) or x.dtype != self._dtype:
            raise ValueError(f"expected {len(steps)} samples {self._shape} of {self._dtype}, got {x.shape} of {x.dtype}")
        extent = np.float32(self._high - self._low)
        result = x.copy()
        for index, step in enumerate(steps):
            if step.severity == 0:
                continue
            unit = (x[index].astype(np.float32) - np.float32(self._low)) / extent
            result[index] = self._quantised(self._operator(step).apply(unit, step.parameters) * extent + np.float32(self._low))
        return result

    def replay(self, x_seed: npt.NDArray[Any], recipe: Sequence[Step]) -> npt.NDArray[Any]:
        """The mutant [H, W, C] that a recipe makes of one seed input [H, W, C].

        Raises:
            DataError: the recipe holds a step that is no natural operator: it needs the model, so only the saved file shows it again.
        """
        batch = x_seed[None]
        for step in recipe:
            batch = self.apply(batch, [step])
        return np.array(batch[0])

    def _operator(self, step: Step) -> Operator:
        if step.operator not in OPERATORS:
            raise DataError(
                f"The operator {step.operator!r} can't be replayed from its parameters.",
                hint="Attacks and coverage gradients need the model they were made with; use the saved file of the mutant.",
            )
        # Parameters are explicit, so a recipe replays also where this policy switches its operator off.
        return self._operators.get(step.operator) or OPERATORS[step.operator](None)

    def _quantised(self, values: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
        clipped = np.clip(values, self._low, self._high)
        return (np.rint(clipped) if self._dtype == np.uint8 else clipped).astype(self._dtype)
