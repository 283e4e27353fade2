"""What a metric can come to under a policy's own budget: its values, how many samples there are, and the intervals at both ends.

Intervals are not guessed: evidence is made in which nothing fails, and evidence in which everything does, and the metrics are computed
from both as they are in a run, by the same intervals, those of ``decide: early`` included.
"""

from __future__ import annotations

import functools
import math

from gate.campaign.budget import executions_of
from gate.campaign.canary_kinds import KINDS
from gate.metrics import Evidence
from gate.metrics.catalogue import CATALOGUE, COUNT, SEVERITY
from gate.metrics.compute import measure
from gate.metrics.evidence import CanaryEvidence, JudgedSeed
from gate.policy.schema import Policy
from gate.result import Metric

__all__ = ["JUDGED", "extremes", "samples", "values"]

JUDGED = ("defect_rate", "mutant_failure_rate", "confident_error_rate", "missed_positive_rate", "robust_margin_p05")
_ENOUGH = 1_000  # seed inputs: what can be settled by so many can be settled by more


def values(metric: str, policy: Policy) -> tuple[float, float]:
    """The least and the greatest value that a metric can have at all; a number of executions ends with the policy's own budget."""
    spec = CATALOGUE[metric]
    if spec.is_share or spec.unit == SEVERITY:
        return 0.0, 1.0
    budget = policy.budget.executions if policy.budget is not None else None
    if spec.unit == COUNT and metric == "executions" and budget is not None:
        return 0.0, float(budget - executions_of(policy.arms.canaries, budget))  # what is kept for canaries is not the candidate's
    return 0.0, math.inf


def samples(metric: str, policy: Policy) -> tuple[int, str] | None:
    """The most observations that a metric can have, and in words what they are and why there are no more.

    Returns:
        None where the policy does not say: it gives no budget in executions, or the number depends on the data.
    """
    if metric == "canary_recall":
        return len(KINDS), f"{len(KINDS)} canaries, which are all there are"
    if metric not in JUDGED or policy.budget is None or policy.budget.executions is None:
        return None
    share = executions_of(policy.arms.judging, policy.budget.executions)
    seeds = share // (policy.judging.mutants_per_seed * policy.judging.repeat)
    return seeds, f"{seeds:,} seed inputs, which the policy's own budget judges at most"


def extremes(metric: str, policy: Policy, confidence: float) -> tuple[Metric, Metric] | None:
    """A metric where nothing fails and where everything does (or no canary is found, and all), from as many samples as there can be.

    Args:
        confidence: of the intervals.

    Returns:
        None where nobody knows how many samples there will be, or there will be none.
    """
    most = samples(metric, policy)
    if most is None or not most[0]:
        return None
    if metric == "canary_recall":
        none, all_ = (measure(metric, _planted(found), confidence) for found in (False, True))
        return none, all_
    seeds = most[0]
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


def _planted(found: bool) -> Evidence:
    return Evidence(seed=0, classes=("a", "b"), canaries=tuple(CanaryEvidence(name=name, found=found, executions=100) for name in KINDS))


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
