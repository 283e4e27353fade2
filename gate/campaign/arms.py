"""The arms of a campaign and whose turn it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["ARMS", "ArmCount", "Turns"]

ARMS = ("search", "judging", "random", "noise")


@dataclass
class ArmCount:
    """What one arm has done so far."""

    executions: int = 0
    valid: int = 0
    findings: int = 0
    defects: int = 0
    model_calls: int = 0
    seconds: float = 0.0  # for which the arm held the device
    coverage: dict[str, float] = field(default_factory=dict)
    invalid: dict[str, int] = field(default_factory=dict)  # invalid mutants by reason


class Turns:
    """Deals out steps so that each arm stays as near its share as steps allow. Depends on counts only, so it repeats.

    Args:
        shares: of the executions, by arm; what is left of 1 goes to the search.
    """

    def __init__(self, shares: dict[str, float]) -> None:
        self.shares = {"search": 1.0 - sum(shares.values()), **shares}

    def next(self, executions: Mapping[str, int], open_arms: frozenset[str], step_size: int) -> str | None:
        """The open arm that is furthest behind its share once another step is done; None where no arm is open.

        ``executions`` by arm are those that have been proposed.

        What a closed arm leaves of its share is the search's, so that the control arms never grow beyond theirs.
        """
        total = sum(executions.values()) + step_size
        claims = {arm: self.shares.get(arm, 0.0) * total for arm in ARMS if arm in open_arms and self.shares.get(arm, 0.0) > 0}
        left = any(share > 0 for arm, share in self.shares.items() if arm not in open_arms)
        if "search" in claims or (left and "search" in open_arms):
            closed = sum(count for arm, count in executions.items() if arm not in open_arms)
            claims["search"] = total - closed - sum(claim for arm, claim in claims.items() if arm != "search")
        return max(claims, key=lambda arm: claims[arm] - executions[arm]) if claims else None
