"""After the campaign: what it found is made simpler and explained, as far as triage's share of the budget goes.

The share is counted in forward-equivalents, so that a run with a budget in executions explains the same defects in the same order however
fast the machine is; where time is limited, a clock ends it as well. Nothing here changes what the campaign counted.
"""

from __future__ import annotations

from gate.campaign.preflight import Preflight
from gate.campaign.supervisor import Worker
from gate.domains.domain import InputDomain
from gate.result import TriageSummary
from gate.triage.allowance import Allowance
from gate.work import Work

__all__ = ["begin", "expected_seconds", "explain", "simplify"]

CALLS_PER_CAUSE = 600  # forward-equivalents that explaining one root cause is expected to take


def expected_seconds(work: Work) -> float:
    """Seconds that explaining the defects found so far should take, at most triage's share of the wall budget."""
    wall = work.budget.settings.wall
    if wall is None or work.confirmer is None:
        return 0.0
    causes = len({defect.root_cause for defect in work.confirmer.defects})
    return min(work.settings.triage.share * wall, causes * CALLS_PER_CAUSE * work.seconds_per_sample)


def begin(work: Work) -> None:
    """Opens the allowance: triage's share of all model work, which is that of the campaign and its own.

    Notes it in ``work.allowance``.
    """
    assert work.campaign is not None
    share = work.settings.triage.share
    campaign = sum(count.model_calls for count in work.campaign.outcome.counts.values())
    wall, started = work.budget.settings.wall, work.budget.seconds

    def late() -> bool:
        left = work.budget.worker_left()
        return wall is not None and (work.budget.seconds - started > share * wall or (left is not None and left <= 0))

    work.allowance = Allowance(int(campaign * share / (1 - share)), late)
    work.triage = TriageSummary(share=share, allowed=work.allowance.calls, spent=0)


def simplify(work: Work, worker: Worker, domain: InputDomain, preflight: Preflight) -> None:
    """Makes the defects simpler, so that everything that comes after looks at the simplest ones.

    Raises:
        BudgetSpent, Interrupted: what was done until then is in ``work``.
    """


def explain(work: Work, worker: Worker, domain: InputDomain, preflight: Preflight) -> None:
    """Says of each root cause what it is, where it comes from and what to do.

    Raises:
        BudgetSpent, Interrupted: what was done until then is in ``work``.
    """
    assert work.allowance is not None
    assert work.triage is not None
    work.triage = work.triage.model_copy(update={"spent": work.allowance.spent})
