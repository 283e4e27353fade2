from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from answering_server import Answering
from logged_models import Logged

from gate.errors import ModelError, RegistryError
from gate.registry.connection import ANSWERS
from gate.registry.resolve import resolve


def test_a_version_is_found_with_its_run_and_logged_model(logged: Logged) -> None:
    found = resolve("models:/digits/2", tracking_uri=logged.url)
    assert (found.resolved_uri, found.name, found.version) == ("models:/digits/2", "digits", "2")
    assert (found.model_id, found.run_id) == (logged.model_ids["2"], logged.run_ids["2"])
    assert found.folder is None
    assert found.uri == "models:/digits/2"


def test_an_alias_is_pinned_to_the_version_it_meant(logged: Logged) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(logged.url)
    client.set_registered_model_alias("digits", "moving", "1")
    found = resolve("models:/digits@moving", tracking_uri=logged.url)
    client.set_registered_model_alias("digits", "moving", "2")
    assert (found.uri, found.resolved_uri, found.version) == ("models:/digits@moving", "models:/digits/1", "1")
    assert resolve(found.resolved_uri, tracking_uri=logged.url).model_id == logged.model_ids["1"]


def test_latest_is_pinned_to_the_highest_number(logged: Logged) -> None:
    assert resolve("models:/digits/latest", tracking_uri=logged.url).resolved_uri == "models:/digits/2"


def test_a_logged_model_is_found_by_its_id(logged: Logged) -> None:
    found = resolve(f"models:/{logged.model_ids['1']}", tracking_uri=logged.url)
    assert (found.resolved_uri, found.name, found.version) == (f"models:/{logged.model_ids['1']}", None, None)
    assert (found.model_id, found.run_id) == (logged.model_ids["1"], logged.run_ids["1"])


def test_a_runs_model_is_found_by_its_name(logged: Logged) -> None:
    uri = f"runs:/{logged.run_ids['2']}/model"
    found = resolve(uri, tracking_uri=logged.url)
    assert (found.resolved_uri, found.model_id, found.run_id) == (uri, logged.model_ids["2"], logged.run_ids["2"])


def test_a_model_that_lies_among_a_runs_artifacts_is_found(logged: Logged, model_folder: Callable[[str], Path]) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(logged.url)
    client.log_artifacts(logged.run_ids["1"], str(model_folder("pickle")), "older/model")
    found = resolve(f"runs:/{logged.run_ids['1']}/older/model", tracking_uri=logged.url)
    assert found.model_id is None
    assert str(found.location).endswith("older/model")


def test_a_database_is_read_without_a_server(sqlite_store: Logged) -> None:
    found = resolve("models:/digits@champion", tracking_uri=sqlite_store.url)
    assert (found.resolved_uri, found.model_id) == ("models:/digits/1", sqlite_store.model_ids["1"])


def test_a_store_on_disk_is_read(tmp_path: Path, model_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow import MlflowClient

    folder = model_folder("pickle")
    store = tmp_path / "mlruns"
    client = MlflowClient(str(store))
    client.create_registered_model("on-disk")
    client.create_model_version("on-disk", source=folder.as_uri())
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE")
    for tracking_uri in (str(store), store.as_uri()):
        assert resolve("models:/on-disk/1", tracking_uri=tracking_uri).resolved_uri == "models:/on-disk/1"
    assert "MLFLOW_ALLOW_FILE_STORE" not in os.environ


def test_mlflows_own_default_is_used_where_no_server_is_named(logged: Logged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", logged.url)
    assert resolve("models:/digits/1", tracking_uri=None).model_id == logged.model_ids["1"]


@pytest.mark.parametrize("as_uri", [False, True])
def test_a_local_folder_is_taken_as_it_is(model_folder: Callable[[str], Path], as_uri: bool) -> None:
    folder = model_folder("pickle")
    found = resolve(folder.as_uri() if as_uri else str(folder), tracking_uri=None)
    assert (found.folder, found.resolved_uri, found.version) == (folder, str(folder), None)


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("models:/digit/1", ["no registered model 'digit'", "Did you mean 'digits'"]),
        ("models:/digits/7", ["no version 7", "Versions that exist: 1, 2."]),
        ("models:/digits@champoin", ["no alias 'champoin'", "Did you mean models:/digits@champion"]),
        ("models:/Digit@champion", ["no registered model 'Digit'", "Did you mean 'digits'"]),
        ("models:/digits/Production", ["Stages are not supported", "champion"]),
        ("models:/digits", ["names no version", "Versions: 1, 2", "champion"]),
        ("models:/", ["no complete model URI", "models:/name/3"]),
        ("models:/digits/1/data", ["no complete model URI"]),
        ("models:/digits@", ["no complete model URI"]),
        ("s3://bucket/model", ["no model URI that the gate knows"]),
        ("runs:/0123", ["no complete model URI"]),
        ("runs:/0123/../x", ["no complete model URI"]),
        ("runs:/ffffffffffffffffffffffffffffffff/model", ["no run 'ffff"]),
    ],
)
def test_what_does_not_exist_is_answered_with_what_does(logged: Logged, uri: str, says: list[str]) -> None:
    with pytest.raises(RegistryError) as raised:
        resolve(uri, tracking_uri=logged.url)
    for text in says:
        assert text in str(raised.value)
    assert raised.value.where == uri
    assert raised.value.exit_code == 3


