"""Defects with one (oracle, true class, predicted class or fault, family) are one root cause."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from gate.result import Defect, RootCause
from gate.triage.backends import is_backend, way_in_words

__all__ = ["root_causes"]


def root_causes(defects: Sequence[Defect], classes: Sequence[str]) -> tuple[RootCause, ...]:
    """The root causes of the defects, the largest first; the example is the mildest defect."""
    groups: dict[str, list[Defect]] = defaultdict(list)
    for defect in defects:
        groups[defect.root_cause].append(defect)
    causes = []
    for identity, members in groups.items():
        example = min(members, key=lambda defect: (defect.severity, defect.id))
        causes.append(RootCause(id=identity, title=_title(example, classes), size=len(members), example=example.id))
    return tuple(sorted(causes, key=lambda cause: (-cause.size, cause.id)))


def _title(defect: Defect, classes: Sequence[str]) -> str:
    if defect.label is None:
        groups = " and ".join(family.removeprefix("probe_").replace("_", " ") for family in defect.families)
        return f"a probe ({groups}) gives no finite output"

    def name(index: int) -> str:
        return classes[index] if index < len(classes) else str(index)

    if is_backend(defect):
        outcome = "gives no finite output" if defect.predicted is None else f"read as {name(defect.predicted)}"
        return f"{name(defect.label)} {outcome} {way_in_words(defect.oracle, defect.detail)}".rstrip()
    under = " and ".join(family.replace("_", " ") for family in defect.families)
    if defect.predicted is None:
        return f"{name(defect.label)} gives no finite output under {under}"
    return f"{name(defect.label)} read as {name(defect.predicted)} under {under}"
