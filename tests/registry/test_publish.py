from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from answering_server import Answering
from logged_models import Logged

from gate.errors import RegistryError
from gate.registry.previous import fetch_run, previous_run_id
from gate.registry.publish import publish
from gate.registry.resolve import ModelReference, resolve
from gate.result import CampaignSummary, Defect, Metric, ModelInfo, PolicyInfo, Result, Verdict

DIGEST = "sha256:" + "a" * 64


DEFECT = Defect(
    id="d-1",
    arm="search",
    seed_id="s-1",
    label=0,
    predicted=1,
    confidence_before=0.9,
    confidence_after=0.8,
    oracle="changed_prediction",
    operator="gamma",
    family="photometry",
    families=("photometry",),
    natural=True,
    severity=0.5,
    recipe=(),
    root_cause="rc-1",
)


def finished(reference: ModelReference, verdict: Verdict = Verdict.FAIL, **metrics: Metric) -> Result:
    return Result(
        verdict=verdict,
        exit_code=1 if verdict is Verdict.FAIL else 0,
        reasons=("defect rate",),
        candidate=ModelInfo(uri=reference.uri, resolved_uri=reference.resolved_uri, digest=DIGEST, format="pickle"),
        policy=PolicyInfo(name="strict", digest="sha256:" + "b" * 64, source="strict"),
        campaign=CampaignSummary(
            seed=7, executions=100, model_calls=120, wall_seconds=1.5, device="cpu", device_hours=0.001, stop_reason="executions"
        ),
        defects=(DEFECT,),
        metrics=metrics
        or {
            "defect_rate": Metric(value=0.25, lower=0.2, upper=0.3, confidence=0.95, n=40, unit="share"),
            "long_tail_hit_rate": Metric(value=None, unit="share", reason="no long-tail set"),
            "hits": Metric(value=0.5, unit="share", extra={"chance": 0.1}),
        },
    )


@pytest.fixture
def run_folder(tmp_path: Path) -> Callable[[Result], Path]:
    def make(result: Result) -> Path:
        folder = tmp_path / "out put"
        for name in ("d-1", "d-of-an-earlier-run"):
            (folder / "defects" / name).mkdir(parents=True)
            (folder / "defects" / name / "mutant.png").write_bytes(b"\x89PNG")
        (folder / "campaign").mkdir()
        (folder / "result.json").write_text(result.to_json())
        (folder / "report.html").write_text("<!doctype html><title>report</title>")
        (folder / "campaign" / "evidence.json").write_text("{}")
        (folder / "campaign" / "state.json.tmp").write_text("half")
        (folder / ".lock").write_text("")
        (folder / "campaign" / "link").symlink_to("/etc/hostname")
        return folder

    return make


def _files(client: Any, run_id: str, path: str = "") -> set[str]:
    found = set()
    for entry in client.list_artifacts(run_id, path):
        found |= _files(client, run_id, entry.path) if entry.is_dir else {entry.path}
    return found


