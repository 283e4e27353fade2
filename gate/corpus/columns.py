"""Arrays of one length that grow at their end, so that a corpus is looked at by column and not entry by entry."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Columns"]

_FIRST = 64  # rows that there is room for at the beginning


class Columns:
    """Named columns of N rows each. The room behind them doubles when it is used up, so a row costs the same however many there are.

    Args:
        kinds: the columns' names and dtypes.
    """

    def __init__(self, **kinds: npt.DTypeLike) -> None:
        self._arrays: dict[str, npt.NDArray[Any]] = {name: np.zeros(_FIRST, dtype=kind) for name, kind in kinds.items()}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """[N]: a view of a column, to be changed in place; one that was taken before rows were added lacks these."""
        return self._arrays[name][: self._count]

    def extend(self, count: int, **values: Any) -> None:
        """Adds ``count`` rows: for every column an array [count], or one value for all of them.

        Raises:
            ValueError: a column is missing or unknown, or an array has another length.
        """
        if set(values) != set(self._arrays):
            raise ValueError(f"the columns {sorted(set(values) ^ set(self._arrays))} are missing or unknown")
        after = self._count + count
        for name, value in values.items():
            if np.ndim(value) and np.shape(value) != (count,):
                raise ValueError(f"{name} has shape {np.shape(value)}, wanted are {count} rows")
            column = self._arrays[name]
            if after > len(column):
                grown = np.zeros(max(after, 2 * len(column)), dtype=column.dtype)
                grown[: self._count] = column[: self._count]
                self._arrays[name] = grown
            self._arrays[name][self._count : after] = value
        self._count = after
