"""The verdict out of what the rules came to: the worst status in the order error, fail, inconclusive, pass.

No evidence is not a pass: without an execution, or without a rule that holds, the verdict is inconclusive at best.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gate.metrics.catalogue import CATALOGUE
from gate.result import Metric, Multiplicity, RuleResult, Status, Verdict, exit_code_of

__all__ = ["WORST_FIRST", "Judgement", "judge"]

WORST_FIRST = (Status.ERROR, Status.FAIL, Status.INCONCLUSIVE, Status.WAIVED, Status.WARN, Status.PASS, Status.SKIPPED)
_VERDICTS = {Status.ERROR: Verdict.ERROR, Status.FAIL: Verdict.FAIL, Status.INCONCLUSIVE: Verdict.INCONCLUSIVE}


@dataclass(frozen=True)
class Judgement:
    """What a policy says about a run."""

    verdict: Verdict
    exit_code: int
    reasons: tuple[str, ...]  # what decided the verdict first
    next_steps: tuple[str, ...]
    rules: tuple[RuleResult, ...]  # in the policy's order
    multiplicity: Multiplicity | None = None  # how many limits were allowed for; None: none was decided on an interval


def judge(
    rules: tuple[RuleResult, ...], metrics: Mapping[str, Metric], *, advisory: bool, multiplicity: Multiplicity | None = None
) -> Judgement:
    """One verdict out of the rules' outcomes, whatever their order.

    Args:
        metrics: of the run; without executions among them the verdict is inconclusive at best.
        advisory: turns the exit code of fail and inconclusive into 0 and says so.
    """
    # Among equals, a model that does not behave as one under test should comes first: it makes every other number hard to read.
    by_weight = sorted(rules, key=lambda rule: (WORST_FIRST.index(rule.status), rule.metric != "preflight_faults", rule.id))
    judged = [rule for rule in by_weight if rule.status is not Status.SKIPPED]
    verdict = _VERDICTS.get(judged[0].status, Verdict.PASS) if judged else Verdict.INCONCLUSIVE
    reasons: list[str] = []
    steps = [rule.next_step for rule in by_weight if rule.status not in (Status.PASS, Status.SKIPPED)]
    executions = metrics.get("executions")
    nothing_ran = executions is None or executions.value is None or not executions.value > 0
    if nothing_ran and verdict in (Verdict.PASS, Verdict.INCONCLUSIVE):
        verdict = Verdict.INCONCLUSIVE
        reasons.append("No mutant was run through the model, and no evidence is not a pass.")
        steps.insert(0, CATALOGUE["executions"].to_measure)
    nothing_held = _nothing_held(rules)
    if nothing_held is not None and verdict in (Verdict.PASS, Verdict.INCONCLUSIVE):
        verdict = Verdict.INCONCLUSIVE
        reasons.append(f"{nothing_held}, and no evidence is not a pass.")
        steps += [rule.next_step for rule in by_weight]
    told = [rule for rule in by_weight if rule.status not in (Status.PASS, Status.SKIPPED)]
    reasons += [f"{rule.id}: {rule.explanation}" for rule in told]
    if verdict is Verdict.PASS:
        held = sum(rule.status in (Status.PASS, Status.WARN) for rule in rules)
        skipped = len(rules) - len(judged)
        waived = sum(rule.status is Status.WAIVED for rule in rules)
        warned = sum(rule.status is Status.WARN for rule in rules)
        parts = [f"{held} of {len(rules)} rules hold"]
        beside = ((warned, "of them with a warning"), (waived, "waived"), (skipped, "skipped"))
        parts += [f"{count} {word}" for count, word in beside if count]
        reasons.insert(0, f"{', '.join(parts)}.")
    exit_code = exit_code_of(verdict, advisory=advisory)
    if exit_code != exit_code_of(verdict):
        reasons.append(f"Advisory mode: the exit code is {exit_code} instead of {exit_code_of(verdict)}.")
    return Judgement(verdict, exit_code, tuple(reasons), tuple(dict.fromkeys(step for step in steps if step)), rules, multiplicity)


def _nothing_held(rules: tuple[RuleResult, ...]) -> str | None:
    """Why the rules say nothing for the model although none of them blocks; None where they do say something."""
    if not rules:
        return "The policy has no rules"
    left = {rule.status for rule in rules}
    if left == {Status.SKIPPED}:
        return "Every rule of the policy was skipped"
    if left <= {Status.SKIPPED, Status.WAIVED}:
        return "Every rule of the policy was waived or skipped"
    return None
