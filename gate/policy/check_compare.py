"""Does a comparison with the baseline make sense? Changes in the wrong direction, and such as no model could make."""

from __future__ import annotations

from collections.abc import Iterator

from gate.metrics.catalogue import CATALOGUE, SEVERITY, MetricSpec
from gate.metrics.paired import COMPARED
from gate.policy.finding import Finding
from gate.policy.load import LoadedPolicy
from gate.policy.schema import Compare, Rule

__all__ = ["about_comparison"]


def about_comparison(rule: Rule, loaded: LoadedPolicy) -> Iterator[Finding]:
    """What is wrong with the rule's ``compare``; nothing where it has none."""
    if rule.compare is None:
        return
    spec, where = CATALOGUE[rule.metric], loaded.place("rules", rule.id, "compare")
    if rule.metric not in COMPARED:
        says = f"{rule.metric} is never compared with the baseline's, so the comparison is always missing."
        yield Finding("error", rule.id, says, where, f"Compare one of {', '.join(COMPARED)}.")
        return
    rises = rule.compare.max_rise is not None
    if rises != spec.higher_is_worse:
        key, other = ("max_rise", "max_drop") if rises else ("max_drop", "max_rise")
        better = "lower" if spec.higher_is_worse else "higher"
        says = f"Of {spec.name} {better} values are the better ones: a model better than the baseline by more than {key} would breach it."
        yield Finding("error", rule.id, says, where, f"Write {other}: {_allowed(rule.compare):g}.")
    elif _out_of_reach(rule.compare, spec):
        says = (
            f"{spec.name} can't {'rise' if rises else 'drop'} by more than {_allowed(rule.compare):g}, so the comparison is never breached."
        )
        hint = "Shares count from 0 to 1: 2 points are 0.02." if spec.is_share else "Allow a smaller change."
        yield Finding("error", rule.id, says, where, hint)


def _allowed(compare: Compare) -> float:
    allowed = compare.max_rise if compare.max_rise is not None else compare.max_drop
    assert allowed is not None
    return allowed


def _out_of_reach(compare: Compare, spec: MetricSpec) -> bool:
    """Whether the whole way from 0 to 1, or down to 0, is allowed."""
    bounded = spec.is_share or spec.unit == SEVERITY
    return _allowed(compare) >= 1 and (compare.max_drop is not None if compare.relative else bounded)
