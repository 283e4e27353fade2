"""A model that raises an exception on some inputs: each is a defect, and the run comes to its end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from candidates import Digits, save
from gate_command import Done, Finished, in_process

BRIGHT = 0.38  # share of full brightness from which on it raises

MODULE = """
import torch
from torch import nn

class Raises(nn.Module):
    def __init__(self, inner, above):
        super().__init__()
        self.inner, self.above = inner, above

    def forward(self, x):
        if bool((x.mean(dim=(1, 2, 3)) > self.above).any()):
            raise ValueError("too bright <b>for</b> me")
        return self.inner(x)
"""


@pytest.fixture(scope="module")
def raising(network: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[float], Path]:
    """The network, which raises where a picture's mean is above a share of full brightness; its code travels with it."""
    place = tmp_path_factory.mktemp("raising")
    (place / "raising_model.py").write_text(MODULE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(place))
        made = __import__("raising_model").Raises

    def make(above: float) -> Path:
        folder = place / f"above-{above}"
        return folder if folder.exists() else save(made(network, above).eval(), folder, code=place / "raising_model.py")

    return make


@pytest.fixture(scope="module")
def dim(data: tuple[Digits, Digits], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seeds of which none is too bright, so that preflight meets no exception."""
    clean = data[1]
    rows = np.flatnonzero(clean.x.reshape(len(clean.x), -1).mean(axis=1) / 255 < BRIGHT - 0.01)[:200]
    assert len(rows) == 200
    return Digits(clean.x[rows], clean.y[rows]).save(tmp_path_factory.mktemp("dim") / "seeds.npz")


@pytest.fixture(scope="module")
def crashed(raising: Callable[[float], Path], dim: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Finished]:
    """The same run with one worker and with two."""
    place = tmp_path_factory.mktemp("crashed")
    runs = {}
    for workers in (1, 2):
        folder = place / f"out-{workers}"
        (place / "gate.yaml").write_text(f"workers: {workers}\nbatch_size: 64\ncoverage: {{criteria: [nbc]}}\n")
        done = in_process(
            "run", "--config", place / "gate.yaml", "--model", raising(BRIGHT), "--seeds", dim, "--policy", "smoke", "--executions", "400",
            "--out", folder,
        )  # fmt: skip
        assert done.code == 1, done.said
        runs[workers] = Finished(folder)
    return runs


def test_each_crash_is_a_defect_that_says_why_and_the_campaign_is_not_cut_short(crashed: dict[int, Finished]) -> None:
    record = crashed[1].record
    crashed[1].is_whole()
    assert record["verdict"] == "fail"
    assert record["campaign"]["stop_reason"] == "executions"
    crashes = [defect for defect in record["defects"] if defect["oracle"] == "crash"]
    assert {defect["arm"] for defect in crashes} >= {"search", "probes"}
    assert all(defect["detail"] == "ValueError: too bright <b>for</b> me" and defect["predicted"] is None for defect in crashes)
    assert record["metrics"]["crashes"]["value"] >= len(crashes) > 5
    assert record["metrics"]["hangs"]["value"] == 0
    assert next(rule for rule in record["rules"] if rule["id"] == "no-crashes")["status"] == "fail"
    assert record["metrics"]["flaky_findings"]["value"] == 0
    titles = [cause["title"] for cause in record["root_causes"] if cause["oracle"] == "crash"]
    assert titles
    assert all("makes the model raise an exception" in title for title in titles)


def test_every_rendering_says_that_the_model_raised_and_none_is_broken_by_its_words(crashed: dict[int, Finished]) -> None:
    run = crashed[1].folder
    for name in ("report.html", "summary.md", "junit.xml"):
        text = (run / name).read_text(encoding="utf-8")
        assert "exception" in text
        assert "<b>for</b>" not in text


def test_a_crash_in_the_judging_arm_is_a_failed_mutant(crashed: dict[int, Finished]) -> None:
    judged = json.loads((crashed[1].folder / "campaign" / "evidence.json").read_text())["judged"]
    slots = [
        (seed["failed"][slot], seed["predicted"][slot]) for seed in judged for slot in range(len(seed["failed"])) if seed["valid"][slot]
    ]
    assert any(failed and predicted < 0 for failed, predicted in slots)
    assert all(failed for failed, predicted in slots if predicted < 0)


def test_two_workers_find_the_same_to_the_last_byte(crashed: dict[int, Finished]) -> None:
    one, two = ((run.folder / "campaign" / "corpus.bin").read_bytes() for run in crashed.values())
    assert one == two
    first, second = (sorted(defect["id"] for defect in run.record["defects"]) for run in crashed.values())
    assert first == second


def test_a_crash_is_replayed_and_is_gone_where_the_model_is_fixed(crashed: dict[int, Finished], raising: Callable[[float], Path]) -> None:
    crashes = [defect for defect in crashed[1].record["defects"] if defect["oracle"] == "crash"]
    for arm in ("search", "probes"):
        defect = next(one for one in crashes if one["arm"] == arm)
        lives = in_process("replay", crashed[1].folder, defect["id"])
        assert lives.code == 1, lives.said
        lives.explains("answered with an exception (ValueError: too bright", "the defect lives")
        fixed = in_process("replay", crashed[1].folder, defect["id"], "--model", raising(2.0))
        assert fixed.code in (0, 1), fixed.said  # it may be misread instead
        assert "exception" not in fixed.said


def test_a_model_that_raises_on_the_seed_input_too_is_no_answer_to_whether_a_defect_lives(
    crashed: dict[int, Finished], raising: Callable[[float], Path]
) -> None:
    defect = next(one for one in crashed[1].record["defects"] if one["arm"] == "search")
    done = in_process("replay", crashed[1].folder, defect["id"], "--model", raising(-1.0))
    assert done.code == 3, done.said
    done.explains("on the seed input as well")


def test_the_next_version_replays_crashes_and_still_has_them(
    crashed: dict[int, Finished], raising: Callable[[float], Path], gate_run: Callable[..., Done], dim: Path, tmp_path: Path
) -> None:
    done = gate_run("--model", raising(BRIGHT), "--seeds", dim, "--previous", crashed[1].folder)
    assert done.code == 1, done.said
    previous = Finished(tmp_path / "out").record["previous"]
    assert previous["remaining"] > 0
