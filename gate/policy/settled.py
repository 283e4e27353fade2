"""What a campaign that decides early is run for: which rules more executions could still change.

A rule on what the judging arm measures is settled once its interval, which is allowed to be looked at again and again, lies on one side of
its limit. One without ``confidence`` goes by a point value, and a point value of few observations says little: it is settled once the
interval at 95 % is, and the point value lies on the same side of the limit then. Holding is not enough for a sliced rule while a slice
that could still get enough samples has too few, for a class that is quietly forgotten would be missed. Nothing that depends on time is
waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from gate.metrics.catalogue import CATALOGUE
from gate.policy.schema import Policy, Rule
from gate.result import Metric, RuleResult, Status

__all__ = ["WHEN", "When", "at_a_look", "unsettled", "when"]

When = Literal["judging", "campaign", "elsewhere"]

CONFIDENCE = 0.95  # of the interval that settles a rule on the point value

WHEN: dict[str, When] = {
    # The judging arm narrows it: its interval must lie on one side of the limit.
    "defect_rate": "judging",
    "mutant_failure_rate": "judging",
    "confident_error_rate": "judging",
    "missed_positive_rate": "judging",
    "robust_margin_p05": "judging",
    "negative_flip_rate": "judging",
    # It grows with the campaign: what it is now counts.
    "executions": "campaign",
    "coverage_gain": "campaign",
    "coverage_gain_per_iteration": "campaign",
    "defects_per_1k_executions": "campaign",
    "root_causes": "campaign",
    "crashes": "campaign",
    "nonfinite_outputs": "campaign",
    "flaky_findings": "campaign",
    "flips_per_mistake": "campaign",
    # Known before the campaign, measured after it, or a matter of time: not waited for.
    "preflight_faults": "elsewhere",
    "clean_accuracy": "elsewhere",
    "universal_mark_rate": "elsewhere",
    "hangs": "elsewhere",
    "long_tail_accuracy": "elsewhere",
    "long_tail_hit_rate": "elsewhere",
    "regression_rate": "elsewhere",
    "canary_recall": "elsewhere",
    "backend_disagreements": "elsewhere",
    "defect_density": "elsewhere",
}

_SETTLED = (Status.PASS, Status.WARN, Status.WAIVED, Status.SKIPPED)


def when(rule: Rule, policy: Policy, *, paired: bool) -> When:
    """What settles a rule. What the run can never measure is nothing to wait for.

    Args:
        paired: whether a baseline is run on the same inputs.
    """
    if (rule.metric == "missed_positive_rate" and not policy.positive) or (rule.metric == "negative_flip_rate" and not paired):
        return "elsewhere"
    return WHEN[rule.metric]


def at_a_look(policy: Policy) -> Policy:
    """The policy that rules are judged by while the campaign runs: where the judging arm can move a point value, an interval decides."""

    def strict(rule: Rule) -> Rule:
        if rule.confidence is not None or not _blocks(rule) or WHEN[rule.metric] != "judging" or not CATALOGUE[rule.metric].interval:
            return rule
        return rule.model_copy(update={"confidence": CONFIDENCE})

    return policy.model_copy(update={"rules": tuple(map(strict, policy.rules))})


def unsettled(
    policy: Policy,
    results: Iterable[RuleResult],
    metrics: Mapping[str, Metric],
    *,
    paired: bool,
    reachable: Mapping[str, Mapping[str, int]],
) -> tuple[str, ...]:
    """Ids of the rules for which the campaign has to go on, in the policy's order.

    Args:
        policy: as of ``at_a_look``.
        results: of its rules, or of some of them.
        metrics: that they were judged on.
        paired: whether a baseline is run on the same inputs.
        reachable: by kind of slice and slice, how many seed inputs of it the judging arm can get to; a slice that is not named there counts
            as soon as it has been seen.
    """
    rules = {rule.id: rule for rule in policy.rules}
    look = _Look(policy, paired, reachable)
    return tuple(result.id for result in results if not look.settled(rules[result.id], result, metrics[result.metric]))


@dataclass(frozen=True)
class _Look:
    policy: Policy
    paired: bool
    reachable: Mapping[str, Mapping[str, int]]

    def settled(self, rule: Rule, result: RuleResult, metric: Metric) -> bool:
        kind = when(rule, self.policy, paired=self.paired)
        if kind == "elsewhere":
            return True
        if kind == "judging" and not self._measured(rule, metric):
            return False  # whatever on_missing makes of it: more executions may bring it
        if result.status is Status.FAIL:
            return rule.kind == "quality"
        if result.status not in _SETTLED:
            return False
        return kind != "judging" or self._in_all_slices(rule, metric)

    def _measured(self, rule: Rule, metric: Metric) -> bool:
        """Whether there is anything to judge yet."""
        if metric.value is None:
            return False
        if rule.slice is None:
            parts = [metric]
        else:
            parts = [part for part in metric.slices.get(rule.slice.by, {}).values() if _enough(rule, part)]
            if not parts and not _blocks(rule):
                return rule.on_missing == "skip"
        if rule.compare is not None and self.paired:
            return any(part.paired is not None for part in parts)
        return bool(parts)

    def _in_all_slices(self, rule: Rule, metric: Metric) -> bool:
        """Whether every slice that can get enough samples has; a rule that only warns blocks nothing and need not wait for that."""
        # Kinds of the long-tail set have the samples that they have.
        if rule.slice is None or rule.slice.by == "long_tail_kind" or not _blocks(rule):
            return True
        seen, could = metric.slices.get(rule.slice.by, {}), self.reachable.get(rule.slice.by, {})
        if rule.metric == "missed_positive_rate" and rule.slice.by == "class":
            could = {name: n for name, n in could.items() if name in self.policy.positive}
        expected = {name for name, n in could.items() if n >= (rule.min_samples or 1)} | (seen.keys() - could.keys())
        if not all(name in seen and _enough(rule, seen[name]) for name in expected):
            return False
        return rule.compare is None or not self.paired or all(_enough_pairs(rule, seen[name]) for name in expected)


def _blocks(rule: Rule) -> bool:
    return rule.fail is not None or rule.compare is not None


def _enough(rule: Rule, part: Metric) -> bool:
    return part.value is not None and (part.n or 0) >= (rule.min_samples or 1)


def _enough_pairs(rule: Rule, part: Metric) -> bool:
    return part.paired is not None and part.paired.n >= (rule.min_samples or 1)
