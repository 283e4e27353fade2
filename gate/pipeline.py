"""The whole gate from top to bottom: fetch, load, check, fuzz, triage, measure, judge, report, publish."""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from gate.afterwards import Reading, reading_of
from gate.baseline import BaselineModel
from gate.campaign.batch import Finding
from gate.campaign.budget import Budget, BudgetSpent
from gate.campaign.deadline import Deadline, Interrupted, Stage
from gate.campaign.events import EventLog, Observer
from gate.campaign.fresh_search import fresh_search
from gate.campaign.judging import JudgingArm
from gate.campaign.keeper import Keeper
from gate.campaign.loop import Campaign, Seeds
from gate.campaign.preflight import Preflight, TooFewSeedsError, run_preflight
from gate.campaign.reuse import Reuse
from gate.campaign.run_folder import AnotherCampaignError, RunFolder
from gate.campaign.supervisor import Worker
from gate.campaign.suspects import Suspects
from gate.campaign.validator import Validator
from gate.campaign.wire import MAX_PAYLOAD
from gate.config import BudgetSettings, InputSettings, Settings, kind_of
from gate.corpus.corpus_file import CORPUS, CorpusHead, CorpusWriter, read_corpus
from gate.corpus.export import half_of
from gate.corpus.locate import corpus_of
from gate.coverage.map_file import SEEDS_MAP, MapContents, write_map
from gate.deciding import Ending
from gate.domains.image import picture
from gate.domains.image.dataset import ImageSet, load_images
from gate.domains.image.domain import ImageDomain
from gate.domains.image.signature import complete_input
from gate.errors import ConfigError, DataError, EvidenceError, GateError, ModelError, OutputError, RegistryError
from gate.explaining import begin, conclude, expected_seconds, explain, simplify
from gate.metrics.evidence import (
    CleanEvidence,
    LongTailEvidence,
    RegressionEvidence,
)
from gate.metrics.long_tail_hits import MIN_DEFECTS, MIN_ERRORS
from gate.models.outputs import OutputKind
from gate.opening import open_campaign
from gate.oracles import panel
from gate.paired import PairedJudge, baseline_model, note_known
from gate.planting import plant_canaries, reserve_for_canaries
from gate.policy.doubts import doubts
from gate.policy.load import LoadedPolicy, load_policy
from gate.policy.positive import check_positive
from gate.policy.watched import watched
from gate.record import evidence_of, judged, record, unjudged
from gate.registry.connection import redacted
from gate.registry.download import download_artifact, download_model
from gate.registry.mlmodel import ModelDescription, describe
from gate.registry.previous import fetch_run, previous_run_id
from gate.registry.publish import publish
from gate.registry.resolve import resolve
from gate.report import write
from gate.report.text import visible
from gate.result import (
    DataSetInfo,
    LayerSummary,
    ModelInfo,
    PreviousInfo,
    Result,
    Verdict,
    exit_code_of,
)
from gate.triage.confirm import Confirmer
from gate.triage.long_tail import match, save_matches
from gate.triage.regression import FRESH_MUTANTS, EarlierRun, read_answers, read_earlier, replay_earlier, same_classes
from gate.triage.reproducer import Reader, write_reproducers
from gate.triage.verdicts import Exported, Recurrence, outcomes
from gate.trust.digest import digest
from gate.validating import fetch_validator, validating
from gate.work import Work

__all__ = ["Outcome", "run"]

DEFAULT_BUDGET = BudgetSettings.model_validate({"wall": "10m"})  # where neither the user nor the policy says
LARGEST_BATCH = MAX_PAYLOAD - (1 << 20)  # bytes of samples; their labels travel with them


@dataclass(frozen=True)
class Outcome:
    """A finished run and where it is."""

    result: Result
    folder: Path
    published: str | None = None  # MLflow run id
    publish_problem: str | None = None


@dataclass(frozen=True)
class _Earlier:
    """The run whose defects are replayed."""

    source: str  # as the user gave it, or the baseline's tag
    asked_for: bool  # by the user, and not only found through that tag
    run: EarlierRun


def run(settings: Settings, *, observers: Sequence[Observer] = (), stop: Callable[[], bool] = lambda: False) -> Outcome:
    """Does what ``gate run`` does.

    Args:
        settings: of the run.
        observers: called with every event, such as a progress display.
        stop: asked all the time; True ends the run early, and the result is inconclusive and marked partial.

    Raises:
        GateError: before there is an output folder to write to (exit 2). Later errors become a result with verdict error or inconclusive.
        KeyboardInterrupt: as it came, once the folder says that the run was stopped.
    """
    budget = Budget(settings.budget)
    if settings.model is None:
        raise ConfigError("No model is given.", where="model", hint="Give --model or set model: in gate.yaml.")
    if settings.data.seeds is None:
        raise ConfigError("No seeds are given.", where="data.seeds", hint="Give --seeds or set data.seeds in gate.yaml.")
    policy = load_policy(settings.policy)
    budget.settings = _budget(settings.budget, policy)
    settings = settings.model_copy(update={"coverage": watched(settings.coverage, policy.policy)})
    folder = RunFolder.prepare(Path(settings.out), _identity(settings, policy, budget.settings))
    events = EventLog(folder.path / "events.jsonl", tuple(observers))
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    work = Work(settings, policy, folder, budget, Deadline(budget, stop), events, started_at, environment=_environment())
    events.emit("budget", **budget.settings.model_dump())
    for doubt in doubts(policy, budget.settings, today=datetime.now(UTC).date()):
        events.emit("policy_doubt", rule=doubt.rule, text=doubt.text, where=doubt.where, hint=doubt.hint)
    with work.pause.signals():
        return _carried_out(work)


