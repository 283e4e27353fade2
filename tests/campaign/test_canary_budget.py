"""What is kept for canaries: the campaign leaves it alone, and the judging arm loses nothing by it."""

from __future__ import annotations

import time

import pytest
from known_model import Scene, reads_stripes

from gate.campaign.budget import Budget
from gate.config import BudgetSettings


def test_executions_that_are_kept_are_left_and_judging_has_its_share_of_all() -> None:
    scene = Scene(reads_stripes, executions=1000, seeds=200, mutants_per_seed=4)
    scene.campaign._budget.kept_executions = 200
    outcome = scene.run()
    assert outcome.executions == 800
    assert 280 <= outcome.counts["judging"].executions <= 300
    assert "canaries" not in outcome.counts
    assert outcome.stop_reason == "executions"


def test_time_that_is_kept_is_a_part_of_the_reserve() -> None:
    budget = Budget(BudgetSettings.model_validate({"wall": "100s"}))
    before = budget.reserve
    budget.kept_seconds = 10.0
    assert budget.reserve == pytest.approx(before + 10.0)
    budget.started -= 100.0 - before - 5.0
    assert budget.ended(0) == "wall"
    budget.kept_seconds = 0.0
    assert budget.ended(0) is None


def test_time_on_the_device_is_kept_as_well() -> None:
    budget = Budget(BudgetSettings.model_validate({"device": "100s"}))
    budget.device_started = time.monotonic() - 95.0
    assert budget.ended(0) is None
    budget.kept_seconds = 10.0
    assert budget.ended(0) == "device"
