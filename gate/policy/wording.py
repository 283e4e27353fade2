"""Numbers and limits in words a person reads: shares in percent, distances in points."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gate.metrics.catalogue import COUNT, SHARE_PER_EXECUTION, MetricSpec
from gate.policy.threshold import Threshold
from gate.result import Metric

if TYPE_CHECKING:
    from gate.policy.schema import Compare

__all__ = [
    "allowed_change",
    "breach",
    "change",
    "change_of",
    "comparison",
    "distance",
    "gap",
    "level",
    "limit",
    "name_of",
    "number",
    "value_of",
]

_LONGEST = 60
_OF_BASELINE = " % of the baseline's value"
_WORDS = {">": "more than", ">=": "at least", "<": "less than", "<=": "at most"}


def number(value: float, spec: MetricSpec, *, apart_from: float | None = None) -> str:
    """A value with its unit: ``34.0 %``, ``7``, ``12.3 per device-hour``.

    ``apart_from`` adds digits until the text differs from that value's, so that no sentence says "20.0 % is over 20 %".
    """
    if spec.unit == COUNT and value == int(value):
        return f"{int(value):,}"
    shown = _shown(value, spec, _decimals(value, spec))
    if apart_from is not None and value != apart_from:
        for decimals in range(_decimals(value, spec), 16):
            shown = _shown(value, spec, decimals)
            if shown != _shown(apart_from, spec, decimals):
                break
    return shown


def limit(threshold: Threshold, spec: MetricSpec) -> str:
    """A limit without needless zeros: ``20 %``, ``2 per device-hour``."""
    return f"{_scaled(threshold.limit, spec):.12g}{_unit(spec)}"


def breach(threshold: Threshold, spec: MetricSpec) -> str:
    """The breach in words: ``more than 20 %``."""
    return f"{_WORDS[threshold.comparison]} {limit(threshold, spec)}"


def comparison(compare: Compare, spec: MetricSpec) -> str:
    """What a comparison allows, in words: ``may rise by 2 points over the baseline``."""
    amount = compare.max_rise if compare.max_rise is not None else compare.max_drop
    assert amount is not None  # the schema asks for one of them
    way = ("rise", "over") if compare.max_rise is not None else ("drop", "under")
    if compare.relative:
        much = f"{amount * 100:.12g} % of the baseline's value"
    else:
        much = f"{_scaled(amount, spec):.12g}{' points' if spec.is_share else ''}"
    return f"may {way[0]} by {much} {way[1]} the baseline" if not compare.relative else f"may {way[0]} by {much}"


def distance(value: float, threshold: Threshold, spec: MetricSpec) -> str:
    """How far a value is from a limit: ``14.0 points``, ``3``, ``0.4``."""
    return gap(value - threshold.limit, spec)


def allowed_change(compare: Compare, spec: MetricSpec) -> str:
    """What a comparison allows, as a noun: ``rise of 2 points``, ``drop of 10 % of the baseline's value``."""
    amount = compare.max_rise if compare.max_rise is not None else compare.max_drop
    assert amount is not None
    much = f"{amount * 100:.12g} % of the baseline's value" if compare.relative else f"{_scaled(amount, spec):.12g}{_points(spec)}"
    return f"{'rise' if compare.max_rise is not None else 'drop'} of {much}"


def change(value: float, spec: MetricSpec, *, relative: bool = False) -> str:
    """A change against the baseline: ``+5.2 points``, ``-3``, ``+52.0 % of the baseline's value``."""
    return f"{_signed(value, spec, relative)}{_OF_BASELINE if relative else _points(spec)}"


def change_of(
    value: float, lower: float | None, upper: float | None, confidence: float | None, spec: MetricSpec, *, relative: bool = False
) -> str:
    """A change with its interval: ``+5.2 points (95 % interval +1.1 to +9.4)``."""
    text = change(value, spec, relative=relative)
    if lower is None or upper is None or confidence is None:
        return text
    ends = (_signed(bound, spec, relative) if math.isfinite(bound) else "no bound" for bound in (lower, upper))
    return f"{text} ({level(confidence)} interval {' to '.join(ends)})"


def gap(value: float, spec: MetricSpec, *, relative: bool = False) -> str:
    """How far apart two values are: ``14.0 points``, ``3``, ``0.40``."""
    if relative:
        return f"{abs(value) * 100:.1f} % of the baseline's value"
    size = abs(value)
    if spec.unit == COUNT and size == int(size):
        return f"{int(size):,}"
    return f"{_scaled(size, spec):.{_decimals(size, spec)}f}{_points(spec)}"


def level(confidence: float) -> str:
    """A confidence, with digits enough to tell it from certainty: ``95 %``, ``99.86 %``, ``99.995 %``."""
    rest = (1 - confidence) * 100
    decimals = min(max(0, 1 - math.floor(math.log10(rest) + 1e-9)), 12)
    return f"{round(100 - rest, decimals):.14g} %"


def value_of(metric: Metric, value: float, spec: MetricSpec, *, apart_from: float | None = None) -> str:
    """A value with its interval: ``34.0 % (95 % interval 29.1 to 39.3 %)``."""
    text = number(value, spec, apart_from=apart_from)
    if metric.lower is None or metric.upper is None or metric.confidence is None:
        return text
    lower, upper = (f"{_scaled(bound, spec):.{_decimals(bound, spec)}f}" for bound in (metric.lower, metric.upper))
    return f"{text} ({level(metric.confidence)} interval {lower} to {upper}{' %' if spec.is_share else ''})"


def name_of(slice_name: str) -> str:
    """A slice's name inside a sentence: one line, quoted, not longer than a sentence bears."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in slice_name)
    return f"'{plain}'" if len(plain) <= _LONGEST else f"'{plain[:_LONGEST]}…'"


def _scaled(value: float, spec: MetricSpec) -> float:
    return value * 100 if spec.is_share else value


def _signed(value: float, spec: MetricSpec, relative: bool) -> str:
    if relative:
        return f"{value * 100:+.1f}"
    if spec.unit == COUNT and value == int(value):
        return f"{int(value):+,}"
    return f"{_scaled(value, spec):+.{_decimals(value, spec)}f}"


def _points(spec: MetricSpec) -> str:
    return " points" if spec.is_share else ""


def _unit(spec: MetricSpec) -> str:
    if spec.unit == SHARE_PER_EXECUTION:
        return " % per execution"
    if spec.is_share:
        return " %"
    return f" {spec.unit}" if spec.unit.startswith("per ") else ""


def _decimals(value: float, spec: MetricSpec) -> int:
    """Decimals that show two significant digits at least; never fewer than one for a percentage, two for other numbers."""
    least = 1 if spec.is_share else 2
    scaled = abs(_scaled(value, spec))
    if scaled == 0 or scaled >= 1:
        return least
    magnitude = math.floor(math.log10(scaled) + 1e-9)  # 0.001 may be a hair under itself
    return min(max(least, 1 - magnitude), 9)


def _shown(value: float, spec: MetricSpec, decimals: int) -> str:
    return f"{_scaled(value, spec):.{decimals}f}{_unit(spec)}"