def _carried_out(work: Work) -> Outcome:
    try:
        with tempfile.TemporaryDirectory(prefix="gate-") as private:
            try:
                result = _evaluate(work, Path(private))
            except AnotherCampaignError:
                raise
            except GateError as error:
                work.interrupted = work.interrupted or isinstance(error, Interrupted)
                result = _failed(work, error)
        return _finish(work, result)
    except AnotherCampaignError:
        raise
    except Exception as error:
        _record_failure(work, error)
        raise
    except KeyboardInterrupt:
        _record_stop(work)
        raise
    finally:
        if work.corpus is not None:
            with contextlib.suppress(OutputError):  # whatever ended the run has been said
                work.corpus.close()
        work.events.close()


# ---------------------------------------------------------------------------------------------------------------------------------
# Fetch and load


def _evaluate(work: Work, private: Path) -> Result:
    settings, deadline, events = work.settings, work.deadline, work.events
    assert settings.model is not None
    deadline.begin("the model was downloaded")
    events.emit("phase", name="fetch")
    work.reference = resolve(settings.model, tracking_uri=settings.tracking_uri)
    work.candidate = ModelInfo(
        uri=settings.model, resolved_uri=work.reference.resolved_uri, name=work.reference.name, version=work.reference.version
    )
    if settings.baseline is not None:
        work.baseline_reference = resolve(settings.baseline, tracking_uri=settings.tracking_uri)
        reference = work.baseline_reference
        work.baseline = ModelInfo(
            uri=settings.baseline, resolved_uri=reference.resolved_uri, name=reference.name, version=reference.version
        )
    model_folder = download_model(work.reference, private / "model")
    description = describe(model_folder)
    work.candidate = work.candidate.model_copy(update={"digest": digest(model_folder), "format": description.format})
    deadline.check()
    deadline.begin("the data was read")
    events.emit("phase", name="data")
    reading = complete_input(settings.input, description.input_shape)
    sets = _load_data(work, reading, private)
    seeds = sets["seeds"]
    earlier = _earlier_run(work, private, seeds)
    work.earlier = None if earlier is None else earlier.run.result
    validator = fetch_validator(settings, private / "validator")
    work.validator = None if validator is None else validator.info
    if settings.corpus is not None:
        work.earlier_corpus = read_corpus(corpus_of(settings.corpus, private / "corpus", tracking_uri=settings.tracking_uri))
    work.folder.settle(_content(work, earlier))
    _batch_fits(settings.batch_size, seeds)
    deadline.check()
    deadline.begin("the worker started")
    events.emit("phase", name="load")
    with _start_worker(work, private / "worker") as worker:
        deadline.begin("the model was loaded")
        loaded = _load_model(work, worker, model_folder, description, reading, seeds)
        deadline.begin("the model was checked")
        events.emit("phase", name="preflight")
        try:
            preflight = run_preflight(
                worker,
                seeds.x,
                seeds.y,
                work.classes,
                settings=reading,
                declared_kind=settings.output.kind,
                training=loaded["training"],
                batch_size=settings.batch_size,
            )
        except TooFewSeedsError as error:
            _take_preflight(work, error.preflight, seeds)
            raise
        _take_preflight(work, preflight, seeds)
        check_positive(work.policy, work.classes)
        _remember_reading(work, reading, seeds, preflight)
        with validating(work, validator, private, seeds) as asked, baseline_model(work, seeds.value_range) as baseline:
            return _fuzz(work, worker, sets, preflight, earlier, asked, baseline)


def _start_worker(work: Work, folder: Path) -> Worker:
    helpers = work.settings.workers - 1
    worker = Keeper(folder, helpers=helpers, deadline=work.deadline) if helpers else Worker(folder, deadline=work.deadline)
    work.budget.hold_device()
    work.events.emit("device")
    return worker


def _load_model(
    work: Work, worker: Worker, folder: Path, description: ModelDescription, reading: InputSettings, seeds: ImageSet
) -> dict[str, Any]:
    parameters = {
        "folder": str(folder),
        "description": description.to_dict(),
        "device": work.settings.device,
        "reading": reading.model_dump(mode="json"),
        "value_range": list(seeds.value_range),
        "channels": int(seeds.x.shape[3]),
        "output_key": work.settings.output.key,
        "classes": len(work.classes) or None,
        "seed": work.settings.seed,
        "amp": work.settings.search.amp,
        "compiled": work.settings.search.compile,
        "threads": work.settings.threads,
    }
    loaded, _ = worker.call("load", parameters)
    work.fingerprint = dict(loaded["fingerprint"])
    return loaded


