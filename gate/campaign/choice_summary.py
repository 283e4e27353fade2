"""What the choices of a search came to, as the record tells it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict

import numpy as np

from gate.campaign.entry_choice import EntryChoice
from gate.campaign.loop import ObjectiveCount
from gate.campaign.operator_choice import OperatorChoice
from gate.campaign.payoff import Objective
from gate.result import ObjectiveSummary, OperatorWeights, SearchedBoundary, StrategySummary

__all__ = ["MANY", "boundary_of", "objectives_of", "strategies_used", "weights_over_time"]

MANY = 12  # operators; where there are more, their weights are told by family


def weights_over_time(choice: OperatorChoice, family: Callable[[str], str]) -> tuple[OperatorWeights, ...]:
    """The operators' weights, or those of their families where there are more than ``MANY``; none where nothing was adapted or learnt."""
    if not choice.adaptive or len(choice.history) < 2:
        return ()
    names = choice.names if len(choice.names) <= MANY else tuple(family(name) for name in choice.names)
    points = []
    for point in choice.history:
        weights = dict.fromkeys(names, 0.0)
        for name, weight in zip(names, point.weights.tolist(), strict=True):
            weights[name] += weight
        points.append(OperatorWeights(executions=point.executions, weights={name: round(weight, 6) for name, weight in weights.items()}))
    return tuple(points)


def strategies_used(entries: EntryChoice) -> dict[str, StrategySummary]:
    """Every strategy that chose entries, and those that the model does not allow."""
    found = {
        name: StrategySummary(
            executions=count.executions, findings=count.findings, new_items=count.new_items, model_calls=count.model_calls
        )
        for name, count in entries.counts.items()
    }
    return found | {name: StrategySummary(left_out=reason) for name, reason in entries.left_out.items()}


def objectives_of(counts: Mapping[Objective, ObjectiveCount]) -> dict[str, ObjectiveSummary]:
    """What each objective was given and brought, in the order in which they came."""
    return {objective: ObjectiveSummary(**asdict(count)) for objective, count in counts.items()}


def boundary_of(failed_at: np.ndarray) -> SearchedBoundary | None:
    """From the least severity at which each seed input changed class, float64 [S], infinite where none did."""
    seen = failed_at[np.isfinite(failed_at)]
    if not len(seen):
        return None
    return SearchedBoundary(
        seed_inputs=len(seen), of=len(failed_at), median=round(float(np.median(seen)), 6), smallest=round(float(seen.min()), 6)
    )
