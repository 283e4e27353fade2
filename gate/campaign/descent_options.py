"""How a descent goes for the decision boundary. Known to the supervisor and the worker; without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Descent"]


@dataclass(frozen=True)
class Descent:
    """How to descend.

    Attributes:
        num_steps: gradients taken, one after the other; each leads to one mutant.
        direction: ``sign`` moves every value alike (steepest in the L-infinity norm), ``normalised`` in proportion to its gradient.
        step_size: share of the bound that a step is long; None: ``overshoot`` times what a linear model needs to cross the boundary.
        overshoot: see ``step_size``.
        hopeless: a sample is given up when a linear model says that the whole bound would have to be this many times as wide.
    """

    num_steps: int = 4
    direction: Literal["sign", "normalised"] = "sign"
    step_size: float | None = None
    overshoot: float = 1.5
    hopeless: float = 3.0

    def work(self) -> int:
        """Forward-equivalents of one sample that never stops, one backward being two: a gradient a step, and a last look."""
        return 3 * self.num_steps + 1
