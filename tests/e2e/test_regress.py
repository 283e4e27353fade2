"""A network that reads turned fours as ones; one trained with what was exported, and one that learnt the exported files by heart."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from candidates import Digits, digits, save, tensor
from forgetful import LearntByHeart
from gate_command import Done, in_process

from gate.corpus.export import half_of
from gate.domains.image.domain import ImageDomain
from gate.domains.image.limits import Domain
from gate.errors import GateError
from gate.regressing import FRESH_OF_A_CAUSE, regress

KEPT = (0, 1, 4, 6)
FOUR, ONE = 2, 1
ONLY_TURNED = {
    **{name: dict.fromkeys(type(part).model_fields) for name, part in Domain() if name not in ("chain", "marks", "splicing")},
    "splicing": {"block_copy": 0, "splice": 0},
}
ONLY_TURNED["geometry"] = {**ONLY_TURNED["geometry"], "rotation": 30.0}


@dataclass(frozen=True)
class World:
    """A finished run on the faulty network, what was exported of it, and the three networks."""

    run: Path
    seeds: Path
    fix: Path
    faulty: Path
    fixed: Path
    memorised: Path


def network() -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, len(KEPT)))


def trained(batches: list[tuple[np.ndarray, np.ndarray]]) -> Any:
    """One epoch on each."""
    import torch
    from torch import nn

    model = network().train()
    optimiser = torch.optim.Adam(model.parameters(), 2e-3)
    for x, y in batches:
        seen, labels = tensor(x), torch.from_numpy(y)
        for rows in torch.randperm(len(seen)).split(64):
            loss = nn.functional.cross_entropy(model(seen[rows]), labels[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return model.eval()


def planted(data: Digits) -> Any:
    """Trained on turned digits, whose fours it is told to be ones where they are turned by more than 13 degrees."""
    domain = ImageDomain(Domain.model_validate({"geometry": {"rotation": 30.0}}), (8, 8, 1), np.uint8, (0.0, 255.0))
    random = np.random.default_rng(3)
    severities = random.uniform(0, 1, len(data.y))
    operators = np.full(len(data.y), domain.natural.index("rotation"))
    turned = domain.apply(data.x[..., None], domain.steps(operators, severities, random.integers(0, 2**31, len(data.y))))[..., 0]
    told = np.where((data.y == FOUR) & (severities > 0.45), ONE, data.y)
    return trained([(np.concatenate([data.x, turned]), np.concatenate([data.y, told]))] * 15)


def augmented(fix: Path, data: Digits, x: np.ndarray, y: np.ndarray, epochs: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The training data and the exported half, changed by the exported augmentation anew for every epoch."""
    spec = importlib.util.spec_from_file_location("augment", fix / "augment.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    changes = module.augmentation()
    changes.set_random_seed(0)
    whole, labels = np.concatenate([data.x, x]), np.concatenate([data.y, y])
    return [(np.stack([module.augmented(one[..., None], changes)[..., 0] for one in whole]), labels) for _ in range(epochs)]


_KNOWN: dict[Path, tuple[Done, dict[str, Any]]] = {}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    import torch

    place = tmp_path_factory.mktemp("regress")
    train, test = (Digits(one.x[kept], np.searchsorted(KEPT, one.y[kept])) for one in digits() for kept in [np.isin(one.y, KEPT)])
    weak = planted(train)
    policy = place / "turned.yaml"
    rule = '  - {id: no-defect, metric: defect_rate, fail: ">= 0"}\n'
    policy.write_text(f"version: 1\nname: turned\ndomain: {json.dumps(ONLY_TURNED)}\njudging: {{mutants_per_seed: 2}}\nrules:\n{rule}")
    seeds, run, fix = test.save(place / "seeds.npz"), place / "run", place / "fix"
    done = in_process("run", "--model", save(weak, place / "v1"), "--seeds", seeds, "--policy", policy, "--executions", "800", "--out", run)
    assert done.code == 1, done.said
    done = in_process("corpus", "export", run, "--out", fix, "--for-training")
    assert done.code == 0, done.said
    with np.load(fix / "train.npz") as stored:
        x, y = stored["x"][..., 0], stored["y"]
    fixed = save(trained(augmented(fix, train, x, y, 25)), place / "v2")
    memorised = save(LearntByHeart(weak, tensor(x), torch.from_numpy(y)).eval(), place / "v3")
    return World(run, seeds, fix, place / "v1", fixed, memorised)


def planted_cause(found: dict[str, Any]) -> dict[str, Any]:
    """The root cause that was planted: the one with most defects."""
    cause: dict[str, Any] = max(found["causes"], key=lambda cause: cause["recurring"][1])
    return cause


def regressed(world: World, model: Path) -> tuple[Done, dict[str, Any]]:
    """Asked once of each model."""
    if model not in _KNOWN:
        done = in_process("regress", world.run, "--model", model, "--json")
        _KNOWN[model] = done, json.loads(done.out)
    return _KNOWN[model]


def test_the_model_that_was_tested_has_all_of_it_still(world: World) -> None:
    done, found = regressed(world, world.faulty)
    assert done.code == 1
    assert (found["rate"], found["ways"]["file"], found["fixed"]) == (1.0, found["defects"], False)
    assert {cause["verdict"] for cause in found["causes"]} == {"still there"}
    cause = planted_cause(found)
    record = json.loads((world.run / "result.json").read_text())
    (known,) = (one for one in record["root_causes"] if one["id"] == cause["id"])
    assert (known["label"], known["predicted"], known["family"]) == (FOUR, ONE, "geometry")
    assert "degrees either way" in known["repair"]
    assert cause["title"] == known["title"]


def test_training_with_the_exported_augmentation_is_a_fix(world: World) -> None:
    _, found = regressed(world, world.fixed)
    cause = planted_cause(found)
    assert cause["verdict"] == "fixed", cause
    failed, of = cause["fresh"]
    assert of >= FRESH_OF_A_CAUSE
    assert failed / of <= 0.05
    assert found["fresh_from"] == "originals"


def test_files_learnt_by_heart_are_told_from_a_fix(world: World) -> None:
    done, found = regressed(world, world.memorised)
    assert done.code == 1
    cause = planted_cause(found)
    assert cause["verdict"] == "memorised"
    assert cause["exported"][0] == 0 < cause["exported"][1]
    failed, of = cause["fresh"]
    assert failed / of > 0.5
    # All that was exported is right, so only the half that was held back shows it.
    record = json.loads((world.run / "result.json").read_text())
    exported = {one["id"] for one in record["defects"] if one["arm"] == "search" and half_of(one["seed_id"]) == "a"}
    assert found["ways"]["file"] == len(record["defects"]) - len(exported)


def test_fresh_mutants_start_from_the_seeds_that_are_given_and_the_same_is_found_again(world: World, tmp_path: Path) -> None:
    arguments = ("regress", world.run, "--model", world.memorised, "--exported", "all", "--seeds", world.seeds)
    done = in_process(*arguments, "--out", tmp_path / "found.json")
    done.explains("fresh mutants", "of the seeds given, those that no defect comes from", "not fixed")
    found = json.loads((tmp_path / "found.json").read_text())
    assert (done.code, found["schema"], found["fresh_from"]) == (1, "gate.regress/1", "seeds")
    assert found["seed_inputs"] > 0
    assert planted_cause(found)["fresh"][1] >= FRESH_OF_A_CAUSE
    assert json.loads(in_process(*arguments, "--json").out) == found
    again = in_process(*arguments, "--out", tmp_path / "found.json")
    assert again.code == 2
    again.explains("exists already")


def test_a_model_for_other_inputs_is_an_error_and_no_answer(world: World, tmp_path: Path) -> None:
    from torch import nn

    layers = [nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, len(KEPT))]
    other = save(nn.Sequential(*layers).eval(), tmp_path / "colour", shape=(3, 8, 8))
    done = in_process("regress", world.run, "--model", other)
    assert done.code == 3, done.said
    done.explains("no finite answer on any of the defects' seed inputs", "colour")


