"""``gate layers`` before a run and ``gate doctor`` after it, as a user has them, with the model in its worker."""

from __future__ import annotations

import importlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from candidates import Registered, save
from gate_command import Done, Finished, in_process
from ruamel.yaml import YAML


def _listed(*arguments: str | Path) -> dict[str, Any]:
    done = in_process("layers", *arguments, "--json")
    assert done.code == 0, done.said
    said: dict[str, Any] = json.loads(done.out)
    return said


def test_every_layer_is_listed_with_its_range_and_a_recommendation(model: Path, seeds: Path, network: Any) -> None:
    import torch
    from candidates import tensor

    said = _listed(model, "--seeds", seeds)
    layers = {layer["name"]: layer for layer in said["layers"]}
    assert (said["schema"], said["samples"], said["traps"]) == ("gate.layers/1", len(np.load(seeds)["x"]), [])
    assert set(layers) == {name for name, _ in network.named_modules() if name}
    head = [layer["name"] for layer in said["layers"] if layer["head"]]
    assert head
    assert not layers[head[0]]["watched"]
    with torch.no_grad():
        raw = network(tensor(np.load(seeds)["x"]))
    assert layers[head[0]]["range"]["high"] == pytest.approx(float(raw.max()), rel=1e-4)
    assert layers[head[0]]["range"]["low"] == pytest.approx(float(raw.min()), rel=1e-4)
    done = in_process("layers", model, "--seeds", seeds)
    done.explains("no: the model's answer", f"{sum(layer['watched'] for layer in layers.values())} layers")


def test_what_is_listed_as_watched_is_what_a_run_watches(model: Path, seeds: Path, finished: Finished) -> None:
    watched = {layer["name"]: layer["neurons"] for layer in _listed(model, "--seeds", seeds)["layers"] if layer["watched"]}
    assert watched == {layer["name"]: layer["neurons"] for layer in finished.record["layers"]}


def test_an_exported_program_in_a_registry_has_the_same_layers(registered: Registered, model: Path, seeds: Path) -> None:
    said = _listed(f"models:/{registered.name}/2", "--seeds", seeds, "--tracking-uri", registered.url)
    plain = _listed(model, "--seeds", seeds)

    def watched(listing: dict[str, Any]) -> list[tuple[str, int]]:
        return [(layer["name"], layer["neurons"]) for layer in listing["layers"] if layer["watched"]]

    assert watched(said) == watched(plain)
    # Its signature tells the size, so it can be listed without any data.
    done = in_process("layers", f"models:/{registered.name}/2", "--tracking-uri", registered.url)
    assert done.code == 0, done.said
    done.explains("they need clean samples", "watched")


def test_without_seeds_and_without_a_size_there_is_a_hint(model: Path, tmp_path: Path) -> None:
    unsigned = tmp_path / "model"
    shutil.copytree(model, unsigned)
    description = YAML(typ="safe").load(unsigned / "MLmodel")
    description.pop("signature")
    YAML().dump(description, unsigned / "MLmodel")
    done = in_process("layers", unsigned)
    assert done.code == 2
    done.explains("The size of the model's input is not known", "--seeds")
    (tmp_path / "gate.yaml").write_text("input: {size: [8, 8], channels: 1}\n", encoding="utf-8")
    said = _listed(unsigned, "--config", tmp_path / "gate.yaml")
    assert said["samples"] == 0
    assert all(layer["range"] is None for layer in said["layers"])
    assert any(layer["watched"] for layer in said["layers"])


def test_known_traps_are_told_before_anything_is_run(seeds: Path, model: Path, network: Any, tmp_path: Path) -> None:
    import copy

    head = next(layer["name"] for layer in _listed(model, "--seeds", seeds)["layers"] if layer["head"])
    settings = f"coverage: {{layers: ['{head}'], criteria: [nc], nc_scale: none, nc_threshold: 1.0e+6}}\n"
    (tmp_path / "gate.yaml").write_text(settings, encoding="utf-8")
    training = save(copy.deepcopy(network).train(), tmp_path / "training")
    done = in_process("layers", training, "--seeds", seeds, "--config", tmp_path / "gate.yaml")
    assert done.code == 0, done.said
    done.explains("saved in train mode", f"{head} gives the model's answer", "nc_threshold is 1e+06", "half of the watched neurons exceed")


def test_a_layer_that_is_not_there_is_exit_2_below_the_list(seeds: Path, model: Path, tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text("coverage: {layers: [nowhere]}\n", encoding="utf-8")
    done = in_process("layers", model, "--seeds", seeds, "--config", tmp_path / "gate.yaml")
    assert done.code == 2
    assert "no: the model's answer" in done.out
    done.explains("The model has no layer 'nowhere'")


def test_hostile_and_wide_names_stay_inert_and_whole_on_a_narrow_terminal(
    seeds: Path, network: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch import nn

    hostile = "[red]\x1b[2J\n::error::owned ::error file=x::{high}"
    wide = "層" * 60
    inner = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.Linear(6, 10))
    module = nn.Sequential()
    module.add_module(hostile, inner[:2])
    module.add_module(wide, inner[2])
    monkeypatch.setenv("COLUMNS", "60")
    done = in_process("layers", save(module.eval(), tmp_path / "model"), "--seeds", seeds)
    assert done.code == 0, done.said
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", done.said)
    assert not any(line.lstrip().startswith("::") for line in done.said.splitlines())
    assert done.out.count("層") >= 60
    assert "[red]" in done.out


def test_a_model_that_dies_while_it_is_listed_is_an_error_of_its_worker(
    seeds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "dying_model.py"
    code.write_text("import os\nfrom torch import nn\n\nclass Dying(nn.Module):\n    def forward(self, x):\n        os._exit(0)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    dying = importlib.import_module("dying_model").Dying()
    done = in_process("layers", save(dying.eval(), tmp_path / "model", code=code), "--seeds", seeds)
    assert done.code == 3
    done.explains("The worker exited with status 0")


def test_the_doctor_finds_a_threshold_that_nothing_reaches(gate_run: Callable[..., Done], tmp_path: Path) -> None:
    settings = "coverage: {criteria: [nc], nc_scale: none, nc_threshold: 1.0e+6}\n"
    (tmp_path / "gate.yaml").write_text(settings, encoding="utf-8")
    gate_run("--config", tmp_path / "gate.yaml", "--executions", "200")
    done = in_process("doctor", "--run", tmp_path / "out")
    assert done.code == 0, done.said
    done.explains("nc       did not rise", "1. The fixed threshold of nc lies above every output of", "[likely]", "nc_threshold is 1e+06")
    said = json.loads(in_process("doctor", "--run", tmp_path / "out", "--json").out)
    assert (said["schema"], said["rises"], said["causes"][0]["kind"]) == ("gate.doctor/1", False, "threshold_above_all")


def test_the_doctor_finds_nothing_wrong_where_coverage_rises(finished: Finished) -> None:
    done = in_process("doctor", "--run", finished.folder)
    assert done.code == 0, done.said
    done.explains("Coverage does rise.", "kmnc     rises, by")


def test_the_doctor_looks_at_runs_only(tmp_path: Path) -> None:
    done = in_process("doctor", "--run", tmp_path)
    assert done.code == 2
    done.explains("No finished run can be read there")
