"""Which model is meant: a model URI becomes one pinned version, once, and everything later asks this answer.

``models:/name/latest`` is the highest version number at this moment. Stage names (``models:/name/Production``) are not followed: MLflow has
deprecated them and several versions may share one, so the message names the aliases to use instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gate.errors import ModelError, RegistryError
from gate.registry.connection import error_code, session
from gate.registry.copy import local_path, plain_relative
from gate.strict_yaml import nearest

__all__ = ["ModelReference", "resolve"]

KINDS = "models:/name/3, models:/name@alias, models:/name/latest, models:/m-…, runs:/<run id>/model, or a local MLflow model folder"
_LISTED = 20  # how many names a message lists
_SEARCHED = 1000  # how many names are looked through for a similar one
_ABSENT = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE", "NOT_FOUND")  # MLflow answers a missing alias with the second


@dataclass(frozen=True)
class ModelReference:
    """One model, pinned."""

    uri: str  # as the user gave it
    resolved_uri: str  # models:/name/version, models:/m-…, runs:/…, or the absolute path of a folder
    name: str | None = None  # of the registered model
    version: str | None = None
    model_id: str | None = None  # MLflow's logged model behind it, m-…
    run_id: str | None = None  # the run that made the model
    tags: Mapping[str, str] = field(default_factory=dict)  # of the version, or of the logged model
    tracking_uri: str | None = None  # as given: MLflow's default where None
    folder: Path | None = None  # only for a local one
    location: str | None = None  # where MLflow keeps the files, an artifact URI


def resolve(uri: str, *, tracking_uri: str | None) -> ModelReference:
    """Finds the model and pins it.

    Args:
        uri: a registered version, alias or ``latest``; a logged model; a run's model; or a local folder (path or ``file:`` URI).
        tracking_uri: http(s), a database or a store on disk; MLflow's own default where None.

    Raises:
        RegistryError: it does not exist (with the nearest that does), the URI is of no known kind, or the server can't be asked.
        ModelError: the local folder does not exist.
    """
    if uri.startswith("models:/"):
        return _registered_or_logged(uri, tracking_uri)
    if uri.startswith("runs:/"):
        return _of_run(uri, tracking_uri)
    path = local_path(uri)
    if path is None or not uri:
        raise RegistryError(f"{uri!r} is no model URI that the gate knows.", where=uri, hint=f"Use {KINDS}.")
    if not path.is_dir():
        looks_registered = re.fullmatch(r"[^/@]+(/\d+|@[\w-]+)", uri)
        raise ModelError(
            "There is no such model folder.",
            where=uri,
            hint=f"For a registered model write models:/{uri}." if looks_registered else f"Use {KINDS}.",
        )
    folder = path.resolve()
    return ModelReference(uri, str(folder), tracking_uri=tracking_uri, folder=folder)


def _registered_or_logged(uri: str, tracking_uri: str | None) -> ModelReference:
    parts = uri.removeprefix("models:/").strip("/").split("/")
    if len(parts) > 2 or not all(part.strip() for part in parts):
        raise RegistryError(f"{uri!r} is no complete model URI.", where=uri, hint=f"Use {KINDS}.")
    with session(tracking_uri) as client:
        if len(parts) == 2:
            name, wanted = parts
            version = wanted if wanted.isdecimal() else _latest(client, uri, name, wanted)
        elif "@" in parts[0]:
            name, _, alias = parts[0].rpartition("@")
            version = _aliased(client, uri, name, alias)
        elif parts[0].startswith("m-"):
            return _logged(client, uri, parts[0], tracking_uri)
        else:
            raise _without_version(client, uri, parts[0])
        return _version(client, uri, name, version, tracking_uri)


def _version(client: Any, uri: str, name: str, version: str, tracking_uri: str | None) -> ModelReference:
    from mlflow.exceptions import MlflowException

    try:
        found = client.get_model_version(name, version)
        location = client.get_model_version_download_uri(name, version)
    except MlflowException as error:
        if error_code(error) not in _ABSENT:
            raise
        _model(client, uri, name)
        versions = _versions(client, name)
        raise RegistryError(
            f"The registered model {name!r} has no version {version}.",
            where=uri,
            hint=f"Versions that exist: {_listing(versions)}." if versions else "It has no version yet; register one.",
        ) from error
    if str(found.status) != "READY":
        raise RegistryError(
            f"Version {version} of {name!r} is not ready: its status is {found.status}.",
            where=uri,
            hint="Wait until it is registered, or register it again.",
        )
    source = str(found.source or "")
    model_id = found.model_id or (source.removeprefix("models:/") if source.startswith("models:/m-") else None)
    location = str(location)
    if location.startswith("models:/m-"):
        location = str(client.get_logged_model(location.removeprefix("models:/")).artifact_location)
    return ModelReference(
        uri,
        f"models:/{name}/{version}",
        name=name,
        version=version,
        model_id=model_id,
        run_id=found.run_id or None,
        tags=dict(found.tags),
        tracking_uri=tracking_uri,
        location=location,
    )


def _latest(client: Any, uri: str, name: str, wanted: str) -> str:
    model = _model(client, uri, name)
    versions = _versions(client, name)
    if wanted.lower() == "latest":
        if not versions:
            raise RegistryError(f"The registered model {name!r} has no version yet.", where=uri, hint="Register one.")
        return versions[-1]
    aliases = sorted(model.aliases)
    close = _nearest(wanted, aliases)
    offer = f"models:/{name}@{close}" if close else f"models:/{name}/{versions[-1] if versions else 1}"
    raise RegistryError(
        f"{wanted!r} is no version of {name!r}. Stages are not supported; use an alias or a number.",
        where=uri,
        hint=f"For example {offer}. Aliases: {_listing(aliases)}. Versions: {_listing(versions)}.",
    )


def _aliased(client: Any, uri: str, name: str, alias: str) -> str:
    from mlflow.exceptions import MlflowException

    if not name or not alias:
        raise RegistryError(f"{uri!r} is no complete model URI.", where=uri, hint=f"Use {KINDS}.")
    try:
        return str(client.get_model_version_by_alias(name, alias).version)
    except MlflowException as error:
        if error_code(error) not in _ABSENT:
            raise
        aliases = sorted(_model(client, uri, name).aliases)
        close = _nearest(alias, aliases)
        hint = f"Aliases that exist: {_listing(aliases)}." if aliases else "It has no alias; set one, or name a version."
        raise RegistryError(
            f"The registered model {name!r} has no alias {alias!r}.",
            where=uri,
            hint=f"Did you mean models:/{name}@{close}? {hint}" if close else hint,
        ) from error


def _logged(client: Any, uri: str, model_id: str, tracking_uri: str | None) -> ModelReference:
    from mlflow.exceptions import MlflowException

    try:
        found = client.get_logged_model(model_id)
    except MlflowException as error:
        if error_code(error) not in _ABSENT:
            raise
        if model_id in _model_names(client):
            raise _without_version(client, uri, model_id) from error
        close = _nearest(model_id, _logged_ids(client))
        raise RegistryError(
            f"There is no logged model {model_id!r}.",
            where=uri,
            hint=f"Did you mean models:/{close}?" if close else "Check the id and the tracking URI.",
        ) from error
    return ModelReference(
        uri,
        f"models:/{model_id}",
        model_id=model_id,
        run_id=found.source_run_id or None,
        tags=dict(found.tags),
        tracking_uri=tracking_uri,
        location=str(found.artifact_location),
    )


def _of_run(uri: str, tracking_uri: str | None) -> ModelReference:
    run_id, _, path = uri.removeprefix("runs:/").strip("/").partition("/")
    if not run_id or not path or not plain_relative(path):
        raise RegistryError(f"{uri!r} is no complete model URI.", where=uri, hint="Write runs:/<run id>/<path of the model>.")
    from mlflow.exceptions import MlflowException

    with session(tracking_uri) as client:
        try:
            run = client.get_run(run_id)
        except MlflowException as error:
            if error_code(error) not in _ABSENT:
                raise
            close = _nearest(run_id, _run_ids(client))
            raise RegistryError(
                f"There is no run {run_id!r}.",
                where=uri,
                hint=f"Did you mean runs:/{close}/{path}?" if close else "Check the id and the tracking URI.",
            ) from error
        resolved = f"runs:/{run_id}/{path}"
        models = _models_of_run(client, run)
        if path in models:
            model = models[path]
            return ModelReference(
                uri,
                resolved,
                model_id=str(model.model_id),
                run_id=run_id,
                tags=dict(model.tags),
                tracking_uri=tracking_uri,
                location=str(model.artifact_location),
            )
        if any(file.path == f"{path}/MLmodel" for file in client.list_artifacts(run_id, path)):
            location = f"{str(run.info.artifact_uri).rstrip('/')}/{path}"
            return ModelReference(uri, resolved, run_id=run_id, tracking_uri=tracking_uri, location=location)
        known = sorted({*models, *(str(file.path) for file in client.list_artifacts(run_id) if file.is_dir)})
        close = _nearest(path, known)
        hint = f"The run has: {_listing(known)}." if known else "The run has no model and no folder at all."
        raise RegistryError(
            f"The run has no model at {path!r}.", where=uri, hint=f"Did you mean runs:/{run_id}/{close}? {hint}" if close else hint
        )


def _models_of_run(client: Any, run: Any) -> dict[str, Any]:
    """The run's logged models by name; of several with one name the newest, as MLflow itself takes it."""
    found: dict[str, Any] = {}
    token: str | None = None
    while True:
        page = client.search_logged_models(
            experiment_ids=[run.info.experiment_id], filter_string=f"source_run_id = '{run.info.run_id}'", page_token=token
        )
        for model in page:
            if model.name not in found or found[model.name].creation_timestamp < model.creation_timestamp:
                found[str(model.name)] = model
        token = page.token
        if not token:
            return found


