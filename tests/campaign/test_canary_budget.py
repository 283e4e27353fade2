"""What is kept for canaries: the campaign leaves it alone, and the judging arm loses nothing by it."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from known_model import Scene, reads_stripes

from gate.campaign.arms import ArmCount
from gate.campaign.budget import Budget
from gate.campaign.canary_kinds import KINDS
from gate.config import BudgetSettings
from gate.planting import _plan
from gate.policy.schema import Arms


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


def planned(counts: dict[str, ArmCount]) -> tuple[int, int, str | None]:
    """What eight seconds pay for after a campaign that had a budget of time."""
    work: Any = SimpleNamespace(
        policy=SimpleNamespace(policy=SimpleNamespace(arms=Arms(canaries=0.2))),
        campaign=SimpleNamespace(outcome=SimpleNamespace(counts=counts)),
        budget=Budget(BudgetSettings.model_validate({"wall": "40s"})),
    )
    return _plan(work, 8.0)


def test_a_campaign_that_was_decided_before_its_search_had_a_turn_has_canaries_all_the_same() -> None:
    each, wanted, _ = planned({"search": ArmCount(), "judging": ArmCount(executions=256, seconds=1.0)})
    assert wanted == len(KINDS)
    assert each * wanted <= 8 * 256


def test_the_pace_of_the_search_says_what_time_pays_for_where_it_had_a_turn() -> None:
    counts = {"search": ArmCount(executions=100, seconds=10.0), "judging": ArmCount(executions=256, seconds=1.0)}
    assert planned(counts)[:2] == (40, 2)
