"""What a person sees: signs of life whatever happens, an honest clock, and Ctrl-C that is heard."""

from __future__ import annotations

import io
import os
import signal
import threading
import time
from typing import Any

import pytest
from rich.console import Console

from gate.terminal import progress
from gate.terminal.progress import Progress, interruptible


def plain() -> Console:
    return Console(file=io.StringIO(), force_terminal=False, width=200)


def said(console: Console) -> list[str]:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def phase(name: str) -> dict[str, Any]:
    return {"event": "phase", "name": name}


def test_a_stage_without_any_event_still_says_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.1)
    console = plain()
    with Progress(console) as shown:
        shown.observe(phase("preflight"))
        deadline = time.monotonic() + 10
        while len(said(console)) < 4 and time.monotonic() < deadline:
            time.sleep(0.02)
    lines = said(console)
    assert len(lines) >= 4
    assert all("checking the model before fuzzing" in line for line in lines)
    assert "progress" not in {thread.name for thread in threading.enumerate()}
    time.sleep(0.25)
    assert said(console) == lines


def test_lines_come_no_oftener_than_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY", 60.0)
    console = plain()
    with Progress(console) as shown:
        shown.observe(phase("fuzz"))
        for executions in range(50):
            shown.observe({"event": "step", "executions": executions, "coverage": {}, "findings": 0, "defects": 0})
    assert len(said(console)) == 1


def test_the_numbers_of_the_campaign_are_in_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.1)
    console = plain()
    with Progress(console) as shown:
        shown.observe(phase("fuzz"))
        shown.observe({"event": "step", "executions": 123, "coverage": {"kmnc": 0.5}, "findings": 4, "defects": 3})
        deadline = time.monotonic() + 10
        while len(said(console)) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
    assert "123 executions" in said(console)[1]
    assert "kmnc 50.00%  4 findings  3 defects" in said(console)[1]


def test_what_is_no_share_is_not_shown_as_one() -> None:
    for console in (plain(), Console(file=io.StringIO(), force_terminal=True, width=120)):
        shown = Progress(console)
        shown.observe(phase("fuzz"))
        coverage = {"kmnc": 0.5, "tknp": 4210.0, "nlc": 13.87}
        shown.observe({"event": "step", "executions": 9, "coverage": coverage, "findings": 0, "defects": 0})
        assert shown._line().split("  ")[2:5] == ["kmnc 50.00%", "tknp 4,210 patterns", "nlc 13.87 (can fall)"]
        other = plain()
        other.print(shown._display())
        text = "\n".join(said(other))
        assert "4,210 patterns" in text
        assert "421000" not in text


def test_a_search_that_stalled_and_what_it_has_seen_are_shown() -> None:
    shown = Progress(plain())
    shown.observe(phase("fuzz"))
    step = {"event": "step", "executions": 9000, "coverage": {"kmnc": 0.5, "tknp": 3.0}, "findings": 0, "defects": 0}
    discovery = {"kmnc": {"executions": 900, "chance": 0.02, "seen": 0.931}, "tknp": {"executions": 900, "chance": 0.5, "seen": None}}
    shown.observe({**step, "stalled": False, "stalled_for": 12, "discovery": discovery})
    screen = plain()
    screen.print(shown._display())
    text = "\n".join(said(screen))
    assert text.count("of what it will reach") == 1
    assert "about 93 % of what it will reach" in text
    assert "stalled" not in text + shown._line()
    shown.observe({**step, "stalled": True, "stalled_for": 5210, "discovery": discovery})
    screen.print(shown._display())
    assert "stalled: nothing new for 5,210 executions" in "\n".join(said(screen))
    assert shown._line().endswith("  stalled: nothing new for 5,210 executions")


def test_the_devices_share_counts_from_when_it_is_held_not_from_fuzzing() -> None:
    shown = Progress(plain())
    shown.observe({"event": "budget", "wall": None, "executions": None, "device": 0.2})
    shown.observe(phase("load"))
    assert shown._share() == 0.0
    shown.observe({"event": "device"})
    time.sleep(0.1)
    assert 0.4 < shown._share() <= 1.0
    shown.observe(phase("fuzz"))
    assert shown._share() > 0.4


def test_the_first_signal_asks_and_the_second_interrupts_and_the_record_gets_its_moment(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    with interruptible() as stop:
        assert not stop()
        os.kill(os.getpid(), signal.SIGINT)
        assert stop()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGINT)  # while the record is written
    assert signal.getsignal(signal.SIGINT) is before
    assert capsys.readouterr().err.count("Once more to stop at once") == 1
