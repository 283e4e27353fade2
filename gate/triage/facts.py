"""The facts that types of defects rest on, for many defects at once: what changed in the file, marks, and what the features lie near.

Nothing here runs the model. Lives in the supervisor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gate.domains.domain import InputDomain
from gate.result import Defect, MarksSummary, UniversalMark
from gate.triage.classify import LOCAL, Facts, Kinship
from gate.triage.feature_space import FeatureSample

__all__ = ["ALIKE", "FAINT", "FROM_CLASSES", "FROM_SEEDS", "MARKED", "NEAREST", "Change", "change_of", "facts_of"]

MARKED = 0.25  # share of the positions that a patch or a border may change and still be that mark
FAINT = 0.1  # of the value range: a blend changes no value by more
ALIKE = 0.8  # of an operator's local defects, the share that must fall to one class to be a shortcut
FROM_SEEDS = 10  # seed inputs that must fall to it
FROM_CLASSES = 3  # of so many true classes, where there are that many others
NEAREST = 0.3  # of the other classes, those nearest to a class are its neighbours: at least one, at most five


@dataclass(frozen=True)
class Change:
    """What a mutant's file has that its seed input's has not."""

    area: float  # share of the positions that differ in any channel
    tone: float  # share of the squared change that one linear function of the value, for each channel, explains
    largest: float  # largest change of a value, as a share of the value range


def change_of(original: np.ndarray, mutant: np.ndarray, value_range: tuple[float, float]) -> Change:
    """Compares two samples [..., C] of one shape; values of the file's own dtype.

    The linear function is the least-squares one, m = a * o + b. As it may be m = o, the share is never negative.
    """
    before = original.reshape(-1, original.shape[-1]).astype(np.float64)
    after = mutant.reshape(-1, mutant.shape[-1]).astype(np.float64)
    difference = after - before
    total = float((difference**2).sum())
    centred, moved = before - before.mean(axis=0), after - after.mean(axis=0)
    spread = (centred**2).sum(axis=0)
    slope = np.where(spread > 0, (centred * moved).sum(axis=0) / np.where(spread > 0, spread, 1.0), 0.0)
    left = float(((moved - slope * centred) ** 2).sum())
    return Change(
        area=float((difference != 0).any(axis=1).mean()),
        tone=max(0.0, 1 - left / total) if total > 0 else 0.0,
        largest=float(np.abs(difference).max(initial=0.0)) / (value_range[1] - value_range[0]),
    )


def facts_of(
    defects: Sequence[Defect],
    sample: FeatureSample,
    marks: MarksSummary | None,
    *,
    domain: InputDomain,
    folder: Path,
    classes: int,
    late: Callable[[], bool] = lambda: False,
) -> dict[str, Facts]:
    """Facts by defect id. Files are read until the time is up; of the defects after that, what the features say is still known.

    Args:
        defects: that are to be looked at.
        sample: features of some of them.
        marks: the universal marks that were found, where they were looked for.
        domain: reads the files.
        folder: the run folder.
        classes: number of classes.
        late: whether the time is up.
    """
    changes: dict[str, Change] = {}
    for defect in defects:
        if late():
            break
        if {"original_data", "mutant_data"} <= defect.files.keys() and defect.label is not None:
            original, mutant = (domain.load(folder / defect.files[name]) for name in ("original_data", "mutant_data"))
            changes[defect.id] = change_of(original, mutant, domain.value_range)
    kin = _kinship(defects, sample)
    found = {
        defect.id: Facts(
            area=changes[defect.id].area if defect.id in changes else None,
            tone=changes[defect.id].tone if defect.id in changes else None,
            shortcut=_mark_of(defect, changes.get(defect.id), marks),
            leads_there=_mark_to(defect, marks),
            kinship=kin.get(defect.id),
        )
        for defect in defects
    }
    for identity, reason in _one_way(defects, changes, classes).items():
        if found[identity].shortcut is None:
            found[identity] = replace(found[identity], shortcut=reason)
    return found


def _mark_to(defect: Defect, marks: MarksSummary | None, change: Change | None = None) -> str | None:
    """The universal mark that is a shortcut to a defect's predicted class, in words; given a change, only where it is like that mark."""
    for mark in () if marks is None else marks.marks:
        leads = mark.shortcut and mark.label == defect.predicted != defect.label and defect.label is not None
        if leads and (change is None or _like(change, mark)):
            return f"one {mark.kind}, laid on every input, moves {mark.rate:.0%} of them to this class"
    return None


