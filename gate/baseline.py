"""The model in production, asked about what was found: in a second worker, which is started only then and ended at once.

Nothing that goes wrong with it is the candidate's fault: the comparison is left out then, and the record says why.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

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
from gate.errors import ConfigError, GateError
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

__all__ = ["Baseline", "ask_baseline", "baseline_worker"]

FIRST = 64  # seed inputs from which it is seen what the outputs are
START_SECONDS = 10.0  # that starting a worker and loading a model may well take
ON_A_PATH = 17  # forward passes that a defect of how the model is run counts as, at most


@dataclass(frozen=True)
class Baseline:
    """The baseline, loaded."""

    worker: Worker
    output_kind: OutputKind


@contextmanager
def baseline_worker(work: Work, value_range: tuple[float, float]) -> Iterator[Baseline]:
    """Inside, the baseline of ``work`` can be asked; it gets the same pictures as the candidate, read by the same input settings.

    Notes its digest and format in ``work.baseline``. Its passes are the caller's to book, but for the first ``FIRST``.

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
            first = seeds[:FIRST]
            if work.allowance is not None:
                work.allowance.book(len(first))
            raw = predict_all(worker, first, settings.batch_size)
            if class_count(raw) != len(work.classes):
                raise ConfigError(
                    f"The baseline tells {class_count(raw)} classes apart, and the candidate {len(work.classes)}.",
                    where="baseline",
                    hint="Give a baseline with the candidate's classes in the same order.",
                )
            yield Baseline(worker, recognise(raw, len(work.classes), settings.output.kind))


def ask_baseline(work: Work, domain: InputDomain) -> None:
    """Asks the baseline about every defect's file and about the probes that show nothing. Does nothing where there is no baseline.

    Raises:
        Interrupted: somebody said stop.
    """
    if work.baseline_reference is None:
        return
    if not work.policy.policy.oracles.baseline_disagreement.on:
        work.against_baseline = BaselineSummary(reason="the policy switches the oracle off (oracles.baseline_disagreement)")
        return
    assert work.confirmer is not None
    assert work.allowance is not None
    empty = _empty_probes(work, domain)
    if not work.confirmer.defects and not len(empty):
        work.against_baseline = BaselineSummary(reason="there was nothing to ask it about")
        return
    if (why := _no_room(work)) is not None:
        work.against_baseline = BaselineSummary(reason=why)
        return
    asked: set[str] = set()
    sure: int | None = None
    reason: str | None = None
    try:
        with baseline_worker(work, domain.value_range) as baseline:
            work.deadline.begin("the baseline was asked about the defects")
            asked = _ask_of_defects(work, domain, baseline)
            sure = _ask_of_probes(work, baseline, empty)
    except Interrupted:
        raise
    except GateError as error:
        reason = "the budget ended" if isinstance(error, BudgetSpent) else error.what.rstrip(".")
    defects = [defect for defect in work.confirmer.defects if defect.id in asked]
    if reason is None and len(defects) < len(work.confirmer.defects):
        reason = "there was no budget for all of the defects"
    work.against_baseline = BaselineSummary(
        asked=len(defects),
        brought_in=sum(map(brought_in, defects)),
        same=sum(defect.predicted is not None and defect.baseline == defect.predicted for defect in defects),
        sure_of_nothing=sure,
        reason=reason,
    )
    work.events.emit("baseline", **work.against_baseline.model_dump())


def _no_room(work: Work) -> str | None:
    assert work.allowance is not None
    if work.allowance.left <= FIRST:
        return "triage's share of the budget was used up; a larger budget, or a larger share (triage.share), would pay for it"
    left = work.budget.worker_left()
    if left is not None and left < START_SECONDS:
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
