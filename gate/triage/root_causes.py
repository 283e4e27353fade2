"""Defects with one (oracle, true class, predicted class or fault, family) are one root cause."""

from __future__ import annotations

from collections.abc import Sequence

from gate.oracles.universal_mark import AnyMark
from gate.result import Defect, RootCause
from gate.triage.gravity import gravest_first, groups_by_gravity
from gate.triage.simpler import defect_simplicity
from gate.triage.titles import range_of, title_of

__all__ = ["root_causes"]


def root_causes(defects: Sequence[Defect], classes: Sequence[str]) -> tuple[RootCause, ...]:
    """The root causes of the defects in the order of ``gate.triage.gravity``; the example is the simplest defect, minimised if any."""
    causes = []
    for identity, members in groups_by_gravity(defects):
        example = min(members, key=defect_simplicity)
        causes.append(
            RootCause(
                id=identity,
                title=title_of(members, example, classes),
                size=len(members),
                example=example.id,
                oracle=example.oracle,
                label=None if example.oracle == AnyMark.name else example.label,  # a mark leads there from any class
                predicted=example.predicted,
                family=example.family,
                range=range_of(members),
                explained=sum(member.attribution is not None for member in members),
                known=sum(bool(member.known) for member in members),
            )
        )
    return tuple(gravest_first(causes))
