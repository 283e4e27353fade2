"""Pictures as the campaign sees them: operators, validity and files in one object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gate.domains.chains import Steps
from gate.domains.image import picture
from gate.domains.image.limits import Domain
from gate.domains.image.natural import NaturalOperators
from gate.domains.image.recipe import Step
from gate.domains.image.splicing import FAMILY, SPLICING, Splices
from gate.domains.image.validity import REASONS, ValidityCheck
from gate.domains.model_operators import MODEL_OPERATORS

__all__ = ["ImageDomain"]


class ImageDomain:
    """An input domain (see gate/domains/domain.py) of pictures [H, W, C] of one shape, dtype and value range.

    Args:
        limits: the policy's domain.
        shape: (H, W, C).
        dtype: uint8 or float32.
        value_range: lowest and highest value of a file.
        validator: asked about mutants [N, H, W, C] within the limits and their seed inputs; its answer, bool [N], says which are valid.
    """

    def __init__(
        self,
        limits: Domain,
        shape: tuple[int, int, int],
        dtype: npt.DTypeLike,
        value_range: tuple[float, float],
        validator: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
    ) -> None:
        self._validator = validator
        self._limits = limits
        self._operators = NaturalOperators(limits, shape, dtype, value_range)
        self._splices = Splices(limits, shape)
        self._shape = shape
        self._dtype = np.dtype(dtype)
        self._range = value_range
        self._validity = ValidityCheck(limits, value_range)

    def by_limits_alone(self) -> ImageDomain:
        """The same without its validator."""
        return ImageDomain(self._limits, self._shape, self._dtype, self._range)

    @property
    def value_range(self) -> tuple[float, float]:
        """Lowest and highest value of a file."""
        return self._range

    @property
    def natural(self) -> tuple[str, ...]:
        """Names of the natural operators that are switched on."""
        return self._operators.names

    @property
    def model_bounds(self) -> Mapping[str, float]:
        """Bounds of the operators that need the model, those switched off left out."""
        found = {name: getattr(getattr(self._limits, one.family), name) for name, one in MODEL_OPERATORS.items()}
        return {name: bound for name, bound in found.items() if bound}

    @property
    def chain_length(self) -> int:
        """Most natural operators in one recipe."""
        return self._limits.chain.length

    @property
    def chain_severity(self) -> float:
        """Largest sum of the severities of one recipe."""
        return self._limits.chain.severity

    def family(self, operator: str) -> str:
        """The family of an operator."""
        if operator in SPLICING:
            return FAMILY
        model = MODEL_OPERATORS.get(operator)
        return self._operators.family_of(operator) if model is None else model.family

    def step(self, operator: str, severity: float, draw: int) -> Step:
        """A natural step; its parameters follow from the arguments alone."""
        return self._operators.step(operator, severity, draw)

    def steps(self, operators: np.ndarray, severities: np.ndarray, draws: np.ndarray) -> Steps:
        """N natural steps by column; see ``InputDomain``."""
        return self._operators.steps(operators, severities, draws)

    def model_step(self, operator: str, draw: int) -> Step:
        """The record of a step that needed the model; severity 0, for it takes nothing of what natural operators share."""
        return Step(operator, 0.0, draw, {MODEL_OPERATORS[operator].norm: self.model_bounds[operator]})

    def model_steps(self, operator: str, draws: np.ndarray) -> Steps:
        """N records of a step that needed the model, by column."""
        count = len(draws)
        columns: dict[str, Any] = {MODEL_OPERATORS[operator].norm: np.full(count, self.model_bounds[operator])}
        none = np.zeros(count, dtype=np.int64)
        return Steps((operator,), none, np.zeros(count), draws, {0: (np.arange(count), columns)}, Step)

    @property
    def splicing(self) -> tuple[str, ...]:
        """Names of the splicing operators that are switched on."""
        return self._splices.names

    def splice_steps(self, operator: str, severities: np.ndarray, draws: np.ndarray, donors: Sequence[str] | None) -> Steps:
        """N splicing steps of one operator by column; see ``InputDomain``."""
        return self._splices.steps(operator, severities, draws, donors)

    def takes_donors(self, operator: str) -> bool:
        """Whether a splicing operator takes its boxes from other seed inputs."""
        return operator == "splice"

    def splice(self, x: np.ndarray, steps: Steps, donors: np.ndarray | None) -> np.ndarray:
        """[N, H, W, C] changed by one splicing step each; donors are like ``x``."""
        return self._splices.apply(x, steps, donors)

    def apply(self, x: np.ndarray, steps: Sequence[Any]) -> np.ndarray:
        """[N, H, W, C] mutated by one natural step each."""
        return self._operators.apply(x, steps)

    def replay(self, seed: np.ndarray, recipe: Sequence[Any]) -> np.ndarray:
        """One seed input [H, W, C] mutated by a recipe of natural steps."""
        return self._operators.replay(seed, recipe)

    def bound(self, mutants: np.ndarray, parents: np.ndarray, operator: str) -> np.ndarray:
        """The mutants, brought to the operator's bound around their parents and to the value range."""
        low, high = self._range
        most = self.model_bounds[operator] * (high - low)
        origin = parents.astype(np.float32)
        made = np.clip(np.nan_to_num(mutants.astype(np.float32)), low, high)
        if MODEL_OPERATORS[operator].norm == "linf":
            if self._dtype == np.uint8:
                most = np.floor(most)  # whole steps only, so that rounding can't cross the bound
            return np.clip(np.clip(made, origin - most, origin + most), low, high).astype(self._dtype)
        change = made - origin
        squares = np.square(change).reshape(len(change), -1).mean(axis=1, dtype=np.float64)
        beyond = np.flatnonzero(squares > most**2)
        shrunk = change[beyond] * (most / np.sqrt(squares[beyond])).astype(np.float32).reshape(-1, *[1] * (change.ndim - 1))
        # Towards the parent, so that rounding can't cross the bound.
        made[beyond] = origin[beyond] + (np.trunc(shrunk) if self._dtype == np.uint8 else shrunk)
        return np.clip(made, low, high).astype(self._dtype)

    @property
    def reasons(self) -> tuple[str, ...]:
        """What can make a mutant invalid."""
        return REASONS

    def check(self, mutants: np.ndarray, seeds: np.ndarray, recipes: Sequence[Any]) -> np.ndarray:
        """int64 [N]: why a mutant is invalid, a position in ``reasons``; -1 for what a person would still label the same."""
        codes = self._validity(mutants, seeds, recipes).codes
        rows = np.flatnonzero(codes < 0)
        if self._validator is not None and len(rows):
            codes[rows[~self._validator(mutants[rows], seeds[rows])]] = REASONS.index("validator")
        return codes

    def valid(self, mutants: np.ndarray, seeds: np.ndarray, recipes: Sequence[Any]) -> np.ndarray:
        """bool [N]: within what a person would still label the same."""
        return self.check(mutants, seeds, recipes) < 0

    def noise(self, count: int, random: np.random.Generator) -> np.ndarray:
        """[count, H, W, C]: uniform noise over the value range."""
        if self._dtype == np.uint8:
            low, high = (int(edge) for edge in self._range)
            return random.integers(low, high + 1, size=(count, *self._shape), dtype=np.uint8)
        return random.uniform(*self._range, size=(count, *self._shape)).astype(self._dtype)

    def save(self, path: Path, sample: np.ndarray) -> Path:
        """Writes a sample so that it loads back byte for byte; returns the path with its suffix."""
        return picture.save(path, sample, self._range)

    def load(self, path: Path) -> np.ndarray:
        """Reads what ``save`` wrote, as [H, W, C]."""
        return picture.load(path)

    def picture(self, sample: np.ndarray) -> np.ndarray:
        """uint8 [H, W] or [H, W, 3] for a person to look at."""
        return picture.viewable(sample, self._range)

    def difference(self, seed: np.ndarray, mutant: np.ndarray) -> np.ndarray:
        """uint8 [H, W] or [H, W, 3]: the amplified difference."""
        return picture.difference(seed, mutant, self._range)
