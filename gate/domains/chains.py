"""Recipes of a whole batch, held by column, so that nothing on the way through the model is done sample by sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt

__all__ = ["Chains", "Steps"]


class Steps(Sequence[Any]):
    """N operators in use, one for each sample, by column. ``steps[row]`` is that sample's step, made when it is asked for.

    Args:
        names: what ``operators`` counts into.
        operators: int64 [N].
        severities: float64 [N].
        draws: int64 [N], not negative.
        parameters: by position in ``names``: the rows which that operator takes, int64 [n], and its parameters, each [n, ...] or a list
            of n JSON values.
        make: (operator name, severity, draw, {parameter: JSON value}) -> step.
    """

    def __init__(
        self,
        names: Sequence[str],
        operators: npt.NDArray[np.int64],
        severities: npt.NDArray[np.float64],
        draws: npt.NDArray[np.int64],
        parameters: dict[int, tuple[npt.NDArray[np.int64], dict[str, Any]]],
        make: Any,
    ) -> None:
        self.names = tuple(names)
        self.operators = operators
        self.severities = severities
        self.draws = draws
        self.parameters = parameters
        self._make = make

    def __len__(self) -> int:
        return len(self.operators)

    @overload
    def __getitem__(self, row: int) -> Any: ...
    @overload
    def __getitem__(self, row: slice) -> list[Any]: ...
    def __getitem__(self, row: int | slice) -> Any:
        if isinstance(row, slice):
            return [self[one] for one in range(*row.indices(len(self)))]
        row = range(len(self))[row]
        operator = int(self.operators[row])
        rows, columns = self.parameters[operator]
        place = int(np.searchsorted(rows, row))  # rows are ascending
        values = {name: _json(column[place]) for name, column in columns.items()}
        return self._make(self.names[operator], float(self.severities[row]), int(self.draws[row]), values)

    def __iter__(self) -> Iterator[Any]:
        return (self[row] for row in range(len(self)))


def _json(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


@dataclass(frozen=True, eq=False)
class Chains(Sequence[tuple[Any, ...]]):
    """N recipes by column: what each goes on from, and what was added. ``chains[row]`` is the whole recipe, made when it is asked for."""

    parents: Sequence[tuple[Any, ...]]  # N recipes; () for a seed input
    links: tuple[tuple[npt.NDArray[np.int64], Sequence[Any]], ...]  # (ascending rows [n], n steps), in the order they were applied
    lengths: npt.NDArray[np.int64]  # [N]: natural steps
    severities: npt.NDArray[np.float64]  # [N]: sum over the natural steps
    assisted: npt.NDArray[np.int64]  # [N]: steps whose result is stored: made with the model's help or by splicing

    @classmethod
    def none(cls, count: int) -> Chains:
        """``count`` empty recipes: the seed inputs themselves, or inputs that come from none."""
        zero = np.zeros(count, dtype=np.int64)
        return cls(((),) * count, (), zero, np.zeros(count), zero)

    def then(self, rows: npt.NDArray[np.int64], steps: Sequence[Any], severities: npt.NDArray[np.float64] | None) -> Chains:
        """The recipes with one more step in ``rows`` (ascending); ``severities`` [n] of natural steps, None for all others."""
        lengths, summed, assisted = self.lengths, self.severities, self.assisted
        if severities is None:
            assisted = assisted.copy()
            assisted[rows] += 1
        else:
            lengths, summed = lengths.copy(), summed.copy()
            lengths[rows] += 1
            summed[rows] += severities
        return Chains(self.parents, (*self.links, (rows, steps)), lengths, summed, assisted)

    def names(self, row: int) -> tuple[str, ...]:
        """The operators of one recipe in their order, without making its steps."""
        found = [step.operator for step in self.parents[row]]
        for rows, steps in self.links:
            place = int(np.searchsorted(rows, row))
            if place < len(rows) and rows[place] == row:
                found.append(steps.names[int(steps.operators[place])] if isinstance(steps, Steps) else steps[place].operator)
        return tuple(found)

    def __len__(self) -> int:
        return len(self.parents)

    @overload
    def __getitem__(self, row: int) -> tuple[Any, ...]: ...
    @overload
    def __getitem__(self, row: slice) -> tuple[tuple[Any, ...], ...]: ...
    def __getitem__(self, row: int | slice) -> Any:
        if isinstance(row, slice):
            return tuple(self[one] for one in range(*row.indices(len(self))))
        row = range(len(self))[row]
        recipe = tuple(self.parents[row])
        for rows, steps in self.links:
            place = int(np.searchsorted(rows, row))
            if place < len(rows) and rows[place] == row:
                recipe = (*recipe, steps[place])
        return recipe
