"""Coverage over executions as line drawings: one panel a criterion, because their scales differ."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from gate.report.coverage import NO_SET
from gate.report.numbers import amount, count, mark, share, short
from gate.result import CurvePoint

__all__ = ["BOTTOM", "HEIGHT", "LEFT", "RIGHT", "TOP", "WIDTH", "Line", "Panel", "Tick", "drawn", "panels", "ticks"]

WIDTH, HEIGHT = 340, 220  # user units of a panel
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 42  # room around the lines, for the axes
_MOST_POINTS = 300  # more can't be told apart at this size
_ARMS: tuple[tuple[str, str, Callable[[CurvePoint], dict[str, float]]], ...] = (
    ("noise", "Noise control", lambda point: point.noise),
    ("random", "Random control", lambda point: point.random),
    ("search", "Search", lambda point: point.coverage),
)


@dataclass(frozen=True)
class Tick:
    place: float
    text: str


@dataclass(frozen=True)
class Line:
    """One arm: ``points`` is what an SVG polyline takes."""

    arm: str
    name: str
    points: str
    last: str


@dataclass(frozen=True)
class Panel:
    criterion: str
    lines: tuple[Line, ...]
    x: tuple[Tick, ...]
    y: tuple[Tick, ...]
    words: str
    note: str  # what has to be said wherever the values are shown; empty for most


def panels(curve: Sequence[CurvePoint], kinds: Mapping[str, str]) -> list[Panel]:
    """A panel for each criterion of the curve; none where fewer than two points were recorded.

    Args:
        curve: the points of the campaign, in any order.
        kinds: by criterion ``share``, ``count`` or ``statistic``; one that is not named is drawn in plain numbers.
    """
    points = sorted(curve, key=lambda point: point.executions)
    if len(points) < 2 or points[-1].executions <= points[0].executions:
        return []
    if len(points) > _MOST_POINTS:
        points = [points[round(i * (len(points) - 1) / (_MOST_POINTS - 1))] for i in range(_MOST_POINTS)]
    criteria = list(dict.fromkeys(name for point in points for name in point.coverage))
    return [_panel(name, points, kinds.get(name, "count")) for name in criteria]


def _panel(criterion: str, points: Sequence[CurvePoint], kind: str) -> Panel:
    is_share = kind == "share"
    series = {
        arm: [(point.executions, values(point)[criterion]) for point in points if criterion in values(point)] for arm, _, values in _ARMS
    }
    heights = [y for line in series.values() for _, y in line]
    low, high = min(heights), max(heights)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        room = 0.005 if is_share else abs(high) / 2 or 1.0
        low, high = low - room, high + room
        if is_share:
            low, high = max(0.0, low), min(1.0, high)
    y_ticks = ticks(0.0 if 0 <= low < 0.5 * high else low, high)
    bottom, top = y_ticks[0], y_ticks[-1]
    first, last = points[0].executions, points[-1].executions
    start = 0 if first < 0.2 * last else first

    def x_place(executions: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (executions - start) / (last - start), 1)

    def y_place(value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - bottom) / (top - bottom), 1)

    def said(value: float) -> str:
        return share(value) if is_share else amount(value, "")

    lines = tuple(
        Line(arm, name, " ".join(f"{x_place(x)},{y_place(y)}" for x, y in series[arm]), said(series[arm][-1][1]))
        for arm, name, _ in _ARMS
        if series[arm]
    )
    searched = series["search"]
    words = (
        f"Coverage {criterion} over executions. The search goes from {said(searched[0][1])} to {said(searched[-1][1])} "
        f"within {count(last)} executions."
    )
    return Panel(
        criterion=criterion,
        lines=lines,
        x=tuple(
            Tick(x_place(tick), count(tick) if last < 1e7 else short(tick, 1e6))
            for tick in ticks(start, last, most=4)
            if start <= tick <= last
        ),
        y=tuple(Tick(y_place(tick), mark(tick, "share") if is_share else short(tick, y_ticks[1] - y_ticks[0])) for tick in y_ticks),
        words=words,
        note=NO_SET if kind == "statistic" else "",
    )


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers from at or below ``low`` to at or above ``high``, about ``most`` of them."""
    raw = (high - low) / most or 1.0
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, max(last, first + 1) + 1)]


def drawn(points: str) -> Markup:
    """Points as an SVG takes them, whole: as text they would be cut short where they are many.

    Raises:
        ValueError: something else than numbers stands among them.
    """
    if not re.fullmatch(r"[-0-9., ]*", points):
        raise ValueError(f"no points of a drawing: {points[:40]!r}")
    return Markup(points)  # numbers alone
