"""What the campaign needs to know about inputs, whatever they are. Pictures live in ``gate.domains.image``; others can stand beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gate.domains.chains import Steps

__all__ = ["InputDomain", "Step"]


class Step(Protocol):
    """One operator with explicit parameters, as a recipe holds it."""

    @property
    def operator(self) -> str: ...
    @property
    def severity(self) -> float: ...
    def to_json(self) -> dict[str, Any]: ...


Recipe = Sequence[Any]


class InputDomain(Protocol):
    """Operators, validity and files of one kind of input. N is the number of samples, ``...`` the shape of one in its file dtype."""

    @property
    def natural(self) -> tuple[str, ...]:
        """Names of the natural operators which the policy leaves switched on."""

    @property
    def model_bounds(self) -> Mapping[str, float]:
        """Operators that need the model (attacks, coverage gradient) and their bound as a share of the value range, in the norm that
        gate.domains.model_operators names."""

    @property
    def chain_length(self) -> int: ...
    @property
    def chain_severity(self) -> float: ...

    def family(self, operator: str) -> str:
        """The family of an operator."""

    def step(self, operator: str, severity: float, draw: int) -> Step:
        """A natural step with parameters that follow from the three arguments alone."""

    def steps(self, operators: np.ndarray, severities: np.ndarray, draws: np.ndarray) -> Steps:
        """N natural steps by column: positions in ``natural`` int64 [N], severities float64 [N], draws int64 [N]; row by row what
        ``step`` makes of the same arguments."""

    def model_step(self, operator: str, draw: int) -> Step:
        """The record of a step that the model took part in; its result is stored, not replayed."""

    def model_steps(self, operator: str, draws: np.ndarray) -> Steps:
        """N such records by column, draws int64 [N]."""

    @property
    def splicing(self) -> tuple[str, ...]:
        """Names of the operators which lay parts of inputs over others; none of them is natural. At most one such step, or one of the
        model's, is in a recipe, as the last; its result is stored."""

    def splice_steps(self, operator: str, severities: np.ndarray, draws: np.ndarray, donors: Sequence[str] | None) -> Steps:
        """N steps of such an operator by column: severities float64 [N], draws int64 [N], N identities of the seed inputs that take part;
        None where ``takes_donors`` says that none do."""

    def takes_donors(self, operator: str) -> bool:
        """Whether such an operator takes parts of other seed inputs, of the same class."""

    def splice(self, x: np.ndarray, steps: Steps, donors: np.ndarray | None) -> np.ndarray:
        """[N, ...] changed by one such step each; donors [N, ...], or None."""

    def apply(self, x: np.ndarray, steps: Sequence[Any]) -> np.ndarray:
        """[N, ...] mutated by one natural step each (``Steps``, or any sequence of them), quantised to the file dtype."""

    def replay(self, seed: np.ndarray, recipe: Recipe) -> np.ndarray:
        """[...] one seed input mutated by a recipe of natural steps."""

    def bound(self, mutants: np.ndarray, parents: np.ndarray, operator: str) -> np.ndarray:
        """[N, ...]: the mutants, clipped to the operator's bound around their parents and to the value range, in the file dtype."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """What can make a mutant invalid; the first that applies counts."""

    def check(self, mutants: np.ndarray, seeds: np.ndarray, recipes: Sequence[Recipe]) -> np.ndarray:
        """int64 [N]: why a mutant is invalid, a position in ``reasons``; -1 for what a person would still label the same."""

    def valid(self, mutants: np.ndarray, seeds: np.ndarray, recipes: Sequence[Recipe]) -> np.ndarray:
        """bool [N]: within what a person would still label the same."""

    def by_limits_alone(self) -> InputDomain:
        """The same without a model that is asked whether mutants are valid: for what takes thousands of mutants and decides about none."""

    @property
    def value_range(self) -> tuple[float, float]:
        """Lowest and highest value of a file."""

    def noise(self, count: int, random: np.random.Generator) -> np.ndarray:
        """[count, ...]: uniform noise over the value range."""

    def save(self, path: Path, sample: np.ndarray) -> Path:
        """Writes a sample so that it loads back byte for byte; returns the path with its suffix."""

    def load(self, path: Path) -> np.ndarray:
        """Reads what ``save`` wrote."""

    def picture(self, sample: np.ndarray) -> np.ndarray:
        """uint8 [H, W] or [H, W, 3] for a person to look at."""

    def difference(self, seed: np.ndarray, mutant: np.ndarray) -> np.ndarray:
        """uint8 [H, W] or [H, W, 3]: the amplified difference."""
