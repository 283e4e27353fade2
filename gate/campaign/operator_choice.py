"""Which operator next: a bandit whose reward is what an operator found per model call, with a floor for every operator and a cap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gate.campaign.evenly_spaced import EvenlySpaced
from gate.campaign.payoff import Objective, Payoff

__all__ = ["OperatorChoice", "WeightPoint"]

WEIGHT_POINTS = 60  # of the weights over time that are kept


@dataclass(frozen=True)
class WeightPoint:
    """The operators' weights after so many mutants that operators were chosen for."""

    executions: int
    weights: np.ndarray  # float64 [K]


class OperatorChoice:
    """Learns which operators pay. Costs are counted in model calls, not seconds, so that the choice repeats on every machine.

    See ``gate.campaign.bandit`` for how weights follow from rewards. A weight is a share of the work and not of the mutants: else the floor
    of an operator whose mutants cost a hundred forward passes would take most of the search. ``history`` holds the weights over time,
    evenly spaced.

    Args:
        names: the operators.
        costs: model calls of one mutant, execution included, per operator.
        adaptive: whether weights follow from what was learnt; else all operators are given as much work.
    """

    def __init__(self, names: Sequence[str], costs: Sequence[float], *, adaptive: bool = True) -> None:
        self.names = tuple(names)
        self.adaptive = adaptive
        self._costs = np.asarray(costs, dtype=np.float64)
        self._payoff = Payoff(names, costs)
        self._executions = 0
        self._points: EvenlySpaced[WeightPoint] = EvenlySpaced(WEIGHT_POINTS)
        self._points.add(WeightPoint(0, self.weights()))

    @property
    def history(self) -> Sequence[WeightPoint]:
        """The weights over time, the first and the newest among them."""
        return self._points.points

    def weights(self, objective: Objective = "coverage") -> np.ndarray:
        """float64 [K]: the share of the next mutants' work that each operator is given; sums to one."""
        if not self.adaptive:
            return np.full(len(self.names), 1.0 / len(self.names))
        return self._payoff.weights(objective)

    def draw(self, count: int, random: np.random.Generator, objective: Objective = "coverage") -> np.ndarray:
        """int64 [count]: positions in ``names``."""
        shares = self.weights(objective) / self._costs
        return random.choice(len(self.names), size=count, p=shares / shares.sum())

    def learn(
        self,
        operators: np.ndarray,
        new_items: np.ndarray,
        found: np.ndarray,
        work: np.ndarray | None = None,
        *,
        objective: Objective = "coverage",
    ) -> None:
        """Takes in a step.

        Args:
            operators: int [N], by position.
            new_items: [N], what each valid mutant covered first; zero for the others.
            found: bool [N], which were new distinct findings.
            work: float [N], forward-equivalents that each took; the operators' costs where None.
            objective: what the search is after, for the history.
        """
        self._payoff.learn(operators, new_items, found, work)
        self._executions += len(operators)
        self._points.add(WeightPoint(self._executions, self.weights(objective)))
