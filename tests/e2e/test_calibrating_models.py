"""``gate policy calibrate`` on real models: it runs the gate on each, keeps the runs, and writes a policy that they pass."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from candidates import save
from gate_command import Done, in_process

from gate.result import Result


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, network: Any) -> list[Path]:
    """Three networks that differ a little, as three trainings of one recipe do."""
    import torch

    folder, made = tmp_path_factory.mktemp("good"), []
    for number in range(3):
        torch.manual_seed(number)
        own = copy.deepcopy(network)
        with torch.no_grad():
            for weights in own.parameters():
                weights.add_(torch.randn_like(weights) * weights.std(correction=0) * 0.02 * number)
        made.append(save(own, folder / f"model{number}"))
    return made


def test_models_are_run_once_and_the_policy_from_them_lets_them_pass(
    tmp_path: Path, models: list[Path], seeds: Path, limits: Callable[[str, str], Path]
) -> None:
    rules = (
        '  - {id: rate, metric: defect_rate, fail: "> 0.01", confidence: 0.9}\n'
        '  - {id: clean, metric: clean_accuracy, fail: "< 0.1"}\n'
        '  - {id: enough, metric: executions, fail: "< 100"}\n'
    )
    policy, out, kept = limits("tight", rules), tmp_path / "calibrated.yaml", tmp_path / "runs"

    def calibrated(*numbers: int, more: tuple[object, ...] = ()) -> Done:
        given = [part for number in numbers for part in ("--model", models[number])]
        options = ("--seeds", seeds, "--policy", policy, "--executions", "240", "--runs-folder", kept)
        return in_process("policy", "calibrate", *given, *options, *more)

    done = calibrated(0, 1, more=("--out", out))
    assert done.code == 0, done.said
    assert done.said.count(": running") == 2
    assert "As the policy is, 2 of 2 are not let through" in done.said
    folders = sorted(kept.iterdir())
    assert [Result.load(folder).policy.name for folder in folders] == ["tight"] * 2  # type: ignore[union-attr]
    assert in_process("policy", "check", out).code == 0
    for folder in folders:
        assert in_process("evaluate", folder, "--policy", out).code == 0
    before = {path: path.stat().st_mtime_ns for path in kept.rglob("*") if path.is_file()}
    assert calibrated(0, 1).said.count(": taken from") == 2
    assert {path: path.stat().st_mtime_ns for path in kept.rglob("*") if path.is_file()} == before
    another = calibrated(0, 2).said
    assert (another.count(": taken from"), another.count(": running")) == (1, 1)
    assert len(sorted(kept.iterdir())) == 3