def _load_data(work: Work, reading: InputSettings, private: Path) -> dict[str, ImageSet]:
    settings = work.settings
    classes = _class_names(settings)
    sets: dict[str, ImageSet] = {}
    for role in ("seeds", "long_tail", "profile"):
        work.deadline.check()
        source = getattr(settings.data, role)
        if source is None:
            continue
        place = Path(source)
        if ":" in source and not place.exists():
            place = download_artifact(source, private / role, tracking_uri=settings.tracking_uri)
        loaded = load_images(
            place, settings=reading, classes=classes, on_bad_file=settings.data.on_bad_file, role=role, check=work.deadline.check
        )
        if role == "seeds":
            # The numbers that occur in an .npz are no class list: the model may know classes that this set lacks.
            classes = classes or (loaded.classes if place.is_dir() else None)
            # Whatever the seeds turned out to be, the other sets have to be the same.
            reading = reading.model_copy(update={"size": loaded.x.shape[1:3], "channels": loaded.x.shape[3]})
        elif loaded.x.dtype != sets["seeds"].x.dtype:
            raise ConfigError(
                f"The {role} set is {loaded.x.dtype} and the seeds are {sets['seeds'].x.dtype}.",
                where=f"data.{role}",
                hint="Store both with the same dtype and value range.",
            )
        sets[role] = loaded
        work.data[role] = DataSetInfo(source=_public(source), samples=len(loaded.x), digest=loaded.digest, skipped=loaded.skipped)
    work.classes = tuple(classes or ())
    return sets


def _batch_fits(batch_size: int, seeds: ImageSet) -> None:
    """One batch is one frame on the wire to the worker."""
    sample = seeds.x[0].nbytes
    if batch_size * sample > LARGEST_BATCH:
        raise ConfigError(
            f"A batch of {batch_size:,} samples of {sample:,} bytes is more than the {LARGEST_BATCH:,} bytes that go to the model at once.",
            where="batch_size",
            hint=f"Set batch_size to at most {max(1, LARGEST_BATCH // sample)}.",
        )


def _remember_reading(work: Work, reading: InputSettings, seeds: ImageSet, preflight: Preflight) -> None:
    said = Reading(
        input=reading,
        value_range=seeds.value_range,
        channels=int(seeds.x.shape[3]),
        output_kind=preflight.output_kind,
        output_key=work.settings.output.key,
        layers=work.settings.coverage.layers,
        neuron=work.settings.coverage.neuron,
        tracking_uri=_public(work.settings.tracking_uri),
        address_is_whole=_public(work.settings.tracking_uri) == work.settings.tracking_uri,
        domain=work.policy.policy.domain,
        oracles=work.policy.policy.oracles,
    )
    (work.folder.campaign / "reading.json").write_text(said.model_dump_json(indent=2) + "\n", encoding="utf-8")


def _class_names(settings: Settings) -> tuple[str, ...] | None:
    if not isinstance(settings.classes, str):
        return None if settings.classes is None else _apart(settings.classes)
    path = Path(settings.classes)
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except (OSError, ValueError) as error:  # a name with a null byte is no path at all
        raise ConfigError(
            f"The class names can't be read: {getattr(error, 'strerror', None) or error}.",
            where=str(path),
            hint="Check the path of `classes`, or write the names as a list.",
        ) from error
    names = tuple(line.strip() for line in lines if line.strip())
    if not names:
        raise ConfigError("The file holds no class names.", where=str(path), hint="Write one name a line.")
    return _apart(names)


def _apart(names: tuple[str, ...]) -> tuple[str, ...]:
    """A name that stands twice (ImageNet has two cranes) gets its number added: defects and root causes are told apart by names."""
    seen: set[str] = set()
    apart = []
    for number, name in enumerate(names):
        apart.append(f"{name} ({number})" if name in seen else name)
        seen.add(apart[-1])
    return tuple(apart)


# ---------------------------------------------------------------------------------------------------------------------------------
# Fuzz and triage


def _take_preflight(work: Work, preflight: Preflight, clean: ImageSet) -> None:
    work.classes, work.preflight, work.preflight_faults = preflight.classes, preflight.checks, preflight.faults
    for check in preflight.checks:
        work.events.emit("preflight", **check.model_dump())
    work.clean = CleanEvidence(
        labels=tuple(map(int, clean.y)),
        correct=tuple(map(bool, preflight.predicted == clean.y)),
        nonfinite=int((preflight.predicted < 0).sum()),
    )


