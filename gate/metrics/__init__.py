"""The metrics and their intervals: from a campaign's evidence to numbers that a policy can judge."""

from __future__ import annotations

from gate.metrics.catalogue import CATALOGUE, MetricSpec
from gate.metrics.compute import compute
from gate.metrics.evidence import Evidence

__all__ = ["CATALOGUE", "Evidence", "MetricSpec", "compute"]
