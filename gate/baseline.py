"""The model in production, in a worker of its own: what it makes of what was found, and of the inputs that the candidate was judged on.

The worker is started once in a run, by the first who asks (see ``gate.paired``), and ended as soon as the last has. Nothing that goes wrong
with it is the candidate's fault: the comparison is left out then, and the record says why.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from gate.campaign.answered import answered as answers_of
from gate.campaign.budget import BudgetSpent
from gate.campaign.deadline import Interrupted
from gate.campaign.preflight import predict_all
from gate.campaign.raising import Raising
from gate.campaign.supervisor import Worker
from gate.domains.domain import InputDomain
from gate.domains.image.probes import probes
from gate.domains.image.signature import complete_input
from gate.errors import ConfigError, EvidenceError, GateError
from gate.models.outputs import OutputKind, class_count, recognise
from gate.oracles import observe
from gate.oracles.unjustified_confidence import UnjustifiedConfidence
from gate.registry.download import download_model
from gate.registry.mlmodel import describe
from gate.result import BaselineSummary
from gate.triage.backends import is_backend
from gate.triage.baseline import answered, brought_in
from gate.triage.defect_files import write_description
from gate.trust.digest import digest
from gate.work import Work

__all__ = ["START_SECONDS", "Baseline", "BaselineModel", "ask_baseline", "baseline_worker", "why_left_out"]

FIRST = 64  # seed inputs from which it is seen what the outputs are
START_SECONDS = 10.0  # that starting a worker and loading a model may well take
_LONGEST = 300  # characters kept of an error
ON_A_PATH = 17  # forward passes that a defect of how the model is run counts as, at most


@dataclass(frozen=True)
class Baseline:
    """The baseline, loaded."""

    worker: Worker
    output_kind: OutputKind


class BaselineModel:
    """The baseline of a run: its worker, started by the first who asks for it, and what it has run. Lives in the supervisor.

    A context manager, which ends the worker. Once it has been ended, or could not be started for another reason than time, it is not
    started again.

    Args:
        work: has a baseline.
        value_range: of a file.
    """

    def __init__(self, work: Work, value_range: tuple[float, float]) -> None:
        self._work = work
        self._range = value_range
        self._stack = ExitStack()
        self._opened: Baseline | None = None
        self._failed: GateError | None = None
        self.executions = 0  # inputs that it was asked about, each time counted
        self.seconds = 0.0  # for which somebody waited for it

    @property
    def running(self) -> bool:
        """Whether its worker is up."""
        return self._opened is not None

    def opened(self) -> Baseline:
        """The baseline, loaded.

        Raises:
            GateError: what ``baseline_worker`` raises.
        """
        if self._failed is not None:
            raise self._failed
        if self._opened is None:
            started = time.monotonic()
            try:
                self._opened = self._stack.enter_context(baseline_worker(self._work, self._range))
                assert self._work.seeds is not None
                self.executions += min(FIRST, len(self._work.seeds.x))
            except (BudgetSpent, Interrupted):
                raise
            except GateError as error:
                self._failed = error
                raise
            finally:
                self.seconds += time.monotonic() - started
        return self._opened

    @contextmanager
    def asked(self, executions: int = 0) -> Iterator[Baseline]:
        """Inside, the loaded baseline is asked; that time and so many ``executions`` are noted."""
        baseline = self.opened()
        started = time.monotonic()
        self.executions += executions
        try:
            yield baseline
        finally:
            self.seconds += time.monotonic() - started

    def close(self) -> None:
        """Ends the worker, if it was started."""
        if self._failed is None and self._opened is not None:
            self._failed = EvidenceError("The baseline's worker has been ended.", where="baseline")
        self._opened = None
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def why_left_out(error: GateError) -> str:
    """Why a comparison is left out, in words that end without a full stop."""
    if isinstance(error, BudgetSpent):
        return "the budget ended"
    lines = error.what.splitlines() or [type(error).__name__]
    return lines[0][:_LONGEST].rstrip(".")


@contextmanager
def baseline_worker(work: Work, value_range: tuple[float, float]) -> Iterator[Baseline]:
    """Inside, the baseline of ``work`` can be asked; it gets the same pictures as the candidate, read by the same input settings.

    Notes its digest and format in ``work.baseline``. It has answered the first ``FIRST`` seed inputs; these and all other passes are the
    caller's to book.

    Args:
        work: has a baseline, and seed inputs.
        value_range: of a file.

    Raises:
        ConfigError: it tells apart another number of classes.
        GateError: it can't be fetched, loaded or run, or there is no time for it.
    """
    assert work.baseline is not None
    assert work.baseline_reference is not None
    assert work.seeds is not None
    settings, seeds = work.settings, work.seeds.x
    height, width, channels = seeds.shape[1:]
    work.deadline.begin("the baseline was fetched")
    with tempfile.TemporaryDirectory(prefix="gate-baseline-") as private:
        folder = download_model(work.baseline_reference, Path(private) / "model")
        description = describe(folder)
        work.baseline = work.baseline.model_copy(update={"digest": digest(folder), "format": description.format})
        reading = complete_input(settings.input.model_copy(update={"size": (height, width), "channels": channels}), description.input_shape)
        work.deadline.begin("the baseline was loaded")
        with Worker(Path(private) / "worker", deadline=work.deadline) as worker:
            parameters = {
                "folder": str(folder),
                "description": description.to_dict(),
                "device": settings.device,
                "reading": reading.model_dump(mode="json"),
                "value_range": list(value_range),
                "channels": channels,
                "output_key": settings.output.key,
                "classes": None,
                "seed": settings.seed,
                "amp": "off",
                "compiled": False,
                "threads": settings.threads,
            }
            worker.call("load", parameters)
            raw = predict_all(worker, seeds[:FIRST], settings.batch_size)
            if class_count(raw) != len(work.classes):
                raise ConfigError(
                    f"The baseline tells {class_count(raw)} classes apart, and the candidate {len(work.classes)}.",
                    where="baseline",
                    hint="Give a baseline with the candidate's classes in the same order.",
                )
            yield Baseline(worker, recognise(raw, len(work.classes), settings.output.kind))


def ask_baseline(work: Work, domain: InputDomain, model: BaselineModel | None) -> None:
    """Asks the baseline about every defect's file and about the probes that show nothing. Does nothing where there is no baseline.

    Raises:
        Interrupted: somebody said stop.
    """
    if work.baseline_reference is None or model is None:
        return
    assert work.allowance is not None
    assert work.confirmer is not None
    spent = work.allowance.spent
    asked: set[str] = set()
    sure: int | None = None
    reason = _why_not(work, domain, model)
    if reason is None:
        try:
            with model.asked() as baseline:
                work.deadline.begin("the baseline was asked about the defects")
                asked = _ask_of_defects(work, domain, baseline)
                sure = _ask_of_probes(work, baseline, _empty_probes(work, domain))
        except Interrupted:
            raise
        except GateError as error:
            reason = why_left_out(error)
    defects = [defect for defect in work.confirmer.defects if defect.id in asked]
    if reason is None and len(defects) < len(work.confirmer.defects):
        reason = "there was no budget for all of the defects"
    model.executions += work.allowance.spent - spent
    update = {
        "asked": len(defects),
        "brought_in": sum(map(brought_in, defects)),
        "same": sum(defect.predicted is not None and defect.baseline == defect.predicted for defect in defects),
        "known": sum(bool(defect.known) for defect in defects),
        "sure_of_nothing": sure,
        "reason": reason,
        "executions": model.executions,
        "seconds": round(model.seconds, 3),
    }
    work.against_baseline = (work.against_baseline or BaselineSummary()).model_copy(update=update)
    work.events.emit("baseline", **work.against_baseline.model_dump())


def _why_not(work: Work, domain: InputDomain, model: BaselineModel) -> str | None:
    assert work.allowance is not None
    assert work.confirmer is not None
    if not work.policy.policy.oracles.baseline_disagreement.on:
        return "the policy switches the oracle off (oracles.baseline_disagreement)"
    if not work.confirmer.defects and not len(_empty_probes(work, domain)):
        return "there was nothing to ask it about"
    if work.allowance.left <= 0:
        return "triage's share of the budget was used up; a larger budget, or a larger share (triage.share), would pay for it"
    left = work.budget.worker_left()
    if left is not None and not model.running and left < START_SECONDS:
        return f"the budget left {max(left, 0.0):.0f} s, in which no second model is started; a longer budget would pay for it"
    return None


def _ask_of_defects(work: Work, domain: InputDomain, baseline: Baseline) -> set[str]:
    """Ids of those that it was asked about, which the allowance decides, in the order in which they were found."""
    assert work.confirmer is not None
    assert work.allowance is not None
    places = []
    for place, defect in enumerate(work.confirmer.defects):
        if not work.allowance.take(ON_A_PATH if is_backend(defect) else 1):
            break
        places.append(place)
    if not places:
        return set()
    defects = [work.confirmer.defects[place] for place in places]
    x = np.stack([domain.load(work.folder.path / defect.files["mutant_data"]) for defect in defects])
    batch, book = work.settings.batch_size, work.allowance.book
    found = answered(baseline.worker, defects, x, baseline.output_kind, batch, domain.value_range, book=book)
    for place, defect in zip(places, found, strict=True):
        work.confirmer.defects[place] = defect
        write_description(work.folder.path, defect)
    return {defect.id for defect in found}


def _empty_probes(work: Work, domain: InputDomain) -> np.ndarray:
    """[P, ...] those of the probes that were run which show nothing."""
    assert work.seeds is not None
    run = 0 if work.probes is None else work.probes.run
    ran = probes(work.seeds.x, domain.value_range, work.settings.seed)[:run] if run else ()
    nothing = [probe.x for probe in ran if probe.shows_nothing]
    return np.stack(nothing) if nothing else work.seeds.x[:0]


def _ask_of_probes(work: Work, baseline: Baseline, empty: np.ndarray) -> int | None:
    """How many of them it is sure of; None where none was asked of it."""
    assert work.allowance is not None
    if not len(empty) or work.probes is None or not work.allowance.take(len(empty)):
        return None
    raw, _, wasted = answers_of(baseline.worker, empty, work.settings.batch_size, Raising())
    work.allowance.book(wasted)
    name = UnjustifiedConfidence.name
    sure = int(UnjustifiedConfidence().complains(observe(raw, baseline.output_kind, np.full(len(raw), -1))).sum())
    if name in work.probes.oracles:
        said = work.probes.oracles[name].model_copy(update={"baseline": sure})
        work.probes = work.probes.model_copy(update={"oracles": {**work.probes.oracles, name: said}})
    return sure
