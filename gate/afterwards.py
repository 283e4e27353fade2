"""What can be done with a finished run: judge it again under another policy, and run one of its defects again."""

from __future__ import annotations

import datetime
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from gate.campaign.supervisor import Worker
from gate.config import CoverageSettings, InputSettings
from gate.corpus.export import file_of
from gate.domains.image import picture
from gate.domains.image.limits import Domain
from gate.errors import ConfigError, DataError, EvidenceError, ModelError, OutputError
from gate.metrics.evidence_file import read_evidence
from gate.models.outputs import OutputKind
from gate.oracles import Observation, Switches, panel
from gate.oracles.flaky import answers as kinds
from gate.policy.load import load_policy
from gate.policy.positive import check_positive
from gate.record import judged
from gate.registry.download import download_model
from gate.registry.mlmodel import describe
from gate.registry.resolve import resolve
from gate.report import write
from gate.report.text import NAME, visible
from gate.result import Defect, Result
from gate.strict_yaml import nearest
from gate.triage.attribute import not_to_be_run
from gate.triage.backends import is_backend, run_as_found, way_in_words
from gate.triage.confirm import replay
from gate.triage.on_demand import attribution_lines, look_again, need_empty, write_look
from gate.trust.digest import digest

__all__ = [
    "LoadedModel",
    "Reading",
    "Replayed",
    "evaluate_again",
    "model_of",
    "reading_of",
    "replay_defect",
    "write_elsewhere",
]


