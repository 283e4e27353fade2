"""Waivers that excuse nothing, or more than anybody should promise."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator

from gate.domains.image.limits import Domain
from gate.policy.finding import Finding
from gate.policy.load import LoadedPolicy
from gate.policy.schema import Rule, Waiver
from gate.strict_yaml import nearest

__all__ = ["about_waivers"]

_LONG = datetime.timedelta(days=366)
_ROOT_CAUSE = re.compile(r"rc-[0-9a-f]+")
_HALVES = ("a", "b")


def about_waivers(loaded: LoadedPolicy, *, today: datetime.date) -> Iterator[Finding]:
    """Findings about each waiver; that its rule exists and has slices, loading the policy has seen to."""
    rules = {rule.id: rule for rule in loaded.policy.rules}
    for index, waiver in enumerate(loaded.policy.waivers):

        def place(key: str, number: int = index) -> str:
            return loaded.place("waivers", number, key)

        rule = rules[waiver.rule]
        whose = f"The waiver of {waiver.rule} by {waiver.owner}"
        if rule.fail is None and rule.compare is None:
            text = f"{whose} excuses nothing: the rule only warns."
            yield Finding("warning", waiver.rule, text, place("rule"), "Remove the waiver.")
        if waiver.expires < today:
            text = f"{whose} expired on {waiver.expires}; the rule counts again."
            yield Finding("warning", waiver.rule, text, place("expires"), "Remove the waiver, or agree on a new date.")
        elif waiver.model is None and waiver.expires - today > _LONG:
            text = f"{whose} is for every model, and in force for more than a year, until {waiver.expires}."
            yield Finding("warning", waiver.rule, text, place("expires"), 'Name the models (model: "name/*"), or set an earlier date.')
        yield from _unknown(waiver, rule, whose, place("slice"))
        if waiver.root_cause is not None and not _ROOT_CAUSE.fullmatch(waiver.root_cause):
            text = f"{whose} names a root cause {waiver.root_cause!r}, and root causes are named rc- and hexadecimal digits."
            yield Finding("error", waiver.rule, text, place("root_cause"), "Copy the name from the report.")


def _unknown(waiver: Waiver, rule: Rule, whose: str, where: str) -> Iterator[Finding]:
    """A slice whose names are known before any run, and which is none of them."""
    if waiver.slice is None or rule.slice is None:
        return
    known = {"half": _HALVES, "family": tuple(Domain.model_fields)}.get(rule.slice.by)
    if known is None or waiver.slice in known:
        return
    close = nearest(waiver.slice, known)
    hint = f"Did you mean {close!r}?" if close else f"There are: {', '.join(known)}."
    yield Finding("error", waiver.rule, f"{whose} names a slice {waiver.slice!r}, which is no {rule.slice.by}.", where, hint)
