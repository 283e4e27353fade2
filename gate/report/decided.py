"""How a verdict was decided, in words that all renderings share: distances from limits, several rules at once, early decisions."""

from __future__ import annotations

import math

from gate.report.numbers import amount, count, difference, difference_interval, duration, interval, is_share, points, roughly
from gate.report.text import NAME, visible
from gate.report.words import limit_of, sentence
from gate.result import EarlyDecision, Paired, Result, RuleResult, Status

__all__ = [
    "comparison_in_words",
    "distance_in_words",
    "distance_of",
    "early_in_words",
    "evidence_in_words",
    "known_in_words",
    "level_in_words",
    "multiplicity_in_words",
    "rise_in_words",
    "saved_by",
]

_MOST_NAMES = 5


def distance_of(rule: RuleResult) -> float | None:
    """From the limit, in the metric's unit, above 0 on the good side; None where the rule saw no value, or names no fixed limit."""
    if rule.status is Status.SKIPPED:
        return None
    if rule.distance is not None:
        return rule.distance
    limit = limit_of(rule)
    if limit is None or rule.value is None:
        return None
    return limit.limit - rule.value if limit.upper else rule.value - limit.limit


def distance_in_words(rule: RuleResult) -> str:
    """``14.0 points beyond the limit``, ``0.03 within the limit``, ``on the limit itself``; empty where there is no distance."""
    gap = distance_of(rule)
    if gap is None:
        return ""
    if gap == 0:
        return "on the limit itself"
    size = points(abs(gap)) if is_share(rule.unit) else difference(abs(gap), "").removeprefix("+")
    return f"{size} {'within' if gap > 0 else 'beyond'} {_what(rule, gap)}"


def _what(rule: RuleResult, gap: float) -> str:
    """What the distance is from: a rule with a limit and a comparison tells the one that matters more."""
    limit = limit_of(rule)
    own = None if limit is None or rule.value is None else limit.limit - rule.value if limit.upper else rule.value - limit.limit
    if rule.compare is not None and (own is None or not math.isclose(own, gap, rel_tol=1e-9, abs_tol=1e-12)):
        return "what is allowed beside the baseline"
    return "the warning limit" if rule.threshold == rule.warn else "the limit"


def rise_in_words(paired: Paired, unit: str) -> str:
    """How far the candidate is from the baseline: ``+6.2 points, +4.1 to +8.3 points (95 % interval), 284 inputs``."""
    within = difference_interval(paired.lower, paired.upper, unit, paired.confidence)
    moved = difference(paired.rise, unit).replace("none", "no difference")
    inputs = f"{count(paired.n)} {'input' if paired.n == 1 else 'inputs'}"
    return ", ".join(part for part in (moved, within, inputs) if part)


def comparison_in_words(rule: RuleResult) -> str:
    """What the rule's comparison came to; empty where it has none."""
    if rule.paired is None or rule.status is Status.SKIPPED:
        return f"{sentence(visible(rule.compare))} Not measured." if rule.compare else ""
    allowed = f"; it {visible(rule.compare)}" if rule.compare else ""
    return f"Beside the baseline on the same inputs: {rise_in_words(rule.paired, rule.unit)}{allowed}."


def known_in_words(rule: RuleResult) -> str:
    """Why a breach only warns; empty for any other rule."""
    if not rule.known:
        return ""
    paired = rule.paired
    if paired is None or paired.new is None:
        return "Known: the baseline fails on these inputs too, and without them the rule would hold."
    within = interval(paired.new_lower, paired.new_upper, rule.unit, paired.confidence)
    return f"Known: without what the baseline fails on too it is {amount(paired.new, rule.unit)}{f', {within}' if within else ''}."


def level_in_words(rule: RuleResult) -> str:
    """At what confidence a breach of the rule counts; empty where several rules and slices made no difference to it."""
    if rule.adjusted is None or rule.adjusted == rule.confidence:
        return ""
    how = "This breach was decided" if rule.status in (Status.FAIL, Status.WAIVED) else "A breach would be decided"
    return f"{how} at {rule.adjusted * 100:.4g} % confidence, because several rules and slices are looked at."


def evidence_in_words(rule: RuleResult) -> str:
    """The defects that show it, e.g. ``d-1, d-2 and 58 more defects``; empty where there are none."""
    if not rule.evidence:
        return ""
    shown = [visible(one, NAME) for one in rule.evidence[:_MOST_NAMES]]
    more = max(0, rule.evidence_count - len(shown))
    if more:
        return f"{', '.join(shown)} and {count(more)} more {'defect' if more == 1 else 'defects'}"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def multiplicity_in_words(result: Result) -> str | None:
    """How several rules and slices were allowed for; None where no rule is decided on an interval."""
    several = result.multiplicity
    if several is None:
        return None
    if several.tests == 1:
        return f"One rule is decided on an interval: the chance that it breaches by chance alone is at most {roughly(several.error)}."
    return (
        f"{count(several.tests)} rules and slices are decided on intervals. Breaches are decided by Holm's step-down over all of them, so "
        f"the chance that any one breaches by chance alone is at most {roughly(several.error)}. "
        "A pass needs all of them to hold, each at its own confidence."
    )


def saved_by(early: EarlyDecision) -> float | None:
    """The share of the budget that an early decision saved, 0 to 1: of the executions where they are limited, else of the time."""
    if not early.stopped:
        return None
    if early.of:
        return max(0.0, 1 - early.executions / early.of)
    return max(0.0, 1 - early.seconds / early.of_seconds) if early.of_seconds and early.seconds is not None else None


def early_in_words(result: Result) -> str | None:
    """Whether the campaign could end early and what that saved, or what ended it; None where the policy decides at the end."""
    if result.campaign is not None and result.campaign.stop_reason == "abort":
        after = f"after {count(result.campaign.executions)} executions"
        return f"Aborted {after}, at the first confirmed defect of a kind that ends a campaign (abort_on); nothing else was looked for."
    early = result.early
    if early is None:
        return None
    why = sentence(visible(early.reason))
    looked = f"{count(early.looks)} {'look' if early.looks == 1 else 'looks'}"
    if early.stopped:
        saved = saved_by(early)
        of = f" of {count(early.of)}" if early.of else f" in {duration(early.seconds)}" if early.seconds is not None else ""
        spared = f", which saved {roughly(saved)} of the budget" if saved else ""
        return f"Decided early: after {count(early.executions)}{of} executions and {looked}{spared}."
    names = [visible(name, NAME) for name in early.open_rules[:_MOST_NAMES]]
    more = f" and {count(len(early.open_rules) - len(names))} more" if len(early.open_rules) > len(names) else ""
    asked = f"{looked} in {count(early.executions)} executions"
    return f"Not decided early: {asked}; still open: {', '.join(names)}{more}." if names else f"Not decided early: {asked}. {why}"