def _fuzz(
    work: Work,
    worker: Worker,
    sets: Mapping[str, ImageSet],
    preflight: Preflight,
    earlier: _Earlier | None,
    validator: Validator | None,
    baseline: BaselineModel | None,
) -> Result:
    clean = sets["seeds"]
    if earlier is not None and not _comparable(work, earlier):
        earlier = work.earlier = None
    rows = np.flatnonzero(preflight.predicted == clean.y)
    ids = tuple(clean.ids[row] for row in rows)
    work.seeds = Seeds(clean.x[rows], clean.y[rows], ids, preflight.probabilities[rows], preflight.raw[rows])
    domain = ImageDomain(work.policy.policy.domain, clean.x.shape[1:], clean.x.dtype, clean.value_range, validator)
    work.deadline.begin("the ranges of the neurons were measured")
    initial = _watch(work, worker, sets.get("profile"), preflight.output_kind)
    work.budget.ready_for_fuzzing()
    if work.budget.settings.wall is not None:
        work.budget.triage = work.seconds_per_sample * _triage_samples(sets.get("long_tail"), earlier)
    work.confirmer = Confirmer(
        worker,
        domain,
        work.seeds.x,
        work.classes,
        work.folder.path,
        preflight.output_kind,
        deterministic=preflight.deterministic,
        mixed=work.settings.search.amp != "off",
        oracles=panel(work.policy.policy.oracles),
        clean=work.seeds.probabilities,
        clean_raw=work.seeds.raw,
    )
    work.deadline.check()
    campaign = _campaign(work, worker, domain, preflight.output_kind, initial, deterministic=preflight.deterministic)
    if work.earlier_corpus is not None:
        names = campaign.search.operators
        work.reuse = Reuse(
            work.earlier_corpus, domain, work.seeds.x, work.seeds.ids, known_ids=clean.ids, operators=names, labels=work.seeds.labels
        )
        campaign.search.reuse = work.reuse
        work.earlier_corpus = None  # of which the plans are enough
    paired = None if baseline is None else PairedJudge(work, domain, baseline, clean, preflight.predicted, sets.get("long_tail"))
    if paired is not None:
        work.budget.pairing = lambda: paired.expected_seconds
        if "long_tail" in sets and work.policy.policy.decide == "early":
            # Flips on it are part of what is looked at while the campaign runs.
            work.deadline.begin("the long-tail set was read")
            work.long_tail = _tail_answers(work, worker, sets["long_tail"], preflight.output_kind)
    campaign.ending = ending = Ending(work, pairs=None if paired is None else paired.update)
    work.events.emit("phase", name="fuzz")
    work.deadline.begin("the campaign ran", Stage.FUZZ)
    reserve_for_canaries(work)
    open_campaign(work, worker, domain, preflight, clean.value_range)
    work.deadline.begin("the campaign ran")
    campaign.run()
    work.interrupted = campaign.outcome.stop_reason == "interrupted"
    work.events.emit("phase", name="triage")
    _save_campaign(work, worker, campaign)
    if paired is not None:
        if (late := _too_late(work, paired.update)) is not None:
            paired.leave_out(late)
        work.budget.pairing = float  # what was not done by now is left out
    ending.conclude()
    plant_canaries(work, worker, domain, preflight)
    begin(work)
    _too_late(work, lambda: simplify(work, worker, domain, preflight))
    if "long_tail" in sets:
        late = _too_late(work, lambda: _long_tail(work, worker, domain, sets["long_tail"], preflight.output_kind))
        if late is not None:
            _without_long_tail(work, f"{late} before the long-tail set was compared")
    if earlier is not None:
        replayed = earlier
        late = _too_late(work, lambda: _regression(work, worker, domain, preflight.output_kind, replayed))
        if late is not None:
            work.regression_reason = f"{late} before the earlier run was replayed"
    ended: str | None = "the run failed"
    try:
        ended = _too_late(work, lambda: explain(work, worker, domain, preflight, baseline))
    finally:
        conclude(work, ended)
        note_known(work)
    work.deadline.begin("the worker was asked what it did", Stage.CLOSE)
    if not worker.given_up:
        with contextlib.suppress(BudgetSpent, Interrupted):
            _note_forward(work, described := worker.call("describe")[0])
            work.model_calls = int(described["model_calls"])
    return _measured(work)


def _triage_samples(tail: ImageSet | None, earlier: _Earlier | None) -> int:
    """Samples that triage may run through the model: outputs and features of the long-tail set; files, seeds and fresh mutants."""
    replayed = 0 if earlier is None else (2 + FRESH_MUTANTS) * len(earlier.run.result.defects)
    return replayed + (0 if tail is None else 2 * len(tail.x))


def _too_late(work: Work, part: Callable[[], None]) -> str | None:
    """Does a part of triage; where the time is up or somebody said stop, it is left out, and the answer is what happened."""
    work.deadline.begin("what was found was compared", Stage.AFTER)
    try:
        work.deadline.check()
        part()
    except BudgetSpent:
        return "the budget ended"
    except Interrupted:
        work.interrupted = True
        return "the run was interrupted"
    return None


def _without_long_tail(work: Work, reason: str) -> None:
    if work.long_tail is None:
        work.long_tail_reason = reason
    else:
        work.long_tail = work.long_tail.model_copy(update={"reason": reason})


