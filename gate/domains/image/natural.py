"""The natural operators of one policy, for one kind of picture: makes steps and applies them to batches in the file's own dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gate.domains.chains import Steps
from gate.domains.image.batches import apply_columns, columns_of, together
from gate.domains.image.limits import Domain
from gate.domains.image.operators import OPERATORS, Operator
from gate.domains.image.operators.base import draw_key
from gate.domains.image.recipe import Step
from gate.errors import UsageError
from gate.randomness import uniforms

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
            if not operator.off(limit) and operator.fits(shape):
                self._operators[name] = operator(limit)

    @property
    def names(self) -> tuple[str, ...]:
        """Those switched on and made for pictures of this shape, in a fixed order."""
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
            if not OPERATORS[name].fits(self._shape):
                raise UsageError(f"The operator {name!r} is not made for pictures {self._shape}.")
            raise UsageError(f"The operator {name!r} is switched off.", hint="The policy's domain sets its limit to null or 0.")
        if not 0 <= severity <= 1:
            raise UsageError(f"The severity {severity!r} of {name!r} is not between 0 and 1.")
        one: Step = self.steps(np.array([self.names.index(name)]), np.array([float(severity)]), np.array([int(draw)]))[0]
        return one

    def steps(self, operators: npt.NDArray[np.int64], severities: npt.NDArray[np.float64], draws: npt.NDArray[np.int64]) -> Steps:
        """N steps by column; row by row what ``step`` makes of the same arguments.

        Args:
            operators: positions in ``names``, [N].
            severities: 0 to 1, [N].
            draws: not negative, [N].
        """
        named = tuple(self._operators.values())
        # One look at the hash for all: each operator's numbers are the first of its own key's.
        keys = draws.view(np.uint64) ^ np.array([draw_key(name) for name in self._operators], dtype=np.uint64)[operators]
        most = max((operator.draws for operator in named), default=0)
        numbers = uniforms(keys[None], np.arange(most, dtype=np.uint64)[:, None])
        parameters: dict[int, tuple[npt.NDArray[np.int64], dict[str, Any]]] = {}
        for position, rows in together(operators):
            operator = named[position]
            parameters[position] = (rows, operator.drawn(severities[rows], numbers[: operator.draws, rows], self._shape))
        return Steps(self.names, operators, severities, draws, parameters, Step)

    def apply(self, x: npt.NDArray[Any], steps: Sequence[Step]) -> npt.NDArray[Any]:
        """One step for each sample.

        Args:
            x: [N, H, W, C] in the file's dtype.
            steps: N steps of natural operators: ``Steps`` as made by ``steps``, or any sequence.

        Returns:
            A new array [N, H, W, C] in the file's dtype.

        Raises:
            DataError: a step's operator is no natural one, or its parameters are not that operator's.
        """
        if x.shape != (len(steps), *self._shape) or x.dtype != self._dtype:
            raise ValueError(f"expected {len(steps)} samples {self._shape} of {self._dtype}, got {x.shape} of {x.dtype}")
        changed: npt.NDArray[Any] = apply_columns(x, columns_of(steps), self._low, self._high)
        return changed

    def replay(self, x_seed: npt.NDArray[Any], recipe: Sequence[Step]) -> npt.NDArray[Any]:
        """The mutant [H, W, C] that a recipe makes of one seed input [H, W, C].

        Raises:
            DataError: the recipe holds a step that is no natural operator: it needs the model, so only the saved file shows it again.
        """
        batch = x_seed[None]
        for step in recipe:
            batch = self.apply(batch, [step])
        return np.array(batch[0])
