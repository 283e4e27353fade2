"""Which operator next: a bandit whose reward is what an operator found per model call, with a floor for every operator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["OperatorChoice"]

FLOOR = 0.25  # share of the draws that is dealt out evenly: no operator ever starves
FINDING_WORTH = 5.0  # one distinct finding is worth as much as this many mutants that add coverage


class OperatorChoice:
    """Learns which operators pay. Costs are counted in model calls, not seconds, so that the choice repeats on every machine.

    Args:
        names: the operators.
        costs: model calls of one mutant, execution included, per operator.
    """

    def __init__(self, names: Sequence[str], costs: Sequence[float]) -> None:
        self.names = tuple(names)
        self._costs = np.asarray(costs, dtype=np.float64)
        # One imagined success in four tries each, so that the first draws are even and the first results don't decide everything.
        self._reward = np.ones(len(names))
        self._tries = np.full(len(names), 4.0)

    def weights(self) -> np.ndarray:
        """float64 [K]: the chance of each operator in the next draw; sums to one."""
        score = self._reward / (self._tries * self._costs)
        weights: np.ndarray = FLOOR / len(self.names) + (1.0 - FLOOR) * score / score.sum()
        return weights

    def draw(self, count: int, random: np.random.Generator) -> np.ndarray:
        """int64 [count]: positions in ``names``."""
        return random.choice(len(self.names), size=count, p=self.weights())

    def learn(self, operators: np.ndarray, added_coverage: np.ndarray, found: np.ndarray) -> None:
        """Takes in a step: operators int [N] by position, which mutants added coverage bool [N], which were new findings bool [N]."""
        size = len(self.names)
        self._tries += np.bincount(operators, minlength=size)
        self._reward += np.bincount(operators, weights=np.minimum(added_coverage + FINDING_WORTH * found, FINDING_WORTH), minlength=size)
