"""Which waivers cover a breach.

A waiver is matched by rule, and where it says so by slice and by the model's ``name/version``. One narrowed to a root cause excuses only
that root cause: waivers of this kind cover a breach when together they name every root cause that stands behind it. So a new root cause
makes the rule count again.
"""

from __future__ import annotations

import datetime
import fnmatch
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gate.policy.schema import Waiver
from gate.result import ModelInfo

__all__ = ["Cover", "as_recorded", "cover", "is_for"]


@dataclass(frozen=True)
class Cover:
    """What the waivers say about one breach."""

    by: tuple[Waiver, ...]  # in force and covering; empty: the breach counts
    expired: tuple[Waiver, ...]  # would match, but their last day is past
    uncovered: tuple[str, ...]  # root causes that keep waivers in force from covering


def cover(
    waivers: Sequence[Waiver],
    rule: str,
    *,
    slice_name: str | None,
    model: ModelInfo,
    root_causes: Collection[str],
    today: datetime.date,
) -> Cover:
    """Looks for waivers of one breach.

    Args:
        slice_name: the slice that breaches; None where the rule is not sliced.
        root_causes: ids of what stands behind the breach.
        today: a waiver is in force up to and including its last day.
    """
    matching = [w for w in waivers if w.rule == rule and w.slice in (None, slice_name) and is_for(w, model)]
    in_force = [w for w in matching if w.expires >= today]
    expired = tuple(w for w in matching if w not in in_force)
    whole = tuple(w for w in in_force if w.root_cause is None)
    if whole:
        return Cover(whole, expired, ())
    narrowed = tuple(w for w in in_force if w.root_cause in root_causes)
    uncovered = tuple(sorted(set(root_causes) - {w.root_cause for w in narrowed}))
    if narrowed and not uncovered:
        return Cover(narrowed, expired, ())
    return Cover((), expired, uncovered if narrowed else ())


def is_for(waiver: Waiver, model: ModelInfo) -> bool:
    """Whether a waiver is for this model, or for any."""
    return waiver.model is None or fnmatch.fnmatchcase(f"{model.name or ''}/{model.version or ''}", waiver.model)


def as_recorded(waiver: Waiver) -> str:
    """A waiver as the outcome of its rule names it."""
    return f"{waiver.owner}, until {waiver.expires}: {waiver.reason}"
