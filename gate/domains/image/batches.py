"""Applies natural operators to a whole batch of files, operator by operator, for NumPy arrays and torch tensors alike."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gate.domains.chains import Steps
from gate.domains.image.operators import OPERATORS
from gate.domains.image.operators.arrays import Array, Arrays, arrays_of
from gate.domains.image.operators.warp import bilinear, projected
from gate.domains.image.operators.warped import Matrices, Projection, Warp
from gate.domains.image.recipe import Step
from gate.errors import DataError

__all__ = ["Columns", "apply_columns", "columns_of", "together"]

Columns = list[tuple[str, npt.NDArray[np.int64], Mapping[str, Any]]]  # operator, the rows [n] that it changes, its parameters by column

_VALUES_AT_ONCE = 1 << 22  # of one operator: bounds the memory; no result depends on it


def together(operators: npt.NDArray[np.int64]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Each number that occurs in ``operators`` [N] with the ascending rows where it does."""
    order = np.argsort(operators, kind="stable")
    numbers = operators[order]
    edges = [*np.flatnonzero(np.diff(numbers, prepend=-1)).tolist(), len(order)]
    for start, end in itertools.pairwise(edges):
        yield int(numbers[start]), order[start:end]


def columns_of(steps: Sequence[Step]) -> Columns:
    """Steps by operator; those of severity 0 are left out, as they change nothing.

    Raises:
        DataError: a step's operator is no natural one, or steps of one operator have different parameters.
    """
    if isinstance(steps, Steps):
        found: Columns = []
        for position, (rows, parameters) in sorted(steps.parameters.items()):
            _known(steps.names[position])
            kept = steps.severities[rows] > 0
            if kept.all():
                found.append((steps.names[position], rows, parameters))
            elif kept.any():
                some = np.flatnonzero(kept)
                found.append((steps.names[position], rows[some], {name: np.asarray(column)[some] for name, column in parameters.items()}))
        return found
    by_name: dict[str, list[int]] = {}
    for row, step in enumerate(steps):
        _known(step.operator)
        if step.severity > 0:
            by_name.setdefault(step.operator, []).append(row)
    return [(name, np.array(rows), _columns(name, [steps[row].parameters for row in rows])) for name, rows in by_name.items()]


def _known(name: str) -> None:
    if name not in OPERATORS:
        raise DataError(
            f"The operator {name!r} can't be replayed from its parameters.",
            hint="Attacks and gradients need the model, splices another seed input; use the saved file of the mutant.",
        )


def _columns(name: str, parameters: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    try:
        return {key: np.array([one[key] for one in parameters]) for key in parameters[0]}
    except (KeyError, ValueError) as error:
        raise _unfit(name) from error


def _unfit(name: str) -> DataError:
    return DataError(f"The parameters of a step are not those of {name!r}.", hint="Use a recipe as the gate wrote it.")


def apply_columns(x: Array, columns: Columns, low: float, high: float) -> Array:
    """One operator for each row.

    Args:
        x: [N, H, W, C], uint8 or float32, a NumPy array or a torch tensor on any device.
        columns: which operator changes which rows; rows that none names stay as they are.
        low: lowest value a file may hold.
        high: highest value.

    Returns:
        A new array like ``x``, quantised and clipped.

    Raises:
        DataError: parameters are not those of their operator.
    """
    xp = arrays_of(x)
    whole = not xp.is_float(x)
    result = xp.copy(x)
    at_once = max(1, _VALUES_AT_ONCE // max(1, int(np.prod(x.shape[1:]))))
    for start in range(0, len(x), at_once):
        # Rows are ascending, so that each operator's part of a stretch of the batch is a slice.
        parts: Columns = []
        for name, rows, parameters in columns:
            first, last = np.searchsorted(rows, (start, start + at_once))
            if first < last:
                parts.append((name, rows[first:last], {key: column[first:last] for key, column in parameters.items()}))
        if not parts:
            continue
        rows = np.concatenate([own for _, own, _ in parts])
        values = _changed(xp, (xp.single(xp.take(x, xp.constant(rows))) - _single(low)) * _single(1 / (high - low)), parts)
        values = xp.clip(xp.clip(values, 0.0, 1.0) * _single(high - low) + _single(low), _single(low), _single(high))
        xp.put(result, xp.constant(rows), xp.rint(values) if whole else values)
    return result


def _single(value: float) -> float:
    return float(np.float32(value))


def _changed(xp: Arrays, images: Array, parts: Columns) -> Array:
    """The pictures [n, H, W, C] in [0, 1] of ``parts``, one part after the other, changed but not clipped."""
    height, width = images.shape[1:3]
    images = xp.clip(images, 0.0, 1.0)
    changed = images * 1.0
    warps: list[tuple[int, int, Array, Array]] = []
    projections: list[tuple[int, int, Matrices]] = []
    start = 0
    for name, rows, parameters in parts:
        operator, end = OPERATORS[name](None), start + len(rows)
        held = {key: np.asarray(column) for key, column in parameters.items()}
        try:
            if isinstance(operator, Projection):
                projections.append((start, end, operator.matrices(height, width, held)))
            elif isinstance(operator, Warp):
                warps.append((start, end, *operator.positions(xp, height, width, held)))
            else:
                changed[start:end] = operator.changed(xp, images[start:end], held)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise _unfit(name) from error
        start = end
    if projections:
        x, y = projected(xp, np.concatenate([matrices for _, _, matrices in projections]), height, width)
        start = 0
        for first, last, matrices in projections:
            warps.append((first, last, x[start : start + len(matrices)], y[start : start + len(matrices)]))
            start += len(matrices)
    if warps:
        rows = xp.constant(np.concatenate([np.arange(first, last) for first, last, _, _ in warps]))
        zero = xp.single(xp.counting(height * width).reshape(1, height, width)) * 0
        x, y = (xp.concat([warp[axis] + zero for warp in warps]) for axis in (2, 3))
        changed[rows] = bilinear(xp, xp.take(images, rows), x, y)
    return changed
