"""Other inputs than grey 8-bit pictures: float data, colour in another order, other layouts, a profile set, two classes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from candidates import Digits, save
from gate_command import Done, Finished, in_process


def test_float_data_keeps_its_dtype_to_the_last_defect(data: tuple[Digits, Digits], gate_run: Callable[..., Done], tmp_path: Path) -> None:
    np.savez(tmp_path / "float.npz", x=(data[1].x / 255).astype(np.float32)[..., None], y=data[1].y)
    (tmp_path / "gate.yaml").write_text("coverage: {layers: ['0', '8'], kmnc_sections: 10}\n")
    done = gate_run("--config", tmp_path / "gate.yaml", "--seeds", tmp_path / "float.npz", "--executions", "1000")
    assert done.code == 0, done.said
    run = Finished(tmp_path / "out")
    assert run.record["campaign"]["fingerprint"]["layers"] == ["0", "8"]
    assert run.record["coverage"]["kmnc"]["total"] == (16 + 10) * 10
    defects = run.record["defects"]
    assert defects
    for defect in defects:
        with np.load(run.folder / defect["files"]["mutant_data"]) as arrays:
            sample = next(iter(arrays.values()))
        assert sample.dtype == np.float32
        assert sample.min() >= 0
        assert sample.max() <= 1
    again = in_process("replay", run.folder, defects[0]["id"])
    assert again.code == 1, again.said


def test_colour_order_layout_and_normalisation_reach_the_model(
    data: tuple[Digits, Digits], network: Any, gate_run: Callable[..., Done], tmp_path: Path
) -> None:
    import torch
    from torch import nn

    # Blue is the digit; the model takes channels last, blue first, in -1..1.
    pick = nn.Conv3d(1, 1, (1, 1, 3), bias=True)
    with torch.no_grad():
        pick.weight.zero_()
        pick.weight[..., 0] = 0.5
        pick.bias.fill_(0.5)
    model = nn.Sequential(nn.Unflatten(1, (1, 8)), pick, nn.Flatten(3, 4), *network).eval()
    random = np.random.default_rng(0)
    other = random.integers(0, 255, (*data[1].x.shape, 2), dtype=np.uint8)
    np.savez(tmp_path / "rgb.npz", x=np.concatenate([other, data[1].x[..., None]], axis=3), y=data[1].y)
    (tmp_path / "gate.yaml").write_text("input: {size: [8, 8], channels: 3, order: bgr, layout: nhwc, scale: [-1, 1]}\n")
    saved = save(model, tmp_path / "bgr", shape=(8, 8, 3))
    done = gate_run("--config", tmp_path / "gate.yaml", "--model", saved, "--seeds", tmp_path / "rgb.npz", "--executions", "60")
    record = Finished(tmp_path / "out").record
    assert record["metrics"]["clean_accuracy"]["value"] > 0.95, done.said


def test_one_sigmoid_output_is_two_classes(
    data: tuple[Digits, Digits], network: Any, gate_run: Callable[..., Done], tmp_path: Path
) -> None:
    import torch
    from torch import nn

    two = data[1].y < 2
    head = nn.Linear(10, 1)
    with torch.no_grad():
        head.weight.zero_()
        head.weight[0, 0], head.weight[0, 1] = -1.0, 1.0
        head.bias.zero_()
    saved = save(nn.Sequential(*network, head).eval(), tmp_path / "binary")
    few = Digits(data[1].x[two], data[1].y[two]).save(tmp_path / "two.npz")
    (tmp_path / "gate.yaml").write_text("classes: [zero, one]\n")
    done = gate_run("--config", tmp_path / "gate.yaml", "--model", saved, "--seeds", few)
    record = Finished(tmp_path / "out").record
    assert record["metrics"]["clean_accuracy"]["value"] > 0.9, done.said
    assert record["classes"] == ["zero", "one"]


def test_a_profile_set_moves_the_ranges_and_every_criterion_is_measured(
    data: tuple[Digits, Digits], finished: Finished, gate_run: Callable[..., Done], tmp_path: Path
) -> None:
    wide = Digits(np.concatenate([data[0].x, 255 - data[0].x]), np.tile(data[0].y, 2)).save(tmp_path / "profile.npz")
    (tmp_path / "gate.yaml").write_text("coverage: {criteria: [nc, kmnc, nbc, snac, tknc], guide: [tknc]}\n")
    done = gate_run("--config", tmp_path / "gate.yaml", "--profile", wide, "--executions", "60")
    assert done.code == 0, done.said
    record = Finished(tmp_path / "out").record
    assert record["data"]["profile"]["samples"] == 2400
    assert list(record["coverage"]) == ["nc", "kmnc", "nbc", "snac", "tknc"]
    # In wider ranges the same seeds fill a smaller share of the sections.
    assert 0 < record["coverage"]["kmnc"]["initial"] < finished.record["coverage"]["kmnc"]["initial"]


def test_layers_that_are_not_there_are_told(gate_run: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text("coverage: {layers: [conv1]}\n")
    done = gate_run("--config", tmp_path / "gate.yaml")
    assert done.code in (2, 3)
    done.explains("conv1", "coverage.layers", "what to do:")


def test_a_device_that_is_not_there_is_refused(gate_run: Callable[..., Done], tmp_path: Path) -> None:
    import torch

    device = f"cuda:{torch.cuda.device_count()}"
    done = gate_run("--device", device)
    assert done.code == 2, done.said
    done.explains(device, "--device")
    Finished(tmp_path / "out").is_whole()
