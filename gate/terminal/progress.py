"""What a person sees while the gate works: a live display on a terminal, a plain line every ten seconds elsewhere."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from gate.config import UNBOUNDED
from gate.report.coverage import about

__all__ = ["Progress", "interruptible"]

EVERY = 10.0  # seconds between plain lines
HARD_STOP = 3.0  # seconds after the second signal in which no further one interrupts: the record is being written
_ENDED = {
    "decided": "decided after {executions:,} executions: all that the policy asks for is settled",
    "abort": "aborted after {executions:,} executions: defect {defect} ({oracle}) is of a kind named in abort_on",
}
_PHASES = {
    "fetch": "fetching the model",
    "data": "reading the data",
    "load": "loading the model in its worker",
    "preflight": "checking the model before fuzzing",
    "fuzz": "fuzzing",
    "triage": "explaining what was found",
    "report": "writing the reports",
    "publish": "recording the result in MLflow",
}


@contextlib.contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Inside, the first SIGINT or SIGTERM makes the yielded function answer True; a second one raises KeyboardInterrupt at once.

    After that one, further signals do nothing for a moment, so that the record of what happened gets written.
    """
    asked: list[float] = []

    def handler(_: int, __: FrameType | None) -> None:
        now = time.monotonic()
        if len(asked) > 1 and now - asked[-1] < HARD_STOP:
            return
        asked.append(now)
        if len(asked) > 1:
            raise KeyboardInterrupt
        sys.stderr.write("\nStopping; the reports will be marked partial. Once more to stop at once.\n")

    earlier = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, old in earlier.items():
            signal.signal(number, old)


class Progress:
    """Observes a run's events. Writes to standard error, so that standard output stays clean.

    Args:
        console: for tests; the process's standard error otherwise.
        title: shown in front of the phase, such as the model's name.
    """

    def __init__(self, console: Console | None = None, title: str = "gate") -> None:
        self._console = console or Console(stderr=True)
        self._title = title
        self._started = time.monotonic()
        self._last_line = self._started
        self._phase = "starting"
        self._step: dict[str, Any] = {}
        self._state = ""
        self._goal: dict[str, Any] = {}
        self._fuzz_started: float | None = None
        self._device_started: float | None = None
        self._lock = threading.Lock()  # the ticker prints, too
        self._ended = threading.Event()
        self._ticker: threading.Thread | None = None
        self._live: Live | None = None
        if self._console.is_terminal:
            # Drawn anew four times a second, so that the clock moves also where nothing happens.
            self._live = Live(get_renderable=self._display, console=self._console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        else:
            self._ended.clear()
            self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)
            self._ticker.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()
        if self._ticker is not None:
            self._ended.set()
            self._ticker.join()
            self._ticker = None

    def _tick(self) -> None:
        """Says every ten seconds what is going on, whether or not anything happens."""
        wait = EVERY
        while not self._ended.wait(wait):
            with self._lock:
                silent = time.monotonic() - self._last_line
                if silent >= EVERY:
                    self._print(self._line() if self._step and self._phase == _PHASES["fuzz"] else self._phase)
                    silent = 0.0
            wait = max(EVERY - silent, 0.01)

    def observe(self, event: dict[str, Any]) -> None:
        """Takes in one event."""
        with self._lock:
            self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "budget":
            self._goal = event
        elif kind == "phase":
            self._phase = _PHASES.get(event["name"], event["name"])
            if event["name"] == "fuzz":
                self._fuzz_started = time.monotonic()
            if self._live is None:
                self._print(f"{self._phase}")
        elif kind == "device":
            self._device_started = time.monotonic()
        elif kind == "step":
            self._step = event
        elif kind == "ended":
            self._say(_ENDED[event["why"]].format(**event), "green" if event["why"] == "decided" else "bold red")
        elif kind == "state":
            self._take_state(event)
        elif kind == "preflight" and event["status"] != "ok":
            self._say(f"{event['name']}: {event['seen']}. {event['advice']}", "yellow" if event["status"] == "note" else "bold red")
        elif kind == "policy_doubt":
            about = f"{event['rule']}: " if event["rule"] else ""
            self._say(f"policy, {event['where']}: {about}{event['text']} {event['hint']}", "yellow")

    def _take_state(self, event: dict[str, Any]) -> None:
        self._state = str(event["state"])
        if self._state in ("frozen", "paused", "resumed"):
            self._say(f"{self._state} after {event['executions']:,} executions: {event['reason']}", "yellow")

    def _say(self, text: str, style: str) -> None:
        target = self._live.console if self._live is not None else self._console
        target.print(Text(f"  {text}", style=style))

    def _print(self, text: str) -> None:
        self._last_line = time.monotonic()
        self._console.print(Text(f"[{self._last_line - self._started:6.1f} s] {self._title}: {text}"), soft_wrap=True)

    def _line(self) -> str:
        step = self._step
        coverage = "  ".join(f"{name} {_covered(name, value)}" for name, value in step["coverage"].items())
        line = f"{step['executions']} executions  {self._speed():.0f}/s  {coverage}  {step['findings']} findings  {step['defects']} defects"
        return f"{line}  {_stalled(step)}" if step.get("stalled") else line

    def _speed(self) -> float:
        if self._fuzz_started is None:
            return 0.0
        return float(self._step.get("executions", 0)) / max(time.monotonic() - self._fuzz_started, 1e-3)

    def _share(self) -> float:
        """How much of the budget is used: the furthest of its limits."""
        shares = [0.0]
        if self._goal.get("executions"):
            shares.append(float(self._step.get("executions", 0)) / float(self._goal["executions"]))
        if self._goal.get("wall"):
            shares.append((time.monotonic() - self._started) / float(self._goal["wall"]))
        if self._goal.get("device") and self._device_started is not None:
            shares.append((time.monotonic() - self._device_started) / float(self._goal["device"]))
        return min(1.0, max(shares))

    def _display(self) -> Group:
        head = Text.assemble(
            (f" {self._title} ", "bold reverse"), " ", self._phase, (f"   {time.monotonic() - self._started:.0f} s", "dim")
        )
        if not self._step:
            return Group(head)
        table = Table.grid(padding=(0, 2))
        table.add_row("budget", ProgressBar(total=1.0, completed=self._share(), width=40), f"{self._share():.0%}")
        table.add_row("executions", f"{self._step['executions']}", f"{self._speed():.0f}/s")
        for name, value in self._step["coverage"].items():
            bar = "" if name in UNBOUNDED else ProgressBar(total=1.0, completed=value, width=40)
            seen = self._step.get("discovery", {}).get(name, {}).get("seen")
            reach = "" if seen is None else f"{about(seen)} of what it will reach"
            table.add_row(f"coverage {name}", bar, _covered(name, value), reach)
        if self._state == "paused":
            table.add_row("campaign", Text("paused", style="yellow"), "")
        if self._step.get("stalled"):
            table.add_row("search", _stalled(self._step), "")
        table.add_row("findings", f"{self._step['findings']}", "")
        table.add_row("defects", Text(f"{self._step['defects']}", style="bold red" if self._step["defects"] else ""), "")
        return Group(head, table)


def _stalled(step: dict[str, Any]) -> str:
    return f"stalled: nothing new for {step['stalled_for']:,} executions"


def _covered(criterion: str, value: float) -> str:
    """A value of a criterion in its unit: only a share has a whole to be a part of."""
    kind = UNBOUNDED.get(criterion)
    if kind == "count":
        return f"{value:,.0f} patterns"
    return f"{value:.4g} (can fall)" if kind == "statistic" else f"{value:.2%}"
