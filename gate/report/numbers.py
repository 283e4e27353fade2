"""Numbers as people read them: with the unit, and no more digits than mean something."""

from __future__ import annotations

import math

__all__ = ["amount", "count", "duration", "interval", "is_bounded", "is_share", "mark", "share", "split"]

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


def count(value: float) -> str:
    """A number of things, e.g. ``12,000``."""
    return f"{value:,.0f}"


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
        return f"{_plain(value)} of 1"
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
        return f"{value:,.0f}"
    if size >= 1e-6:
        return _trim(f"{value:.{max(0, 2 - math.floor(math.log10(size)))}f}")
    return f"{value:.2g}"


def _trim(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
