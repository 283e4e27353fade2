"""Files of models and data sets, brought once into a private folder, so that what is tested is what was hashed.

The files come from the place where MLflow keeps them, not through MLflow's ``models:/`` route: that one adds a file of its own to the
folder, and the digest of one model would depend on the URI it was asked for by. Where the files lie on this machine it adds that file in
the store itself, whenever anybody loads the model; so it is left out.
"""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath
from typing import Any

from gate.errors import DataError, GateError, ModelError, RegistryError
from gate.registry.connection import FILES, error_code, redacted, session
from gate.registry.copy import copy_private, local_path, make_private, plain_relative
from gate.registry.resolve import ModelReference, resolve

__all__ = ["download_artifact", "download_model"]

MLMODEL = "MLmodel"
_ADDED = "registered_model_meta"  # by MLflow, to a folder asked for as models:/…: name and version, which nothing here reads


def download_model(reference: ModelReference, into: Path) -> Path:
    """Copies the model's files into ``into``, which is made (mode 0700) or must be empty.

    Returns:
        The folder that holds ``MLmodel``: ``into`` itself.

    Raises:
        RegistryError: the files can't be fetched.
        ModelError: the folder holds links or names that lead out of it, or no ``MLmodel``.
    """
    make_private(into)
    try:
        if reference.folder is not None:
            copy_private(reference.folder, into, error=ModelError)
        else:
            fetch(str(reference.location), into, tracking_uri=reference.tracking_uri, error=ModelError)
    except BaseException:
        _empty(into)
        raise
    if (into / _ADDED).is_file():
        (into / _ADDED).unlink()
    if not (into / MLMODEL).is_file():
        there = sorted(path.name for path in into.iterdir())
        _empty(into)
        raise ModelError(
            f"There is no {MLMODEL} file, so this is no MLflow model.",
            where=reference.uri,
            hint=f"It holds: {', '.join(there[:10])}." if there else "It holds no file at all.",
        )
    return into


def download_artifact(uri: str, into: Path, *, tracking_uri: str | None) -> Path:
    """Copies a data set's file or folder into ``into``, which is made (mode 0700) or must be empty.

    Args:
        uri: ``runs:/<run id>/path``, ``models:/name/3/path``, ``models:/name@alias/path``, ``models:/m-…/path``,
            ``mlflow-artifacts:/path``, or a ``file:`` URI.

    Returns:
        The file, or the folder with its content.

    Raises:
        RegistryError: it does not exist or can't be fetched.
        DataError: it holds links or names that lead out of it, or is a URI of another kind.
    """
    make_private(into)
    try:
        path = local_path(uri) if uri.startswith("file:") else None
        if path is not None:
            if not path.exists():
                raise DataError(
                    "There is no such file or folder.", where=uri, hint="Check the path; one in gate.yaml is relative to that file."
                )
            copy_private(path, into, error=DataError)
            return into / path.name if path.is_file() else into
        location, inner = _location(uri, tracking_uri)
        return fetch(location, into, tracking_uri=tracking_uri, error=DataError, inner=inner, shown=uri)
    except BaseException:
        _empty(into)
        raise


def fetch(
    location: str, into: Path, *, tracking_uri: str | None, error: type[GateError], inner: str = "", shown: str | None = None
) -> Path:
    """Copies what lies at an artifact location (or at ``inner`` below it) into the empty folder ``into``.

    Returns:
        The file, or ``into`` for a folder.

    Raises:
        RegistryError: nothing is there, or it can't be fetched.
        error: a link, or a name that leads out of the folder.
    """
    shown = shown or redacted(location)
    source = local_path(location)
    if source is not None:
        source = source / inner
        if not source.exists():
            raise RegistryError(
                "The files are gone, or not to be reached from here.", where=shown, hint="Is the artifact store mounted here?"
            )
        copy_private(source, into, error=error)
        return into / source.name if source.is_file() else into
    from mlflow.exceptions import MlflowException
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    root = f"{location.rstrip('/')}/{inner}".rstrip("/") if inner else location.rstrip("/")
    with session(tracking_uri, patience=FILES) as client:
        try:
            repository: Any = get_artifact_repository(root, tracking_uri=client.tracking_uri)
            if not repository.list_artifacts():
                return _one_file(location, inner, into, client.tracking_uri, shown)
            repository.download_artifacts("", str(into))
        except MlflowException as cause:
            # MLflow checks every listed name; that it is the name which is wrong stands only in the text.
            if error_code(cause) == "INVALID_PARAMETER_VALUE" and "Invalid path" in str(cause):
                raise error(
                    "A file's name leads out of its folder.", where=shown, hint="Don't use this artifact; find out who wrote it."
                ) from cause
            if error_code(cause) == "RESOURCE_DOES_NOT_EXIST":
                raise RegistryError(
                    "Nothing is stored there.", where=shown, hint="Look at the artifacts in MLflow for the right path."
                ) from cause
            raise
    for folder in (into, *(path for path in into.rglob("*") if path.is_dir())):
        folder.chmod(0o700)
    return into


def _one_file(location: str, inner: str, into: Path, tracking_uri: Any, shown: str) -> Path:
    """MLflow lists nothing both for a file and for what is missing; asking its parent tells them apart."""
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    whole = f"{location.rstrip('/')}/{inner}".rstrip("/")
    parent, _, name = whole.rpartition("/")
    repository: Any = get_artifact_repository(parent, tracking_uri=tracking_uri)
    files = {PurePosixPath(str(file.path)).name: file for file in repository.list_artifacts()}
    if name not in files or files[name].is_dir:
        there = ", ".join(sorted(files)[:20])
        raise RegistryError("Nothing is stored there.", where=shown, hint=f"Beside it lie: {there}." if there else None)
    repository.download_artifacts(name, str(into))
    return into / name


def _location(uri: str, tracking_uri: str | None) -> tuple[str, str]:
    """Where MLflow keeps what an artifact URI names: (artifact location, path below it)."""
    scheme, _, rest = uri.partition(":")
    rest = rest.strip("/")
    if scheme == "mlflow-artifacts":
        return uri, ""
    parts = rest.split("/")
    if scheme == "models":
        head = 1 if "@" in parts[0] or parts[0].startswith("m-") else 2
        inner = "/".join(parts[head:])
        location = str(resolve(f"models:/{'/'.join(parts[:head])}", tracking_uri=tracking_uri).location)
    elif scheme == "runs":
        inner = "/".join(parts[1:])
        location = run_location(parts[0], tracking_uri=tracking_uri)
    else:
        raise DataError(
            f"{uri!r} is no artifact URI that the gate knows.",
            where=uri,
            hint="Use runs:/<run id>/path, models:/name/version/path, mlflow-artifacts:/path, or a local file.",
        )
    if inner and not plain_relative(inner):
        raise DataError("The path leads out of the artifact.", where=uri, hint="Give a path without `..` below the artifact.")
    return location, inner


def run_location(run_id: str, *, tracking_uri: str | None) -> str:
    """The artifact location of a run.

    Raises:
        RegistryError: there is no such run, or the server can't be asked.
    """
    from mlflow.exceptions import MlflowException

    with session(tracking_uri) as client:
        try:
            return str(client.get_run(run_id).info.artifact_uri)
        except MlflowException as error:
            if error_code(error) in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                raise RegistryError(
                    f"There is no run {run_id!r}.", where=redacted(str(client.tracking_uri)), hint="Check the id and the tracking URI."
                ) from error
            raise


def _empty(folder: Path) -> None:
    """Nothing of a failed download stays behind, where it could be taken for a whole one."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
