"""A value, its interval and its limit on one small scale."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gate.policy.threshold import Threshold
from gate.report.numbers import amount, is_bounded, mark

__all__ = ["WIDTH", "Bar", "bar"]

WIDTH = 240.0  # user units; the drawing scales with its box
_INSET = 4.0  # room for half a dot at either end


@dataclass(frozen=True)
class Bar:
    """Horizontal places in user units, 0 to ``WIDTH``. ``breach`` is (from, length) of the part beyond the limit."""

    value: float
    lower: float | None
    upper: float | None
    limit: float | None
    limit_text: str
    limit_anchor: str  # start | middle | end: how its text stands to the mark, so that it stays on the drawing
    breach: tuple[float, float] | None
    start_text: str
    end_text: str
    words: str  # the drawing in words, for those who can't see it


def bar(
    value: float,
    lower: float | None,
    upper: float | None,
    unit: str,
    limit: Threshold | None = None,
    *,
    ends: tuple[float, float] | None = None,
) -> Bar:
    """Lays a value out on a scale that shows value, interval and limit, starting at zero where that wastes little room.

    Args:
        ends: the ends of the scale, for bars that are to be compared with each other; None picks round ones.
    """
    start, end = ends or _ends([value, *(v for v in (lower, upper) if v is not None), *([limit.limit] if limit else [])], unit)

    def place(number: float) -> float:
        return round(_INSET + (WIDTH - 2 * _INSET) * (number - start) / (end - start), 1)

    words = f"Value {amount(value, unit)}"
    if lower is not None and upper is not None:
        words += f", interval from {amount(lower, unit)} to {amount(upper, unit)}"
    if limit:
        words += f", limit {amount(limit.limit, unit)}"
    edge = place(limit.limit) if limit else None
    return Bar(
        value=place(value),
        lower=None if lower is None else place(lower),
        upper=None if upper is None else place(upper),
        limit=edge,
        limit_anchor="middle" if edge is None or 40 <= edge <= WIDTH - 40 else "start" if edge < 40 else "end",
        limit_text=mark(limit.limit, unit) if limit else "",
        breach=None if limit is None or edge is None else (edge, round(WIDTH - edge, 1)) if limit.upper else (0.0, edge),
        start_text=mark(start, unit),
        end_text=mark(end, unit),
        words=words + ".",
    )


def _ends(points: list[float], unit: str) -> tuple[float, float]:
    """Round ends with some room around all points."""
    low, high = min(points), max(points)
    if low >= 0 and low <= 0.5 * high:
        low = 0.0
    room = (high - low) * 0.15 or abs(high) * 0.5 or 1.0
    start = low if low == 0 else low - room
    end = high + room
    if is_bounded(unit) and min(points) >= 0 and max(points) <= 1:
        start, end = max(0.0, start), min(1.0, end)
    return _round(start, end)


def _round(start: float, end: float) -> tuple[float, float]:
    """Ends on round numbers, outside the given ones."""
    step = 10.0 ** math.floor(math.log10(end - start)) / 2
    rounded = math.floor(start / step) * step, math.ceil(end / step - 1e-9) * step
    return rounded if rounded[0] < rounded[1] else (start, end)
