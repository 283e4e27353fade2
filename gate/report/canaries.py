"""The faults planted on purpose, and what came of the search for them: what the search's silence is worth."""

from __future__ import annotations

from typing import Any

from gate.report.bar import bar
from gate.report.numbers import amount, count, interval
from gate.report.text import NAME, visible
from gate.report.words import sentence
from gate.result import CanaryResult, Result

__all__ = ["canaries_page", "canary_counts", "canary_lines", "silence_in_words"]

_MOST = 60
_FEW = 6  # all of fewer found: the exact 95 % interval of the share found still begins below a half
_WORDS = {True: ("pass", "found"), False: ("fail", "missed"), None: ("note", "not tried")}


def canary_counts(result: Result) -> tuple[int, int] | None:
    """(found, searched for); None where none was searched for."""
    tried = [one for one in (result.canaries.canaries if result.canaries else ()) if one.found is not None]
    return (sum(bool(one.found) for one in tried), len(tried)) if tried else None


def silence_in_words(result: Result) -> str | None:
    """What the canaries say about what the search did not find; None where none was searched for."""
    counted = canary_counts(result)
    if counted is None:
        return None
    found, tried = counted
    if found == 0:
        return f"The search found none of {count(tried)} faults planted on purpose, so its silence says nothing about the model."
    if found == tried:
        said = "the only fault" if tried == 1 else f"all {count(tried)} faults"
        if tried < _FEW:
            return f"The search found {said} planted on purpose. So few say little: a larger budget plants more kinds."
        return f"The search found {said} planted on purpose: where it found nothing, faults as plain as these are unlikely to be there."
    each = result.canaries.executions_each if result.canaries else 0
    given = f", with at most {count(each)} executions for each" if each else ""
    kinds, them = ("kind", "it") if tried - found == 1 else ("kinds", "them")
    return (
        f"The search found {count(found)} of {count(tried)} faults planted on purpose{given}. A real fault of the {kinds} that it missed "
        f"may be missed, too: that it found none says little about {them}."
    )


def canary_lines(result: Result) -> list[str]:
    """Each fault with what came of the search for it, those that were missed first."""
    lines = []
    for one in _ordered(result):
        row = _row(one)
        told = ". ".join(part for part in (row["title"].rstrip("."), row["reason"].rstrip(".")) if part)
        after = "" if one.found is None or row["after"] == "–" else f" {row['after'].removeprefix('not ')}"
        lines.append(f"{row['name']}: {row['word']}{after}. {told}.")
    return lines


def canaries_page(result: Result) -> dict[str, Any] | None:
    """The section on canaries; None where the run has none to tell of."""
    summary = result.canaries
    if summary is None or (not summary.canaries and not summary.reason):
        return None
    rows = _ordered(result)
    recall = result.metrics.get("canary_recall")
    measured = recall is not None and recall.value is not None
    return {
        "rows": [_row(one) for one in rows[:_MOST]],
        "left_out": max(0, len(rows) - _MOST),
        "said": silence_in_words(result) or "No fault was planted and searched for, so nothing says what the search would have found.",
        "reason": sentence(visible(summary.reason)) if summary.reason else "",
        "recall": amount(recall.value, recall.unit) if recall is not None and measured else "",
        "interval": interval(recall.lower, recall.upper, recall.unit, recall.confidence) if recall is not None and measured else "",
        "bar": bar(recall.value, recall.lower, recall.upper, recall.unit, ends=(0.0, 1.0))
        if recall is not None and recall.value is not None
        else None,
        "effort": f"Each was searched for with {count(summary.executions_each)} executions at most, as the model itself is; "
        f"{count(summary.executions)} executions in all. Nothing of it counts among the model's defects."
        if summary.executions_each
        else "",
    }


def _ordered(result: Result) -> list[CanaryResult]:
    order = {False: 0, None: 1, True: 2}
    canaries = result.canaries.canaries if result.canaries else ()
    return sorted(canaries, key=lambda one: (order[one.found], -(one.found_after or 0), one.name))


def _row(one: CanaryResult) -> dict[str, str]:
    badge, word = _WORDS[one.found]
    after = "" if one.found_after is None else f"after {count(one.found_after)} executions"
    if one.found is False:
        after = f"not in {count(one.executions)} executions"
    return {
        "badge": badge,
        "word": word,
        "name": visible(one.name.replace("_", " ").replace("-", " "), NAME),
        "title": sentence(visible(one.title)),
        "after": after or "–",
        "reason": sentence(visible(one.reason)) if one.reason else "",
    }
