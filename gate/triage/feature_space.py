"""Penultimate features of defects and of clean seed inputs beside them: where subgroups, the map and confused concepts are read from.

Lives in the supervisor. The worker makes the features; each costs one forward pass, which is booked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gate.campaign.loop import Seeds
from gate.campaign.supervisor import Worker
from gate.domains.domain import InputDomain
from gate.errors import ModelError
from gate.randomness import generator
from gate.result import Defect
from gate.triage.allowance import Allowance
from gate.triage.classify import type_of_oracle
from gate.triage.gravity import groups_by_gravity

__all__ = ["FEATURES_SHARE", "MOST_MUTANTS", "MOST_SEEDS", "FeatureSample", "by_turns", "gather"]

FEATURES_SHARE = 0.25  # of what is left for explaining when the features are made
MOST_SEEDS = 700
MOST_MUTANTS = 2_000
PER_CAUSE = 256  # defects of one root cause
PER_CLASS = 40  # seed inputs of a class that takes part in a defect
PER_OTHER_CLASS = 10  # of one that does not


@dataclass(frozen=True)
class FeatureSample:
    """Features of length one. D defects and S seed inputs; both may be fewer than there are, and ``reason`` says why there are none."""

    defects: tuple[str, ...] = ()  # D ids
    mutants: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))  # float64 [D, F]
    labels: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # int64 [S]: classes of the seed inputs
    seeds: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))  # float64 [S, F]
    reason: str | None = "features were not made"


def gather(
    defects: Sequence[Defect],
    seeds: Seeds,
    *,
    worker: Worker,
    domain: InputDomain,
    folder: Path,
    allowance: Allowance,
    batch_size: int,
    campaign_seed: int,
) -> FeatureSample:
    """Features of defects, root cause by root cause in turn, and of seed inputs, class by class in turn.

    At most ``FEATURES_SHARE`` of what is left is spent: half of it on seed inputs, at most ``MOST_SEEDS``, the rest on defects, at most
    ``MOST_MUTANTS``. Defects that a worker might not survive, and probes, which are of no class, take no part. Neither does an input whose
    features are not finite.

    Raises:
        BudgetSpent, Interrupted: as the worker's calls do.
    """
    able = [defect for defect in defects if defect.label is not None and type_of_oracle(defect.oracle) != "crash"]
    if not able:
        return FeatureSample(reason="there is no defect whose features could be compared")
    points = int(allowance.left * FEATURES_SHARE)
    rows = _seed_rows(able, seeds.labels, min(MOST_SEEDS, points // 2), campaign_seed)
    chosen = by_turns(able, min(MOST_MUTANTS, points - len(rows)), PER_CAUSE)
    if not chosen or not len(rows):
        return FeatureSample(reason="there was no budget left for features")
    maker = _Maker(worker, allowance, batch_size)
    try:
        mutants = maker.features([folder / defect.files["mutant_data"] for defect in chosen], domain)
        clean = maker.features(list(seeds.x[rows]), domain)
    except ModelError as error:
        return FeatureSample(reason=error.what.rstrip(".").replace("The model", "the model", 1))
    kept, sound = _finite(mutants), _finite(clean)
    return FeatureSample(
        defects=tuple(defect.id for defect, good in zip(chosen, kept, strict=False) if good),
        mutants=_unit(mutants[kept]),
        labels=seeds.labels[rows[: len(clean)]][sound].astype(np.int64),
        seeds=_unit(clean[sound]),
        reason=None if kept.any() and sound.any() else "there was no time left for features" if maker.stopped else "no features are finite",
    )


def by_turns(defects: Sequence[Defect], most: int, per_cause: int) -> list[Defect]:
    """At most ``most`` defects: one of each root cause in turn, the gravest root cause first; of each the mildest, then by identity."""
    ordered = []
    for place, (_, members) in enumerate(groups_by_gravity(defects)):
        mildest = min(members, key=lambda defect: (defect.severity, defect.id))
        # Identities are hashes, so that their order is as good as random; the order of finding would favour what the search liked.
        rest = sorted((defect for defect in members if defect is not mildest), key=lambda defect: defect.id)
        ordered += [(turn, place, defect) for turn, defect in enumerate([mildest, *rest][:per_cause])]
    ordered.sort(key=lambda entry: entry[:2])
    return [defect for *_, defect in ordered[: max(0, most)]]


class _Maker:
    """Has the worker make features, batch by batch, until the time is up."""

    def __init__(self, worker: Worker, allowance: Allowance, batch_size: int) -> None:
        self._worker = worker
        self._allowance = allowance
        self._batch_size = batch_size
        self.stopped = False

    def features(self, inputs: Sequence[np.ndarray | Path], domain: InputDomain) -> np.ndarray:
        """float64 [at most N, F] of inputs given as samples, or as files to be loaded when their turn comes."""
        rows: list[np.ndarray] = []
        for start in range(0, len(inputs), self._batch_size):
            batch = inputs[start : start + self._batch_size]
            if not self._allowance.take(len(batch)):
                self.stopped = True
                break
            x = np.stack([domain.load(one) if isinstance(one, Path) else one for one in batch])
            rows.append(self._worker.call("features", {}, {"x": x})[1]["features"].astype(np.float64))
        return np.concatenate(rows) if rows else np.empty((0, 0))


def _seed_rows(defects: Sequence[Defect], labels: np.ndarray, most: int, campaign_seed: int) -> np.ndarray:
    """int64 [at most ``most``]: positions of seed inputs. Classes that take part in a defect come first, each as often as the others."""
    part = {defect.label for defect in defects} | {defect.predicted for defect in defects}
    random = generator(campaign_seed, "feature space")
    ordered = []
    for label in np.unique(labels):
        taking_part = int(label) in part
        own = random.permutation(np.flatnonzero(labels == label))[: PER_CLASS if taking_part else PER_OTHER_CLASS]
        ordered += [(not taking_part, turn, int(label), int(row)) for turn, row in enumerate(own)]
    ordered.sort()
    return np.array([row for *_, row in ordered[: max(0, most)]], dtype=np.int64)


def _finite(features: np.ndarray) -> np.ndarray:
    """bool [N]."""
    return np.asarray(np.isfinite(features).all(axis=1) & (np.linalg.norm(features, axis=1) > 0))


def _unit(features: np.ndarray) -> np.ndarray:
    """The same, each row of length one."""
    result: np.ndarray = features / np.linalg.norm(features, axis=1, keepdims=True)
    return result
