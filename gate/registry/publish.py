"""A finished run goes back to MLflow: a run with parameters, metrics and every file, and tags on the version that was tested."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gate.errors import RegistryError
from gate.registry.archive import DEFECTS, DEFECTS_ARCHIVE, pack
from gate.registry.connection import FILES, session
from gate.registry.resolve import ModelReference
from gate.result import Result, Verdict

__all__ = ["TAG_DIGEST", "TAG_POLICY", "TAG_RUN", "TAG_VERDICT", "publish"]

TAG_VERDICT = "gate.verdict"
TAG_POLICY = "gate.policy"
TAG_DIGEST = "gate.digest"
TAG_RUN = "gate.run"

MAX_NAME = 250  # MLflow's limit for the name of a metric
MAX_PARAM = 6000
MAX_TAG = 5000
_BATCH = 500  # metrics in one request; MLflow's limit is 1,000
_UNWANTED = re.compile(r"\.(tmp|lock|part)$|^\.")  # what a run leaves behind while it works


def publish(result: Result, run_folder: Path, reference: ModelReference, *, experiment: str) -> str:
    """Records the run in MLflow.

    An older verdict is taken off the version first. Everything is uploaded before the version is tagged, and the verdict is the last tag to
    be written, so that a tag never speaks of a record that is not whole. Where anything fails, the MLflow run is left marked FAILED with
    the verdict error, and the version without a verdict. Of the folder's defects and flaky findings only the result's own
    travel.

    A version from the registry and a logged model (``models:/m-…``) are tagged; for a model named by its run or its folder only the MLflow
    run itself carries the tags.

    Args:
        reference: the candidate, whose tracking server is written to.
        experiment: the MLflow experiment, made where it does not exist.

    Returns:
        The id of the MLflow run.

    Raises:
        RegistryError: the server can't be reached or refuses.
    """
    server = reference.tracking_uri
    if reference.folder is None:
        with session(server) as client:
            _untag_model(client, reference)
    # A local model may be the first thing its store ever hears of; one from a registry proves that the store is there.
    with session(server, create=reference.folder is not None) as client:
        run_id = str(client.create_run(_experiment(client, experiment), run_name=f"gate {_title(reference)}").info.run_id)
    tags = _tags(result, run_id)
    try:
        with session(server) as client:
            _log_values(client, run_id, result, reference)
        with session(server, patience=FILES) as client:
            flaky = {finding.id for finding in result.quarantine}
            _upload(client, run_id, run_folder, [defect.id for defect in result.defects], flaky)
        with session(server) as client:
            for key, value in {**tags, "gate.candidate": result.candidate.resolved_uri}.items():
                client.set_tag(run_id, key, value[:MAX_TAG])
            client.set_terminated(run_id, "FINISHED")
            _tag_model(client, reference, tags)
    except BaseException:
        # What failed first is what the user must read; that a mark fails too adds nothing.
        with suppress(Exception), session(server) as client:
            client.set_terminated(run_id, "FAILED")
        with suppress(Exception), session(server) as client:
            client.set_tag(run_id, TAG_VERDICT, Verdict.ERROR.value)
        with suppress(Exception), session(server) as client:
            _untag_model(client, reference)
        raise
    return run_id


def _title(reference: ModelReference) -> str:
    if reference.folder is not None:
        return reference.folder.name
    return re.sub(r"^(models|runs):/", "", reference.resolved_uri)


def _tags(result: Result, run_id: str) -> dict[str, str]:
    """The tags in the order in which they are written."""
    return {
        TAG_DIGEST: result.candidate.digest or "",
        TAG_POLICY: result.policy.name if result.policy else "",
        TAG_RUN: run_id,
        TAG_VERDICT: result.verdict.value,
    }


def _experiment(client: Any, name: str) -> str:
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return str(client.create_experiment(name, artifact_location=_beside_the_database(str(client.tracking_uri), name)))
        except MlflowException:
            found = client.get_experiment_by_name(name)  # another run may have made it meanwhile
            if found is None:
                raise
    if found.lifecycle_stage != "active":
        raise RegistryError(
            f"The MLflow experiment {name!r} is deleted.", where=name, hint="Restore it in MLflow, or choose another with `experiment`."
        )
    return str(found.experiment_id)


def _beside_the_database(tracking_uri: str, experiment: str) -> str | None:
    """A SQLite store used without a server keeps artifacts in the working folder unless told otherwise, where CI loses them."""
    if not tracking_uri.startswith("sqlite:"):
        return None
    from sqlalchemy.engine import make_url

    database = make_url(tracking_uri).database
    if not database or database == ":memory:" or database.startswith("file:"):
        return None
    return (Path(database).resolve().parent / "mlruns" / quote(experiment, safe="")).as_uri()


def _log_values(client: Any, run_id: str, result: Result, reference: ModelReference) -> None:
    from mlflow.entities import LoggedModelInput, Metric, Param

    params = {key: str(value)[:MAX_PARAM] for key, value in _params(result).items() if value is not None}
    client.log_batch(run_id, params=[Param(key, value) for key, value in params.items()], synchronous=True)
    if reference.model_id is not None:
        client.log_inputs(run_id, models=[LoggedModelInput(reference.model_id)])
    now = int(time.time() * 1000)
    metrics = [Metric(name, value, now, 0, model_id=reference.model_id) for name, value in _numbers(result)]
    for start in range(0, len(metrics), _BATCH):
        client.log_batch(run_id, metrics=metrics[start : start + _BATCH], synchronous=True)


def _params(result: Result) -> dict[str, Any]:
    campaign = result.campaign
    return {
        "candidate": result.candidate.resolved_uri,
        "candidate_digest": result.candidate.digest,
        "candidate_format": result.candidate.format,
        "baseline": result.baseline.resolved_uri if result.baseline else None,
        "previous": result.previous.source if result.previous else None,
        "policy": result.policy.name if result.policy else None,
        "policy_digest": result.policy.digest if result.policy else None,
        "verdict": result.verdict.value,
        "advisory": result.advisory,
        "partial": result.partial,
        "seed": campaign.seed if campaign else None,
        "executions": campaign.executions if campaign else None,
        "device": campaign.device if campaign else None,
        "stop_reason": campaign.stop_reason if campaign else None,
    }


def _numbers(result: Result) -> Iterator[tuple[str, float]]:
    """Each metric's value under its name, its interval under name.lower and name.upper, what stands beside it under name.<extra>."""
    taken: set[str] = set()
    for name, metric in result.metrics.items():
        parts = {
            "": metric.value,
            ".lower": metric.lower,
            ".upper": metric.upper,
            **{f".{key}": value for key, value in metric.extra.items()},
        }
        for suffix, value in parts.items():
            if value is not None:
                yield _metric_name(f"{name}{suffix}", taken), float(value)


