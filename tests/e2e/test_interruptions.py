"""A worker that is killed, and a person who has seen enough: what was found stays, and the exit code says what happened."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from candidates import save
from gate_command import GATE, Done, Finished, environment
from torch import Tensor, nn

MANY = "1000000"  # executions: far more than a test waits for


class Slow(nn.Module):
    """Any network, with half a second for every answer."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        import time

        time.sleep(0.5)
        answer: Tensor = self.network(x)
        return answer


class Running:
    """A `gate run` under way."""

    def __init__(self, model: Path, seeds: Path, out: Path, executions: str = MANY) -> None:
        self.out = out
        command = [GATE, "run", "--model", model, "--seeds", seeds, "--policy", "smoke", "--executions", executions, "--out", out]
        self.process = subprocess.Popen(
            list(map(str, command)), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    def until_defects(self, at_least: int = 3) -> None:
        """Waits until the campaign has confirmed some."""
        deadline = time.monotonic() + 120
        events = self.out / "events.jsonl"
        while time.monotonic() < deadline and self.process.poll() is None:
            lines = events.read_text().splitlines() if events.exists() else []
            steps = [json.loads(line) for line in lines[-3:] if '"step"' in line and line.endswith("}")]
            if any(step.get("defects", 0) >= at_least for step in steps):
                return
            time.sleep(0.05)
        pytest.fail(f"no defects in time: {self.end().said}")

    def until_phase(self, name: str) -> None:
        """Waits until a stage of the run has begun."""
        deadline = time.monotonic() + 120
        events = self.out / "events.jsonl"
        while time.monotonic() < deadline and self.process.poll() is None:
            if events.exists() and f'"event": "phase", "name": "{name}"' in events.read_text():
                return
            time.sleep(0.05)
        pytest.fail(f"no {name} in time: {self.end().said}")

    @property
    def worker(self) -> int:
        """The process that holds the model."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        workers = [int(pid) for pid in children if b"gate.campaign.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        assert len(workers) == 1
        return workers[0]

    def end(self, patience: float = 60) -> Done:
        out, err = self.process.communicate(timeout=patience)
        return Done(self.process.returncode, out, err)


@pytest.fixture(scope="module")
def slow(place: Path, network: Any) -> Path:
    """The network with half a second for every answer: a preflight of many seconds."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        return save(Slow(network).eval(), place / "slow model")
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def checking(slow: Path, seeds: Path, tmp_path: Path) -> Iterator[Running]:
    """A run that is in its preflight, and stays there for a while."""
    run = Running(slow, seeds, tmp_path / "out")
    try:
        run.until_phase("preflight")
        yield run
    finally:
        if run.process.poll() is None:
            run.process.kill()
        run.process.communicate()


@pytest.fixture
def running(model: Path, seeds: Path, tmp_path: Path) -> Iterator[Running]:
    run = Running(model, seeds, tmp_path / "out")
    try:
        yield run
    finally:
        if run.process.poll() is None:
            run.process.kill()
        run.process.communicate()


def _kept(run: Finished) -> list[str]:
    """The ids of the record's defects, each of which lies on disk whole."""
    defects = run.record["defects"]
    for defect in defects:
        for path in defect["files"].values():
            assert (run.folder / path).stat().st_size > 0
        assert json.loads((run.folder / "defects" / defect["id"] / "defect.json").read_text()) == defect
    return [defect["id"] for defect in defects]


def test_a_killed_worker_is_an_error_and_its_defects_stay(running: Running) -> None:
    running.until_defects()
    os.kill(running.worker, signal.SIGKILL)
    done = running.end(30)
    assert done.code == 3, done.said
    done.explains("ERROR", "died with signal 9", "what to do:")
    run = Finished(running.out)
    run.is_whole()
    assert (run.record["verdict"], run.record["exit_code"]) == ("error", 3)
    assert len(_kept(run)) >= 3
    assert run.record["campaign"]["executions"] > 0
    assert run.junit.errors > 0


def test_an_interrupted_run_reports_what_it_has_within_seconds(running: Running) -> None:
    running.until_defects()
    worker = running.worker
    begin = time.monotonic()
    running.process.send_signal(signal.SIGINT)
    done = running.end(30)
    assert time.monotonic() - begin < 8
    assert done.code == 4, done.said
    done.explains("INCONCLUSIVE", "interrupted", "partial")
    run = Finished(running.out)
    run.is_whole()
    record = run.record
    assert (record["verdict"], record["partial"], record["campaign"]["stop_reason"]) == ("inconclusive", True, "interrupted")
    arms = record["campaign"]["arms"]
    assert record["metrics"]["executions"]["value"] == sum(arms[arm]["executions"] for arm in ("search", "judging", "random", "noise")) > 0
    assert len(_kept(run)) >= 3
    assert "partial" in run.text("summary.md").lower()
    assert "partial" in run.text("report.html").lower()
    assert not Path(f"/proc/{worker}").exists()


def test_ctrl_c_is_heard_before_the_campaign_too(checking: Running) -> None:
    begin = time.monotonic()
    checking.process.send_signal(signal.SIGINT)
    done = checking.end(30)
    assert time.monotonic() - begin < 8
    assert done.code == 4, done.said
    done.explains("INCONCLUSIVE", "interrupted while the model was checked", "partial")
    run = Finished(checking.out)
    run.is_whole()
    assert (run.record["verdict"], run.record["partial"], run.record["exit_code"]) == ("inconclusive", True, 4)
    assert "partial" in run.text("report.html").lower()


def test_whoever_can_not_wait_still_leaves_a_record(checking: Running) -> None:
    begin = time.monotonic()
    for number in (signal.SIGINT, signal.SIGTERM):
        checking.process.send_signal(number)
        time.sleep(0.3)
    done = checking.end(30)
    assert time.monotonic() - begin < 6
    assert done.code == 4, done.said
    done.explains("interrupted")
    run = Finished(checking.out)
    run.is_whole()
    assert (run.record["verdict"], run.record["partial"], run.record["exit_code"]) == ("inconclusive", True, 4)
