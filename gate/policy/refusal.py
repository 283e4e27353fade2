"""Why a value in a policy is refused, in words for the person who wrote it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["refusal"]

_ANYTHING = "See docs/policies.md for what it takes."
_SHAPES = {  # by the last part of the key: how it is written
    "abort_on": "a list: abort_on: [crashes, nonfinite_outputs]",
    "positive": "a list of class names: positive: [crack, hole]",
    "slice": "a mapping: slice: {by: class}",
    "compare": "a mapping: compare: {to: baseline, max_rise: 0.02}",
    "arms": "a mapping: arms: {judging: 0.3, canaries: 0.1}",
    "judging": "a mapping: judging: {mutants_per_seed: 8}",
}


def refusal(error: Mapping[str, Any], key: str) -> tuple[str, str]:
    """(what is wrong, what to do).

    Args:
        error: one of pydantic's.
        key: where it is, as in ``rules.defect-rate.confidence``.
    """
    given, last = error.get("input"), key.rpartition(".")[2]
    message = str(error["msg"]).removeprefix("Value error, ").replace("Input should be", "must be")
    if error["type"] in ("dict_type", "model_type", "model_attributes_type", "tuple_type", "list_type"):
        message = "must be " + _SHAPES.get(
            last, "a list" if error["type"] in ("tuple_type", "list_type") else "a mapping of keys to values"
        )
    message = (
        message.replace("a valid ", "a ")
        .replace("must be less than or equal to", "must be at most")
        .replace("greater than or equal to", "at least")
    )
    shown = isinstance(given, str | int | float | bool) and error["type"] not in ("value_error", "missing")
    return f"{message}{f' (given: {given!r})' if shown else ''}.", _hint(given, key)


def _hint(given: Any, key: str) -> str:
    if key.startswith("waivers"):
        return "Every waiver needs rule, owner, reason and expires."
    percent = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", given) if isinstance(given, str) else None
    last = key.rpartition(".")[2]
    if percent is not None:
        return f"Write {last}: {float(percent[1]) / 100:g}. Only fail and warn take percent."
    if last == "confidence" and isinstance(given, int | float) and not isinstance(given, bool) and 50 <= given < 100:
        return f"Write confidence: {given / 100:g}."
    return _ANYTHING
