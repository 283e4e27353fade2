"""Models that a gate meets and can't judge, or judges badly: the right exit code, a message to act on, and reports."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from candidates import save
from gate_command import Done, Finished

MODULE = """
import time
import torch
from torch import nn

class Odd(nn.Module):
    def __init__(self, inner, how):
        super().__init__()
        self.inner, self.how = inner, how

    def __setstate__(self, state):
        super().__setstate__(state)
        if state["how"] == "slow to load":
            time.sleep(60)

    def forward(self, x):
        y = self.inner(x)
        if self.how == "nan on dark":
            return torch.where(x.mean(dim=(1, 2, 3))[:, None] < 0.22, torch.nan, y)
        if self.how == "noisy":
            return y + 3 * torch.randn_like(y)
        if self.how == "dict":
            return {"features": x.flatten(1), "logits": y}
        if self.how == "seven classes":
            return y[:, :7]
        return y
"""


@pytest.fixture(scope="module")
def odd(network: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Saves a wrapped network, whose code travels with the model as MLflow's code_paths do."""
    place = tmp_path_factory.mktemp("odd")
    (place / "odd_model.py").write_text(MODULE)
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(place))
        names["Odd"] = __import__("odd_model").Odd

    def make(how: str) -> Path:
        folder = place / how
        return folder if folder.exists() else save(names["Odd"](network, how).eval(), folder, code=place / "odd_model.py")

    return make


def _broken(model: Path, folder: Path, how: str) -> Path:
    shutil.copytree(model, folder)
    weights = folder / "data" / "model.pth"
    if how == "truncated":
        weights.write_bytes(weights.read_bytes()[:5000])
    elif how == "empty":
        weights.write_bytes(b"")
    elif how == "missing":
        weights.unlink()
    elif how == "no MLmodel":
        (folder / "MLmodel").unlink()
    elif how == "another flavour":
        (folder / "MLmodel").write_text("flavors:\n  sklearn: {pickled_model: model.pkl}\nmodel_uuid: abc\n")
    elif how == "garbage":
        weights.write_bytes(b"\x00garbage" * 500)
    return folder


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("truncated", "model.pth"),
        ("empty", "empty"),
        ("missing", "model.pth"),
        ("no MLmodel", "MLmodel"),
        ("another flavour", "sklearn"),
        ("garbage", "model.pth"),
    ],
)
def test_a_damaged_model_folder_is_an_error_that_says_which_file(
    how: str, says: str, model: Path, gate_run: Callable[..., Done], tmp_path: Path
) -> None:
    done = gate_run("--model", _broken(model, tmp_path / "a model", how))
    assert done.code == 3
    done.explains("ERROR", says, "what to do:")
    run = Finished(tmp_path / "out")
    run.is_whole()
    assert run.record["verdict"] == "error"
    assert run.junit.errors > 0


def test_another_number_of_classes_is_told_with_both(odd: Callable[[str], Path], gate_run: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text("classes: [a, b, c, d, e, f, g, h, i, j]\n")
    done = gate_run("--config", tmp_path / "gate.yaml", "--model", odd("seven classes"))
    assert done.code == 3, done.said
    done.explains("ERROR", "7", "10", "classes", "what to do:")
    Finished(tmp_path / "out").is_whole()


def test_nan_on_some_inputs_is_a_defect_and_fails(odd: Callable[[str], Path], gate_run: Callable[..., Done], tmp_path: Path) -> None:
    done = gate_run("--model", odd("nan on dark"), "--executions", "200")
    record = Finished(tmp_path / "out").record
    assert done.code == 1, done.said
    assert record["metrics"]["nonfinite_outputs"]["value"] > 0
    faults = [defect for defect in record["defects"] if defect["oracle"] == "non_finite"]
    assert faults
    assert all(defect["predicted"] is None for defect in faults)
    Finished(tmp_path / "out").is_whole()


def test_a_random_model_fails_and_its_findings_are_flaky(odd: Callable[[str], Path], gate_run: Callable[..., Done], tmp_path: Path) -> None:
    done = gate_run("--model", odd("noisy"))
    record = Finished(tmp_path / "out").record
    assert done.code == 1, done.said
    assert record["preflight"][2]["name"] == "deterministic"
    assert record["preflight"][2]["status"] == "fault"
    assert "preflight" in record["reasons"][0]
    assert record["metrics"]["flaky_findings"]["value"] > 0


def test_the_logits_among_several_outputs_are_found(odd: Callable[[str], Path], gate_run: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text("classes: [a, b, c, d, e, f, g, h, i, j]\n")
    done = gate_run("--config", tmp_path / "gate.yaml", "--model", odd("dict"), "--executions", "60")
    assert done.code in (0, 4), done.said
    assert Finished(tmp_path / "out").record["metrics"]["clean_accuracy"]["value"] > 0.9


@pytest.mark.parametrize(
    ("setting", "says"),
    [("size: [9, 9]", ["(9, 9)", "8"]), ("channels: 3", ["input.channels", "3", "1"])],
)
def test_another_input_than_the_signature_names_both(setting: str, says: list[str], gate_run: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text(f"input: {{{setting}}}\n")
    done = gate_run("--config", tmp_path / "gate.yaml")
    assert done.code == 2, done.said
    done.explains(*says, "what to do:")
    Finished(tmp_path / "out").is_whole()


def test_another_input_than_the_network_takes_names_both(odd: Callable[[str], Path], gate_run: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text("input: {size: [10, 10]}\n")
    done = gate_run("--config", tmp_path / "gate.yaml", "--model", odd("plain"))  # saved without a signature
    assert done.code == 2, done.said
    done.explains("[10, 10] pixels", "first layer", "input.size")


def test_labels_of_another_class_order_are_no_seeds(data: Any, gate_run: Callable[..., Done], tmp_path: Path) -> None:
    import numpy as np

    np.savez(tmp_path / "shuffled.npz", x=data[1].x, y=(data[1].y + 3) % 10)
    done = gate_run("--seeds", tmp_path / "shuffled.npz")
    assert done.code == 4, done.said
    done.explains("INCONCLUSIVE", "clean samples are classified correctly", "the order of the classes")
    Finished(tmp_path / "out").is_whole()


def test_a_budget_shorter_than_loading_is_inconclusive(odd: Callable[[str], Path], gate_run: Callable[..., Done], tmp_path: Path) -> None:
    import time

    begin = time.monotonic()
    done = gate_run("--model", odd("slow to load"), "--budget", "5s")
    assert time.monotonic() - begin < 12
    assert done.code == 4, done.said
    done.explains("INCONCLUSIVE", "budget of 5 s ended while the model was loaded", "--budget")
    run = Finished(tmp_path / "out")
    run.is_whole()
    assert run.record["candidate"]["digest"].startswith("sha256:")
