"""A candidate by every kind of address, and data from every kind of place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from candidates import CLASSES, Digits, Registered, register
from gate_command import Done, Finished, in_process
from PIL import Image

from gate.domains.image.image_set import sample_ids


def _run(out: Path, *arguments: str | Path) -> tuple[Done, Finished]:
    done = in_process("run", "--policy", "smoke", "--executions", "100", "--out", out, *arguments)
    return done, Finished(out)


def test_a_logged_model_is_tagged_itself(registered: Registered, seeds: Path, tmp_path: Path) -> None:
    import mlflow

    model_id = registered.model_ids["2"]
    done, run = _run(tmp_path / "out", "--model", f"models:/{model_id}", "--tracking-uri", registered.url, "--seeds", seeds)
    assert done.code == 0, done.said
    tags = mlflow.MlflowClient(registered.url).get_logged_model(model_id).tags
    assert tags["gate.verdict"] == "pass"
    assert tags["gate.digest"] == run.record["candidate"]["digest"]


def test_a_model_of_a_run_with_seeds_from_the_same_run(registered: Registered, tmp_path: Path) -> None:
    run_id = registered.run_ids["1"]
    done, run = _run(
        tmp_path / "out",
        *("--model", f"runs:/{run_id}/model", "--tracking-uri", registered.url, "--seeds", f"runs:/{run_id}/data/seeds.npz"),
    )
    assert done.code == 0, done.said
    assert run.record["candidate"]["resolved_uri"] == f"runs:/{run_id}/model"
    assert run.record["data"]["seeds"]["samples"] == 597


def test_an_alias_is_pinned_to_its_version(registered: Registered, seeds: Path, tmp_path: Path) -> None:
    uri = f"models:/{registered.name}@candidate"
    done, run = _run(tmp_path / "out", "--model", uri, "--tracking-uri", registered.url, "--seeds", seeds, "--no-publish")
    assert done.code == 0, done.said
    candidate = run.record["candidate"]
    assert (candidate["uri"], candidate["resolved_uri"], candidate["version"]) == (uri, f"models:/{registered.name}/2", "2")
    assert "MLflow:" not in done.out


def test_a_store_without_a_server(network: Any, seeds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    (tmp_path / "a store").mkdir()
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path}/a store/mlflow.db"
    register(network, url, "digits", artifact_location=(tmp_path / "a store" / "artifacts").as_uri(), log=lambda: None)
    done, run = _run(tmp_path / "out", "--model", "models:/digits@champion", "--tracking-uri", url, "--seeds", seeds)
    assert done.code == 0, done.said
    client = mlflow.MlflowClient(url, url)
    tags = client.get_model_version("digits", "1").tags
    assert tags["gate.verdict"] == run.record["verdict"]
    assert "report.html" in {file.path for file in client.list_artifacts(tags["gate.run"])}
    assert not (tmp_path / "mlruns").exists()
    assert not (tmp_path / "mlflow.db").exists()


def test_pictures_in_a_folder_per_class_are_the_same_seeds_as_their_arrays(
    data: tuple[Digits, Digits], gate_run: Callable[..., Done], tmp_path: Path
) -> None:
    few = Digits(data[1].x[:200], data[1].y[:200])
    # Sorted by name, the folders are in the order of the classes.
    names = [f"{number} {name}" for number, name in enumerate(CLASSES)]
    for row, (picture, label) in enumerate(zip(few.x, few.y, strict=True)):
        folder = tmp_path / "pictures" / names[label]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(folder / f"{row}.png")
    done = gate_run("--seeds", tmp_path / "pictures")
    assert done.code == 0, done.said
    run = Finished(tmp_path / "out")
    assert run.record["classes"] == names
    assert run.record["metrics"]["clean_accuracy"]["value"] > 0.95
    used = set(json.loads(run.text("campaign/evidence.json"))["searched_seed_ids"])
    assert used < set(sample_ids(few.x[..., None], few.y))
    assert len(used) == round(run.record["metrics"]["clean_accuracy"]["value"] * 200)
