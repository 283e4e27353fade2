"""What a mutant was worth, and which choice paid: for coverage, and once coverage has saturated, for defects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from gate.campaign.bandit import HALF_LIFE, Bandit

__all__ = ["FINDING_WORTH", "Objective", "Payoff"]

Objective = Literal["coverage", "defects"]

FINDING_WORTH = 5.0  # one distinct finding is worth as much as this many mutants that cover something new


class Payoff:
    """Learns which of K choices pay, by the worth of the mutants they led to per forward-equivalent.

    A mutant that covers something new is worth what it covers, in units of what such mutants cover on average of late, at most
    ``FINDING_WORTH`` of them: the first mutants of a campaign cover hundreds of items and the last ones a single one, and one lucky mutant
    must not decide. A new distinct finding is worth ``FINDING_WORTH`` more. Where the objective is defects, findings alone count.
    Both accounts are kept all the time, so that a change of the objective is felt at once.

    Args:
        names: of the choices.
        costs: forward-equivalents of one mutant of each, execution included.
    """

    def __init__(self, names: Sequence[str], costs: Sequence[float]) -> None:
        self.names = tuple(names)
        declared = np.asarray(costs, dtype=np.float64)
        self._bandits: dict[Objective, Bandit] = {"coverage": Bandit(declared), "defects": Bandit(declared)}
        self._covered = 0.0  # items that mutants covered first, older ones counting less
        self._covering = 0.0  # mutants that covered any, likewise

    def weights(self, objective: Objective, open_: np.ndarray | None = None) -> np.ndarray:
        """float64 [K]: the chance of each choice in the next draw; ``open_`` bool [K]: those that take part, all where None."""
        return self._bandits[objective].weights(open_)

    def learn(self, choices: np.ndarray, new_items: np.ndarray, found: np.ndarray, work: np.ndarray | None = None) -> None:
        """Takes in a step.

        Args:
            choices: int [N], which choice led to each mutant.
            new_items: [N], what each valid mutant covered first; zero for the others.
            found: bool [N], which were new distinct findings.
            work: float [N], forward-equivalents that each really took; the declared costs where None.
        """
        covered = np.asarray(new_items, dtype=np.float64)
        kept = 0.5 ** (len(covered) / HALF_LIFE)
        self._covered = kept * self._covered + float(covered.sum())
        self._covering = kept * self._covering + float(np.count_nonzero(covered))
        usual = self._covered / self._covering if self._covering else 1.0
        finding = FINDING_WORTH * np.asarray(found, dtype=np.float64)
        self._bandits["coverage"].learn(choices, np.minimum(covered / usual, FINDING_WORTH) + finding, work)
        self._bandits["defects"].learn(choices, finding, work)

    def charge(self, choices: np.ndarray, work: float) -> None:
        """Adds work that choices bool [K] have caused beside their mutants, such as scoring entries; each bears an even part."""
        for bandit in self._bandits.values():
            bandit.charge(choices, work)
