"""Which operators make mutants that nobody could label the same any more, and why."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["add_reasons", "add_to_arm"]


def add_reasons(
    counts: dict[str, dict[str, int]],
    operators: npt.NDArray[np.int64],
    faults: npt.NDArray[np.int64],
    names: Sequence[str],
    reasons: Sequence[str],
) -> None:
    """Adds a batch to ``counts``, {operator: {reason: mutants}}.

    Args:
        counts: changed in place.
        operators: int64 [N], positions in ``names``.
        faults: int64 [N], positions in ``reasons``; -1 where a mutant is valid.
        names: of the operators.
        reasons: of the domain.
    """
    rows = np.flatnonzero(faults >= 0)
    pairs, numbers = np.unique(operators[rows] * len(reasons) + faults[rows], return_counts=True)
    for pair, number in zip(pairs.tolist(), numbers.tolist(), strict=True):
        operator, reason = divmod(pair, len(reasons))
        of_operator = counts.setdefault(names[operator], {})
        of_operator[reasons[reason]] = of_operator.get(reasons[reason], 0) + number


def add_to_arm(counts: dict[str, int], faults: npt.NDArray[np.int64], reasons: Sequence[str]) -> None:
    """Adds a batch to an arm's ``counts``, {reason: mutants}, in place; ``faults`` and ``reasons`` as for ``add_reasons``."""
    for fault, number in enumerate(np.bincount(faults[faults >= 0], minlength=len(reasons)).tolist()):
        if number:
            counts[reasons[fault]] = counts.get(reasons[fault], 0) + number
