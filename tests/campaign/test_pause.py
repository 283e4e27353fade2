"""A campaign waits while its pause file exists, which signals make and take away; and it then makes what it would have made anyway."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from known_model import CLASSES, Scene, write_npz
from saved_models import Stripes, save

from gate.campaign.budget import Budget
from gate.campaign.lifecycle import Pause
from gate.config import BudgetSettings

PROGRAM = """
import sys
from pathlib import Path
from gate.config import Settings
from gate.pipeline import run
run(Settings.model_validate_json(Path(sys.argv[1]).read_text()))
"""


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., tuple[subprocess.Popen[str], Path]]]:
    """Starts a gate in a process of its own; returns it and its output folder."""
    base = tmp_path
    started: list[subprocess.Popen[str]] = []

    def begin(**changes: Any) -> tuple[subprocess.Popen[str], Path]:
        settings = {
            "model": str(save(Stripes(trap=0.2).eval(), base / "model")),
            "classes": CLASSES,
            "data": {"seeds": str(write_npz(base / "seeds.npz"))},
            "coverage": {"layers": ["hidden"], "criteria": ["kmnc"]},
            "previous": "none",
            "policy": "smoke",
            "device": "cpu",
            "batch_size": 16,
            "threads": 1,
            "out": str(base / "run"),
            **changes,
        }
        path = base / "settings.json"
        path.write_text(json.dumps(settings))
        started.append(subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], stderr=subprocess.PIPE, text=True))
        return started[-1], base / "run"

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def events(folder: Path) -> list[dict[str, Any]]:
    path = folder / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")] if path.exists() else []


def test_signals_pause_and_resume_a_real_gate_and_nothing_runs_in_between(start: Callable[..., Any]) -> None:
    process, folder = start(budget={"executions": 100_000})
    until(lambda: sum(event["event"] == "step" for event in events(folder)) > 5)
    process.send_signal(signal.SIGUSR1)
    until(lambda: any(event.get("state") == "paused" for event in events(folder)))
    assert (folder / "campaign" / "pause").exists()
    before = len(events(folder))
    time.sleep(0.6)
    assert len(events(folder)) == before
    process.send_signal(signal.SIGUSR2)
    until(lambda: len(events(folder)) > before + 5)
    assert not (folder / "campaign" / "pause").exists()
    states = [event["state"] for event in events(folder) if event["event"] == "state"]
    assert states[:3] == ["active", "paused", "resumed"]


def test_signals_outside_of_the_campaign_end_no_run(start: Callable[..., Any]) -> None:
    process, folder = start(budget={"executions": 200})
    until(lambda: any(event.get("name") == "load" for event in events(folder)))
    for number in (signal.SIGUSR2, signal.SIGUSR1):
        process.send_signal(number)
        time.sleep(0.1)
    until(lambda: any(event.get("state") == "paused" for event in events(folder)))
    process.send_signal(signal.SIGUSR2)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert (folder / "result.json").exists()


def test_a_pause_outlives_no_run(tmp_path: Path) -> None:
    with Pause(tmp_path / "pause").signals():
        signal.raise_signal(signal.SIGUSR1)
        assert (tmp_path / "pause").exists()
    assert not (tmp_path / "pause").exists()


def test_a_wall_budget_goes_on_and_its_end_ends_the_pause(start: Callable[..., Any]) -> None:
    process, folder = start(budget={"wall": "25s"})
    until(lambda: any(event["event"] == "step" for event in events(folder)))
    (folder / "campaign" / "pause").touch()
    until(lambda: any(event.get("state") == "paused" for event in events(folder)))
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    said = json.loads((folder / "result.json").read_text())["campaign"]
    assert said["stop_reason"] == "wall"
    assert [change["state"] for change in said["states"]] == ["init", "active", "paused", "resumed", "shut_down"]
    assert said["states"][3]["reason"].startswith("the time is up")
    assert said["wall_seconds"] > 20
    assert said["device_hours"] * 3600 < said["wall_seconds"] / 2


def test_a_pause_changes_nothing_in_what_a_campaign_does(tmp_path: Path) -> None:
    def told(pause: Pause | None, stop: Callable[[], bool] = lambda: False) -> tuple[Any, ...]:
        made = Scene(executions=800, stop=stop)
        made.campaign._pause = pause
        outcome = made.run()
        sent = [(name, asked, {key: array.tobytes() for key, array in arrays.items()}) for name, asked, arrays in made.worker.calls]
        return sent, outcome.curve, [change.state for change in outcome.states]

    file = tmp_path / "pause"
    steps = 0

    def third_step() -> bool:
        nonlocal steps
        steps += 1
        if steps == 7:
            file.touch()
            threading.Timer(0.3, file.unlink).start()
        return False

    usual, paused = told(None), told(Pause(file), third_step)
    assert paused[:2] == usual[:2]
    assert usual[2] == ["init", "active", "shut_down"]
    assert paused[2] == ["init", "active", "paused", "resumed", "shut_down"]


def test_the_device_is_not_held_while_a_campaign_waits() -> None:
    budget = Budget(BudgetSettings())
    budget.hold_device()
    with budget.device_released():
        time.sleep(0.2)
        assert budget.device_seconds < 0.1
    assert budget.device_seconds < 0.1
    assert budget.seconds >= 0.2
    time.sleep(0.1)
    assert budget.device_seconds >= 0.1
