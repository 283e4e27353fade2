"""Which root cause a person reads first: the one order of all lists of them.

The graver complaint comes first, as the oracles' ranks declare it: a fault of the program, then what makes other figures doubtful (answers
that depend on the batch, a mark that decides alone), then wrong answers, then other ways of running. Of one kind the largest comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gate.oracles import ALL
from gate.result import Defect, RootCause

__all__ = ["gravest_first", "gravity", "groups_by_gravity"]

_RANKS = {oracle.name: oracle.rank for oracle in ALL}


def gravity(oracle: str, size: int, identity: str) -> tuple[int, int, str]:
    """The sort key of a root cause: its oracle's rank (one that is not known comes last), its size, its id."""
    return _RANKS.get(oracle, len(ALL)), -size, identity


def gravest_first(causes: Iterable[RootCause]) -> list[RootCause]:
    """Root causes in the order in which they are to be read."""
    return sorted(causes, key=lambda cause: gravity(cause.oracle, cause.size, cause.id))


def groups_by_gravity(defects: Iterable[Defect]) -> Sequence[tuple[str, list[Defect]]]:
    """(root cause, its defects in the order given), in the order in which they are to be read."""
    groups: dict[str, list[Defect]] = {}
    for defect in defects:
        groups.setdefault(defect.root_cause, []).append(defect)
    return sorted(groups.items(), key=_of_group)


def _of_group(group: tuple[str, list[Defect]]) -> tuple[int, int, str]:
    identity, members = group
    return gravity(members[0].oracle, len(members), identity)
