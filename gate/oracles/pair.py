"""What an oracle of two runs is: it looks at the same inputs answered twice and says where the answers differ too much."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from gate.oracles.oracle import Declared, Needs, Observation

__all__ = ["PairOracle", "apart", "changed"]


class PairOracle(Declared, ABC):
    """One kind of complaint about two answers to the same input."""

    needs: ClassVar[Needs] = Needs.SECOND
    cost: ClassVar[int] = 1

    @abstractmethod
    def complains(self, first: Observation, second: Observation) -> np.ndarray:
        """bool [N]: inputs whose answers differ by more than they may."""


def apart(first: Observation, second: Observation) -> np.ndarray:
    """float64 [N], 0 to 1: the largest difference of a class's probability; 1 where only one of the two answers is finite."""
    broken = np.stack([first.predicted < 0, second.predicted < 0])
    difference = np.abs(np.nan_to_num(first.probabilities) - np.nan_to_num(second.probabilities)).max(axis=1, initial=0.0)
    return np.where(broken.any(axis=0), np.where(broken.all(axis=0), 0.0, 1.0), difference)


def changed(first: Observation, second: Observation, margin: float) -> np.ndarray:
    """bool [N]: another class in the second answer, or none because it alone is not finite.

    Args:
        first: answers.
        second: to the same inputs.
        margin: in probability, by which each answer must lead the other's class.
    """
    broken = (first.predicted >= 0) & (second.predicted < 0)
    turned = np.zeros(len(broken), dtype=bool)
    rows = np.flatnonzero((first.predicted >= 0) & (second.predicted >= 0) & (first.predicted != second.predicted))
    one, other = first.predicted[rows], second.predicted[rows]
    before = first.probabilities[rows, one] - first.probabilities[rows, other]
    after = second.probabilities[rows, other] - second.probabilities[rows, one]
    turned[rows] = (before >= margin) & (after >= margin)
    return np.asarray(broken | turned)
