"""What can be said of a policy before a run under it: rules that no model can meet, or that this run's budget can never decide."""

from __future__ import annotations

import dataclasses
import datetime

from gate.config import BudgetSettings
from gate.policy.check import check
from gate.policy.finding import Finding
from gate.policy.load import LoadedPolicy

__all__ = ["doubts"]


def doubts(loaded: LoadedPolicy, budget: BudgetSettings, *, today: datetime.date) -> tuple[Finding, ...]:
    """The errors that ``gate policy check`` would find, one for each rule, for the budget in force in place of the policy's own.

    Args:
        loaded: the policy of the run.
        budget: of the run. Without executions in it nobody knows how much will be judged, and what follows from that is left out.
        today: decides which waivers are in force.
    """
    in_force = dataclasses.replace(loaded, policy=loaded.policy.model_copy(update={"budget": budget}))
    by_rule: dict[str | None, Finding] = {}
    for finding in check(in_force, today=today):
        if finding.level == "error":
            by_rule.setdefault(finding.rule, finding)
    return tuple(
        dataclasses.replace(finding, text=finding.text.replace("the policy's own budget", "the budget of this run"))
        for finding in by_rule.values()
    )
