"""How far seed inputs stand each family of mutations: the share that has failed up to a severity, one small drawing a family."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gate.report.curve import ticks
from gate.report.numbers import count, mark, share
from gate.report.text import NAME, visible
from gate.result import FamilyMargin, Result

__all__ = ["margins_page"]

_WIDTH, _HEIGHT = 250, 150  # user units of a drawing
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 10, 8, 36
_MOST_FAMILIES = 24
_MOST_STEPS = 120  # more can't be told apart at this size
_SHARES = (0.05, 0.25, 0.5)


def margins_page(result: Result) -> dict[str, Any] | None:
    """The section on margins by family, the least robust first; None where the judging arm saw none."""
    measured = [margin for margin in result.margins if margin.seeds > 0]
    if not measured:
        return None
    measured.sort(key=lambda margin: (-margin.failed / margin.seeds, margin.family))
    shown = measured[:_MOST_FAMILIES]
    highest = max(margin.failed / margin.seeds for margin in shown)
    marks = [tick for tick in ticks(0.0, max(highest, 0.05), most=3) if tick <= 1.0 + 1e-9]
    farthest = max((severity for margin in shown for severity in margin.severities), default=1.0)
    end = max(1.0, math.ceil(farthest * 10) / 10)
    return {
        "frame": {"width": _WIDTH, "height": _HEIGHT, "left": _LEFT, "right": _WIDTH - _RIGHT, "bottom": _HEIGHT - _BOTTOM},
        "x": [(_x(value * end, end), f"{value * end:.3g}") for value in (0, 0.5, 1)],
        "y": [(_y(tick, marks[-1]), mark(tick, "share")) for tick in marks],
        "panels": [_panel(margin, end, marks[-1]) for margin in shown],
        "shares": [mark(part, "share") for part in _SHARES],
        "left_out": len(measured) - len(shown),
    }


def _x(severity: float, end: float) -> float:
    return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * min(max(severity, 0.0), end) / end, 1)


def _y(part: float, top: float) -> float:
    return round(_HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * min(part, top) / top, 1)


def _panel(margin: FamilyMargin, end: float, top: float) -> dict[str, Any]:
    severities = sorted(margin.severities)
    name = visible(margin.family.replace("_", " "), NAME)
    reached = [_reached(severities, margin.seeds, part) for part in _SHARES]
    line = _steps(severities, margin.seeds, end, top)
    return {
        "name": name,
        "line": line,
        "area": f"{line} {_x(end, end)},{_y(0.0, top)} {_x(0.0, end)},{_y(0.0, top)}",
        "seeds": count(margin.seeds),
        "failed": count(margin.failed),
        "share": share(margin.failed / margin.seeds),
        "reached": ["never" if value is None else f"{value:.2f}" for value in reached],
        "words": f"{name}: {count(margin.failed)} of {count(margin.seeds)} seed inputs fail, {share(margin.failed / margin.seeds)}"
        + (f", the first at severity {severities[0]:.2f}." if severities else "."),
    }


def _reached(severities: Sequence[float], seeds: int, part: float) -> float | None:
    """The severity up to which at least this share of the seed inputs has failed; None where it never has."""
    needed = max(1, math.ceil(part * seeds - 1e-9))
    return severities[needed - 1] if needed <= len(severities) else None


def _steps(severities: Sequence[float], seeds: int, end: float, top: float) -> str:
    """The corners of the curve, which jumps up wherever seed inputs fail for the first time."""
    rows = list(range(len(severities)))
    if len(rows) > _MOST_STEPS:
        rows = sorted({round(i * (len(severities) - 1) / (_MOST_STEPS - 1)) for i in range(_MOST_STEPS)})
    corners = [(0.0, 0.0)]
    for row in rows:
        corners += [(severities[row], corners[-1][1]), (severities[row], (row + 1) / seeds)]
    corners.append((end, corners[-1][1]))
    return " ".join(f"{_x(severity, end)},{_y(part, top)}" for severity, part in corners)
