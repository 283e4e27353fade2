"""``gate regress``: a run's defects on another model, and whether that model was fixed or has learnt the files by heart."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, cast

import numpy as np

from gate.afterwards import LoadedModel, Reading, model_of, reading_of
from gate.campaign.supervisor import Refused, Worker
from gate.campaign.wire import Arrays
from gate.corpus.export import file_of
from gate.domains.image import picture
from gate.domains.image.dataset import load_images
from gate.domains.image.domain import ImageDomain
from gate.errors import DataError, ModelError, WorkerError
from gate.metrics.intervals import exact_share
from gate.models.outputs import OutputKind
from gate.result import Result
from gate.triage.regression import FRESH_MUTANTS, EarlierRun, SeedInputs, read_answers, read_earlier, replay_all
from gate.triage.verdicts import Exported, Outcome, Recurrence, Word, outcomes, was_exported

__all__ = ["FRESH_OF_A_CAUSE", "CauseRegressed", "Regressed", "regress"]

FRESH_OF_A_CAUSE = 32  # fresh mutants of each root cause, at least: none failing then means less than 11 % at 95 % confidence
CONFIDENCE = 0.95
_MOST_RESTARTS = 40  # a model that ends its process again and again is not worth waiting for
_PATIENCE = 120.0  # seconds that a batch may take; a defect may be that it hangs


@dataclass(frozen=True)
class CauseRegressed:
    """One root cause on the new model. Pairs are (failed, of)."""

    id: str
    title: str
    verdict: Word
    recurring: tuple[int, int]  # defects
    exported: tuple[int, int]  # defects of the exported half whose file or seed input fails
    held_back: tuple[int, int]  # those of the other half
    fresh: tuple[int, int]  # fresh mutants
    fresh_interval: tuple[float, float] | None  # exact; None where there are none


@dataclass(frozen=True)
class Regressed:
    """What became of a run's defects on another model."""

    run: str
    model: str  # resolved URI
    remark: str  # where the registry's address comes from, where that is worth saying
    exported: Exported
    fresh_from: Literal["seeds", "originals"]  # what fresh mutants were made of: the seeds given, or the defects' own seed inputs
    seed_inputs: int  # of them: not exported, and classified correctly by the new model
    defects: int
    recurring: int
    rate: float | None  # ``regression_rate``; None where the run has no defect
    interval: tuple[float, float] | None  # exact, at 95 %
    ways: Mapping[str, int]  # how they recur: file, seed, fresh
    recurs: Mapping[str, Literal["file", "seed", "fresh"] | None]  # by defect
    causes: tuple[CauseRegressed, ...]  # the worst first

    @property
    def fixed(self) -> bool:
        """Whether nothing is left: no root cause is still there or memorised."""
        return not any(cause.verdict in ("still there", "memorised") for cause in self.causes)

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {"schema": "gate.regress/1", "fixed": self.fixed, **asdict(self)}


def regress(
    run: Path,
    model: str,
    *,
    exported: Exported = "a",
    seeds: Path | None = None,
    device: str = "auto",
    tracking_uri: str | None = None,
    batch_size: int = 128,
) -> Regressed:
    """Replays a run's defects on another model as ``regression_rate`` defines it, with fresh mutants of every root cause.

    Args:
        run: folder of the run.
        model: URI or folder of the model.
        exported: the half of the seed inputs whose defects may have been trained on. Fresh mutants start from the others.
        seeds: clean labelled samples to start fresh mutants from; None: the seed inputs of the run's own defects.
        device: auto, cpu, cuda or cuda:N.
        tracking_uri: MLflow's; the run's own where None.
        batch_size: samples in one forward pass.

    Raises:
        OutputError: the folder holds no finished run.
        DataError: its files are missing, or the seeds are of another kind.
        ModelError: the model gives no finite answer on any seed input.
        GateError: whatever fetching, loading and running a model can raise.
    """
    result, reading = Result.load(run), reading_of(run)
    if reading.domain is None:
        raise DataError("The run does not say by which limits its mutants were made.", where=str(run), hint="Run the gate again.")
    earlier = _defects_of(run, result)
    shape, dtype = earlier.mutants.shape[1:], earlier.mutants.dtype
    given = None if seeds is None or not result.defects else _given(seeds, result, reading, exported, shape, dtype)
    pool = _originals(earlier, exported) if given is None else given
    with _Sturdy(run, result, reading, model, device, tracking_uri) as loaded:
        worker = cast(Worker, loaded)
        _answers_some(earlier, worker, reading.output_kind, batch_size, loaded.uri)
        right = _right(pool, worker, reading.output_kind, batch_size)
        recurrences: Sequence[Recurrence] = ()
        if result.defects:
            height, width, channels = (int(side) for side in shape)
            domain = ImageDomain(reading.domain, (height, width, channels), dtype, reading.value_range)
            sizes = Counter(defect.root_cause for defect in result.defects)
            by_class = {int(label): np.flatnonzero(right.labels == label).tolist() for label in np.unique(right.labels)}
            recurrences = replay_all(
                earlier,
                worker=worker,
                domain=domain,
                seeds=right,
                rows_for=lambda defect: by_class.get(-1 if defect.label is None else defect.label, []),
                output_kind=reading.output_kind,
                batch_size=batch_size,
                campaign_seed=0 if result.campaign is None else result.campaign.seed,
                switches=reading.oracles,
                fresh=lambda defect: max(FRESH_MUTANTS, math.ceil(FRESH_OF_A_CAUSE / sizes[defect.root_cause])),
            )
        uri, remark = loaded.uri, loaded.remark
    recurring = sum(one.why is not None for one in recurrences)
    ways = Counter(one.why for one in recurrences if one.why is not None)
    return Regressed(
        run=str(run),
        model=uri,
        remark=remark,
        exported=exported,
        fresh_from="originals" if given is None else "seeds",
        seed_inputs=len(right.ids),
        defects=len(recurrences),
        recurring=recurring,
        rate=recurring / len(recurrences) if recurrences else None,
        interval=exact_share(recurring, len(recurrences), CONFIDENCE) if recurrences else None,
        ways={way: ways[way] for way in ("file", "seed", "fresh")},
        recurs={one.defect.id: one.why for one in recurrences},
        causes=_causes(result, outcomes(recurrences, exported)),
    )