def _metric_name(name: str, taken: set[str]) -> str:
    """A name that MLflow accepts: word characters, dots, dashes, spaces and colons, no odd path, no other metric's name."""
    plain = re.sub(r"[^\w.\- :]", "_", name, flags=re.ASCII)[:MAX_NAME].strip(". ") or "_"
    unique = plain
    count = 2
    while unique in taken:
        unique = f"{plain[: MAX_NAME - 8]}_{count}"
        count += 1
    taken.add(unique)
    return unique


def _upload(client: Any, run_id: str, folder: Path, defects: Collection[str], flaky: Collection[str]) -> None:
    """Every ordinary file of the run's folder, under its own path; links and what a run needs only while it works stay behind.

    The defects travel as one archive: there may be thousands of small files, and the report shows their pictures anyway.
    """
    pending = [folder]
    with tempfile.TemporaryDirectory(prefix="gate-") as private:
        archive = Path(private) / DEFECTS_ARCHIVE
        if (folder / DEFECTS).is_dir() and pack(folder / DEFECTS, archive, defects):
            client.log_artifact(run_id, str(archive))
    while pending:
        here = pending.pop()
        for path in sorted(here.iterdir()):
            if path.is_symlink() or _UNWANTED.search(path.name) or path == folder / DEFECTS:
                continue
            if here == folder / "quarantine" and path.name not in flaky:
                continue  # of an earlier run in this folder
            if path.is_dir():
                pending.append(path)
            elif path.is_file():
                inside = here.relative_to(folder).as_posix()
                client.log_artifact(run_id, str(path), None if inside == "." else inside)


def _untag_model(client: Any, reference: ModelReference) -> None:
    """Takes the verdict off the model."""
    if reference.version is not None:
        if TAG_VERDICT in client.get_model_version(reference.name, reference.version).tags:
            client.delete_model_version_tag(reference.name, reference.version, TAG_VERDICT)
    elif reference.resolved_uri.startswith("models:/m-") and TAG_VERDICT in client.get_logged_model(reference.model_id).tags:
        client.delete_logged_model_tag(reference.model_id, TAG_VERDICT)


def _tag_model(client: Any, reference: ModelReference, tags: dict[str, str]) -> None:
    if reference.version is not None:
        for key, value in tags.items():
            client.set_model_version_tag(reference.name, reference.version, key, value)
    elif reference.resolved_uri.startswith("models:/m-"):
        for key, value in tags.items():
            client.set_logged_model_tags(reference.model_id, {key: value})
