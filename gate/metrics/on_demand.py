"""Metrics at one confidence, each computed when it is first asked for.

Rules that are decided at another confidence than the report's need one or two metrics there, and every one not asked for saves an interval
for each of its slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gate.metrics.catalogue import CATALOGUE
from gate.metrics.compute import measure
from gate.metrics.evidence import Evidence
from gate.result import Metric

__all__ = ["MetricsOnDemand"]


class MetricsOnDemand(Mapping[str, Metric]):
    """The same numbers as ``compute`` gives, by name and in the catalogue's order."""

    def __init__(self, evidence: Evidence, confidence: float) -> None:
        if not 0 < confidence < 1:
            raise ValueError(f"a confidence lies strictly between 0 and 1, not at {confidence!r}")
        self._evidence = evidence
        self._confidence = confidence
        self._known: dict[str, Metric] = {}

    def __getitem__(self, name: str) -> Metric:
        if name not in CATALOGUE:
            raise KeyError(name)
        if name not in self._known:
            self._known[name] = measure(name, self._evidence, self._confidence)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(CATALOGUE)

    def __len__(self) -> int:
        return len(CATALOGUE)
