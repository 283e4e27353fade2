"""Waivers that do nothing in a run, in words: whoever answers for them should take them out, or agree on a new date."""

from __future__ import annotations

from gate.result import Result, WaiverUse

__all__ = ["idle_waivers"]


def idle_waivers(result: Result) -> tuple[str, ...]:
    """One sentence for each waiver that has expired or excuses nothing; those for other models are as they should be."""
    return tuple(_sentence(waiver) for waiver in result.waivers if waiver.state in ("expired", "unused"))


def _sentence(waiver: WaiverUse) -> str:
    parts = (("slice", waiver.slice), ("root cause", waiver.root_cause), ("models", waiver.model))
    only = ", ".join(f"{name} {value}" for name, value in parts if value is not None)
    whose = f"The waiver of {waiver.rule}{f' ({only})' if only else ''} by {waiver.owner}"
    if waiver.state == "expired":
        return f"{whose} expired on {waiver.expires}, before {waiver.as_of}: the rule counts again."
    return f"{whose} excused nothing in this run; remove it if nobody needs it any more."
