"""What a run leaves behind can be shown to anybody and never claims more than what happened."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from candidates import Registered
from gate_command import Done, Finished, in_process

from gate import pipeline
from gate.campaign.supervisor import Worker
from gate.errors import OutputError, WorkerError
from gate.metrics import CATALOGUE
from gate.registry.publish import publish

LOGIN = "http://somebody:opensesame@127.0.0.1:9/path?token=opensesame"


def test_no_login_lands_in_a_file(gate_run: Callable[..., Done], tmp_path: Path) -> None:
    done = gate_run("--tracking-uri", LOGIN, "--executions", "40")
    assert done.code in (0, 4), done.said
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert len(files) > 8
    assert [path for path in files if b"opensesame" in path.read_bytes()] == []
    reading = json.loads((tmp_path / "out" / "campaign" / "reading.json").read_text())
    assert (reading["tracking_uri"], reading["address_is_whole"]) == ("http://127.0.0.1:9/path", False)
    again = gate_run("--tracking-uri", LOGIN.replace("opensesame", "changed"), "--executions", "40")
    assert again.code == done.code, again.said  # another password is no other campaign


def test_replay_says_where_it_asks_when_the_login_was_not_kept(
    finished: Finished, registered: Registered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(finished.folder, tmp_path / "run")
    place = tmp_path / "run" / "campaign" / "reading.json"
    reading = {**json.loads(place.read_text()), "tracking_uri": "http://127.0.0.1:9", "address_is_whole": False}
    place.write_text(json.dumps(reading))
    arguments = ("replay", tmp_path / "run", finished.record["defects"][0]["id"])
    assert in_process(*arguments).code == 1  # a local model needs no address
    arguments = (*arguments, "--model", f"models:/{registered.name}/1")
    done = in_process(*arguments)
    assert done.code == 2
    done.explains("--tracking-uri", "MLFLOW_TRACKING_URI")
    assert in_process(*arguments, "--tracking-uri", registered.url).code == 1
    monkeypatch.setenv("MLFLOW_TRACKING_URI", registered.url)
    done = in_process(*arguments)
    assert done.code == 1, done.said
    done.explains("from MLFLOW_TRACKING_URI")


@pytest.mark.parametrize(
    ("error", "code"), [(RuntimeError("out of order"), 3), (OutputError("out of order", where="there"), 2)], ids=["bug", "known"]
)
def test_a_pass_that_could_not_be_published_for_whatever_reason_is_no_pass(
    error: Exception, code: int, registered: Registered, gate_run: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    tries: list[str] = []

    def failing(result: Any, *arguments: Any, **options: Any) -> str:
        tries.append(str(result.verdict))
        if len(tries) == 1:
            raise error
        return publish(result, *arguments, **options)

    client = mlflow.MlflowClient(registered.url, registered.url)
    client.set_model_version_tag(registered.name, "2", "gate.verdict", "pass")  # of an earlier day
    monkeypatch.setattr(pipeline, "publish", failing)
    done = gate_run("--model", f"models:/{registered.name}/2", "--tracking-uri", registered.url, "--executions", "100")
    assert done.code == code, done.said
    record = Finished(tmp_path / "out").record
    assert (record["verdict"], record["exit_code"]) == ("error", code)
    assert any("out of order" in reason for reason in record["reasons"])
    assert tries == ["pass", "error"]
    assert client.get_model_version(registered.name, "2").tags["gate.verdict"] == "error"


def test_an_unforeseen_error_in_the_middle_takes_an_older_pass_off_the_version(
    registered: Registered, gate_run: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    def failing(*_: Any) -> None:
        raise RuntimeError("out of order")

    client = mlflow.MlflowClient(registered.url, registered.url)
    client.set_model_version_tag(registered.name, "2", "gate.verdict", "pass")
    monkeypatch.setattr(pipeline, "_load_data", failing)
    done = gate_run("--model", f"models:/{registered.name}/2", "--tracking-uri", registered.url)
    assert done.code == 3
    assert Finished(tmp_path / "out").record["verdict"] == "error"
    assert client.get_model_version(registered.name, "2").tags["gate.verdict"] == "error"


def _names_every_metric(record: dict[str, Any], why: str) -> None:
    assert set(record["metrics"]) == set(CATALOGUE)
    for name, metric in record["metrics"].items():
        assert metric["value"] is not None or metric["reason"], name
    assert why in record["metrics"]["defect_rate"]["reason"]
    assert record["rules"]
    assert not [rule for rule in record["rules"] if rule["status"] in ("pass", "warn") and rule["value"] is None]


def test_a_run_that_never_started_names_every_metric_and_rule(gate_run: Callable[..., Done], tmp_path: Path) -> None:
    done = gate_run("--model", tmp_path / "nowhere", "--advisory")
    record = Finished(tmp_path / "out").record
    assert done.code == record["exit_code"] == 3
    assert record["verdict"] == "error"
    _names_every_metric(record, "stopped early: There is no such model folder")
    assert {metric["value"] for metric in record["metrics"].values()} <= {None, 0.0}
    Finished(tmp_path / "out").is_whole()


def test_what_the_checks_saw_is_told_also_where_there_is_too_little_to_start_from(
    data: Any, gate_run: Callable[..., Done], tmp_path: Path
) -> None:
    np.savez(tmp_path / "shuffled.npz", x=data[1].x, y=(data[1].y + 3) % 10)
    done = gate_run("--seeds", tmp_path / "shuffled.npz")
    record = Finished(tmp_path / "out").record
    assert (done.code, record["verdict"]) == (4, "inconclusive"), done.said
    assert [check["name"] for check in record["preflight"]][-1] == "clean_accuracy"
    assert len(record["preflight"]) == 6
    accuracy = record["metrics"]["clean_accuracy"]
    assert accuracy["value"] < 0.05
    assert accuracy["n"] == len(data[1].y)
    assert record["metrics"]["preflight_faults"]["value"] == 0
    _names_every_metric(record, "at least 10 are needed")


def test_a_broken_earlier_run_costs_no_budget(finished: Finished, gate_run: Callable[..., Done], tmp_path: Path) -> None:
    shutil.copytree(finished.folder, tmp_path / "earlier")
    last = finished.record["defects"][-1]
    (tmp_path / "earlier" / last["files"]["mutant_data"]).unlink()
    done = gate_run("--previous", tmp_path / "earlier")
    assert done.code == 2, done.said
    done.explains("lacks a file of its defect", last["id"])
    assert '"name": "fuzz"' not in (tmp_path / "out" / "events.jsonl").read_text()
    assert Finished(tmp_path / "out").record["campaign"] is None


@pytest.mark.parametrize("trouble", ["deleted", "other classes"])
def test_an_earlier_run_that_nobody_named_and_that_is_of_no_use_holds_no_release_up(
    trouble: str, finished: Finished, registered: Registered, gate_run: Callable[..., Done], tmp_path: Path
) -> None:
    import mlflow

    client = mlflow.MlflowClient(registered.url, registered.url)
    run_id = client.create_run("0").info.run_id
    if trouble == "deleted":
        client.delete_run(run_id)
    else:
        record = {**finished.record, "classes": ["cat", "dog"], "defects": [], "root_causes": []}
        (tmp_path / "result.json").write_text(json.dumps(record))
        client.log_artifact(run_id, str(tmp_path / "result.json"))
    client.set_model_version_tag(registered.name, "1", "gate.run", run_id)
    uri, there = f"models:/{registered.name}/1", ("--tracking-uri", registered.url, "--no-publish", "--executions", "100")
    done = gate_run("--baseline", uri, *there)
    assert done.code in (0, 4), done.said
    rate = Finished(tmp_path / "out").record["metrics"]["regression_rate"]
    assert rate["value"] is None
    assert "the run that the baseline's gate.run tag names is of no use" in rate["reason"]
    assert gate_run("--previous", f"runs:/{run_id}", *there, "--out", tmp_path / "named").code in (2, 3)


def test_class_names_with_escapes_are_spelled_out_by_replay(finished: Finished, tmp_path: Path) -> None:
    shutil.copytree(finished.folder, tmp_path / "run")
    names = [f"\x1b[31mred {number}\n::error::owned" + "x" * 9000 for number in range(10)]
    (tmp_path / "run" / "result.json").write_text(json.dumps({**finished.record, "classes": names}))
    done = in_process("replay", tmp_path / "run", finished.record["defects"][0]["id"])
    assert done.code == 1, done.said
    assert "\x1b" not in done.said
    assert not any(line.startswith("::") for line in done.said.splitlines())
    assert "\\x1b[31mred" in done.said
    assert len(done.said) < 3000


def test_a_batch_that_no_message_could_carry_is_a_wrong_setting(
    gate_run: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "LARGEST_BATCH", 64 * 100)
    done = gate_run("--batch-size", "101")
    assert done.code == 2, done.said
    done.explains("A batch of 101 samples of 64 bytes", "Set batch_size to at most 100")
    assert gate_run("--batch-size", "100", "--out", tmp_path / "fits", "--executions", "40").code in (0, 4)


def test_a_worker_that_fails_over_the_long_tail_ends_the_run_and_is_no_reason_for_a_missing_number(
    long_tail: Path, gate_run: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = Worker.call

    def failing(self: Worker, operation: str, *arguments: Any, **options: Any) -> Any:
        if operation == "features":
            raise WorkerError("The worker's answer can't be true.", where="worker process")
        return answers(self, operation, *arguments, **options)

    monkeypatch.setattr(Worker, "call", failing)
    done = gate_run("--long-tail", long_tail, "--executions", "3000")
    assert done.code == 3, done.said
    record = Finished(tmp_path / "out").record
    assert record["verdict"] == "error"
    assert record["metrics"]["defect_rate"]["value"] is not None
