"""Three releases: one with failures, one trained on them, and the first again. What was fixed in between is told as back again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from candidates import Digits, save, train
from gate_command import Done, Finished, in_process


@pytest.fixture(scope="module")
def chain(
    tmp_path_factory: pytest.TempPathFactory, finished: Finished, model: Path, seeds: Path, data: tuple[Digits, Digits]
) -> tuple[Finished, ...]:
    """The first release; one that was trained on half of its defects; the first once more, compared with the second."""
    folder = tmp_path_factory.mktemp("chain")

    def run(candidate: Path, name: str, earlier: Finished) -> Finished:
        settings = ("--policy", "smoke", "--executions", "2000", "--previous", earlier.folder)
        done = in_process("run", "--model", candidate, "--seeds", seeds, *settings, "--out", folder / name)
        assert done.code in (0, 1), done.said
        return Finished(folder / name)

    done = in_process("corpus", "export", finished.folder, "--half", "a", "--out", folder / "export")
    assert done.code == 0, done.said
    with np.load(folder / "export" / "train.npz") as exported:
        x, y = exported["x"][..., 0], exported["y"]
    better = train(Digits(np.concatenate([data[0].x, np.tile(x, (12, 1, 1))]), np.concatenate([data[0].y, np.tile(y, 12)])))
    second = run(save(better, folder / "better"), "second", finished)
    return finished, second, run(model, "third", second)


def causes(run: Finished) -> dict[str, Any]:
    return {cause["id"]: cause for cause in run.record["root_causes"]}


def test_a_fixed_root_cause_is_told_as_fixed_and_those_that_remain_are_known(chain: tuple[Finished, ...]) -> None:
    first, second, _ = chain
    record = second.record
    earlier = {one["id"]: one["status"] for one in record["earlier_causes"]}
    assert set(earlier) == set(causes(first))
    recurring = {defect["root_cause"] for defect in first.record["defects"] if defect["id"] in record["previous"]["recurring"]}
    fixed = {one for one, status in earlier.items() if status == "fixed"}
    assert fixed == set(causes(first)) - set(causes(second)) - recurring
    assert fixed
    for identity, cause in causes(second).items():
        assert cause["status"] == ("known" if identity in causes(first) else "new")
    assert any(cause["status"] == "known" for cause in causes(second).values())


def test_what_was_fixed_and_is_found_again_is_back(chain: tuple[Finished, ...]) -> None:
    first, second, third = chain
    fixed = {one["id"] for one in second.record["earlier_causes"] if one["status"] == "fixed"}
    # The same model and the same settings: the same root causes.
    assert set(causes(third)) == set(causes(first))
    assert {one for one, cause in causes(third).items() if cause["status"] == "back"} == fixed
    assert not any(cause["status"] == "new" and identity in causes(second) for identity, cause in causes(third).items())


def test_every_rendering_says_what_changed(chain: tuple[Finished, ...]) -> None:
    third = chain[2]
    back = sum(cause["status"] == "back" for cause in causes(third).values())
    assert f"{back} back again" in third.text("summary.md")
    properties = {one.name: one.value for suite in third.junit for one in suite.properties()}
    assert properties["gate.root_causes.back"] == str(back)


def test_defects_are_told_by_type_and_lie_on_the_map(chain: tuple[Finished, ...]) -> None:
    record = chain[0].record
    assert all(defect["type_reason"] for defect in record["defects"])
    told = [defect["type"] for defect in record["defects"]]
    assert sum(kind is not None for kind in told) > len(told) / 2
    assert all(cause["type_reason"] for cause in record["root_causes"])
    drawn = record["feature_map"]
    assert drawn["reason"] is None
    shown = {point["defect"] for point in drawn["points"]} - {None}
    assert shown
    assert shown <= {defect["id"] for defect in record["defects"]}
    # The seed inputs of the first run's map are those of the third's.
    assert chain[2].record["feature_map"] == drawn


def test_every_defects_own_file_agrees_with_the_record(chain: tuple[Finished, ...]) -> None:
    for run in chain:
        for defect in run.record["defects"]:
            assert json.loads((run.folder / "defects" / defect["id"] / "defect.json").read_text()) == defect


def test_a_run_that_could_not_replay_remembers_and_calls_nothing_fixed(
    finished: Finished, gate_run: Callable[..., Done], tmp_path: Path
) -> None:
    from torch import nn

    blind = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    nn.init.constant_(blind[1].weight, float("nan"))
    done = gate_run("--model", save(blind, tmp_path / "blind"), "--previous", finished.folder)
    assert done.code == 3, done.said  # it answers nothing
    remembered = Finished(tmp_path / "out").record["earlier_causes"]
    assert {one["id"] for one in remembered} == set(causes(finished))
    assert {one["status"] for one in remembered} == {None}
