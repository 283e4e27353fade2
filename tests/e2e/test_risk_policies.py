"""The policies for unequal risks on real runs: a sound network is let through, and the mistake that each weighs most is not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
import torch
from gate_command import Done, Finished, in_process
from torch import Tensor, nn

from benchmarks.planted import MLMODEL

cloudpickle.register_pickle_by_value(sys.modules[__name__])

EXECUTIONS = "2600"  # judges 130 seed inputs


class Certain(nn.Module):
    """The network, but quite sure of the next class where the left column, black in all clean pictures, is not."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        """Logits [N, 10] of [N, 1, 8, 8]."""
        scores: Tensor = self.net(x)
        wrong = 9.0 * nn.functional.one_hot((scores.argmax(1) + 1) % 10, 10).float()
        return torch.where((x[:, 0, :, 0].mean(1) > 0.05)[:, None], wrong, scores)


class Blind(nn.Module):
    """The network, but 3, 5 and 8 are read as 1, without being sure of it, where the left or the right column is not black."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        """Logits [N, 10] of [N, 1, 8, 8]."""
        scores: Tensor = self.net(x)
        read = scores.argmax(1)
        changed = torch.maximum(x[:, 0, :, 0].mean(1), x[:, 0, :, -1].mean(1)) > 0.03
        missed = changed & ((read == 3) | (read == 5) | (read == 8))
        unsure = 0.5 * nn.functional.one_hot(torch.ones_like(read), 10).float()
        return torch.where(missed[:, None], unsure, scores)


def saved(module: nn.Module, folder: Path) -> Path:
    (folder / "data").mkdir(parents=True)
    torch.save(module.eval(), folder / "data" / "model.pth", pickle_module=cloudpickle)
    (folder / "data" / "pickle_module_info.txt").write_text("cloudpickle")
    (folder / "MLmodel").write_text(MLMODEL)
    return folder


def statuses(run: Finished) -> dict[str, str]:
    return {rule["id"]: rule["status"] for rule in run.record["rules"]}


def carried_out(model: Path, seeds: Path, policy: str | Path, out: Path) -> tuple[Done, Finished]:
    done = in_process("run", "--model", model, "--seeds", seeds, "--policy", policy, "--executions", EXECUTIONS, "--out", out)
    return done, Finished(out)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory, model: Path, seeds: Path) -> Finished:
    done, run = carried_out(model, seeds, "false-positive-averse", tmp_path_factory.mktemp("sound") / "out")
    assert done.code in (0, 4), done.said
    return run


@pytest.fixture
def screening(tmp_path: Path) -> Path:
    path = tmp_path / "screening.yaml"
    path.write_text('version: 1\nname: screening\nextends: [false-negative-averse]\npositive: ["3", "5", "8"]\n', encoding="utf-8")
    return path


def test_a_sound_network_breaks_neither_policy(sound: Finished, screening: Path) -> None:
    assert "fail" not in statuses(sound).values()
    assert statuses(sound)["confident-errors"] in ("pass", "warn", "inconclusive")
    assert set(sound.record["coverage"]) == {"nbc", "snac"}
    done = in_process("evaluate", sound.folder, "--policy", screening)
    assert done.code in (0, 4), done.said


def test_a_network_that_is_sure_of_its_mistakes_is_stopped(network: Any, seeds: Path, tmp_path: Path) -> None:
    _, run = carried_out(saved(Certain(network), tmp_path / "sure"), seeds, "false-positive-averse", tmp_path / "out")
    assert statuses(run)["confident-errors"] == "fail"


def test_a_network_that_misses_a_named_class_is_stopped(network: Any, seeds: Path, screening: Path, tmp_path: Path) -> None:
    done, run = carried_out(saved(Blind(network), tmp_path / "blind"), seeds, screening, tmp_path / "out")
    assert done.code == 1, done.said
    assert statuses(run)["missed-positives"] == "fail"
    again = in_process("evaluate", run.folder, "--policy", "false-positive-averse", "--out", tmp_path / "again")
    assert statuses(Finished(tmp_path / "again"))["confident-errors"] != "fail", again.said  # it is unsure of all of them
    assert run.record["coverage"].keys() == {"nbc", "tknc"}


def test_a_class_that_the_model_does_not_have_is_refused_before_fuzzing(sound: Finished, model: Path, seeds: Path, tmp_path: Path) -> None:
    path = tmp_path / "typo.yaml"
    path.write_text('version: 1\nname: typo\nextends: [false-negative-averse]\npositive: ["33"]\n', encoding="utf-8")
    done, run = carried_out(model, seeds, path, tmp_path / "out")
    assert done.code == 2, done.said
    done.explains("'33' is none of the model's 10 classes")
    assert run.record["verdict"] == "error"
    assert run.record["campaign"] is None
    assert in_process("evaluate", sound.folder, "--policy", path).code == 2


def test_the_users_criteria_come_before_the_policys(model: Path, seeds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_COVERAGE_CRITERIA", "kmnc")
    done = in_process(
        "run", "--model", model, "--seeds", seeds, "--policy", "false-positive-averse", "--executions", "60", "--out", tmp_path / "out"
    )
    assert done.code in (1, 4), done.said
    assert set(Finished(tmp_path / "out").record["coverage"]) == {"kmnc"}
