"""The two headline metrics that need more than seeds: whether earlier defects come back, and whether defects happen in real life."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from candidates import CLASSES, Registered, save, train
from gate_command import Done, Finished, in_process


def test_every_defect_of_the_same_model_recurs(finished: Finished, gate_run: Callable[..., Done], tmp_path: Path) -> None:
    done = gate_run("--previous", finished.folder)
    record = Finished(tmp_path / "out").record
    earlier = finished.record["defects"]
    assert len(earlier) >= 5
    assert record["metrics"]["regression_rate"]["value"] == 1.0
    assert record["metrics"]["regression_rate"]["n"] == len(earlier)
    assert set(record["previous"]["recurring"]) == {defect["id"] for defect in earlier}
    assert record["previous"]["source"] == str(finished.folder)
    # smoke allows half of them.
    assert (done.code, record["verdict"]) == (1, "fail"), done.said
    assert any("regression" in reason for reason in record["reasons"])


def test_a_model_trained_on_the_exported_defects_has_fewer_of_them(
    finished: Finished, data: Any, gate_run: Callable[..., Done], tmp_path: Path
) -> None:
    import numpy as np
    from candidates import Digits

    done = in_process("corpus", "export", finished.folder, "--half", "all", "--out", tmp_path / "export")
    assert done.code == 0, done.said
    with np.load(tmp_path / "export" / "train.npz") as exported:
        x, y = exported["x"][..., 0], exported["y"]
    trained_on = {defect["id"] for defect in finished.record["defects"] if defect["arm"] == "search"}
    assert len(x) == len(trained_on) > 0
    fixed = train(Digits(np.concatenate([data[0].x, np.tile(x, (12, 1, 1))]), np.concatenate([data[0].y, np.tile(y, 12)])))
    gate_run("--model", save(fixed, tmp_path / "fixed"), "--previous", finished.folder)
    record = Finished(tmp_path / "out").record
    assert record["metrics"]["regression_rate"]["value"] < 1.0
    assert trained_on - set(record["previous"]["recurring"])


def test_the_baselines_run_tag_leads_to_the_earlier_run(
    registered: Registered, seeds: Path, gate_run: Callable[..., Done], tmp_path: Path
) -> None:
    import mlflow

    client = mlflow.MlflowClient(registered.url, registered.url)
    version = client.create_model_version(registered.name, f"models:/{registered.model_ids['1']}", model_id=registered.model_ids["1"])
    uri = f"models:/{registered.name}/{version.version}"
    there = ("--tracking-uri", registered.url)
    first = gate_run("--model", uri, *there, "--out", tmp_path / "first", "--executions", "800")
    assert first.code == 0, first.said
    gate_run("--model", f"models:/{registered.name}/2", "--baseline", uri, *there, "--no-publish")
    record, earlier = Finished(tmp_path / "out").record, Finished(tmp_path / "first").record
    run_id = client.get_model_version(registered.name, version.version).tags["gate.run"]
    assert record["baseline"]["resolved_uri"] == uri
    assert record["previous"]["source"] == f"runs:/{run_id}"
    assert record["metrics"]["regression_rate"]["n"] == len(earlier["defects"]) > 0
    # Version 2 is the same network in the other format.
    assert record["metrics"]["regression_rate"]["value"] == 1.0


def test_without_an_earlier_run_the_rate_is_null_and_says_why(finished: Finished) -> None:
    rate = finished.record["metrics"]["regression_rate"]
    assert rate["value"] is None
    assert "no earlier run was given" in rate["reason"]


def test_an_earlier_run_of_other_classes_is_refused_and_says_so(finished: Finished, gate_run: Callable[..., Done], tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("\n".join(CLASSES), encoding="utf-8")
    (tmp_path / "gate.yaml").write_text("classes: names.txt\n", encoding="utf-8")
    done = gate_run("--config", tmp_path / "gate.yaml", "--previous", finished.folder)
    assert done.code == 2
    done.explains("The earlier run was made with other classes.", "--previous none")
    Finished(tmp_path / "out").is_whole()


def test_long_tail_failures_are_counted_by_kind_and_compared_with_the_defects(
    long_tail: Path, gate_run: Callable[..., Done], tmp_path: Path
) -> None:
    done = gate_run("--long-tail", long_tail, "--executions", "3000")
    assert done.code == 0, done.said
    metrics = Finished(tmp_path / "out").record["metrics"]
    accuracy, hits = metrics["long_tail_accuracy"], metrics["long_tail_hit_rate"]
    assert accuracy["n"] == 3 * 597
    assert set(accuracy["slices"]["long_tail_kind"]) == {"dark", "grainy", "shifted"}
    assert 0 < accuracy["value"] < metrics["clean_accuracy"]["value"]
    assert hits["n"] >= 10
    assert 0 <= hits["lower"] <= hits["value"] <= hits["upper"] <= 1
    assert 0 <= hits["extra"]["chance"] <= 1
    assert hits["value"] > 0


def test_too_few_defects_for_a_hit_rate_are_no_hit_rate(long_tail: Path, gate_run: Callable[..., Done], tmp_path: Path) -> None:
    done = gate_run("--long-tail", long_tail, "--executions", "60", "--previous", "none")
    metrics = Finished(tmp_path / "out").record["metrics"]
    assert metrics["long_tail_hit_rate"]["value"] is None, done.said
    assert "10" in metrics["long_tail_hit_rate"]["reason"]
    assert metrics["long_tail_accuracy"]["value"] is not None
    assert metrics["regression_rate"]["value"] is None
    assert "no earlier run was asked for" in metrics["regression_rate"]["reason"]
