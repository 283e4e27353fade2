"""Numbers as people read them: with the unit, and no more digits than mean something."""

from __future__ import annotations

import math

__all__ = [
    "amount",
    "confidence",
    "count",
    "difference",
    "difference_interval",
    "duration",
    "interval",
    "is_bounded",
    "is_share",
    "mark",
    "points",
    "roughly",
    "share",
    "short",
    "split",
]

MINUS = "\u2212"  # the sign as long as a plus; a hyphen is not
_SHARES = ("share", "ratio", "fraction")


def is_share(unit: str) -> bool:
    """Whether values of this unit lie between 0 and 1 and read best in percent."""
    return unit.split(" ")[0] in _SHARES


def is_bounded(unit: str) -> bool:
    """Whether no value of this unit can exceed 1, so that a scale has to end there."""
    return is_share(unit) or unit == "severity"


def share(value: float) -> str:
    """A share in percent, e.g. ``34.0 %`` or ``0.0052 %``."""
    return f"{_percent(value)} %"


def confidence(value: float) -> str:
    """How sure a model is, e.g. ``79.4 %``, ``over 99.9 %``: nearly sure is not sure, and more digits say nothing to a person."""
    if 0.9995 <= value < 1:
        return "over 99.9 %"
    return "under 0.1 %" if 0 < value < 0.0005 else share(round(value, 3))


def points(value: float) -> str:
    """A difference between two shares in percentage points, e.g. ``3.1 points``."""
    return f"{_percent(value)} points"


def roughly(value: float) -> str:
    """An estimated share, with no more digits than an estimate has: ``93 %``, ``0.3 %``, ``under 0.01 %``; only 0 and 1 are 0 and 100 %."""
    percent = value * 100
    if percent in (0, 100):
        return f"{percent:.0f} %"
    if abs(percent) < 0.01:
        return "under 0.01 %"
    if 99.5 <= percent < 100:
        return "over 99 %"
    return f"{percent:.0f} %" if abs(percent) >= 0.95 else f"{_trim(f'{percent:.{-math.floor(math.log10(abs(percent)))}f}')} %"


def count(value: float) -> str:
    """A number of things, e.g. ``12,000``."""
    return f"{value:,.0f}"


def short(value: float, step: float) -> str:
    """A number that has to fit beside a mark of an axis, told apart from the next one at ``step``: ``250``, ``12k``, ``3e-07``."""
    size = abs(value)
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if max(factor, 1e4) <= size < 1e12 and step >= factor / 1000:
            return f"{_trim(f'{value / factor:.3f}')}{letter}"
    if size >= 1e12 or 0 < size < 1e-4:
        return f"{value:.3g}"
    return _trim(f"{value:,.{min(8, max(0, 1 - math.floor(math.log10(step))))}f}")


def amount(value: float | None, unit: str) -> str:
    """A value with its unit; ``not measured`` where there is none.

    Shares become percent; a unit such as ``share per execution`` keeps its second half (``0.012 % per execution``).
    """
    if value is None or not math.isfinite(value):
        return "not measured"
    if is_share(unit):
        rest = unit.split(" ", 1)[1:]
        return " ".join([share(value), *rest])
    if unit in ("count", ""):
        return _plain(value)
    if unit == "severity":
        return f"{_plain(value) if 0 < value < 1 else f'{value:.2f}'} of 1"  # "1 of 1" would look like a count
    return f"{_plain(value)} {unit}"


def split(value: float, unit: str) -> tuple[str, str]:
    """The number and the rest of ``amount``, for setting them in different sizes: ``("2,184", "per device-hour")``."""
    number, _, rest = amount(value, unit).partition(" ")
    return (f"{number} %", rest.removeprefix("%").strip()) if is_share(unit) else (number, rest)


def mark(value: float, unit: str) -> str:
    """A number beside a mark of a scale: as short as it can be, the unit left out unless it is percent."""
    return f"{_trim(f'{value * 100:.6g}')} %" if is_share(unit) else _plain(value)


def interval(lower: float | None, upper: float | None, unit: str, confidence: float | None) -> str:
    """An interval with its level, e.g. ``29.1 to 39.3 % (95 % interval)``; empty where there is none."""
    if lower is None or upper is None:
        return ""
    level = " (interval)" if confidence is None else f" ({confidence * 100:.4g} % interval)"
    if is_share(unit):
        return f"{_percent(lower)} to {_percent(upper)} %{level}"
    return f"{_plain(lower)} to {_plain(upper)}{level}"


def difference(value: float, unit: str) -> str:
    """A difference between two values with its sign, e.g. ``+6.2 points``, ``−0.03``; ``none`` where they are equal."""
    if value == 0:
        return "none"
    sign = "+" if value > 0 else MINUS
    return f"{sign}{points(abs(value))}" if is_share(unit) else f"{sign}{_plain(abs(value))}"


def difference_interval(lower: float | None, upper: float | None, unit: str, confidence: float | None) -> str:
    """An interval of a difference with its level, e.g. ``+4.1 to +8.3 points (95 % interval)``; empty where there is none."""
    if lower is None or upper is None:
        return ""
    level = " (interval)" if confidence is None else f" ({confidence * 100:.4g} % interval)"
    ends = [
        f"{'+' if end > 0 else MINUS if end < 0 else ''}{_percent(abs(end)) if is_share(unit) else _plain(abs(end))}"
        for end in (lower, upper)
    ]
    return f"{ends[0]} to {ends[1]}{' points' if is_share(unit) else ''}{level}"


def duration(seconds: float) -> str:
    """Seconds as ``0.4 s``, ``12 s``, ``3 min 20 s`` or ``2 h 5 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _percent(value: float) -> str:
    percent = value * 100
    size = abs(percent)
    if percent in (0, 100):
        return f"{percent:.0f}"
    if 99.95 <= size < 100:  # nearly all is not all
        return _trim(f"{percent:.{min(8, 1 - math.floor(math.log10(100 - size)))}f}")
    if size >= 0.995:
        return f"{percent:.1f}"
    return _trim(f"{percent:.{min(8, 1 - math.floor(math.log10(size)))}f}")


def _plain(value: float) -> str:
    if value == int(value) and abs(value) < 1e15:
        return f"{value:,.0f}"
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}" if size < 1e15 else f"{value:.3g}"
    if size >= 1e-6:
        return _trim(f"{value:.{max(0, 2 - math.floor(math.log10(size)))}f}")
    return f"{value:.2g}"


def _trim(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
