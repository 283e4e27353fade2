"""When a campaign has to stop, on a clock that the test moves."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from gate.campaign.budget import Budget
from gate.config import BudgetSettings
from gate.errors import EvidenceError


@pytest.fixture
def advance(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def move(seconds: float) -> None:
        now[0] += seconds

    return move


def test_executions_are_counted_exactly() -> None:
    budget = Budget(BudgetSettings(executions=7))
    assert budget.ended(6) is None
    assert budget.ended(7) == "executions"
    assert budget.wall_left() is None


@pytest.mark.parametrize(("wall", "fuzzing"), [("10s", 9.0), ("100s", 90.0), ("1h", 3570.0)])
def test_wall_time_keeps_something_back_for_the_report(advance: Callable[[float], None], wall: str, fuzzing: float) -> None:
    budget = Budget(BudgetSettings(wall=wall), started=time.monotonic())
    advance(fuzzing - 0.01)
    assert budget.ended(0) is None
    advance(0.02)
    assert budget.ended(0) == "wall"
    budget.check("it is not over yet")
    advance(3600)
    with pytest.raises(EvidenceError, match="ended while the data was read") as caught:
        budget.check("the data was read")
    assert caught.value.exit_code == 4


def test_device_time_counts_from_when_the_worker_is_up(advance: Callable[[float], None]) -> None:
    budget = Budget(BudgetSettings(device="5s"), started=time.monotonic())
    advance(60)
    assert budget.device_seconds == 0
    assert budget.ended(0) is None
    budget.hold_device()
    advance(4.9)
    assert budget.ended(0) is None
    advance(0.2)
    assert budget.ended(0) == "device"


def test_whichever_comes_first_ends_it(advance: Callable[[float], None]) -> None:
    budget = Budget(BudgetSettings(wall="10s", device="20s", executions=100), started=time.monotonic())
    budget.hold_device()
    assert budget.ended(100) == "executions"
    advance(9.5)
    assert budget.ended(99) == "wall"


def test_no_limit_never_ends(advance: Callable[[float], None]) -> None:
    budget = Budget(BudgetSettings())
    advance(1e9)
    assert budget.ended(10**12) is None
    budget.check("nothing")


def test_what_comes_after_fuzzing_never_takes_more_than_half_of_what_is_left(advance: Callable[[float], None]) -> None:
    budget = Budget(BudgetSettings.model_validate({"wall": "60s"}), started=time.monotonic())
    advance(16)
    budget.triage, budget.kept_seconds, budget.explaining = 100.0, 12.0, 3.0
    budget.pairing = lambda: 100.0
    assert budget.ended(0) == "wall", "18 for triage, 18 for the baseline, 12 for canaries, 3 to explain and 6 for the reports"
    budget.ready_for_fuzzing()
    assert budget.ended(0) is None
    assert budget.reserve == pytest.approx(6 + (60 - 16 - 6) / 2)
    assert budget.kept_for_pairing == pytest.approx(19 * 18 / 51), "all of it shrinks alike"
    advance(18.5)
    assert budget.ended(0) is None
    advance(1)
    assert budget.ended(0) == "wall"


def test_where_there_is_time_enough_all_that_is_expected_is_kept(advance: Callable[[float], None]) -> None:
    budget = Budget(BudgetSettings.model_validate({"wall": "10m"}), started=time.monotonic())
    advance(20)
    budget.triage, budget.kept_seconds, budget.pairing = 30.0, 60.0, lambda: 40.0
    budget.ready_for_fuzzing()
    assert budget.reserve == pytest.approx(30 + 130)
    assert budget.kept_for_pairing == 40.0
