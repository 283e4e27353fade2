from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from answering_server import Answering
from logged_models import Logged

from gate.errors import DataError, ModelError, RegistryError
from gate.registry.download import download_artifact, download_model
from gate.registry.resolve import ModelReference, resolve
from gate.trust.digest import digest, manifest

ModelFolder = Callable[[str], Path]


@pytest.mark.parametrize(("version", "file"), [("1", "data/model.pth"), ("2", "data/model.pt2")])
def test_one_model_has_one_digest_whichever_uri_it_is_asked_for_by(logged: Logged, tmp_path: Path, version: str, file: str) -> None:
    uris = [f"models:/digits/{version}", f"models:/{logged.model_ids[version]}", f"runs:/{logged.run_ids[version]}/model"]
    digests = set()
    for number, uri in enumerate(uris):
        folder = download_model(resolve(uri, tracking_uri=logged.url), tmp_path / str(number))
        assert file in {entry.path for entry in manifest(folder)}
        digests.add(digest(folder))
    assert len(digests) == 1


def test_the_files_are_private_and_come_silently(logged: Logged, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "into").mkdir(mode=0o755)
    folder = download_model(resolve("models:/digits@champion", tracking_uri=logged.url), tmp_path / "into")
    assert folder == tmp_path / "into"
    assert {stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "data")} == {0o700}
    assert capfd.readouterr() == ("", "")


def test_a_model_comes_from_a_store_without_a_server(sqlite_store: Logged, tmp_path: Path) -> None:
    folder = download_model(resolve("models:/digits/2", tracking_uri=sqlite_store.url), tmp_path / "into")
    assert (folder / "data" / "model.pt2").is_file()


