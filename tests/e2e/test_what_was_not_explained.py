"""What there was no budget for is listed as not explained, wherever the budget ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from gate_command import Done, Finished

from gate import explaining
from gate.campaign.budget import BudgetSpent
from gate.errors import WorkerError


def test_without_a_share_every_root_cause_is_listed_as_not_explained(gate_run: Callable[..., Done], tmp_path: Path) -> None:
    settings = tmp_path / "gate.yaml"
    settings.write_text("triage: {share: 0}\n")
    done = gate_run("--config", settings, "--executions", "600")
    assert done.code in (0, 1, 4), done.said
    record = Finished(tmp_path / "out").record
    assert record["defects"]
    assert record["triage"]["attributed"] == record["triage"]["spent"] == 0
    assert set(record["triage"]["not_explained"]) == {one["root_cause"] for one in record["defects"]}
    assert record["triage"]["reason"] == "the share of the budget for explaining was spent"


def test_a_budget_that_ends_before_anything_is_explained_says_so(
    gate_run: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def over(*_: object) -> None:
        raise BudgetSpent("over")

    monkeypatch.setattr(explaining, "_gather_features", over)
    done = gate_run("--executions", "600")
    assert done.code in (0, 1, 4), done.said
    record = Finished(tmp_path / "out").record
    assert record["triage"]["reason"] == "the budget ended"
    assert set(record["triage"]["not_explained"]) == {one["root_cause"] for one in record["defects"]} != set()


def test_a_worker_that_dies_while_defects_are_explained_leaves_an_error_and_says_what_was_not_explained(
    gate_run: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dead(*_: object) -> None:
        raise WorkerError("The worker died.", where="worker process")

    monkeypatch.setattr(explaining, "_attribute", dead)
    assert gate_run("--executions", "600").code == 3
    record = Finished(tmp_path / "out").record
    assert (record["verdict"], record["triage"]["reason"]) == ("error", "the run failed")
    assert set(record["triage"]["not_explained"]) == {one["root_cause"] for one in record["defects"]} != set()
