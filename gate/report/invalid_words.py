"""Why a mutant is none that a person would still label the same, in a few words."""

from __future__ import annotations

from collections.abc import Mapping

from gate.report.numbers import count
from gate.report.text import NAME, visible

__all__ = ["reason_in_words", "reasons_in_words"]

_WORDS = {
    "unknown_operator": "unknown operator",
    "operator_off": "operator switched off",
    "severity": "one step too severe",
    "chain_length": "too many steps",
    "chain_severity": "too severe together",
    "value_range": "values outside the file's range",
    "contrast": "too little contrast left",
    "distance": "beyond its bound",
    "area": "too many pixels spliced",
    "pixel_distance": "many pixels changed, some too much",
    "similarity": "too little structure left",
    "validator": "the validator model sees another class",
}


def reason_in_words(reason: str) -> str:
    """One reason, by its name in result.json."""
    return _WORDS.get(reason) or visible(reason.replace("_", " "), NAME)


def reasons_in_words(reasons: Mapping[str, int]) -> str:
    """``12 too little contrast left, 3 beyond its bound``: the most frequent first; empty where there is none."""
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count(number)} {reason_in_words(reason)}" for reason, number in ordered)