def _watch(work: Work, worker: Worker, profile: ImageSet | None, output_kind: OutputKind) -> dict[str, float]:
    """Chooses layers, measures ranges on the profile set, takes the seeds' coverage; returns it by criterion."""
    assert work.seeds is not None
    settings = work.settings
    chosen = settings.coverage
    parameters = {"coverage": chosen.model_dump(mode="json"), "kind": str(output_kind)}
    watched, _ = worker.call("watch", parameters, {"x": work.seeds.x[:3]})
    work.gradients, work.steerable = bool(watched["gradients"]), bool(watched["steerable"])
    work.events.emit("layers", layers=watched["layers"], gradients=work.gradients, steerable=work.steerable)
    work.fingerprint["layers"] = list(watched["layers"])
    profiled, labels = (work.seeds.x, work.seeds.labels) if profile is None else (profile.x, profile.y)
    started = time.monotonic()
    for start in range(0, len(profiled), settings.batch_size):
        rows = slice(start, start + settings.batch_size)
        worker.call("profile", {}, {"x": profiled[rows], "y": labels[rows]})
    # Not the pass over the seeds: where they are the profile set, the worker still knows what they gave.
    work.seconds_per_sample = (time.monotonic() - started) / len(profiled)
    for start in range(0, len(work.seeds.x), settings.batch_size):
        worker.call("cover_seeds", {}, {"x": work.seeds.x[start : start + settings.batch_size]})
    _note_forward(work, worker.call("describe")[0])
    initial, _ = worker.call("open_arms", {"arms": ["search", "random", "noise"]})
    fields, arrays = worker.call("coverage_state")  # before anything has run: of the seed inputs alone
    assert work.candidate is not None
    assert work.candidate.digest is not None
    contents = MapContents(work.candidate.digest, _profile_digest(work), fields["criteria"], arrays)
    write_map(work.folder.campaign / SEEDS_MAP, contents)
    work.layers = tuple(LayerSummary.model_validate(layer) for layer in initial["layers"])
    work.coverage = worker.call("coverage")[0]["criteria"]
    return {name: float(value) for name, value in initial["coverage"].items()}


def _note_forward(work: Work, described: Mapping[str, Any]) -> None:
    """How the model runs by now: what changes the last bits of its answers belongs to the fingerprint, and is told where it changes."""
    said = {"compile": described["compile"]} if work.settings.search.compile else {}
    said |= {name: described[name] for name in ("micro_batch", "gradient_batch") if described[name] is not None}
    if any(work.fingerprint.get(name) != value for name, value in said.items()):
        work.events.emit("forward", **said)
    work.fingerprint.update(said)


def _campaign(
    work: Work,
    worker: Worker,
    domain: ImageDomain,
    output_kind: OutputKind,
    initial: dict[str, float],
    *,
    deterministic: bool,
) -> Campaign:
    assert work.seeds is not None
    assert work.confirmer is not None
    settings, policy, seeds = work.settings, work.policy.policy, work.seeds
    half = settings.data.judge_half
    # Before the others, for it refuses pictures that no natural operator is left for.
    asked = policy.judging
    work.judging = JudgingArm(
        domain, seeds.x, seeds.ids, asked.mutants_per_seed, settings.seed, half=half, repeat=asked.repeat, aggregate=asked.aggregate
    )
    head = CorpusHead(seeds.x.shape[1:], str(seeds.x.dtype), domain.value_range, work.data["seeds"].digest)
    work.corpus = CorpusWriter(work.folder.campaign / CORPUS, head)
    search = fresh_search(
        worker,
        domain,
        seeds,
        settings=settings.search,
        campaign_seed=settings.seed,
        gradients=work.gradients,
        steerable=work.steerable,
        deterministic=deterministic,
        batch_size=settings.batch_size,
        memory=settings.corpus_memory << 20,
        file=work.corpus,
    )
    work.events.emit("strategies", names=list(search.entries.names), left_out=search.entries.left_out)
    work.campaign = Campaign(
        worker=worker,
        domain=domain,
        seeds=seeds,
        search=search,
        judging=work.judging,
        shares={"judging": policy.arms.judging, "random": policy.arms.random, "noise": policy.arms.noise},
        budget=work.budget,
        batch_size=settings.batch_size,
        output_kind=output_kind,
        initial=initial,
        coverage=settings.coverage,
        events=work.events,
        confirm=lambda finding: _confirm(work, finding),
        stop=lambda: work.deadline.stopped,
        campaign_seed=settings.seed,
        mixed=settings.search.amp != "off",
        pause=work.pause,
        oracles=panel(policy.oracles),
        suspects=Suspects(work.folder.campaign / "suspects"),
    )
    work.fingerprint.update(batch_size=settings.batch_size, step_size=work.campaign.step_size)
    return work.campaign


def _confirm(work: Work, finding: Finding) -> bool:
    assert work.confirmer is not None
    before = len(work.confirmer.defects)
    confirmed = work.confirmer.confirm(finding)
    for defect in work.confirmer.defects[before:]:
        said = {"arm": defect.arm, "label": defect.label, "predicted": defect.predicted, "families": list(defect.families)}
        work.events.emit("defect", id=defect.id, **said)
    work.budget.explaining = expected_seconds(work)
    return confirmed


