"""Root causes beside those of the earlier run, in words that all renderings share."""

from __future__ import annotations

from collections import Counter

from gate.report.numbers import count
from gate.result import Result

__all__ = ["STATUSES", "releases_in_words", "status_counts"]

STATUSES = ("new", "known", "fixed", "back", "open")  # open: not found, and not all of its defects were replayed, so nothing is known


def status_counts(result: Result) -> dict[str, int] | None:
    """Root causes by what became of them since the earlier run, in the order of ``STATUSES``; None where there was none.

    What had been fixed before the earlier run, and stayed so, is not counted.
    """
    if not result.earlier_causes and result.previous is None and all(cause.status is None for cause in result.root_causes):
        return None
    found = {cause.id for cause in result.root_causes}
    counts: Counter[str] = Counter(cause.status for cause in result.root_causes if cause.status is not None)
    counts.update(
        one.status or "open" for one in result.earlier_causes if one.id not in found and not (one.status == "fixed" and one.runs_ago > 1)
    )
    return {status: counts[status] for status in STATUSES}


def releases_in_words(result: Result) -> str | None:
    """One sentence, such as ``Beside the earlier run, 3 root causes are new, 2 known, 1 fixed.``; None where there was no earlier run."""
    counts = status_counts(result)
    if counts is None:
        return None
    words = {"new": "new", "known": "known", "fixed": "fixed", "back": "back again", "open": "not known to be there still"}
    told = [(number, words[status]) for status, number in counts.items() if number]
    if not told:
        return "Neither this run nor the earlier one found any root cause."
    (first, word), rest = told[0], told[1:]
    begun = f"{count(first)} root {'cause is' if first == 1 else 'causes are'} {word}"
    return f"Beside the earlier run, {', '.join([begun, *(f'{count(number)} {what}' for number, what in rest)])}."
