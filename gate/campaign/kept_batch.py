"""The batch of mutants that the worker made along gradients and has run already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gate.campaign.batch import Batch
from gate.domains.chains import Chains
from gate.domains.domain import InputDomain

__all__ = ["kept_batch"]


def kept_batch(
    domain: InputDomain,
    operator: str,
    position: int,
    step: int,
    token: int,
    *,
    parents: np.ndarray,
    recipes: Sequence[tuple[Any, ...]],
    seeds: np.ndarray,
    origins: npt.NDArray[np.int64],
    made: np.ndarray,
    rows: npt.NDArray[np.int64],
    work: int,
    random: np.random.Generator,
) -> Batch:
    """Holds the mutants to the operator's bound and to the domain, where the model can't reach.

    Args:
        domain: bound and validity.
        operator: that the mutants are recorded as.
        position: of that operator in the search's choice.
        step: of the campaign.
        token: under which the worker keeps what it saw of the mutants.
        parents: [n, ...], where the worker started.
        recipes: n, the parents'.
        seeds: [S, ...], all seed inputs.
        origins: int64 [n], the parents' seed inputs.
        made: [N, ...], the mutants as the worker says that it ran them.
        rows: int64 [N], the parent of each.
        work: forward-equivalents, the mutants' own passes included.
        random: of the draws in the recipes.
    """
    mutants = domain.bound(made, parents[rows], operator)
    # What had to be cut back is not what the worker ran.
    as_run = (mutants == made).reshape(len(made), -1).all(axis=1)
    draws = random.integers(2**31, size=len(rows))
    lengths = np.array([len(recipe) for recipe in recipes], dtype=np.int64)[rows]
    severities = np.array([sum(one.severity for one in recipe) for recipe in recipes], dtype=np.float64)[rows]
    chains = Chains([recipes[row] for row in rows.tolist()], (), lengths, severities, np.zeros(len(rows), dtype=np.int64))
    chains = chains.then(np.arange(len(rows)), domain.model_steps(operator, draws), None)
    faults = domain.check(mutants, seeds[origins[rows]], chains)
    faults[~as_run & (faults < 0)] = domain.reasons.index("distance")
    operators = np.full(len(rows), position, dtype=np.int64)
    return Batch("search", step, mutants, origins[rows], chains, faults < 0, work - len(rows), operators, faults=faults, kept=token)