def _mark_of(defect: Defect, change: Change | None, marks: MarksSummary | None) -> str | None:
    """Why a defect belongs to a universal mark that is a shortcut; None where its change is not like one."""
    words = None if change is None else _mark_to(defect, marks, change)
    return None if words is None else f"O{words[1:]}; this change is like it."


def _like(change: Change, mark: UniversalMark) -> bool:
    return change.largest <= FAINT if mark.kind == "blend" else change.area <= MARKED


def _one_way(defects: Sequence[Defect], changes: Mapping[str, Change], classes: int) -> dict[str, str]:
    """Reasons by defect id: local changes by one operator that lead from many classes to one, and hardly anywhere else."""
    groups: dict[str, list[Defect]] = defaultdict(list)
    for defect in defects:
        local = defect.id in changes and changes[defect.id].area < LOCAL
        if local and defect.label is not None and defect.predicted not in (None, defect.label):
            groups[defect.operator].append(defect)
    reasons: dict[str, str] = {}
    for operator, members in groups.items():
        by_class: dict[int, list[Defect]] = defaultdict(list)
        for defect in members:
            by_class[int(defect.predicted or 0)].append(defect)
        target = max(by_class, key=lambda label: (len(by_class[label]), -label))
        led = by_class[target]
        seeds, labels = {defect.seed_id for defect in led}, {defect.label for defect in led}
        if len(seeds) < FROM_SEEDS or len(labels) < max(2, min(FROM_CLASSES, classes - 1)) or len(led) < ALIKE * len(members):
            continue
        words = operator.replace("_", " ")
        reason = f"Local changes by {words} move {len(seeds)} seed inputs of {len(labels)} classes to this one class."
        reasons |= {defect.id: reason for defect in led}
    return reasons


def _kinship(defects: Sequence[Defect], sample: FeatureSample) -> dict[str, Kinship]:
    """By defect id, where the features of the mutant and of clean seed inputs of both classes are known."""
    labels = np.unique(sample.labels)
    if not len(labels) or not sample.defects:
        return {}
    middles = np.stack([sample.seeds[sample.labels == label].mean(axis=0) for label in labels])
    middles /= np.maximum(np.linalg.norm(middles, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    likeness = sample.mutants @ middles.T  # [D, classes]
    near = _neighbours(middles)
    place = {int(label): number for number, label in enumerate(labels)}
    row_of = {identity: row for row, identity in enumerate(sample.defects)}
    found = {}
    for defect in defects:
        if defect.id not in row_of or defect.label not in place or defect.predicted not in place or defect.label == defect.predicted:
            continue
        own, other, like = place[defect.label], place[defect.predicted], likeness[row_of[defect.id]]
        found[defect.id] = Kinship(
            own=float(like[own]),
            other=float(like[other]),
            third=float(np.delete(like, [own, other]).max(initial=-1.0)),
            neighbours=bool(near[own, other] and near[other, own]),
        )
    return found


def _neighbours(middles: np.ndarray) -> np.ndarray:
    """bool [C, C]: whether the second class is among the nearest of the first. Of two classes each would be, which would say nothing."""
    number = len(middles)
    few = min(5, max(1, round(NEAREST * (number - 1))))
    likeness = middles @ middles.T
    np.fill_diagonal(likeness, -np.inf)
    near = np.zeros((number, number), dtype=bool)
    nearest = np.argsort(-likeness, axis=1, kind="stable")[:, :few]
    near[np.arange(number)[:, None], nearest] = number > 2
    return near
