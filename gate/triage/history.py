"""What became of root causes from one release to the next: new, known, fixed, or back again.

Nothing here runs the model: it compares this run's root causes, and what replaying the earlier run's defects showed, with the earlier run's
record. That record remembers those which were fixed before it, so that a chain of runs knows one again that comes back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gate.result import EarlierCause, Result, RootCause

__all__ = ["MOST_REMEMBERED", "History", "across_releases"]

MOST_REMEMBERED = 10_000  # root causes that one record remembers; those which were seen last, and the largest of them, first


@dataclass(frozen=True)
class History:
    """This run's root causes with their status, and what became of the earlier ones."""

    causes: tuple[RootCause, ...]
    earlier: tuple[EarlierCause, ...] = ()  # those seen last first, the largest first


def across_releases(causes: Sequence[RootCause], earlier: Result | None, recurs: Mapping[str, bool] | None) -> History:
    """Compares a run with the one before it.

    A root cause that this run found is ``known`` where the earlier run has it or knew that it was still there, ``back`` where the earlier
    run remembers it as fixed, else ``new``. One that it did not find is ``known`` where one of its defects recurs, ``fixed`` where all were
    replayed and none recurs, and of no known status where they were not replayed: not finding something is no proof that it is gone.

    Args:
        causes: of this run.
        earlier: the earlier run's record; None where there is none.
        recurs: by root cause whose defects were replayed, whether one of them recurs; None where nothing was replayed.
    """
    if earlier is None:
        return History(tuple(causes))
    found = {cause.id for cause in causes}
    remembered = {one.id: one for one in earlier.earlier_causes}
    own = {cause.id for cause in earlier.root_causes}
    gone = {one.id for one in remembered.values() if one.status == "fixed"}
    status = {identity: _of_found(identity, own | set(remembered), gone) for identity in found}
    told = [
        EarlierCause(
            id=cause.id,
            title=cause.title,
            size=cause.size,
            status="known" if cause.id in found else _of_missed((recurs or {}).get(cause.id)),
        )
        for cause in earlier.root_causes
    ]
    told += [_older(one, status.get(one.id)) for one in remembered.values() if one.id not in own]
    ordered = sorted(told, key=lambda one: (one.runs_ago, -one.size, one.id))
    return History(tuple(cause.model_copy(update={"status": status[cause.id]}) for cause in causes), tuple(ordered[:MOST_REMEMBERED]))


def _of_found(identity: str, heard_of: set[str], gone: set[str]) -> Literal["new", "known", "back"]:
    if identity in gone:
        return "back"
    return "known" if identity in heard_of else "new"


def _of_missed(recurs: bool | None) -> Literal["known", "fixed"] | None:
    return None if recurs is None else "known" if recurs else "fixed"


def _older(one: EarlierCause, found: Literal["new", "known", "back"] | None) -> EarlierCause:
    """One that the earlier run itself only remembered. It holds no defects of it, so that nothing of it was replayed now."""
    if found is not None:
        return one.model_copy(update={"status": found, "runs_ago": one.runs_ago + 1})
    # What was fixed stays fixed until it is found again; what was known to be there may be, or not.
    return one.model_copy(update={"status": "fixed" if one.status == "fixed" else None, "runs_ago": one.runs_ago + 1})
