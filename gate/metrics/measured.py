"""Makes metric objects with the catalogue's unit."""

from __future__ import annotations

from collections.abc import Mapping

from gate.metrics.catalogue import CATALOGUE
from gate.metrics.evidence import Evidence
from gate.metrics.intervals import Interval, wilson
from gate.result import Metric

__all__ = ["class_names", "measured", "missing", "share"]


def measured(
    name: str,
    value: float,
    *,
    n: int,
    interval: Interval | None = None,
    confidence: float | None = None,
    extra: Mapping[str, float] | None = None,
    slices: Mapping[str, Mapping[str, Metric]] | None = None,
) -> Metric:
    """A metric with a value. The interval is widened to contain the value, which a percentile interval may miss by a hair."""
    lower, upper = (min(interval[0], value), max(interval[1], value)) if interval else (None, None)
    return Metric(
        value=value,
        lower=lower,
        upper=upper,
        confidence=confidence if interval else None,
        n=n,
        unit=CATALOGUE[name].unit,
        extra=dict(extra or {}),
        slices={by: dict(parts) for by, parts in (slices or {}).items() if parts},
    )


def missing(name: str, reason: str, *, n: int | None = None, evidence: Evidence | None = None) -> Metric:
    """A metric that could not be computed; where the run stopped early, the reason says so too."""
    if evidence is not None and evidence.stopped_early:
        reason = f"{reason} (the run stopped early: {evidence.stopped_early.rstrip('.')})"
    return Metric(value=None, n=n, unit=CATALOGUE[name].unit, reason=reason)


def share(name: str, successes: int, n: int, confidence: float, *, slices: Mapping[str, Mapping[str, Metric]] | None = None) -> Metric:
    """A share of n >= 1 independent observations with its Wilson interval."""
    return measured(name, successes / n, n=n, interval=wilson(successes, n, confidence), confidence=confidence, slices=slices)


def class_names(evidence: Evidence) -> dict[int, str]:
    """Slice name by class index; a name that two classes share gets the index added, so that their slices stay apart."""
    names = evidence.classes
    twice = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
    return {index: f"{name} ({index})" if name in twice else name for index, name in enumerate(names)}