def _model(client: Any, uri: str, name: str) -> Any:
    """The registered model, or an error that names the nearest one."""
    from mlflow.exceptions import MlflowException

    try:
        return client.get_registered_model(name)
    except MlflowException as error:
        if error_code(error) not in _ABSENT:
            raise
        raise _no_model(client, uri, name) from error


def _no_model(client: Any, uri: str, name: str) -> RegistryError:
    names = _model_names(client)
    close = _nearest(name, names)
    hint = f"Registered models: {_listing(names)}." if names else "The registry is empty; check the tracking URI."
    return RegistryError(f"There is no registered model {name!r}.", where=uri, hint=f"Did you mean {close!r}? {hint}" if close else hint)


def _without_version(client: Any, uri: str, name: str) -> RegistryError:
    model = _model(client, uri, name)
    return RegistryError(
        f"{uri!r} names no version.",
        where=uri,
        hint=f"Write models:/{name}/<version> or models:/{name}@<alias>. Versions: {_listing(_versions(client, name))}. "
        f"Aliases: {_listing(sorted(model.aliases))}.",
    )


def _versions(client: Any, name: str) -> list[str]:
    """All version numbers of a registered model, rising."""
    quote = '"' if "'" in name else "'"
    found: list[int] = []
    token: str | None = None
    while True:
        page = client.search_model_versions(f"name={quote}{name}{quote}", page_token=token)
        found += [int(version.version) for version in page]
        token = page.token
        if not token:
            return [str(number) for number in sorted(found)]


def _model_names(client: Any) -> list[str]:
    return sorted(str(model.name) for model in client.search_registered_models(max_results=_SEARCHED))


def _logged_ids(client: Any) -> list[str]:
    experiments = [experiment.experiment_id for experiment in client.search_experiments(max_results=_SEARCHED)]
    return [str(model.model_id) for model in client.search_logged_models(experiment_ids=experiments)] if experiments else []


def _run_ids(client: Any) -> list[str]:
    experiments = [experiment.experiment_id for experiment in client.search_experiments(max_results=_SEARCHED)]
    return [str(run.info.run_id) for run in client.search_runs(experiments, max_results=_SEARCHED)] if experiments else []


def _nearest(name: str, known: Iterable[str]) -> str | None:
    by_lower = {item.lower(): item for item in known}
    found = nearest(name, by_lower)
    return by_lower[found] if found else None


def _listing(names: list[str]) -> str:
    if not names:
        return "none"
    shown = names[-_LISTED:] if len(names) > _LISTED else names
    more = len(names) - len(shown)
    return f"{', '.join(shown)}{f' and {more} more' if more else ''}"