def test_a_run_that_does_not_know_its_limits_is_refused(world: World, tmp_path: Path) -> None:
    (tmp_path / "campaign").mkdir()
    reading = json.loads((world.run / "campaign" / "reading.json").read_text())
    del reading["domain"]
    (tmp_path / "campaign" / "reading.json").write_text(json.dumps(reading))
    (tmp_path / "result.json").write_bytes((world.run / "result.json").read_bytes())
    with pytest.raises(GateError, match="by which limits"):
        regress(tmp_path, str(world.fixed))


@pytest.mark.slow
def test_the_reproducer_of_a_run_fails_on_its_model_and_passes_on_the_fix(world: World) -> None:
    record = json.loads((world.run / "result.json").read_text())
    for defect in record["defects"]:
        assert (world.run / "defects" / defect["id"] / "test_defect.py").is_file()
    _, found = regressed(world, world.fixed)
    gone = next(one for one in record["defects"] if one["label"] == FOUR and found["recurs"][one["id"]] is None)
    program = world.run / "defects" / gone["id"] / "test_defect.py"

    def ended(**more: str) -> subprocess.CompletedProcess[str]:
        environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", program.name]
        return subprocess.run(
            command, cwd=program.parent, env={**environment, **more}, capture_output=True, text=True, timeout=120, check=False
        )

    failed, passed = ended(), ended(GATE_MODEL=str(world.fixed))
    assert failed.returncode == 1, failed.stdout[-2000:]
    assert f"it shows class {FOUR}" in failed.stdout
    assert passed.returncode == 0, passed.stdout[-2000:]
