"""What may end a campaign before its budget does: a confirmed defect of a kind that the policy wants to hear of at once; or that all is
settled.

Both are asked between steps and depend on what the steps until then brought, never on time, so that the same campaign ends at the same step
however many processes run the model.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable
from datetime import date

from gate.campaign.budget import executions_of
from gate.campaign.deadline import Interrupted
from gate.corpus.export import half_of
from gate.metrics.evidence import Evidence
from gate.metrics.measured import class_names
from gate.metrics.on_demand import MetricsOnDemand
from gate.policy.evaluate import evaluate
from gate.policy.schema import Policy
from gate.policy.settled import at_a_look, unsettled, when
from gate.record import as_asked, evidence_of
from gate.result import EarlyDecision
from gate.triage.aborting import aborting
from gate.triage.root_causes import root_causes
from gate.work import Work

__all__ = ["FIRST_LOOK", "GROWTH", "Ending"]

FIRST_LOOK = 16  # judged seed inputs: fewer can't settle much
GROWTH = 1.1  # from one look to the next, the executions grow by this factor, so that looks stay cheap beside the campaign

STANDARD = 0.95  # confidence of the intervals that a report shows


class Ending:
    """Asked between the steps of a campaign whether it should end. Lives in the supervisor; notes in ``work.early`` what came of it.

    Args:
        work: with seeds, judging arm, confirmer and campaign, once it is asked.
        pairs: runs the baseline on what has been judged since it was last called; None where no rule needs it or there is none.
    """

    def __init__(self, work: Work, *, pairs: Callable[[], None] | None = None) -> None:
        policy = work.policy.policy
        self._work = work
        self._pairs = pairs
        self._early = policy.decide == "early"
        self._policy = at_a_look(policy)
        self._next = 0  # executions from which on it is worth looking again
        self._blocker: str | None = None  # a rule that was open at the last look
        self._judged = 0  # seed inputs at the last look
        self._reachable: dict[str, dict[str, int]] = {}
        self._began: tuple[int, float] | None = None  # executions and seconds of the run when the campaign began
        self._asked = 0.0  # seconds of the run when it was last asked
        self._pairing = 0.0  # of these, for how many it waited for the baseline
        self._today = date.fromisoformat(work.started_at[:10])
        self.looks = 0

    def __call__(self) -> str | None:
        """``abort``, ``decided``, or None where the campaign goes on."""
        self._asked = self._work.budget.seconds
        if self._began is None:
            self._began = (self._executions(), self._asked)
        if self._aborted():
            return "abort"
        if self._early and self._worth_a_look():
            try:
                return self._look()
            except Interrupted:
                return None  # which the campaign learns by itself
        return None

    def _aborted(self) -> bool:
        """Whether a defect of a kind that ends the campaign has been confirmed."""
        assert self._work.confirmer is not None
        found = aborting(self._work.policy.policy.abort_on, self._work.confirmer.defects)
        if found is not None:
            self._work.events.emit("ended", why="abort", executions=self._executions(), defect=found.id, oracle=found.oracle)
        return found is not None

    def _worth_a_look(self) -> bool:
        return self._judged_now() >= FIRST_LOOK and self._executions() >= self._next

    def conclude(self) -> None:
        """Once the campaign is over and the baseline has run: notes how it ended, and all that was still open then."""
        work = self._work
        if not self._early or work.campaign is None:
            return
        stopped = work.campaign.outcome.stop_reason == "decided"
        self._note(() if stopped else self._open(every=True), stopped=stopped)

    def _look(self) -> str | None:
        executions = self._executions()
        self.looks += 1
        self._next = max(executions + 1, math.ceil(executions * GROWTH))
        still = self._open()
        self._blocker, self._judged = (still[0] if still else None), self._judged_now()
        said = {"executions": executions, "judged": self._judged}
        self._work.events.emit("look", number=self.looks, open=list(still), **said)
        if still:
            return None
        self._work.events.emit("ended", why="decided", **said)
        return "decided"

    def _open(self, *, every: bool = False) -> tuple[str, ...]:
        """Rules that more executions could still change: all of them, or at least one where there is any.

        Most looks end with the rule that was open at the last one. What holds it open alone does so among others, too: allowing for more
        rules takes breaches away and adds none.
        """
        if not every and self._blocker is not None and self._judged_now() == self._judged and self._waits_for_judging(self._blocker):
            return (self._blocker,)
        if not every:
            self._pair()
        evidence = self._evidence()
        if not self._reachable:
            self._reachable = _reachable(self._work, evidence)
        if not every and self._blocker is not None:
            rule = next(rule for rule in self._policy.rules if rule.id == self._blocker)
            still = self._judge(self._policy.model_copy(update={"rules": (rule,)}), evidence)
            if still:
                return still
        return self._judge(self._policy, evidence)

    def _pair(self) -> None:
        """Runs the baseline on what was judged since the last look. No arm is given that time, nor is it part of the campaign's pace."""
        if self._pairs is None:
            return
        budget = self._work.budget
        before = budget.seconds
        try:
            with budget.device_released():
                self._pairs()
        finally:
            self._pairing += budget.seconds - before
        self._work.deadline.begin("the campaign ran")

    def _waits_for_judging(self, identity: str) -> bool:
        rule = next(rule for rule in self._policy.rules if rule.id == identity)
        return when(rule, self._policy, paired=self._paired) == "judging"

    def _judge(self, policy: Policy, evidence: Evidence) -> tuple[str, ...]:
        work = self._work
        assert work.confirmer is not None
        assert work.candidate is not None
        at = functools.cache(lambda confidence: MetricsOnDemand(evidence, confidence))
        metrics = at(STANDARD)
        judgement = evaluate(
            policy,
            metrics,
            today=self._today,
            candidate=work.candidate,
            root_causes=root_causes(work.confirmer.defects, work.classes) if policy.waivers else (),
            metrics_at=at,
        )
        return unsettled(policy, judgement.rules, metrics, paired=self._paired, reachable=self._reachable)

    def _evidence(self) -> Evidence:
        return as_asked(evidence_of(self._work), self._work.policy, self._work.classes)

    def _note(self, still: tuple[str, ...], *, stopped: bool) -> None:
        work, executions, of = self._work, self._executions(), self._work.budget.executions
        before, begun = self._began or (0, 0.0)
        seconds = max(0.0, self._asked - begun - self._pairing)
        whole: float | None = None
        if of is not None and executions > before:
            whole = seconds * (of - before) / (executions - before)
        elif of is None and work.budget.settings.wall is not None:
            whole = max(seconds, work.budget.settings.wall - work.budget.reserve - begun)
        work.early = EarlyDecision(
            stopped=stopped,
            reason=_why(still, stopped=stopped, judged=self._judged_now(), looks=self.looks),
            looks=self.looks,
            executions=executions,
            of=of,
            seconds=round(seconds, 3),
            of_seconds=None if whole is None else round(whole, 3),
            open_rules=still,
        )

    @property
    def _paired(self) -> bool:
        return self._pairs is not None and self._work.baseline_evidence is not None

    def _executions(self) -> int:
        assert self._work.campaign is not None
        return self._work.campaign.outcome.executions

    def _judged_now(self) -> int:
        assert self._work.judging is not None
        return self._work.judging.judged