def _long_tail(work: Work, worker: Worker, domain: ImageDomain, tail: ImageSet, output_kind: OutputKind) -> None:
    """Predictions on the long-tail set, and which natural defects have a counterpart there."""
    assert work.seeds is not None
    assert work.confirmer is not None
    settings, seeds = work.settings, work.seeds
    evidence = work.long_tail or _tail_answers(work, worker, tail, output_kind)
    predicted = np.array(evidence.predicted, dtype=np.int64)
    wrong = np.flatnonzero((predicted != tail.y) & (predicted >= 0))
    # Of which another class was predicted: what kept its prediction has no such failure that could occur elsewhere.
    # And whatever arm found it first: merging keeps the simplest, which may be another arm's.
    searched = [d for d in work.confirmer.defects if d.label is not None and "search" in work.confirmer.found_by[d.id]]
    defects = [d for d in searched if d.natural and d.predicted not in (None, d.label)]
    if len(defects) < MIN_DEFECTS or len(wrong) < MIN_ERRORS:
        work.long_tail = evidence
        return
    work.long_tail = evidence.model_copy(update={"reason": "the comparison did not end"})

    def features(x: np.ndarray) -> np.ndarray:
        size = settings.batch_size
        return np.concatenate([worker.call("features", {}, {"x": x[i : i + size]})[1]["features"] for i in range(0, len(x), size)])

    mutants = np.stack([domain.load(work.folder.path / defect.files["mutant_data"]) for defect in defects])
    try:
        matched = match(
            clean=features(seeds.x),
            clean_labels=seeds.labels,
            tail=features(tail.x[wrong]),
            tail_pairs=[(int(tail.y[row]), int(predicted[row])) for row in wrong],
            defects=features(mutants),
            defect_pairs=[(int(defect.label or 0), int(defect.predicted or 0)) for defect in defects],  # of the search: both are known
            seed=settings.seed,
        )
    except (ValueError, ModelError) as error:
        work.long_tail = evidence.model_copy(update={"reason": str(error).splitlines()[0]})
        return
    work.long_tail = evidence.model_copy(update={"radius": matched.radius, "chance": matched.chance})
    work.long_tail_hits = {defect.id: hit for defect, hit in zip(defects, matched.hits, strict=True)}
    save_matches(
        work.confirmer.defects,
        {defect.id: row for defect, row in zip(defects, matched.nearest, strict=True)},
        samples=tail.x[wrong],
        kinds=[tail.kinds[row] for row in wrong] if tail.kinds else [],
        domain=domain,
        folder=work.folder.path,
    )


def _tail_answers(work: Work, worker: Worker, tail: ImageSet, output_kind: OutputKind) -> LongTailEvidence:
    predicted = read_answers(worker, tail.x, output_kind, work.settings.batch_size)
    return LongTailEvidence(labels=tuple(map(int, tail.y)), predicted=tuple(map(int, predicted)), kinds=tuple(tail.kinds or ()))


def _earlier_run(work: Work, private: Path, seeds: ImageSet) -> _Earlier | None:
    """The run whose defects are replayed, fetched before anything is fuzzed; None where there is none, and ``work`` says why."""
    settings = work.settings
    source = settings.previous
    if source == "none":
        work.regression_reason = "no earlier run was asked for (previous: none)"
        return None
    if source == "auto":
        run_id = previous_run_id(work.baseline_reference) if work.baseline_reference is not None else None
        if run_id is None:
            work.regression_reason = (
                "no earlier run was given with --previous"
                if work.baseline_reference is None
                else "no earlier run was given with --previous, and the baseline carries no gate.run tag"
            )
            return None
        source = f"runs:/{run_id}"
    asked_for = settings.previous != "auto"
    try:
        folder = fetch_run(source, private / "previous", tracking_uri=settings.tracking_uri)
        earlier = _Earlier(_public(source), asked_for, read_earlier(folder, picture.load, seeds.x.shape[1:], seeds.x.dtype))
    except (RegistryError, DataError, OutputError) as error:
        if asked_for:
            raise
        work.regression_reason = _no_use(error)
        return None
    # The model may name the classes that are not known yet.
    return earlier if not work.classes or _comparable(work, earlier) else None


def _comparable(work: Work, earlier: _Earlier) -> bool:
    """Whether the earlier run has the same classes; an error where it was the user who asked for it."""
    try:
        same_classes(earlier.run, work.classes)
    except DataError as error:
        if earlier.asked_for:
            raise
        work.regression_reason = _no_use(error)
        return False
    return True


def _no_use(error: GateError) -> str:
    """Nobody named this run: that it can't be replayed is no reason to refuse every version that comes after."""
    return f"the run that the baseline's gate.run tag names is of no use: {error.what}"


def _regression(work: Work, worker: Worker, domain: ImageDomain, output_kind: OutputKind, earlier: _Earlier) -> None:
    """Replays the earlier run's defects."""
    assert work.seeds is not None
    recurrences = replay_earlier(
        earlier.run,
        worker=worker,
        domain=domain,
        seeds=work.seeds,
        classes=work.classes,
        output_kind=output_kind,
        batch_size=work.settings.batch_size,
        campaign_seed=work.settings.seed,
        check=work.deadline.check,
        switches=work.policy.policy.oracles,
    )
    _take_recurrences(work, earlier.source, earlier.run.result, recurrences)


