"""Makes metric objects with the catalogue's unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gate.metrics.catalogue import CATALOGUE
from gate.metrics.evidence import Evidence
from gate.metrics.intervals import Interval, exact_share
from gate.metrics.sequences import mean_sequence
from gate.result import Metric

__all__ = ["class_names", "judged_share", "measured", "missing", "share"]


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
    """A metric with a value. The interval is widened to contain the value, which a sequence may have left behind."""
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
    """A share of n >= 1 independent observations with its exact interval."""
    return measured(name, successes / n, n=n, interval=exact_share(successes, n, confidence), confidence=confidence, slices=slices)


def judged_share(name: str, outcomes: Sequence[bool], confidence: float, evidence: Evidence) -> Metric:
    """A share of at least one seed input of the judging arm, in the blind order; valid at every moment where the run decides early."""
    if evidence.decide != "early":
        return share(name, sum(outcomes), len(outcomes), confidence)
    interval = mean_sequence(np.array(outcomes, dtype=np.float64), confidence)
    return measured(name, sum(outcomes) / len(outcomes), n=len(outcomes), interval=interval, confidence=confidence)


def class_names(evidence: Evidence) -> dict[int, str]:
    """Slice name by class index; a name that two classes share gets the index added, so that their slices stay apart."""
    names = evidence.classes
    twice = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
    return {index: f"{name} ({index})" if name in twice else name for index, name in enumerate(names)}