def test_a_mistyped_id_names_the_nearest(logged: Logged) -> None:
    model_id, run_id = logged.model_ids["1"], logged.run_ids["1"]
    for wrong, right in (
        (f"models:/{model_id[:-2]}", f"models:/{model_id}"),
        (f"runs:/{run_id[:-2]}/model", f"runs:/{run_id}/model"),
        (f"runs:/{run_id}/modle", f"runs:/{run_id}/model"),
    ):
        with pytest.raises(RegistryError) as raised:
            resolve(wrong, tracking_uri=logged.url)
        assert f"Did you mean {right}?" in str(raised.value)


def test_a_missing_local_folder_says_how_a_registered_model_is_written() -> None:
    with pytest.raises(ModelError) as raised:
        resolve("digits/2", tracking_uri=None)
    assert "models:/digits/2" in str(raised.value)
    assert raised.value.exit_code == 3


@pytest.mark.parametrize("form", ["sqlite:///{}/none.db", "{}/none", "file://{}/none"])
def test_a_store_that_does_not_exist_is_not_made(tmp_path: Path, form: str) -> None:
    with pytest.raises(RegistryError, match="store") as raised:
        resolve("models:/digits/1", tracking_uri=form.format(tmp_path))
    assert "tracking_uri" in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_refused_at_once(tmp_path: Path, stopwatch: Callable[[], float]) -> None:
    (tmp_path / "mlflow.db").write_text("not a database at all")
    with pytest.raises(RegistryError, match="no SQLite database"):
        resolve("models:/digits/1", tracking_uri=f"sqlite:///{tmp_path}/mlflow.db")
    assert stopwatch() < 20


def test_waiting_is_bounded_well_under_a_minute() -> None:
    assert ANSWERS.timeout * (ANSWERS.retries + 1) + 2 <= 40


def test_a_server_that_is_down_is_said_soon(stopwatch: Callable[[], float]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(RegistryError, match="Nothing answers") as raised:
            resolve("models:/digits/1", tracking_uri=url)
    assert raised.value.where == url
    assert raised.value.exit_code == 3
    assert stopwatch() < 20


@pytest.mark.parametrize("status", [500, 503])
def test_a_server_that_keeps_failing_is_asked_a_few_times(answering: Answering, stopwatch: Callable[[], float], status: int) -> None:
    server = answering(status, "broken", headers={"Retry-After": "3600"})
    with pytest.raises(RegistryError, match=f"keeps failing: too many {status} error responses"):
        resolve("models:/digits/1", tracking_uri=server.url)
    assert len(server.asked) == ANSWERS.retries + 1
    assert stopwatch() < 20


def test_a_server_that_never_answers_is_given_up(
    answering: Answering, monkeypatch: pytest.MonkeyPatch, stopwatch: Callable[[], float]
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    server = answering(hangs=True)
    with pytest.raises(RegistryError, match="did not answer in time"):
        resolve("models:/digits@champion", tracking_uri=server.url)
    assert len(server.asked) == ANSWERS.retries + 1
    assert stopwatch() < 20


def test_the_users_own_patience_wins(answering: Answering, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    server = answering(500)
    with pytest.raises(RegistryError):
        resolve("models:/digits/1", tracking_uri=server.url)
    assert len(server.asked) == 1


@pytest.mark.parametrize("body", ["You are not allowed", '{"error_code": "PERMISSION_DENIED", "message": "not yours"}', "{}"])
@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_is_told_at_once(answering: Answering, status: int, body: str) -> None:
    server = answering(status, body)
    with pytest.raises(RegistryError) as raised:
        resolve("models:/digits@champion", tracking_uri=server.url)
    assert len(server.asked) == 1
    assert raised.value.exit_code == 3
    if not body.startswith("{"):
        assert f"({status})" in raised.value.what


def test_a_password_in_the_address_is_never_shown(answering: Answering) -> None:
    server = answering(500, "x")
    with pytest.raises(RegistryError) as raised:
        resolve("models:/digits/1", tracking_uri=server.url.replace("http://", "http://user:s3cret@"))
    assert "s3cret" not in str(raised.value)
    assert server.url in str(raised.value)


def test_mlflow_is_silent_and_its_settings_are_left_as_they_were(
    logged: Logged, answering: Answering, capfd: pytest.CaptureFixture[str]
) -> None:
    before = dict(os.environ)
    resolve("models:/digits@champion", tracking_uri=logged.url)
    with pytest.raises(RegistryError):
        resolve("models:/digits/1", tracking_uri=answering(500).url)
    assert capfd.readouterr() == ("", "")
    assert dict(os.environ) == before
