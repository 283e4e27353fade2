"""``result.json``: the record every other rendering can be made from again."""

from __future__ import annotations

import json
import math
from typing import Any

from gate.result import Result

__all__ = ["render"]


def render(result: Result) -> str:
    """The record as JSON text (ASCII, keys in the order of the schema), such that ``Result.load`` always reads it back.

    A lone surrogate, which no JSON reader has to accept, becomes U+FFFD. A number in the free-form parts (recipes, environment,
    fingerprint) that is not finite, which JSON can't say, becomes the text ``"nan"``, ``"inf"`` or ``"-inf"``.
    """
    return json.dumps(_writable(result.model_dump(by_alias=True)), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _writable(value: Any) -> Any:
    # Not pydantic's JSON mode: that one raises on a lone surrogate.
    if isinstance(value, dict):
        return {_text(key): _writable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_writable(item) for item in value]
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _text(value: str) -> str:
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
