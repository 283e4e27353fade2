"""Which operators make mutants that nobody could label the same any more, and why."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["VALIDATOR", "add_reasons"]

VALIDATOR = "validator"  # the reason beside the domain's own: the user's validator model sees another class


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
        faults: int64 [N], positions in ``reasons``, followed by the validator's; -1 where a mutant is valid.
        names: of the operators.
        reasons: of the domain.
    """
    known = (*reasons, VALIDATOR)
    rows = np.flatnonzero(faults >= 0)
    pairs, numbers = np.unique(operators[rows] * len(known) + faults[rows], return_counts=True)
    for pair, number in zip(pairs.tolist(), numbers.tolist(), strict=True):
        operator, reason = divmod(pair, len(known))
        of_operator = counts.setdefault(names[operator], {})
        of_operator[known[reason]] = of_operator.get(known[reason], 0) + number
