"""Several answers to each mutant of the judging arm, for models and machines that do not always answer alike.

All answers to a step stand in one batch, answer by answer: row ``answer * n + mutant`` of n mutants. So the answers to one mutant lie as
far apart as the batch allows; what a whole pass through the model shares, they share.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from gate.campaign.batch import Batch, Outcome

__all__ = ["Aggregate", "Answers", "least_failures"]

Aggregate = Literal["any", "majority", "all"]


def least_failures(repeat: int, aggregate: Aggregate) -> int:
    """How many of ``repeat`` answers must fail for the mutant to count as failing. Half of them are no majority."""
    return {"any": 1, "majority": repeat // 2 + 1, "all": repeat}[aggregate]


@dataclass(frozen=True, eq=False)
class Answers:
    """What the answers to a step's n mutants come to.

    A mutant that counts as failing is told of by its first failing answer, any other by its first right one, so that what it is said to be
    read as always agrees with whether it fails.
    """

    failures: npt.NDArray[np.int64]  # [n]: failing answers
    failed: npt.NDArray[np.bool_]  # [n]: by the aggregate
    told: npt.NDArray[np.int64]  # [n]: the row of the answer that speaks for the mutant
    failing: npt.NDArray[np.int64]  # [n]: the row of the first failing answer; of the first where none fails
    shown: npt.NDArray[np.int64]  # [n]: the row of the answer that may be a finding

    @classmethod
    def of(cls, outcome: Outcome, repeat: int, aggregate: Aggregate) -> Answers:
        """Reads a step's outcome of ``repeat`` * n rows.

        An answer that is not finite, or an exception, is what may be a finding wherever there is one: such a fault is none by majority.
        """
        fails = outcome.fails.reshape(repeat, -1)
        count = fails.shape[1]
        mutants = np.arange(count)
        failures = fails.sum(axis=0, dtype=np.int64)
        failed = failures >= least_failures(repeat, aggregate)
        failing = fails.argmax(axis=0) * count + mutants
        told = np.where(failed, failing, (~fails).argmax(axis=0) * count + mutants)
        broken = (outcome.predicted < 0).reshape(repeat, -1)
        shown = np.where(broken.any(axis=0), broken.argmax(axis=0) * count + mutants, told)
        return cls(failures, failed, told, failing, shown)

    def once(self, batch: Batch, outcome: Outcome) -> tuple[Batch, Outcome]:
        """The step as if each mutant had been asked once, and given the answer that may be a finding."""
        count, rows = len(self.shown), self.shown
        # Recipes may stay: those of the first answers come first.
        reduced = replace(
            batch,
            x=batch.x[:count],
            seeds=batch.seeds[:count],
            valid=batch.valid[:count],
            operators=None if batch.operators is None else batch.operators[:count],
            faults=None if batch.faults is None else batch.faults[:count],
        )
        said = Outcome(
            outcome.probabilities[rows],
            outcome.predicted[rows],
            outcome.complaint[rows],
            outcome.new_items[rows],
            failed=outcome.fails[rows],
            raised={mutant: outcome.raised[int(row)] for mutant, row in enumerate(rows.tolist()) if row in outcome.raised},
            in_parts=outcome.in_parts,
        )
        return reduced, said
