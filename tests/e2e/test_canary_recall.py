"""Canaries in a whole run: what is booked, what it leaves alone, and what is said where they were not searched for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gate.planting
from gate.campaign.canary_search import Searched
from gate.config import Settings
from gate.pipeline import run
from gate.result import Result

ARMS = "arms: {judging: 0.2, random: 0.05, noise: 0.02, probes: 0, marks: 0, canaries: CANARIES}\n"
RULES = 'judging: {mutants_per_seed: 3}\nrules:\n  - {id: canary-recall, metric: canary_recall, fail: "<= 0"}\n'


@pytest.fixture(scope="session")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Callable[[float], Path]:
    place = tmp_path_factory.mktemp("policies")

    def write(share: float) -> Path:
        path = place / f"canaries-{share}.yaml"
        path.write_text(f"version: 1\nname: canaries\n{ARMS.replace('CANARIES', str(share))}{RULES}", encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def campaign(tmp_path_factory: pytest.TempPathFactory, model: Path, seeds: Path, policy: Callable[[float], Path]) -> Callable[..., Path]:
    """The output folder of a run of 800 executions, half of them for canaries, with so many workers."""
    made: dict[int, Path] = {}

    def get(workers: int) -> Path:
        if workers not in made:
            made[workers] = tmp_path_factory.mktemp("canaries") / "run"
            run(settings(model, seeds, policy(0.5), made[workers], workers=workers))
        return made[workers]

    return get


def settings(model: Path, seeds: Path, policy: Path, out: Path, **more: Any) -> Settings:
    given = {"model": str(model), "data": {"seeds": str(seeds)}, "policy": str(policy), "budget": {"executions": 800}, "out": str(out)}
    return Settings.model_validate({**given, "previous": "none", "device": "cpu", "threads": 1, **more})


def result(folder: Path) -> Result:
    return Result.model_validate_json((folder / "result.json").read_text(encoding="utf-8"))


def told(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()]


def test_every_fault_has_an_equal_budget_and_all_of_it_is_counted(campaign: Callable[..., Path]) -> None:
    found = result(campaign(1))
    assert found.canaries is not None
    assert found.campaign is not None
    tried = [one for one in found.canaries.canaries if one.found is not None]
    assert found.canaries.executions_each == 400 // len(tried) >= 40
    assert all(one.executions == found.canaries.executions_each for one in tried if not one.found)
    assert all(one.found_after is not None and one.found_after <= one.executions for one in tried if one.found)
    assert found.canaries.executions == sum(one.executions for one in tried) == found.campaign.arms["canaries"].executions
    assert found.campaign.arms["canaries"].model_calls == found.canaries.model_calls >= found.canaries.executions
    assert found.campaign.executions == sum(arm.executions for arm in found.campaign.arms.values()) <= 800
    assert found.campaign.arms["judging"].executions >= 0.9 * 0.2 * 800  # whose share canaries take nothing from
    assert found.campaign.executions - found.canaries.executions == 400
    assert found.metrics["executions"].value == 400  # of the candidate itself: canaries are no evidence of how it was looked at


def test_recall_is_the_share_found_with_its_exact_interval(campaign: Callable[..., Path]) -> None:
    found = result(campaign(1))
    assert found.canaries is not None
    tried = [one.found for one in found.canaries.canaries if one.found is not None]
    recall = found.metrics["canary_recall"]
    assert recall.value == sum(tried) / len(tried) > 0
    assert recall.n == len(tried)
    assert recall.lower is not None
    assert recall.upper is not None
    assert 0 < recall.lower < recall.value < recall.upper <= 1
    (rule,) = found.rules
    assert rule.status == "pass"


def test_several_workers_find_the_same(campaign: Callable[..., Path]) -> None:
    assert result(campaign(2)).canaries == result(campaign(1)).canaries


def test_nothing_of_a_canary_reaches_the_campaign(
    campaign: Callable[..., Path],
    model: Path,
    seeds: Path,
    policy: Callable[[float], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gate.planting, "KINDS", {})
    without = tmp_path / "run"
    run(settings(model, seeds, policy(0.5), without))
    here, there = result(campaign(1)), result(without)
    assert there.canaries is not None
    assert not there.canaries.canaries
    for name in ("corpus.bin", "coverage.map"):
        files = [next((folder / "campaign").glob(name), None) for folder in (campaign(1), without)]
        if name == "coverage.map":
            assert files[0] is not None
        if files[0] is not None and files[1] is not None:
            assert files[0].read_bytes() == files[1].read_bytes()
    for arm in ("search", "judging", "random", "noise"):
        assert here.campaign is not None
        assert there.campaign is not None
        assert here.campaign.arms[arm] == there.campaign.arms[arm]
    assert {defect.seed_id for defect in here.defects} == {defect.seed_id for defect in there.defects}
    assert {defect.files["mutant"] for defect in here.defects if not defect.minimal} <= {d.files["mutant"] for d in there.defects}
    assert here.coverage == there.coverage
    steps = [
        [{k: v for k, v in event.items() if k not in ("event_time", "seconds")} for event in told(folder) if event["event"] == "step"]
        for folder in (campaign(1), without)
    ]
    assert steps[0] == steps[1]


def test_without_a_share_or_with_too_small_a_one_the_reason_is_said(
    model: Path, seeds: Path, policy: Callable[[float], Path], tmp_path: Path
) -> None:
    for share, words in ((0, "no share"), (0.04, "32 executions")):
        found = run(settings(model, seeds, policy(share), tmp_path / f"run-{share}")).result
        assert found.canaries is not None
        assert words in (found.canaries.reason or "")
        assert not found.canaries.canaries
        recall = found.metrics["canary_recall"]
        assert recall.value is None
        assert words in (recall.reason or "")
        assert found.verdict == "inconclusive"
        assert found.campaign is not None
        assert found.campaign.executions == 800 if share == 0 else found.campaign.executions <= 800


def test_a_small_share_pays_for_the_first_faults_only(model: Path, seeds: Path, policy: Callable[[float], Path], tmp_path: Path) -> None:
    found = run(settings(model, seeds, policy(0.1), tmp_path / "run")).result
    assert found.canaries is not None
    assert [one.name for one in found.canaries.canaries if one.found is not None] == ["faded", "neuron"]
    assert found.canaries.executions_each == 40
    assert "pays for 2 of 11 kinds" in (found.canaries.reason or "")


def test_a_run_that_is_stopped_meanwhile_says_which_were_not_searched_for(
    model: Path, seeds: Path, policy: Callable[[float], Path], tmp_path: Path
) -> None:
    seen: list[dict[str, Any]] = []
    outcome = run(
        settings(model, seeds, policy(0.5), tmp_path / "run"),
        observers=(seen.append,),
        stop=lambda: sum(event["event"] == "canary" for event in seen) >= 2,
    )
    found = outcome.result
    assert found.partial
    assert found.verdict == "inconclusive"
    assert found.canaries is not None
    assert "interrupted" in (found.canaries.reason or "")
    tried = [one for one in found.canaries.canaries if one.found is not None]
    assert len(tried) == 2
    assert found.metrics["canary_recall"].n == 2


def test_a_fault_that_can_not_be_planted_is_not_one_that_was_missed(
    model: Path, seeds: Path, policy: Callable[[float], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate.planting._Planting, "_neurons", _refuse)
    found = run(settings(model, seeds, policy(0.1), tmp_path / "run")).result
    assert found.canaries is not None
    by_name = {one.name: one for one in found.canaries.canaries}
    assert by_name["neuron"].found is None
    assert "no neurons today" in (by_name["neuron"].reason or "")
    assert [name for name, one in by_name.items() if one.found is not None] == ["faded", "turned"]  # the next takes its place


def test_a_search_that_the_clock_cuts_short_has_missed_its_fault(
    model: Path, seeds: Path, policy: Callable[[float], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those found in so short a time count as found: leaving out the others would leave the easy ones."""
    ends = iter([Searched(8, 8, 8, 9, "found"), Searched(None, 16, 16, 16, "stopped"), Searched(None, 0, 0, 0, "stopped")])
    monkeypatch.setattr(gate.planting, "search_for", lambda **_: next(ends))
    found = run(settings(model, seeds, policy(0.15), tmp_path / "run")).result
    assert found.canaries is not None
    assert [one.found for one in found.canaries.canaries] == [True, False, None]
    assert (found.metrics["canary_recall"].value, found.metrics["canary_recall"].n) == (0.5, 2)


def _refuse(*_: Any) -> Any:
    from gate.errors import ModelError

    raise ModelError("no neurons today")