def _take_recurrences(work: Work, source: str, earlier: Result, recurrences: Sequence[Recurrence]) -> None:
    others: dict[str, Exported] = {"a": "b", "b": "a"}
    exported = others.get(work.settings.data.judge_half, "all")  # what is judged was not trained on
    work.regression = RegressionEvidence(
        source=source,
        recurs={one.defect.id: one.why for one in recurrences},
        root_cause={one.defect.id: one.defect.root_cause for one in recurrences},
        half={one.defect.id: half_of(one.defect.seed_id) for one in recurrences},
        became={cause: one.word for cause, one in outcomes(recurrences, exported).items()},
    )
    recurring = tuple(one.defect.id for one in recurrences if one.why is not None)
    work.previous = PreviousInfo(
        source=source,
        verdict=earlier.verdict,
        candidate=earlier.candidate.resolved_uri,
        defects=len(recurrences),
        remaining=len(recurring),
        recurring=recurring,
        digest=earlier.digest,
    )
    work.events.emit("regression", defects=len(recurrences), recurring=len(recurring))


def _save_campaign(work: Work, worker: Worker, campaign: Campaign) -> None:
    """Corpus and coverage. A worker that could not be waited for took its map with it; then only the numbers are known."""
    assert work.seeds is not None
    work.deadline.begin("coverage was saved", Stage.CLOSE)
    assert work.corpus is not None
    work.corpus.close()
    if work.reuse is not None:
        work.events.emit("corpus", **work.reuse.summary())
    path = work.folder.campaign / "coverage.map"
    path.unlink(missing_ok=True)
    if not worker.given_up:
        with contextlib.suppress(BudgetSpent, Interrupted):
            work.coverage = worker.call("coverage")[0]["criteria"]
            fields, arrays = worker.call("coverage_state")
            assert work.candidate is not None
            assert work.candidate.digest is not None
            write_map(path, MapContents(work.candidate.digest, _profile_digest(work), fields["criteria"], arrays))
    if worker.given_up:
        # What is known of the seeds stays (the neurons that gave no finite value), but for what has changed since.
        for name, value in campaign.outcome.final.items():
            seeds = work.coverage[name]
            kind, total = kind_of(name), seeds["total"]
            if kind == "statistic":
                covered = seeds["covered"] + campaign.outcome.counts["search"].valid
            else:
                covered = round(value) if kind == "count" else round(value * total)
            work.coverage[name] = {**seeds, "covered": covered, "by_layer": {}, "by_class": [], "unreached": []}
    work.events.emit("saved", corpus=len(campaign.search.corpus), coverage=path.name if path.exists() else None)


def _profile_digest(work: Work) -> str:
    """Of the profile set and of what makes neurons' outputs of it: coverage that differs in either can't be joined."""
    said = {
        "data": work.data["profile" if "profile" in work.data else "seeds"].digest,
        "input": work.settings.input.model_dump(mode="json"),
        "neuron": work.settings.coverage.neuron,
    }
    return "sha256:" + hashlib.sha256(json.dumps(said, sort_keys=True).encode("ascii")).hexdigest()


# ---------------------------------------------------------------------------------------------------------------------------------
# Measure, judge, report, publish


def _measured(work: Work) -> Result:
    evidence = evidence_of(work)
    (work.folder.campaign / "evidence.json").write_text(evidence.model_dump_json() + "\n", encoding="utf-8")
    return judged(record(work, Verdict.INCONCLUSIVE, ()), evidence, work.policy, advisory=work.settings.advisory)


def _failed(work: Work, error: GateError) -> Result:
    """The record of a run that could not be judged; whatever was found until then is in it."""
    verdict = Verdict.INCONCLUSIVE if isinstance(error, EvidenceError) else Verdict.ERROR
    where = f" ({error.where})" if error.where else ""
    last_words = (f"Last words: {' / '.join(error.details.splitlines()[-4:])}",) if error.details else ()
    result = unjudged(work, verdict, (f"{error.what}{where}", *last_words))
    code = result.exit_code if verdict is Verdict.INCONCLUSIVE else error.exit_code
    hint = (error.hint,) if error.hint else ()
    work.events.emit("error", kind=type(error).__name__, what=error.what, where=error.where, details=error.details)
    return result.model_copy(update={"exit_code": code, "next_steps": hint})


def _record_failure(work: Work, error: Exception) -> None:
    """An error nobody foresaw: recorded as such before it is raised, so that a folder never looks like a run that passed."""
    what = error.what if isinstance(error, GateError) else f"The gate itself failed: {type(error).__name__}: {error}"
    code = error.exit_code if isinstance(error, GateError) else 3
    result = unjudged(work, Verdict.ERROR, (what,), trusted=False).model_copy(update={"exit_code": code})
    # The error that is already on its way must be told; what fails beside it, as on a full disk, must not leave a verdict behind.
    with contextlib.suppress(OSError):
        (work.folder.path / "result.json").unlink(missing_ok=True)
    with contextlib.suppress(Exception):
        write(result, work.folder.path)
    if work.reference is not None and _wants_publishing(work):
        with contextlib.suppress(Exception):
            publish(result, work.folder.path, work.reference, experiment=work.settings.experiment)


