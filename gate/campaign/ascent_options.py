"""How the coverage gradient climbs. Known to the supervisor and the worker; without torch, as everything the supervisor knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["REMEMBERED", "Ascent"]

REMEMBERED = 8  # batches of the search whose activations the worker keeps until it is told which of their inputs to climb from


@dataclass(frozen=True)
class Ascent:
    """How to climb.

    Attributes:
        direction: ``sign`` moves every value alike (steepest in the L-infinity norm), ``normalised`` in proportion to its gradient.
        num_steps: gradients taken, one after the other.
        step_size: share of the bound that a step is long; None: as long as the targets need by a linear model.
        multiples: lengths that are tried along each gradient, in steps; the first is where the climb goes on.
        targets: neurons that a sample aims at beside the one it was chosen for.
        progressive: step k of n is k / n as long as it would be: small steps first, then larger ones.
        together: if not 0, gradients of so many neurons are taken apart from one another, in one step that brings several of them to items
            of their own (see ``gate.campaign.joint_ascent``); all of the above is for other climbs then.
        least_progress: a sample whose objective has fallen by less than this share since the gradient before stops.
    """

    direction: Literal["sign", "normalised"] = "sign"
    num_steps: int = 2
    step_size: float | None = None
    multiples: tuple[float, ...] = (1.0, 0.5, 2.0)
    targets: int = 4
    progressive: bool = False
    least_progress: float = 0.0
    together: int = 0

    def executions(self) -> int:
        """Most mutants that one sample gives."""
        return 2 * self.together or self.num_steps * len(self.multiples)

    def work(self) -> int:
        """Forward-equivalents of one sample that never stops, one backward being two."""
        if self.together:
            return 1 + 4 * self.together
        return 3 * self.num_steps + self.num_steps * (len(self.multiples) - 1) + 1
