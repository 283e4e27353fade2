"""Rules on the same metric that contradict each other, or of which one says nothing that the other does not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from gate.policy.finding import Finding
from gate.policy.load import LoadedPolicy
from gate.policy.schema import Rule
from gate.policy.threshold import Threshold

__all__ = ["contradictions"]


def contradictions(loaded: LoadedPolicy) -> Iterator[Finding]:
    """Findings about pairs of rules with a ``fail`` on the same metric and the same slices."""
    rules = [rule for rule in loaded.policy.rules if rule.fail is not None]
    for one, other in itertools.combinations(rules, 2):
        if one.metric != other.metric or (one.slice and one.slice.by) != (other.slice and other.slice.by):
            continue
        assert one.fail is not None
        assert other.fail is not None
        where = loaded.place("rules", other.id, "fail")
        if _exclude_each_other(one.fail, other.fail):
            yield Finding(
                "error",
                other.id,
                f"No value of {one.metric} meets both {one.id!r} (breached by {one.fail.text}) and {other.id!r} (by {other.fail.text}).",
                where,
                "Move one of the limits, or remove a rule.",
            )
            continue
        idle, busy = (other, one) if _says_all_of(one, other) else (one, other)
        if _says_all_of(busy, idle):
            assert busy.fail is not None
            yield Finding(
                "warning",
                idle.id,
                f"The rule adds nothing: wherever it is breached, {busy.id!r} is too ({busy.fail.text}).",
                loaded.place("rules", idle.id, "fail"),
                "Remove one of the two, or tell them apart by slice or by kind.",
            )


def _exclude_each_other(one: Threshold, other: Threshold) -> bool:
    if one.upper == other.upper:
        return False
    upper, lower = (one, other) if one.upper else (other, one)
    if upper.limit != lower.limit:
        return upper.limit < lower.limit
    return not (upper.holds(upper.limit) and lower.holds(lower.limit))


def _says_all_of(busy: Rule, idle: Rule) -> bool:
    """Whether whatever ``idle`` makes of a run, ``busy`` makes at least as bad."""
    assert busy.fail is not None
    assert idle.fail is not None
    same = all(getattr(busy, name) == getattr(idle, name) for name in ("confidence", "on_breach", "on_missing", "known", "compare"))
    if not same or (idle.min_samples or 0) > (busy.min_samples or 0):
        return False
    if not idle.fail.out_of_reach_behind(busy.fail):
        return False
    return (
        idle.warn is None
        or (busy.warn is not None and idle.warn.out_of_reach_behind(busy.warn))
        or idle.warn.out_of_reach_behind(busy.fail)
    )