def _record_stop(work: Work) -> None:
    """Somebody did not want to wait: whatever has been written says so, also where it had been a verdict already."""
    work.interrupted = True
    if work.campaign is not None and work.campaign.outcome.stop_reason == "error":
        work.campaign.outcome.stop_reason = "interrupted"
    reason = f"The run was interrupted while {work.deadline.doing}, and stopped at once."
    result = unjudged(work, Verdict.INCONCLUSIVE, (reason,), trusted=False)
    work.folder.forget_earlier()
    # An interrupted process exits with 4, advisory or not.
    write(result.model_copy(update={"exit_code": exit_code_of(Verdict.INCONCLUSIVE)}), work.folder.path)


def _finish(work: Work, result: Result) -> Outcome:
    work.deadline.begin("the reports were written")
    work.events.emit("phase", name="report")
    work.folder.forget_earlier()
    result = _with_reproducers(work, result)  # which the report names
    write(result, work.folder.path)
    if result.campaign is not None and result.verdict is not Verdict.ERROR and not result.partial:
        work.folder.drop_other_defects({defect.id for defect in result.defects})
        work.folder.drop_other_flaky({finding.id for finding in result.quarantine})
    published, problem = None, None
    if work.reference is not None and _wants_publishing(work):
        work.deadline.begin("the result was published")
        work.events.emit("phase", name="publish")
        try:
            published = publish(result, work.folder.path, work.reference, experiment=work.settings.experiment)
        except RegistryError as error:
            # What can't be recorded in the registry was not evaluated as far as anybody who looks there can tell.
            problem = "\n".join(visible(line, isolate=False) for line in error.lines)
            result = result.model_copy(
                update={
                    "verdict": Verdict.ERROR,
                    "exit_code": RegistryError.exit_code,
                    "reasons": (f"The result could not be recorded in the registry: {error.what}", *result.reasons),
                }
            )
            write(result, work.folder.path)
    work.events.emit("verdict", verdict=str(result.verdict), exit_code=result.exit_code, reasons=list(result.reasons))
    return Outcome(result, work.folder.path, published, problem)


def _with_reproducers(work: Work, result: Result) -> Result:
    """Writes the reproducers. The report is worth more than they are, so whatever goes wrong there is said in it and ends nothing."""
    try:
        _write_reproducers(work, result)
    except Exception as error:
        what = error.what if isinstance(error, GateError) else f"{type(error).__name__}: {error}"
        problem = f"Some defects lack their reproducer (test_defect.py), which could not be written: {what.rstrip('.')}."
        work.events.emit("reproducers", problem=problem)
        return result.model_copy(update={"next_steps": (*result.next_steps, problem)})
    return result


def _write_reproducers(work: Work, result: Result) -> None:
    if not result.defects:
        return
    reading, asked = reading_of(work.folder.path), work.policy.policy.oracles
    reader = Reader(
        model=result.candidate.resolved_uri,
        tracking_uri=reading.tracking_uri,
        input=reading.input,
        value_range=reading.value_range,
        kind=reading.output_kind,
        key=reading.output_key,
        classes=len(result.classes),
        collapse=asked.confidence_collapse.below,
        saturated=asked.saturated.above,
    )
    write_reproducers(work.folder.path, result.defects, reader)


def _wants_publishing(work: Work) -> bool:
    if work.settings.publish is not None:
        return work.settings.publish
    return work.reference is not None and work.reference.folder is None


def _budget(given: BudgetSettings, policy: LoadedPolicy) -> BudgetSettings:
    if given.wall is None and given.executions is None and given.device is None:
        return policy.policy.budget or DEFAULT_BUDGET
    return given


def _identity(settings: Settings, policy: LoadedPolicy, budget: BudgetSettings) -> dict[str, Any]:
    said = settings.model_dump(mode="json", exclude={"out", "publish", "advisory", "experiment", "policy", "budget", "workers"})
    identity: dict[str, Any] = _public({**said, "policy": policy.info.digest, "budget": budget.model_dump(mode="json")})
    return identity


def _content(work: Work, earlier: _Earlier | None) -> dict[str, Any]:
    """What the names in the settings stand for in this run."""
    assert work.candidate is not None
    content: dict[str, Any] = {"model": [work.candidate.resolved_uri, work.candidate.digest]}
    if work.baseline is not None:
        content["baseline"] = work.baseline.resolved_uri
    content |= {role.replace("_", " ") + " set": said.digest for role, said in work.data.items()}
    if work.validator is not None:
        content["validator"] = [work.validator.resolved_uri, work.validator.digest]
    if earlier is not None:
        content["earlier run"] = hashlib.sha256(earlier.run.result.to_json().encode()).hexdigest()
    if work.earlier_corpus is not None:
        content["earlier corpus"] = work.earlier_corpus.check
    public: dict[str, Any] = _public(content)
    return public


def _public(value: Any) -> Any:
    """The same without the user names, passwords and queries that addresses may hold: a run's files are uploaded and kept."""
    if isinstance(value, dict):
        return {key: _public(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_public(item) for item in value]
    return redacted(value) if isinstance(value, str) and "://" in value else value


def _environment() -> dict[str, Any]:
    def installed(name: str) -> str | None:
        try:
            return version(name)
        except PackageNotFoundError:
            return None

    names = ("fuzzgate", "torch", "torchvision", "mlflow", "albumentations", "foolbox", "numpy")
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        **{name: installed(name) for name in names},
    }