def _why(still: tuple[str, ...], *, stopped: bool, judged: int, looks: int) -> str:
    if stopped:
        return "every quality rule was settled and every adequacy rule met, by intervals that may be looked at at any time"
    if still:
        return "not every rule was settled before the campaign ended"
    if not looks and judged >= FIRST_LOOK:
        return "the campaign ended before it was looked at for the first time"
    if not looks:
        return f"{judged} seed inputs had been judged when the campaign ended, and nothing is looked at before {FIRST_LOOK}"
    return "all was settled only when the campaign ended anyway"


def _reachable(work: Work, evidence: Evidence) -> dict[str, dict[str, int]]:
    """By kind of slice and slice, how many seed inputs of it the judging arm can get to within a budget of executions, valid or not."""
    assert work.judging is not None
    assert work.seeds is not None
    assert work.campaign is not None
    order, limit = work.judging.order, work.budget.settings.executions
    if limit is not None:
        order = order[: executions_of(work.policy.policy.arms.judging, limit) // work.judging.executions_per_seed]
    names, labels, ids = class_names(evidence), work.seeds.labels, work.seeds.ids
    natural = [work.campaign.domain.family(name) for name in work.campaign.domain.natural]
    families = [{natural[operator] for operator in row} for row in work.judging.operators_of(order).tolist()]
    return {
        "class": Counter(names.get(int(labels[seed]), str(int(labels[seed]))) for seed in order.tolist()),
        "half": Counter(half_of(ids[seed]) for seed in order.tolist()),
        "family": Counter(family for row in families for family in row),
    }
