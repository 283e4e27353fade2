"""What state a campaign is in, when it got there and why; and how somebody outside asks it to wait."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from gate.campaign.events import EventLog

__all__ = ["Lifecycle", "Pause", "State", "StateChange"]

_LOOK_AGAIN = 0.1  # seconds between two looks at whether a pause is over


class State(StrEnum):
    """Of a campaign."""

    INIT = "init"  # nothing has run yet
    ACTIVE = "active"
    FROZEN = "frozen"  # coverage has stalled: the search looks for defects and small margins
    PAUSED = "paused"  # somebody asked it to wait
    RESUMED = "resumed"  # active again after either
    SHUT_DOWN = "shut_down"


@dataclass(frozen=True)
class StateChange:
    """One line of a campaign's life."""

    state: State
    executions: int  # of all arms that had been taken by then
    reason: str


class Lifecycle:
    """Keeps the state and its history. Lives in the supervisor.

    Args:
        history: is filled as states change.
        events: where each change is told as ``state``.
    """

    def __init__(self, history: list[StateChange], events: EventLog) -> None:
        self._history = history
        self._events = events
        self.frozen = False  # also while paused
        history.append(StateChange(State.INIT, 0, "the campaign was set up"))

    @property
    def state(self) -> State:
        """The present one."""
        return self._history[-1].state

    def enter(self, state: State, executions: int, reason: str) -> None:
        """Changes the state; says nothing where it is in that state already."""
        if state is self.state:
            return
        if state in (State.FROZEN, State.RESUMED):
            self.frozen = state is State.FROZEN
        self._history.append(StateChange(state, executions, reason))
        self._events.emit("state", state=str(state), executions=executions, reason=reason)


class Pause:
    """A campaign waits for as long as a file exists. Signals make it and take it away, so that there is one answer to whether it waits.

    Args:
        file: ``campaign/pause`` in the run folder.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    @property
    def asked(self) -> bool:
        """Whether somebody wants the campaign to wait."""
        return self._file.exists()

    def wait(self, ended: Callable[[], bool]) -> None:
        """Returns once nobody wants the campaign to wait any more, or ``ended`` says that waiting has no use."""
        while self.asked and not ended():
            time.sleep(_LOOK_AGAIN)

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Inside, SIGUSR1 to this process asks for a pause and SIGUSR2 ends it. Only the main thread can listen to signals.

        For a whole run, and not only while its campaign lasts: unheard, either signal ends a process. Afterwards nobody waits any more,
        so the file is taken away, or the next run in the folder would wait for somebody who knows nothing of it.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handlers = {
            signal.SIGUSR1: lambda *_: self._file.touch(),
            signal.SIGUSR2: lambda *_: self._file.unlink(missing_ok=True),
        }
        earlier: dict[int, Any] = {number: signal.signal(number, _quietly(handler)) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in earlier.items():
                signal.signal(number, handler)
            with contextlib.suppress(OSError):
                self._file.unlink(missing_ok=True)


def _quietly(handler: Callable[..., Any]) -> Callable[..., Any]:
    def handle(*given: Any) -> None:
        with contextlib.suppress(OSError):  # a folder that can't be written to; the run will say so where it matters
            handler(*given)

    return handle
