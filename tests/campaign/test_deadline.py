"""Until when the worker is asked and waited for, stage by stage, and that a stop is heard while it works."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from saved_models import Triggered, load_parameters, save

from gate.campaign.budget import Budget, BudgetSpent
from gate.campaign.deadline import Deadline, Interrupted, Stage
from gate.campaign.supervisor import Worker
from gate.config import BudgetSettings


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made)
    return made


def deadline(wall: str | None = "100s", stop: Callable[[], bool] = lambda: False) -> Deadline:
    settings = BudgetSettings(wall=wall) if wall else BudgetSettings(executions=10)
    return Deadline(Budget(settings, started=time.monotonic()), stop)


def refused(limit: Deadline) -> str | None:
    try:
        limit.check()
    except (BudgetSpent, Interrupted) as error:
        return error.what
    return None


def test_before_fuzzing_its_end_is_the_end_of_the_run(clock: Clock) -> None:
    limit = deadline()
    limit.begin("the model was checked")
    clock.now += 89.9
    assert refused(limit) is None
    assert limit.left() == pytest.approx(0.1)
    clock.now += 0.2
    assert refused(limit) == "The budget of 100 s ended while the model was checked; nothing was fuzzed."


def test_a_batch_in_flight_may_use_the_reserve_but_for_what_the_reports_need(clock: Clock) -> None:
    limit = deadline()
    limit.begin("the campaign ran", Stage.FUZZ)
    clock.now += 89.9
    assert refused(limit) is None
    clock.now += 0.2
    assert "ended while the campaign ran" in str(refused(limit))
    assert 6.5 < limit.left() < 7.0
    limit.begin("what was found was compared", Stage.AFTER)
    assert refused(limit) is None
    clock.now += 7
    assert refused(limit) is not None
    assert limit.left() <= 0
    limit.begin("coverage was saved", Stage.CLOSE)
    assert refused(limit) is None
    assert 0 < limit.left() <= 10


def test_fuzzing_leaves_the_time_that_triage_is_expected_to_take(clock: Clock) -> None:
    budget = Budget(BudgetSettings(wall="100s"), started=clock.now, triage=20.0)
    clock.now += 69
    assert budget.ended(0) is None
    clock.now += 2
    assert budget.ended(0) == "wall"
    assert budget.worker_left() == pytest.approx(26)
    budget.triage = 1e9
    clock.now -= 13
    assert budget.ended(0) is None  # however long it takes, most of the budget fuzzes


def test_without_a_wall_budget_nothing_depends_on_time(clock: Clock) -> None:
    limit = deadline(None)
    for stage in Stage:
        limit.begin("it ran", stage)
        clock.now += 1e6
        assert refused(limit) is None
        assert limit.left() == math.inf


def test_a_stop_is_heard_at_once_in_every_stage_and_closing_still_works(clock: Clock) -> None:
    asked = [False]
    limit = deadline(None, lambda: asked[0])
    assert refused(limit) is None
    asked[0] = True
    for stage in (Stage.BEFORE, Stage.FUZZ, Stage.AFTER):
        limit.begin("it ran", stage)
        assert "interrupted while it ran" in str(refused(limit))
    assert 0 < limit.left() <= 2
    clock.now += 3
    assert limit.left() < 0
    limit.begin("coverage was saved", Stage.CLOSE)
    assert refused(limit) is None
    assert 0 < limit.left() < 10


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save(Triggered().eval(), tmp_path / "model")


@pytest.fixture
def asked() -> list[bool]:
    return []


@pytest.fixture
def limited(tmp_path: Path, folder: Path, asked: list[bool]) -> Iterator[tuple[Worker, Budget]]:
    """A worker with the model loaded that answers to a budget which a test may set, and to a stop."""
    budget = Budget(BudgetSettings())
    limit = Deadline(budget, lambda: bool(asked))
    limit.begin("the campaign ran", Stage.FUZZ)
    with Worker(tmp_path / "home", deadline=limit) as worker:
        worker.call("load", load_parameters(folder, reading={"scale": [0.0, 255.0]}))
        yield worker, budget


def hangs(worker: Worker) -> None:
    x = np.full((2, 8, 8, 1), 12, dtype=np.uint8)
    worker.call("forward", {}, {"x": x})


def test_a_hanging_worker_is_ended_when_the_budget_is_and_that_is_no_error_of_the_worker(limited: tuple[Worker, Budget]) -> None:
    worker, budget = limited
    budget.settings = BudgetSettings(wall=f"{budget.seconds + 1.0}s")
    begun = time.monotonic()
    with pytest.raises(BudgetSpent):
        hangs(worker)
    assert time.monotonic() - begun < 6
    assert worker.given_up


def test_a_stop_ends_the_waiting_for_a_hanging_worker(limited: tuple[Worker, Budget], asked: list[bool]) -> None:
    worker, _ = limited
    threading.Timer(0.5, asked.append, (True,)).start()
    begun = time.monotonic()
    with pytest.raises(Interrupted):
        hangs(worker)
    assert time.monotonic() - begun < 6
    assert worker.given_up