def test_a_model_that_somebody_has_loaded_with_mlflow_is_still_the_same(
    sqlite_store: Logged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    reference = resolve("models:/digits/2", tracking_uri=sqlite_store.url)
    before = digest(download_model(reference, tmp_path / "before"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", sqlite_store.url)
    store = Path(mlflow.artifacts.download_artifacts("models:/digits/2"))
    assert (store / "registered_model_meta").is_file()  # MLflow writes it into the store
    assert digest(download_model(reference, tmp_path / "after")) == before


def test_a_local_folder_is_copied_so_that_later_changes_do_not_count(model_folder: ModelFolder, tmp_path: Path) -> None:
    source = model_folder("pickle")
    before = digest(source)
    folder = download_model(resolve(str(source), tracking_uri=None), tmp_path / "a copy\nwith ü")
    (source / "data" / "model.pth").write_bytes(b"replaced")
    assert digest(folder) == before
    assert {stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "data")} == {0o700}


def test_the_users_own_path_may_be_a_link(model_folder: ModelFolder, tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to(model_folder("pickle"))
    assert (download_model(resolve(str(tmp_path / "current"), tracking_uri=None), tmp_path / "into") / "MLmodel").is_file()


@pytest.mark.parametrize("kind", ["file", "folder", "pipe"])
@pytest.mark.parametrize("where", ["local folder", "store on disk"])
def test_a_link_or_pipe_inside_is_refused_and_nothing_outside_is_read(
    model_folder: ModelFolder, sqlite_store: Logged, tmp_path: Path, kind: str, where: str
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("secret")
    source = model_folder("pickle")
    odd = source / "data" / "odd"
    match kind:
        case "file":
            odd.symlink_to(secret / "key")
        case "folder":
            odd.symlink_to(secret)
        case "pipe":
            os.mkfifo(odd)
    reference = (
        resolve(str(source), tracking_uri=None)
        if where == "local folder"
        else ModelReference("models:/x/1", "models:/x/1", tracking_uri=sqlite_store.url, location=source.as_uri())
    )
    with pytest.raises(ModelError, match=r"is a symbolic link|neither a file nor a folder") as raised:
        download_model(reference, tmp_path / "into")
    assert raised.value.exit_code == 3
    assert list((tmp_path / "into").iterdir()) == []


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "%2e%2e/evil"])
def test_a_name_that_leaves_the_folder_is_refused(answering: Answering, tmp_path: Path, name: str) -> None:
    listing = json.dumps({"files": [{"path": "MLmodel", "is_dir": False, "file_size": 1}, {"path": name, "is_dir": False, "file_size": 1}]})
    server = answering(body="x", bodies={"/api/2.0/mlflow-artifacts/artifacts?": listing})
    reference = ModelReference("models:/x/1", "models:/x/1", tracking_uri=server.url, location="mlflow-artifacts:/1/models/m-1/artifacts")
    into = tmp_path / "deep" / "er" / "into"
    with pytest.raises(ModelError, match="leads out of its folder") as raised:
        download_model(reference, into)
    assert raised.value.exit_code == 3
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_folder_without_mlmodel_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "weights.bin").write_bytes(b"x")
    with pytest.raises(ModelError, match="no MLmodel file") as raised:
        download_model(resolve(str(tmp_path / "plain"), tracking_uri=None), tmp_path / "into")
    assert "weights.bin" in str(raised.value)


def test_files_that_vanished_from_the_store_are_said(tmp_path: Path, sqlite_store: Logged) -> None:
    reference = ModelReference("models:/x/1", "models:/x/1", tracking_uri=sqlite_store.url, location=(tmp_path / "gone").as_uri())
    with pytest.raises(RegistryError, match="gone"):
        download_model(reference, tmp_path / "into")


@pytest.mark.parametrize(("status", "says"), [(403, "(403)"), (404, "404"), (500, "500")])
def test_a_download_that_fails_half_way_says_why_and_leaves_nothing(
    answering: Answering, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, says: str
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    root = "/api/2.0/mlflow-artifacts/artifacts"
    listing = json.dumps({"files": [{"path": "MLmodel", "is_dir": False, "file_size": 1}, {"path": "x", "is_dir": False, "file_size": 1}]})
    for number, statuses in enumerate(({}, {f"{root}/1/x": status})):
        server = answering(bodies={f"{root}?": listing, root: "x"}, statuses=statuses)
        reference = ModelReference("models:/x/1", "models:/x/1", tracking_uri=server.url, location="mlflow-artifacts:/1")
        into = tmp_path / str(number)
        if not statuses:
            assert (download_model(reference, into) / "MLmodel").read_text() == "x"
            continue
        with pytest.raises(RegistryError) as raised:
            download_model(reference, into)
        assert says in raised.value.what
        assert list(into.iterdir()) == []


def test_a_folder_with_content_is_not_written_into(model_folder: ModelFolder, tmp_path: Path) -> None:
    (tmp_path / "into").mkdir()
    (tmp_path / "into" / "mine").write_text("keep")
    with pytest.raises(ValueError, match="not empty"):
        download_model(resolve(str(model_folder("pickle")), tracking_uri=None), tmp_path / "into")
    assert (tmp_path / "into" / "mine").read_text() == "keep"


def test_data_sets_come_from_every_kind_of_artifact_uri(logged: Logged, tmp_path: Path) -> None:
    from mlflow import MlflowClient

    run_id = logged.run_ids["1"]
    root = MlflowClient(logged.url).get_run(run_id).info.artifact_uri
    assert root.startswith("mlflow-artifacts:")
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "table.csv").write_text("a,b\n")
    files = [f"runs:/{run_id}/data/table.csv", f"{root}/data/table.csv", (tmp_path / "local" / "table.csv").as_uri()]
    folders = [f"runs:/{run_id}/data", f"{root}/data", (tmp_path / "local").as_uri()]
    for number, uri in enumerate(files):
        found = download_artifact(uri, tmp_path / f"file{number}", tracking_uri=logged.url)
        assert (found.name, found.read_text()) == ("table.csv", "a,b\n")
    for number, uri in enumerate(folders):
        found = download_artifact(uri, tmp_path / f"folder{number}", tracking_uri=logged.url)
        assert [path.name for path in found.iterdir()] == ["table.csv"]
    for number, head in enumerate(("models:/digits/1", "models:/digits@champion", f"models:/{logged.model_ids['1']}")):
        found = download_artifact(f"{head}/data/pickle_module_info.txt", tmp_path / f"model{number}", tracking_uri=logged.url)
        assert found.read_text() == "mlflow.pytorch.pickle_module"


def test_data_sets_come_from_a_store_without_a_server(sqlite_store: Logged, tmp_path: Path) -> None:
    found = download_artifact(f"runs:/{sqlite_store.run_ids['1']}/data/table.csv", tmp_path / "into", tracking_uri=sqlite_store.url)
    assert found.read_text() == "a,b\n"


def test_a_missing_artifact_names_its_neighbours(logged: Logged, tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="Nothing is stored there") as raised:
        download_artifact(f"runs:/{logged.run_ids['1']}/data/tabel.csv", tmp_path / "into", tracking_uri=logged.url)
    assert "table.csv" in str(raised.value)
    with pytest.raises(RegistryError, match="no run"):
        download_artifact("runs:/ffffffffffffffffffffffffffffffff/data", tmp_path / "none", tracking_uri=logged.url)


@pytest.mark.parametrize("uri", ["ftp://host/data", "models:/digits/1/../x", "file:///no/such/folder"])
def test_an_unusable_data_uri_is_a_usage_error(logged: Logged, tmp_path: Path, uri: str) -> None:
    with pytest.raises(DataError):
        download_artifact(uri, tmp_path / "into", tracking_uri=logged.url)


def test_a_data_folder_with_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.png").symlink_to("/etc/hostname")
    with pytest.raises(DataError, match="symbolic link"):
        download_artifact((tmp_path / "data").as_uri(), tmp_path / "into", tracking_uri=None)
    shutil.rmtree(tmp_path / "into")