class Reading(BaseModel):
    """How a run read its files and its model: ``campaign/reading.json``, so that a defect can be run again without the settings file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: InputSettings
    value_range: tuple[float, float]
    channels: int
    output_kind: OutputKind
    output_key: str | int | None
    tracking_uri: str | None  # without login and query
    address_is_whole: bool = True  # whether it had neither
    layers: Literal["auto"] | tuple[str, ...] = "auto"  # watched; see coverage.layers
    neuron: Literal["mean", "max", "element"] = "mean"  # see coverage.neuron
    oracles: Switches = Switches()  # the policy's, for defects in which the prediction is kept
    domain: Domain | None = None  # the policy's, by which mutants were made; None: of a run that did not say


@dataclass(frozen=True)
class Replayed:
    """What became of a defect when it was run again."""

    lives: bool
    lines: tuple[str, ...]  # for a person


def evaluate_again(folder: Path, policy_name: str, *, advisory: bool | None = None, today: datetime.date | None = None) -> Result:
    """Judges a finished run under another policy without fuzzing; writes nothing. ``today`` decides about waivers; the UTC date where None.

    Raises:
        OutputError: the folder holds no finished run, or its evidence is damaged.
        PolicyError: the policy can't be used, or names positive classes that the run's model does not have.
        EvidenceError: the run ended before there was any evidence to judge.
    """
    result = Result.load(folder)
    policy = load_policy(policy_name)
    path = folder / "campaign" / "evidence.json"
    if not path.is_file():
        raise EvidenceError(
            "The run ended before there was any evidence to judge.", where=str(path), hint="See the run's reasons, then run the gate again."
        )
    try:
        evidence = read_evidence(path)
    except ValidationError as error:
        raise OutputError("The run's evidence is damaged.", where=str(path), hint="Run the gate again.") from error
    except (OSError, ValueError) as error:
        raise OutputError(f"The run's evidence is damaged: {error}.", where=str(path), hint="Run the gate again.") from error
    check_positive(policy, result.classes)
    again = judged(result, evidence, policy, advisory=result.advisory if advisory is None else advisory, today=today)
    if result.policy is None or result.policy.digest == policy.info.digest:
        return again
    said = f"Judged again under policy {policy.info.name}; the campaign was run under policy {result.policy.name}."
    return again.model_copy(update={"reasons": (*again.reasons, said)})


def write_elsewhere(result: Result, run: Path, out: Path) -> None:
    """Writes the renderings of a result, with the pictures of its run, into a new or empty folder.

    Raises:
        OutputError: the folder is not empty or can't be written.
    """
    if out.resolve().is_relative_to(run.resolve()):
        raise OutputError("The output folder lies inside the run's, which stays as it is.", where=str(out), hint="Give another --out.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise OutputError("The output folder is not empty.", where=str(out), hint="Give a new folder with --out.")
        for name in ("defects", "quarantine", "marks", "probes"):
            if (run / name).is_dir():
                shutil.copytree(run / name, out / name)
        (out / "campaign").mkdir()
        for name in ("evidence.json", "reading.json"):
            if (run / "campaign" / name).is_file():
                shutil.copyfile(run / "campaign" / name, out / "campaign" / name)
    except OSError as error:
        raise OutputError(
            f"The output folder can't be written: {error.strerror or error}.", where=str(out), hint="Give another folder with --out."
        ) from error
    write(result, out)


def replay_defect(
    run: Path,
    defect_id: str,
    *,
    model: str | None = None,
    device: str = "auto",
    tracking_uri: str | None = None,
    times: int = 3,
    explain: bool = False,
    out: Path | None = None,
) -> Replayed:
    """Runs the files of one defect again, at batch size 1.

    Args:
        run: folder of the run.
        defect_id: one of its defects, or the beginning of one's id.
        model: another model than the run's candidate, such as its fix.
        device: auto, cpu, cuda or cuda:N.
        tracking_uri: MLflow's; the run's own where None.
        times: how often the mutant is run.
        explain: whether to say which neurons and which part of the picture it comes from.
        out: a new or empty folder for what explaining finds, with pictures.

    Raises:
        DataError: no such defect, or its files are missing.
        GateError: whatever fetching, loading and running a model can raise.
    """
    result = Result.load(run)
    matching = [defect for defect in result.defects if defect.id == defect_id] or [
        defect for defect in result.defects if defect_id and defect.id.startswith(defect_id)
    ]
    if len(matching) != 1:
        close = nearest(defect_id, [defect.id for defect in result.defects])
        raise DataError(
            f"The run has {'no' if not matching else 'more than one'} defect {defect_id!r} among its {len(result.defects)}.",
            where=str(run),
            hint=f"Did you mean {close}?" if close else "See result.json or the report for the ids.",
        )
    defect = matching[0]
    reading = reading_of(run)
    if out is not None:
        need_empty(out)  # before anything takes its time
    with model_of(run, result, reading, model=model, device=device, tracking_uri=tracking_uri) as loaded:
        worker = loaded.worker

        def answers(name: str, count: int, clean: Observation | None = None) -> list[Observation]:
            sample = picture.load(file_of(defect, name, run))
            label = -1 if defect.label is None else defect.label
            if name == "mutant_data" and is_backend(defect):
                return _in_its_way(worker, sample, defect, reading, count)
            known = {} if clean is None else {"before": clean.probabilities, "raw_before": clean.raw}
            return replay(worker, sample, label, reading.output_kind, count, **known)

        original = answers("original_data", 1)[0]
        if defect.label is not None and (original.raised or original.silent):
            raise ModelError(
                f"The model gives {_said(original, result)} on the seed input as well, so it can't be told whether the defect lives.",
                where=loaded.uri,
                hint="Give a model that takes the same inputs as the run's.",
            )
        mutants = answers("mutant_data", times, original if defect.label is not None else None)
        lives = any(_lives(defect, one, reading) for one in mutants)
        explained: tuple[str, ...] = ()
        if explain and lives:
            explained = _explained(worker, run, defect, reading, int(mutants[0].predicted[0]), out)
        elif explain:
            # What would be found is what the answer rests on, which reads like a cause of what is gone.
            explained = ("explained  this model answers the mutant as it should, so that there is nothing to explain",)

    def named(label: int | None) -> str:
        return visible(result.class_name(label), NAME, isolate=False)

    def said(seen: Observation) -> str:
        predicted = int(seen.predicted[0])
        return f"answered with {_said(seen, result)}" if predicted < 0 else f"read as {_said(seen, result)}"

    # A probe was made from nothing: it has no class, and there is no original to run.
    probe = defect.label is None
    operators = " then ".join(str(step["operator"]) for step in defect.recipe)
    whose = (
        f"the probe {visible(defect.seed_id.removeprefix('probe:'), NAME, isolate=False)}"
        if probe
        else f"{named(defect.label)}, after {operators or 'no operator'}"
    )
    way = f" {way_in_words(defect.oracle, defect.detail)}" if is_backend(defect) else ""
    steady = len(kinds(mutants)) == 1
    lines = (
        f"defect     {defect.id}: {whose}",
        f"model      {loaded.uri}",
        *((f"registry   {loaded.remark}",) if loaded.remark else ()),
        *(() if probe else (f"original   {said(original)}",)),
        f"{'probe ' if probe else 'mutant'}     {said(mutants[0])}{way}" + ("" if steady else f"; not the same in {times} runs"),
        f"files      {'  '.join(str(run / defect.files[name]) for name in ('original', 'mutant', 'diff') if name in defect.files)}",
        *explained,
        "the defect lives" if lives else "the defect is gone",
    )
    return Replayed(lives, lines)


def _in_its_way(worker: Worker, sample: np.ndarray, defect: Defect, reading: Reading, times: int) -> list[Observation]:
    """The answers where the model is run as it was when it answered wrongly."""
    label, way = -1 if defect.label is None else defect.label, defect.detail or ""
    seen = []
    for _ in range(times):
        _, answer = run_as_found(worker, sample, defect.oracle, way, label, reading.output_kind, reading.value_range)
        if answer is None:
            raise EvidenceError(
                f"The model gives no answer {way_in_words(defect.oracle, way) or 'on an unknown path'}, so nothing can be said.",
                where=defect.id,
                hint="Replay it on a device as the run's, with --device.",
            )
        seen.append(answer)
    return seen


def _explained(worker: Worker, run: Path, defect: Defect, reading: Reading, predicted: int, out: Path | None) -> tuple[str, ...]:
    """Neurons and heat of a defect that this model reads as ``predicted``, in lines; and in files where there is a folder for them."""
    reason = not_to_be_run(defect)
    if defect.label is None or reason is not None:
        return (f"explained  {reason}",)
    original, mutant = (picture.load(file_of(defect, name, run)) for name in ("original_data", "mutant_data"))
    coverage = CoverageSettings(layers=reading.layers, neuron=reading.neuron, criteria=("nc",))
    seen = None if predicted < 0 else predicted
    look = look_again(worker, original, mutant, label=defect.label, predicted=seen, coverage=coverage, kind=reading.output_kind)
    written = () if out is None else write_look(look, original, mutant, reading.value_range, out)
    return (*attribution_lines(look.attribution), *((f"written    {'  '.join(map(str, written))}",) if written else ()))


def _said(seen: Observation, result: Result) -> str:
    """One answer in words."""
    if seen.raised:
        return f"an exception ({visible(seen.raised[0], NAME, isolate=False)})"
    if seen.silent:
        return "no answer in time"
    predicted = int(seen.predicted[0])
    if predicted < 0:
        return "no finite output"
    return f"{visible(result.class_name(predicted), NAME, isolate=False)} ({float(seen.probabilities[0].max()):.1%})"


def _lives(defect: Defect, seen: Observation, reading: Reading) -> bool:
    """Whether an answer to the defect's file is still wrong: a fault, another class than the label, or what its oracle complains about."""
    predicted = int(seen.predicted[0])
    if defect.label is None or predicted < 0:
        return predicted < 0
    return predicted != defect.label or any(
        oracle.name == defect.oracle and bool(oracle.complains(seen)[0]) for oracle in panel(reading.oracles)
    )


