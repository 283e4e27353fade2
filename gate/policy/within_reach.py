"""What a metric can come to under a policy's own budget: its values, how many seed inputs are judged, and the intervals at both ends.

Intervals are not guessed: evidence is made in which nothing fails, and evidence in which everything does, and the metrics are computed
from both as they are in a run, by the same intervals, those of ``decide: early`` included.
"""

from __future__ import annotations

import functools
import math

from gate.metrics import Evidence
from gate.metrics.catalogue import CATALOGUE, COUNT, SEVERITY
from gate.metrics.compute import measure
from gate.metrics.evidence import JudgedSeed
from gate.policy.schema import Policy
from gate.result import Metric

__all__ = ["JUDGED", "extremes", "judged_seeds", "values"]

JUDGED = ("defect_rate", "mutant_failure_rate", "confident_error_rate", "missed_positive_rate", "robust_margin_p05")
_ENOUGH = 1_000  # seed inputs: what can be settled by so many can be settled by more


def values(metric: str, policy: Policy) -> tuple[float, float]:
    """The least and the greatest value that a metric can have at all; a number of executions ends with the policy's own budget."""
    spec = CATALOGUE[metric]
    if spec.is_share or spec.unit == SEVERITY:
        return 0.0, 1.0
    budget = policy.budget.executions if policy.budget is not None else None
    if spec.unit == COUNT and metric == "executions" and budget is not None:
        return 0.0, float(budget)
    return 0.0, math.inf


def judged_seeds(policy: Policy) -> int | None:
    """Seed inputs that the judging arm can afford, given enough of them; None where the policy gives no budget in executions."""
    if policy.budget is None or policy.budget.executions is None:
        return None
    share = math.floor(policy.arms.judging * policy.budget.executions + 1e-6)
    return share // (policy.judging.mutants_per_seed * policy.judging.repeat)


def extremes(metric: str, policy: Policy, confidence: float) -> tuple[Metric, Metric] | None:
    """A metric of the judging arm where nothing fails and where everything does, from as many seed inputs as the policy affords.

    Args:
        confidence: of the intervals.

    Returns:
        None where it is no metric of the judging arm, or the policy does not say how many seed inputs there will be, or none.
    """
    seeds = judged_seeds(policy)
    if metric not in JUDGED or not seeds:
        return None
    each = min(policy.judging.mutants_per_seed, 8)  # all alike, so that their number changes no interval
    early = policy.decide == "early"
    for count in sorted({min(seeds, _ENOUGH), seeds}):
        none, all_ = (measure(metric, _made(count, each, fails, early), confidence) for fails in (False, True))
        if count == seeds or _settles(none, all_):
            return none, all_
    return None


def _settles(none: Metric, all_: Metric) -> bool:
    """Whether the two intervals are so narrow that more seed inputs would change little."""
    widths = [1.0 if part.lower is None or part.upper is None else part.upper - part.lower for part in (none, all_)]
    return max(widths) < 0.005


@functools.lru_cache(maxsize=16)
def _made(seeds: int, each: int, fails: bool, early: bool) -> Evidence:
    row = JudgedSeed(
        seed_id="s",
        label=0,
        operators=("none",) * each,
        families=("none",) * each,
        severities=(0.0 if fails else 1.0,) * each,
        valid=(True,) * each,
        failed=(fails,) * each,
        predicted=(1 if fails else 0,) * each,
        confidence=(1.0,) * each,
    )
    return Evidence(
        seed=0,
        classes=("a", "b"),
        judged=tuple(row.model_copy(update={"seed_id": f"s{number}"}) for number in range(seeds)),
        judging_mutants_per_seed=each,
        positive=(0,),
        decide="early" if early else "end",
    )
