"""Until when the worker is asked, until when its answer is waited for, and whether somebody said stop.

One object is asked before every request and while every answer is waited for, so that no stage of a run has to remember the budget. Without
a wall budget nothing here depends on time, unless somebody says stop.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from enum import Enum

from gate.campaign.budget import Budget, BudgetSpent
from gate.errors import EvidenceError

__all__ = ["Deadline", "Interrupted", "Stage"]

STOP_PATIENCE = 2.0  # seconds that an answer is still waited for once somebody has said stop
CLOSING_PATIENCE = 5.0  # seconds for reading out what the worker holds once the time is up


class Interrupted(EvidenceError):
    """Somebody said stop before something was done."""


class Stage(Enum):
    """What the budget's end means now."""

    BEFORE = "before"  # nothing was fuzzed yet: the run ends without evidence
    FUZZ = "fuzz"  # a batch in flight is waited for as long as the reserve allows
    AFTER = "after"  # triage: it may use the reserve, but for what the reports need
    CLOSE = "close"  # the worker is only asked for what it knows already


class Deadline:
    """Lives in the supervisor; the pipeline says which stage it is in.

    Args:
        budget: of the run.
        stop: whether somebody said stop.
    """

    def __init__(self, budget: Budget, stop: Callable[[], bool]) -> None:
        self._budget = budget
        self._stop = stop
        self._stopped: float | None = None  # when that was seen first
        self.stage = Stage.BEFORE
        self.doing = "the run began"  # for messages, after "while"

    def begin(self, doing: str, stage: Stage | None = None) -> None:
        """Says what is done next (``check`` then says so, too), and in which stage that is."""
        self.stage = stage or self.stage
        self.doing = doing

    def check(self) -> None:
        """To be called before anything that takes time.

        Raises:
            BudgetSpent: the wall budget is used up, as far as this stage may use it.
            Interrupted: somebody said stop.
        """
        if self.stage is Stage.CLOSE:
            return
        if self.stopped:
            raise self._interrupted()
        left = self._budget.worker_left() if self.stage is Stage.AFTER else self._budget.wall_left(reserve=True)
        if left is not None and left <= 0:
            raise self._spent()

    def left(self) -> float:
        """Seconds that an answer in flight is still waited for; infinite where nothing limits it."""
        if self.stage is Stage.CLOSE:
            wall = self._budget.worker_left()
            return math.inf if wall is None and self._stopped is None else max(wall or 0.0, CLOSING_PATIENCE)
        wall = self._budget.wall_left(reserve=True) if self.stage is Stage.BEFORE else self._budget.worker_left()
        left = math.inf if wall is None else wall
        if self.stopped:
            assert self._stopped is not None
            left = min(left, self._stopped + STOP_PATIENCE - time.monotonic())
        return left

    def error(self) -> EvidenceError:
        """Why an answer was not waited for."""
        return self._interrupted() if self._stopped is not None else self._spent()

    @property
    def stopped(self) -> bool:
        """Whether somebody said stop."""
        if self._stopped is None and self._stop():
            self._stopped = time.monotonic()
        return self._stopped is not None

    def _spent(self) -> BudgetSpent:
        if self.stage is Stage.BEFORE:
            return self._budget.spent(self.doing)
        return BudgetSpent(f"The budget ended while {self.doing}.", where="budget.wall", hint="Give a longer --budget.")

    def _interrupted(self) -> Interrupted:
        nothing = "; nothing was fuzzed" if self.stage is Stage.BEFORE else ""
        return Interrupted(f"The run was interrupted while {self.doing}{nothing}.", hint="Run it again; this result is partial.")