def _defects_of(run: Path, result: Result) -> EarlierRun:
    if not result.defects:
        return EarlierRun(result, run, np.empty((0, 1, 1, 1), np.uint8), np.empty((0, 1, 1, 1), np.uint8))
    first = picture.load(file_of(result.defects[0], "mutant_data", run))
    return read_earlier(run, picture.load, first.shape, first.dtype)


def _originals(earlier: EarlierRun, exported: Exported) -> SeedInputs:
    """The defects' own seed inputs, each once, of those that were not exported."""
    rows: dict[str, int] = {}
    for row, defect in enumerate(earlier.result.defects):
        if defect.label is not None and not was_exported(defect.seed_id, exported):
            rows.setdefault(defect.seed_id, row)
    labels = np.array([earlier.result.defects[row].label for row in rows.values()], dtype=np.int64)
    return SeedInputs(earlier.originals[list(rows.values())], labels, tuple(rows))


def _given(seeds: Path, result: Result, reading: Reading, exported: Exported, shape: tuple[int, ...], dtype: np.dtype[Any]) -> SeedInputs:
    """Those given that were not exported: of the other half, or, where both halves were, those that no defect comes from."""
    images = load_images(seeds, settings=reading.input, classes=result.classes or None, on_bad_file="error", role="seeds")
    if images.x.shape[1:] != shape or images.x.dtype != dtype:
        raise DataError(
            f"The seeds are {images.x.dtype} {list(images.x.shape[1:])}; the run's defects are {dtype} {list(shape)}.",
            where=str(seeds),
            hint="Give the seeds of the run.",
        )
    used = {defect.seed_id for defect in result.defects}
    rows = [row for row, name in enumerate(images.ids) if (name not in used if exported == "all" else not was_exported(name, exported))]
    return SeedInputs(images.x[rows], images.y[rows], tuple(images.ids[row] for row in rows))


def _answers_some(earlier: EarlierRun, worker: Worker, output_kind: OutputKind, batch_size: int, uri: str) -> None:
    """Refuses a model that answers nothing, as one does that takes other inputs: of that, no defect could be told to be still there."""
    rows = [row for row, defect in enumerate(earlier.result.defects) if defect.label is not None]
    if rows and (read_answers(worker, earlier.originals[rows], output_kind, batch_size) < 0).all():
        raise ModelError(
            "The model gives no finite answer on any of the defects' seed inputs, so it can't be told whether they live.",
            where=uri,
            hint="Give a model that takes the same inputs as the run's.",
        )


def _right(pool: SeedInputs, worker: Worker, output_kind: OutputKind, batch_size: int) -> SeedInputs:
    """Those that the new model classifies correctly: a mutant of another says nothing about the mutation."""
    rows = np.flatnonzero(read_answers(worker, pool.x, output_kind, batch_size) == pool.labels)
    return SeedInputs(pool.x[rows], pool.labels[rows], tuple(pool.ids[row] for row in rows))


def _causes(result: Result, found: Mapping[str, Outcome]) -> tuple[CauseRegressed, ...]:
    titles = {cause.id: cause.title for cause in result.root_causes}
    order: tuple[Word, ...] = ("still there", "memorised", "unknown", "fixed")
    causes = [
        CauseRegressed(
            id=one.root_cause,
            title=titles.get(one.root_cause, one.root_cause),
            verdict=one.word,
            recurring=one.recurring,
            exported=one.exported,
            held_back=one.held_back,
            fresh=one.fresh,
            fresh_interval=exact_share(*one.fresh, CONFIDENCE) if one.fresh[1] else None,
        )
        for one in found.values()
    ]
    return tuple(sorted(causes, key=lambda cause: (order.index(cause.verdict), -cause.recurring[1], cause.id)))


class _Sturdy:
    """The new model in a worker that is started again when the model ends it or hangs; whoever asked gets the same as from an exception.

    Args:
        run, result, reading, model, device, tracking_uri: of ``model_of``.
    """

    def __init__(self, run: Path, result: Result, reading: Reading, model: str, device: str, tracking_uri: str | None) -> None:
        self._start = partial(model_of, run, result, reading, model=model, device=device, tracking_uri=tracking_uri)
        self._stack = ExitStack()
        self._loaded: LoadedModel | None = None
        self._restarts = 0
        self.uri = ""
        self.remark = ""

    def call(
        self, operation: str, parameters: Mapping[str, Any] | None = None, arrays: Arrays | None = None
    ) -> tuple[dict[str, Any], Arrays]:
        """What ``Worker.call`` does.

        Raises:
            Refused: the model raised, or ended the process, or hung.
            WorkerError: it has done so too often.
        """
        assert self._loaded is not None
        try:
            return self._loaded.worker.call(operation, parameters, arrays, timeout=_PATIENCE)
        except WorkerError as error:
            self._restarts += 1
            if self._restarts > _MOST_RESTARTS:
                raise
            self._stack.close()
            self._enter()
            raise Refused(error.what, where=error.where, hint=error.hint) from error

    def _enter(self) -> None:
        self._loaded = self._stack.enter_context(self._start())
        self.uri, self.remark = self._loaded.uri, self._loaded.remark

    def __enter__(self) -> Self:
        self._enter()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()