def test_a_run_is_recorded_whole_and_the_version_points_at_it(
    logged: Logged, run_folder: Callable[[Result], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    from mlflow import MlflowClient

    reference = resolve("models:/digits@champion", tracking_uri=logged.url)
    result = finished(reference)
    run_id = publish(result, run_folder(result), reference, experiment="gate tests")
    assert capfd.readouterr() == ("", "")

    client = MlflowClient(logged.url)
    run = client.get_run(run_id)
    assert (run.info.run_name, run.info.status) == ("gate digits/1", "FINISHED")
    assert client.get_experiment_by_name("gate tests").experiment_id == run.info.experiment_id
    assert run.data.metrics == {"defect_rate": 0.25, "defect_rate.lower": 0.2, "defect_rate.upper": 0.3, "hits": 0.5, "hits.chance": 0.1}
    assert run.data.params["policy"] == "strict"
    assert (run.data.params["seed"], run.data.params["executions"], run.data.params["verdict"]) == ("7", "100", "fail")
    assert _files(client, run_id) == {"result.json", "report.html", "defects.zip", "campaign/evidence.json"}

    wanted = {"gate.verdict": "fail", "gate.policy": "strict", "gate.digest": DIGEST, "gate.run": run_id}
    assert wanted.items() <= client.get_model_version("digits", "1").tags.items()
    assert wanted.items() <= run.data.tags.items()
    assert run.data.tags["gate.candidate"] == "models:/digits/1"

    on_the_models_page = {metric.key: metric.value for metric in client.get_logged_model(logged.model_ids["1"]).metrics}
    assert on_the_models_page["defect_rate"] == 0.25


def test_a_later_verdict_replaces_an_earlier_one(logged: Logged, run_folder: Callable[[Result], Path]) -> None:
    from mlflow import MlflowClient

    reference = resolve("models:/digits/2", tracking_uri=logged.url)
    first = finished(reference, Verdict.PASS)
    folder = run_folder(first)
    publish(first, folder, reference, experiment="gate tests")
    second = publish(finished(reference, Verdict.FAIL), folder, reference, experiment="gate tests")
    tags = MlflowClient(logged.url).get_model_version("digits", "2").tags
    assert (tags["gate.verdict"], tags["gate.run"]) == ("fail", second)


def test_the_earlier_run_is_found_through_the_tag_and_fetched_back(
    logged: Logged, run_folder: Callable[[Result], Path], tmp_path: Path
) -> None:
    reference = resolve("models:/digits/2", tracking_uri=logged.url)
    result = finished(reference)
    run_id = publish(result, run_folder(result), reference, experiment="gate tests")
    found = previous_run_id(resolve("models:/digits/2", tracking_uri=logged.url))
    assert found == run_id
    for number, source in enumerate((run_id, f"runs:/{run_id}")):
        folder = fetch_run(source, tmp_path / str(number), tracking_uri=logged.url)
        assert Result.load(folder) == result
        assert (folder / "defects" / "d-1" / "mutant.png").read_bytes() == b"\x89PNG"
        assert (folder / "campaign" / "evidence.json").is_file()
        assert [path.name for path in (folder / "defects").iterdir()] == ["d-1"]


def test_a_run_that_ended_in_an_error_leaves_no_older_digest_beside_its_verdict(
    logged: Logged, run_folder: Callable[[Result], Path]
) -> None:
    from mlflow import MlflowClient

    reference = resolve("models:/digits/1", tracking_uri=logged.url)
    first = finished(reference, Verdict.PASS)
    folder = run_folder(first)
    publish(first, folder, reference, experiment="gate tests")
    broken = Result(
        verdict=Verdict.ERROR,
        exit_code=3,
        reasons=("the model can't be loaded",),
        candidate=ModelInfo(uri=reference.uri, resolved_uri=reference.resolved_uri),
    )
    run_id = publish(broken, folder, reference, experiment="gate tests")
    tags = MlflowClient(logged.url).get_model_version("digits", "1").tags
    assert (tags["gate.verdict"], tags["gate.run"], tags["gate.digest"], tags["gate.policy"]) == ("error", run_id, "", "")


@pytest.mark.parametrize("form", ["logged model", "run"])
def test_a_model_without_a_version_gets_its_own_tags(logged: Logged, run_folder: Callable[[Result], Path], form: str) -> None:
    from mlflow import MlflowClient

    model_id, run_id = logged.model_ids["2"], logged.run_ids["2"]
    reference = resolve(f"models:/{model_id}" if form == "logged model" else f"runs:/{run_id}/model", tracking_uri=logged.url)
    result = finished(reference)
    published = publish(result, run_folder(result), reference, experiment="gate tests")
    client = MlflowClient(logged.url)
    assert client.get_run(published).data.tags["gate.verdict"] == "fail"
    tags = client.get_logged_model(model_id).tags
    if form == "logged model":
        assert (tags["gate.verdict"], tags["gate.run"]) == ("fail", published)
        assert previous_run_id(resolve(f"models:/{model_id}", tracking_uri=logged.url)) == published
    else:
        assert tags.get("gate.run") != published
        assert "gate.verdict" not in client.get_run(run_id).data.tags


def test_metric_names_that_mlflow_refuses_are_made_acceptable(logged: Logged, run_folder: Callable[[Result], Path]) -> None:
    from mlflow import MlflowClient

    reference = resolve("models:/digits/1", tracking_uri=logged.url)
    odd = {
        name: Metric(value=float(n), unit="count")
        for n, name in enumerate(["a/../b", "a\n..\nb", "..", "/x", "rate %", "n" * 600, "ü", ""])
    }
    result = finished(reference, **odd)
    run_id = publish(result, run_folder(result), reference, experiment="gate tests")
    found = MlflowClient(logged.url).get_run(run_id).data.metrics
    assert sorted(found.values()) == [float(n) for n in range(len(odd))]


def test_nothing_points_at_a_record_that_is_not_whole(
    logged: Logged, run_folder: Callable[[Result], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(logged.url)
    model_id = logged.model_ids["1"]
    client.create_registered_model("half")
    client.create_model_version("half", source=f"models:/{model_id}", model_id=model_id)
    reference = resolve("models:/half/1", tracking_uri=logged.url)
    result = finished(reference)
    upload = MlflowClient.log_artifact

    def failing(self: Any, run_id: str, path: str, artifact_path: str | None = None) -> None:
        if path.endswith("evidence.json"):
            raise OSError(28, "No space left on device")
        upload(self, run_id, path, artifact_path)

    monkeypatch.setattr(MlflowClient, "log_artifact", failing)
    try:
        with pytest.raises(RegistryError, match="No space left"):
            publish(result, run_folder(result), reference, experiment="gate half")
        assert not {key for key in client.get_model_version("half", "1").tags if key.startswith("gate.")}
        experiment = client.get_experiment_by_name("gate half")
        assert [run.info.status for run in client.search_runs([experiment.experiment_id])] == ["FAILED"]
    finally:
        client.delete_registered_model("half")


@pytest.mark.parametrize("step", ["log_batch", "log_artifact", "set_model_version_tag"])
def test_whatever_fails_leaves_no_pass_behind(
    step: str, logged: Logged, run_folder: Callable[[Result], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(logged.url)
    model_id, name, experiment = logged.model_ids["1"], f"fails at {step}", f"gate {step}"
    client.create_registered_model(name)
    client.create_model_version(name, source=f"models:/{model_id}", model_id=model_id)
    reference = resolve(f"models:/{name}/1", tracking_uri=logged.url)
    result = finished(reference, Verdict.PASS)
    folder = run_folder(result)
    first = publish(result, folder, reference, experiment=experiment)
    assert client.get_model_version(name, "1").tags["gate.verdict"] == "pass"
    ordinary = getattr(MlflowClient, step)

    def failing(self: Any, *arguments: Any, **options: Any) -> Any:
        if step != "set_model_version_tag" or "gate.policy" in arguments:
            raise OSError(28, "No space left on device")
        return ordinary(self, *arguments, **options)

    monkeypatch.setattr(MlflowClient, step, failing)
    try:
        with pytest.raises(RegistryError, match="No space left"):
            publish(result, folder, reference, experiment=experiment)
        assert "gate.verdict" not in client.get_model_version(name, "1").tags
        (run,) = (run for run in client.search_runs([client.get_experiment_by_name(experiment).experiment_id]) if run.info.run_id != first)
        assert (run.info.status, run.data.tags["gate.verdict"]) == ("FAILED", "error")
    finally:
        client.delete_registered_model(name)


def test_a_run_is_recorded_without_a_server_beside_the_database(
    sqlite_store: Logged, run_folder: Callable[[Result], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    reference = resolve("models:/digits/2", tracking_uri=sqlite_store.url)
    result = finished(reference)
    run_id = publish(result, run_folder(result), reference, experiment="gate/ü")
    client = MlflowClient(sqlite_store.url)
    assert client.get_model_version("digits", "2").tags["gate.run"] == run_id
    assert Result.load(fetch_run(run_id, tmp_path / "back", tracking_uri=sqlite_store.url)) == result
    assert list((tmp_path / "cwd").iterdir()) == []


def test_a_local_model_is_recorded_on_its_run_alone(
    model_folder: Callable[[str], Path], run_folder: Callable[[Result], Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from mlflow import MlflowClient

    store = f"sqlite:///{tmp_path}/new/mlflow.db"
    reference = resolve(str(model_folder("pickle")), tracking_uri=store)
    result = finished(reference)
    capfd.readouterr()
    run_id = publish(result, run_folder(result), reference, experiment="gate")
    assert capfd.readouterr() == ("", "")  # MLflow has a lot to say when it makes a database
    assert MlflowClient(store).get_run(run_id).data.tags["gate.verdict"] == "fail"


def test_a_deleted_experiment_is_said(logged: Logged, run_folder: Callable[[Result], Path]) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(logged.url)
    client.delete_experiment(client.create_experiment("gate deleted"))
    reference = resolve("models:/digits/1", tracking_uri=logged.url)
    result = finished(reference)
    with pytest.raises(RegistryError, match="is deleted"):
        publish(result, run_folder(result), reference, experiment="gate deleted")


def test_publishing_to_a_server_that_refuses_is_an_error(answering: Answering, run_folder: Callable[[Result], Path]) -> None:
    server = answering(403, "no")
    reference = ModelReference("models:/x/1", "models:/x/1", name="x", version="1", tracking_uri=server.url)
    result = finished(reference)
    with pytest.raises(RegistryError, match=re.escape("(403)")):
        publish(result, run_folder(result), reference, experiment="gate")
    assert len(server.asked) == 1


def test_a_run_folder_is_used_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(RegistryError, match=r"no result\.json"):
        fetch_run(str(tmp_path / "run"), tmp_path / "into", tracking_uri=None)
    (tmp_path / "run" / "result.json").write_text("{}")
    assert fetch_run(str(tmp_path / "run"), tmp_path / "into", tracking_uri=None) == tmp_path / "run"
    assert not (tmp_path / "into").exists()


def test_a_run_that_is_missing_or_not_the_gates_is_said(logged: Logged, tmp_path: Path) -> None:
    for number, (source, says) in enumerate(
        (("runs:/" + "f" * 32, "no run"), ("no/such/folder", "no such run"), (logged.run_ids["1"], r"no result\.json"))
    ):
        with pytest.raises(RegistryError, match=says) as raised:
            fetch_run(source, tmp_path / str(number), tracking_uri=logged.url)
        assert raised.value.exit_code == 3


def test_a_baseline_that_was_never_judged_has_no_earlier_run(sqlite_store: Logged) -> None:
    assert previous_run_id(resolve("models:/digits/1", tracking_uri=sqlite_store.url)) is None
