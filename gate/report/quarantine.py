"""Findings that did not come back every time: no defects, but said."""

from __future__ import annotations

from typing import Any

from gate.report.numbers import count
from gate.report.text import NAME, visible
from gate.result import FlakyFinding, Result

__all__ = ["quarantine_page"]

_MOST = 12


def quarantine_page(result: Result) -> dict[str, Any] | None:
    """The section on flaky findings; None where there are none."""
    if not result.quarantine:
        return None
    number = len(result.quarantine)
    return {
        "lead": f"{count(number)} {'finding' if number == 1 else 'findings'} did not come back in every replay of the saved file. "
        "An answer that changes by itself is no defect that can be shown, so it counts as flaky and stands apart.",
        "rows": [_row(finding, result) for finding in result.quarantine[:_MOST]],
        "left_out": max(0, number - _MOST),
    }


def _row(finding: FlakyFinding, result: Result) -> dict[str, str]:
    seen = sorted(finding.seen.items(), key=lambda item: -item[1])
    answers = ", ".join(f"{_answer(answer, result)} ({count(times)}×)" for answer, times in seen[:6])
    return {
        "id": finding.id,
        "label": "a probe" if finding.label is None else result.class_name(finding.label),
        "oracle": finding.oracle.replace("_", " "),
        "families": ", ".join(visible(name.replace("_", " "), NAME) for name in finding.families[:6]),
        "seen": answers,
    }


def _answer(answer: str, result: Result) -> str:
    is_class = answer.isascii() and answer.isdigit() and len(answer) < 10
    return visible(result.class_name(int(answer)) if is_class else answer.replace("_", " "), NAME)
