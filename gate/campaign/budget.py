"""The budget of a run: wall time, executions, or time on the device, whichever ends first."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gate.config import BudgetSettings
from gate.errors import EvidenceError

__all__ = ["Budget", "BudgetSpent", "executions_of"]

# What is kept back from the wall budget for a batch still in flight, triage, measuring, judging, rendering and publishing.
RESERVED_SHARE = 0.10
RESERVED_AT_MOST = 30.0
REPORTS_SHARE = 0.3  # of what is kept back: for what happens once the worker has ended
TRIAGE_AT_MOST = 0.3  # of the wall budget, however long triage is expected to take
PAIRING_AT_MOST = 0.3  # of the wall budget, however long running the baseline on the same inputs is expected to take
FUZZING_AT_LEAST = 0.5  # of what is left when all is ready for it, however long all that comes after it is expected to take


def executions_of(share: float, executions: int) -> int:
    """A share of so many executions, whole ones. 0.57 * 100 is a little less than 57 in floating point, and means 57."""
    return math.floor(share * executions + 1e-6)


class BudgetSpent(EvidenceError):
    """The wall budget ended before something was done."""


@dataclass
class Budget:
    """Counts down from the start of the command on the monotonic clock, which no change of the system's date moves."""

    settings: BudgetSettings
    started: float = field(default_factory=time.monotonic)
    device_started: float | None = None  # when the worker was up: from then on the device is held
    _released: float = 0.0  # seconds since then for which it was not
    _released_since: float | None = None
    triage: float = 0.0  # seconds that triage is expected to take
    kept_executions: int = 0  # for the canaries, which come after fuzzing
    kept_seconds: float = 0.0  # ... of the wall and the device's time
    explaining: float = 0.0  # ... and explaining what has been found so far
    pairing: Callable[[], float] = field(default=float)  # ... and running the baseline on what the candidate has been judged on so far
    ready: float | None = None  # seconds since the start, when all was ready for fuzzing

    @property
    def seconds(self) -> float:
        """Wall time since the start."""
        return time.monotonic() - self.started

    @property
    def device_seconds(self) -> float:
        """Time for which the device has been held."""
        if self.device_started is None:
            return 0.0
        until = time.monotonic() if self._released_since is None else self._released_since
        return until - self.device_started - self._released

    @contextmanager
    def device_released(self) -> Iterator[None]:
        """Inside, nothing runs on the device, and its time is not counted; wall time is."""
        self._released_since = time.monotonic()
        try:
            yield
        finally:
            self._released += time.monotonic() - self._released_since
            self._released_since = None

    @property
    def executions(self) -> int | None:
        """Executions that fuzzing may make; None where they are not limited."""
        limit = self.settings.executions
        return None if limit is None else limit - self.kept_executions

    @property
    def reserve(self) -> float:
        """Seconds of the wall budget that fuzzing must leave for what comes after it."""
        wall = self.settings.wall
        if wall is None:
            return 0.0
        return self._for_reports + self._expected * self._part

    @property
    def kept_for_pairing(self) -> float:
        """The part of the reserve that is for running the baseline."""
        return self._expected_of_pairing * self._part

    def ready_for_fuzzing(self) -> None:
        """Says that all is ready for it: from now on no expectation takes more than a part of what is left."""
        self.ready = self.seconds

    @property
    def _for_reports(self) -> float:
        wall = self.settings.wall
        return 0.0 if wall is None else min(RESERVED_SHARE * wall, RESERVED_AT_MOST)

    @property
    def _expected_of_pairing(self) -> float:
        wall = self.settings.wall
        return 0.0 if wall is None else min(self.pairing(), PAIRING_AT_MOST * wall)

    @property
    def _expected(self) -> float:
        """Seconds that all that comes after fuzzing is expected to take, but for the reports."""
        assert self.settings.wall is not None
        return min(self.triage, TRIAGE_AT_MOST * self.settings.wall) + self.explaining + self._expected_of_pairing + self.kept_seconds

    @property
    def _part(self) -> float:
        """The part of it that is kept: where time is short, fuzzing would else end before it began, with nothing to compare."""
        if self.settings.wall is None or self.ready is None or not self._expected:
            return 1.0
        most = (1 - FUZZING_AT_LEAST) * max(0.0, self.settings.wall - self.ready - self._for_reports)
        return min(1.0, most / self._expected)

    def hold_device(self) -> None:
        """Says that the worker is up."""
        self.device_started = time.monotonic()

    def wall_left(self, *, reserve: bool = False) -> float | None:
        """Seconds until the wall budget (less the reserve) ends; None where there is none."""
        if self.settings.wall is None:
            return None
        return self.settings.wall - self.seconds - (self.reserve if reserve else 0.0)

    def worker_left(self) -> float | None:
        """Seconds until the worker has to end, so that the reports are written in time; None where there is no wall budget."""
        left = self.wall_left()
        if left is None or self.settings.wall is None:
            return None
        return left - REPORTS_SHARE * min(RESERVED_SHARE * self.settings.wall, RESERVED_AT_MOST)

    def ended(self, executions: int) -> str | None:
        """Why fuzzing has to stop now: ``executions``, ``wall`` or ``device``; None while it may go on."""
        if self.executions is not None and executions >= self.executions:
            return "executions"
        left = self.wall_left(reserve=True)
        if left is not None and left <= 0:
            return "wall"
        if self.settings.device is not None and self.device_seconds >= self.settings.device - self.kept_seconds:
            return "device"
        return None

    def check(self, doing: str) -> None:
        """Stops a run whose budget ends before there is anything to judge.

        Raises:
            BudgetSpent: the wall budget is used up.
        """
        left = self.wall_left()
        if left is not None and left <= 0:
            raise self.spent(doing)

    def spent(self, doing: str) -> BudgetSpent:
        """The error of a budget that ended too soon."""
        return BudgetSpent(
            f"The budget of {self.settings.wall:g} s ended while {doing}; nothing was fuzzed.",
            where="budget.wall",
            hint="Give a longer --budget.",
        )