@dataclass(frozen=True)
class LoadedModel:
    """A run's model, or another one read the same way, in a worker."""

    worker: Worker
    uri: str  # resolved
    remark: str  # where the registry's address comes from, where that is worth saying


@contextmanager
def model_of(
    run: Path, result: Result, reading: Reading, *, model: str | None = None, device: str = "auto", tracking_uri: str | None = None
) -> Iterator[LoadedModel]:
    """Starts a worker with a run's model, and ends it.

    Args:
        run: folder of the run.
        result: its record.
        reading: how it read its files and its model.
        model: another model than the run's candidate.
        device: auto, cpu, cuda or cuda:N.
        tracking_uri: MLflow's; the run's own where None.

    Raises:
        ModelError: the candidate is no longer the one that was tested.
        GateError: whatever fetching and loading a model can raise.
    """
    uri = model or result.candidate.resolved_uri
    address, remark = _address(reading, tracking_uri, uri, run)
    reference = resolve(uri, tracking_uri=address)
    with tempfile.TemporaryDirectory(prefix="gate-") as private:
        folder = download_model(reference, Path(private) / "model")
        found = digest(folder)
        if model is None and result.candidate.digest not in (None, found):
            raise ModelError(
                f"The model there is no longer the one that was tested: its digest is {found}, the run's {result.candidate.digest}.",
                where=reference.resolved_uri,
                hint="Bring the tested files back, or run the gate on the new ones; `gate replay` also takes another --model.",
            )
        description = describe(folder)
        with Worker(Path(private) / "worker") as worker:
            parameters = {
                "folder": str(folder),
                "description": description.to_dict(),
                "device": device,
                "reading": reading.input.model_dump(mode="json"),
                "value_range": list(reading.value_range),
                "channels": reading.channels,
                "output_key": reading.output_key,
                "classes": len(result.classes),
                "seed": 0 if result.campaign is None else result.campaign.seed,
            }
            worker.call("load", parameters)
            yield LoadedModel(worker, reference.resolved_uri, remark)


def _address(reading: Reading, given: str | None, uri: str, run: Path) -> tuple[str | None, str]:
    """The tracking address to ask, and what to say about where it comes from."""
    if given or reading.address_is_whole or not uri.startswith(("models:", "runs:")):
        return given or reading.tracking_uri, ""
    # What a login belongs to is kept without it; MLflow reads the variable by itself where no address is given.
    if os.environ.get("MLFLOW_TRACKING_URI"):
        return None, f"from MLFLOW_TRACKING_URI; the run keeps its own ({reading.tracking_uri}) without the login or query it had"
    if os.environ.get("MLFLOW_TRACKING_USERNAME") or os.environ.get("MLFLOW_TRACKING_TOKEN"):
        return reading.tracking_uri, f"{reading.tracking_uri}, with the login of the environment"
    raise ConfigError(
        "The run's tracking address had a login or a query, which is not kept with the run.",
        where=str(run / "campaign" / "reading.json"),
        hint="Give the whole address with --tracking-uri, or set MLFLOW_TRACKING_URI.",
    )


def reading_of(run: Path) -> Reading:
    """How a run read its files and its model.

    Raises:
        OutputError: the folder does not say.
    """
    path = run / "campaign" / "reading.json"
    try:
        return Reading.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise OutputError("The run does not say how it read its files.", where=str(path), hint="Give the whole folder of a run.") from error
