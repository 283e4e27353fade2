"""Natural operators on the device that the model runs on: the bytes that ``NaturalOperators`` makes, without the way over the processor.

A Python API for whoever has pictures on a device already. A campaign does not use it: there the supervisor makes the mutants, in a process
that runs no model's code and so can vouch for every byte. Which operators: all but those that a library makes picture by picture (JPEG,
WebP, downscale, CLAHE).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gate.domains.image.batches import Columns, apply_columns, columns_of
from gate.domains.image.operators import OPERATORS
from gate.errors import UsageError

__all__ = ["DEVICE_OPERATORS", "apply_on_device", "device_rows"]

DEVICE_OPERATORS = frozenset(name for name, operator in OPERATORS.items() if operator.anywhere)


def device_rows(steps: Sequence[Any]) -> npt.NDArray[np.bool_]:
    """bool [N]: the steps that ``apply_on_device`` can make."""
    done = np.ones(len(steps), dtype=np.bool_)
    for name, rows, _ in columns_of(steps):
        done[rows] = name in DEVICE_OPERATORS
    return done


def apply_on_device(
    x: Any, columns: Sequence[tuple[str, npt.NDArray[np.int64], Mapping[str, Any]]], value_range: tuple[float, float]
) -> Any:
    """One operator for each row that ``columns`` names; byte for byte what ``NaturalOperators.apply`` makes of the same steps.

    Args:
        x: torch tensor [N, H, W, C], uint8 or float32, on any device.
        columns: (operator, rows int64 [n], parameters by column), as ``gate.domains.image.batches.columns_of`` gives them.
        value_range: lowest and highest value a file may hold.

    Returns:
        A new tensor like ``x``; rows that no operator names are copies.

    Raises:
        UsageError: an operator is not in ``DEVICE_OPERATORS``.
        DataError: parameters are not those of their operator.
    """
    held: Columns = [(name, rows, parameters) for name, rows, parameters in columns]
    for name, _, _ in held:
        if name not in DEVICE_OPERATORS:
            raise UsageError(
                f"The operator {name!r} does not run on the device.", hint=f"Those that do: {', '.join(sorted(DEVICE_OPERATORS))}."
            )
    return apply_columns(x, held, float(value_range[0]), float(value_range[1]))
