"""The same numbers for parts of the evidence (classes, families, kinds of long-tail samples), the weakest first."""

from __future__ import annotations

from typing import Any

from gate.metrics.catalogue import CATALOGUE
from gate.report.bar import Bar, bar
from gate.report.beside_baseline import BY
from gate.report.numbers import amount, count, interval, is_share
from gate.report.text import NAME, visible
from gate.report.words import title
from gate.result import Metric, Result

__all__ = ["MOST_SLICES", "slices_page"]

MOST_SLICES = 30
_METRICS = ("defect_rate", "missed_positive_rate", "clean_accuracy", "long_tail_accuracy")
_MOST_UNMEASURED = 5


def slices_page(result: Result) -> list[dict[str, Any]]:
    """A table for each metric and each way of slicing that has at least two measured parts, and at most ``MOST_SLICES`` rows.

    Parts that could not be measured are named: a class without a single usable seed input has no rate, and that says something, too.
    """
    tables = []
    for name in _METRICS:
        metric = result.metrics.get(name)
        for by, parts in (metric.slices if metric else {}).items():
            measured = [(part, value) for part, value in parts.items() if value.value is not None]
            if len(measured) < 2:
                continue
            sign = -1 if CATALOGUE[name].higher_is_worse else 1
            measured.sort(key=lambda pair: (sign * (pair[1].value or 0.0), pair[0]))
            unmeasured = sorted(part for part, value in parts.items() if value.value is None)
            by_words = BY.get(by) or visible(by.replace("_", " "), NAME)
            tables.append(
                {
                    "title": f"{title(name)} by {by_words}",
                    "by": by_words[:1].upper() + by_words[1:],
                    "rows": [_row(part, value) for part, value in measured[:MOST_SLICES]],
                    "left_out": max(0, len(measured) - MOST_SLICES),
                    "unmeasured": _listed(unmeasured),
                }
            )
    return tables


def _row(part: str, metric: Metric) -> dict[str, Any]:
    return {
        "name": visible(part, NAME),
        "value": amount(metric.value, metric.unit),
        "interval": interval(metric.lower, metric.upper, metric.unit, metric.confidence),
        "bar": _bar(metric),
        "n": "" if metric.n is None else count(metric.n),
    }


def _bar(metric: Metric) -> Bar | None:
    if metric.value is None or metric.lower is None or metric.upper is None or not is_share(metric.unit):
        return None
    return bar(metric.value, metric.lower, metric.upper, metric.unit, ends=(0.0, 1.0))


def _listed(names: list[str]) -> str:
    if not names:
        return ""
    more = f" and {count(len(names) - _MOST_UNMEASURED)} more" if len(names) > _MOST_UNMEASURED else ""
    return f"Not measured: {', '.join(visible(name, NAME) for name in names[:_MOST_UNMEASURED])}{more}."
