"""The budget of a run: wall time, executions, or time on the device, whichever ends first."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from gate.config import BudgetSettings
from gate.errors import EvidenceError

__all__ = ["Budget"]

# What is kept back from the wall budget for measuring, judging, rendering and publishing.
RESERVED_SHARE = 0.10
RESERVED_AT_MOST = 30.0


@dataclass
class Budget:
    """Counts down from the start of the command on the monotonic clock, which no change of the system's date moves."""

    settings: BudgetSettings
    started: float = field(default_factory=time.monotonic)
    device_started: float | None = None  # when the worker was up: from then on the device is held

    @property
    def seconds(self) -> float:
        """Wall time since the start."""
        return time.monotonic() - self.started

    @property
    def device_seconds(self) -> float:
        """Time for which the device has been held."""
        return 0.0 if self.device_started is None else time.monotonic() - self.device_started

    @property
    def reserve(self) -> float:
        """Seconds of the wall budget that fuzzing must leave for what comes after it."""
        return 0.0 if self.settings.wall is None else min(RESERVED_SHARE * self.settings.wall, RESERVED_AT_MOST)

    def hold_device(self) -> None:
        """Says that the worker is up."""
        self.device_started = time.monotonic()

    def wall_left(self, *, reserve: bool = False) -> float | None:
        """Seconds until the wall budget (less the reserve) ends; None where there is none."""
        if self.settings.wall is None:
            return None
        return self.settings.wall - self.seconds - (self.reserve if reserve else 0.0)

    def ended(self, executions: int) -> str | None:
        """Why fuzzing has to stop now: ``executions``, ``wall`` or ``device``; None while it may go on."""
        if self.settings.executions is not None and executions >= self.settings.executions:
            return "executions"
        left = self.wall_left(reserve=True)
        if left is not None and left <= 0:
            return "wall"
        if self.settings.device is not None and self.device_seconds >= self.settings.device:
            return "device"
        return None

    def check(self, doing: str) -> None:
        """Stops a run whose budget ends before there is anything to judge.

        Raises:
            EvidenceError: the wall budget is used up.
        """
        left = self.wall_left()
        if left is not None and left <= 0:
            raise self.spent(doing)

    def spent(self, doing: str) -> EvidenceError:
        """The error of a budget that ended too soon."""
        return EvidenceError(
            f"The budget of {self.settings.wall:g} s ended while {doing}; nothing was fuzzed.",
            where="budget.wall",
            hint="Give a longer --budget.",
        )
