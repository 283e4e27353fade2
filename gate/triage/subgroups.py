"""Defects of one root cause that lie together in feature space: different ways to the same wrong answer.

Clusters by density, which need no number of groups beforehand and leave out what belongs to none. Source: Campello, Moulavi and Sander,
"Density-based clustering based on hierarchical density estimates", PAKDD 2013 (HDBSCAN), as scikit-learn has it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gate.result import Defect, Subgroup
from gate.triage.feature_space import FeatureSample

__all__ = ["FEWEST", "Grouped", "subgroups", "subgroups_of"]

FEWEST = 8  # defects of a root cause below which no subgroups are looked for
SMALLEST = 3  # defects in a subgroup, or an eighth of those looked at


@dataclass(frozen=True)
class Grouped:
    """What became of the defects of one root cause."""

    subgroups: tuple[Subgroup, ...]  # the largest first
    outside: int  # that belong to none
    looked_at: int
    reason: str | None  # why there are no subgroups


def subgroups(ids: Sequence[str], features: np.ndarray) -> Grouped:
    """Looks for two or more groups; one alone, or none, is no subgroup of anything.

    Args:
        ids: of N defects of one root cause.
        features: float64 [N, F], each of length one; what is near in angle is near in the distance that is taken.
    """
    if len(ids) < FEWEST:
        return Grouped((), 0, len(ids), f"fewer than {FEWEST} of its defects could be compared")
    from sklearn.cluster import HDBSCAN

    order = np.argsort(np.array(ids))  # whatever found them first: the same defects make the same groups
    own, points = [ids[row] for row in order], features[order]
    found = HDBSCAN(min_cluster_size=max(SMALLEST, len(ids) // 8), algorithm="brute", copy=True).fit_predict(points)
    groups = [np.flatnonzero(found == number) for number in range(found.max() + 1)]
    if len(groups) < 2:
        return Grouped((), 0, len(ids), "its defects do not fall into groups")
    made = [Subgroup(size=len(rows), example=own[rows[_medoid(points[rows])]]) for rows in groups]
    made.sort(key=lambda group: (-group.size, group.example))
    return Grouped(tuple(made), int((found < 0).sum()), len(ids), None)


def subgroups_of(defects: Sequence[Defect], sample: FeatureSample) -> dict[str, Grouped]:
    """By root cause, of the defects whose features are known; those too small for subgroups are left out.

    Of a root cause that had too few features made, and of all where there are none, the reason is said.
    """
    sizes: dict[str, int] = defaultdict(int)
    rows: dict[str, list[int]] = defaultdict(list)
    row_of = {identity: row for row, identity in enumerate(sample.defects)}
    for defect in defects:
        sizes[defect.root_cause] += 1
        if defect.id in row_of:
            rows[defect.root_cause].append(row_of[defect.id])
    found = {}
    for cause, size in sizes.items():
        if size < FEWEST:
            continue
        known = rows[cause]
        if sample.reason is not None:
            found[cause] = Grouped((), 0, 0, sample.reason)
        else:
            found[cause] = subgroups([sample.defects[row] for row in known], sample.mutants[known])
    return found


def _medoid(points: np.ndarray) -> int:
    """The point that is nearest to all others; of points of length one, the one that their sum points to."""
    return int(np.argmax(points @ points.sum(axis=0)))
