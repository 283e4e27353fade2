"""One number beside one limit, and what it comes to there: a rule's own limit, or the change against the baseline that it allows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from gate.policy.schema import Compare, Rule
from gate.policy.threshold import Threshold
from gate.result import Metric, Paired

__all__ = ["Decision", "Look", "at_limit", "beside_baseline", "excused", "holds_excused"]

Decision = Literal["breached", "holds", "undecided", "no interval"]


@dataclass(frozen=True)
class Look:
    """What is judged: a value, its interval where there is one, and the limit."""

    threshold: Threshold
    value: float
    lower: float | None
    upper: float | None
    confidence: float | None  # of the interval
    n: int  # observations

    @property
    def finite(self) -> bool:
        """Whether every number is one; bounds may be infinite where nothing bounds the ratio they are of."""
        return math.isfinite(self.value) and not any(bound is not None and math.isnan(bound) for bound in (self.lower, self.upper))

    def decide(self, confidence: float | None) -> Decision:
        """By the point value where ``confidence`` is None, else by the whole interval, which must be of just that confidence."""
        if confidence is None:
            return "breached" if self.threshold.breached(self.value) else "holds"
        if self.lower is None or self.upper is None or self.confidence != confidence:
            return "no interval"
        return self.threshold.decide(self.lower, self.upper)

    @property
    def distance(self) -> float:
        """From the limit; above 0 on the good side."""
        gap = self.threshold.limit - self.value
        return gap if self.threshold.upper else -gap


def at_limit(rule: Rule, metric: Metric) -> Look | None:
    """The metric beside ``fail``; None where the rule has no such limit, or the metric no value."""
    if rule.fail is None or metric.value is None:
        return None
    return Look(rule.fail, metric.value, metric.lower, metric.upper, metric.confidence, metric.n or 0)


def excused(rule: Rule, metric: Metric) -> Look | None:
    """The same with those failures left out which the baseline has too; None where that can't be told or the policy counts them."""
    paired = metric.paired
    if rule.known == "count" or rule.fail is None or paired is None or paired.new is None:
        return None
    return Look(rule.fail, paired.new, paired.new_lower, paired.new_upper, paired.confidence, paired.n)


def holds_excused(rule: Rule, look: Look) -> bool:
    """Whether the limit would be kept without the known failures.

    The inputs that both models were run on may be few, where time was short. So an excuse has to hold on the whole interval wherever
    there is one, also for a rule that goes by the point value.
    """
    level = rule.confidence
    if level is None and look.lower is not None:
        level = look.confidence
    return look.decide(level) == "holds"


def beside_baseline(compare: Compare, paired: Paired) -> Look | None:
    """The change against the baseline beside the one allowed; None where it is relative to a baseline of 0."""
    threshold = _allowed(compare)
    if not compare.relative:
        return Look(threshold, paired.rise, paired.lower, paired.upper, paired.confidence, paired.n)
    if paired.relative is None:
        return None
    # JSON holds no infinity: a bound that is left out of a ratio is none.
    lower = -math.inf if paired.relative_lower is None else paired.relative_lower
    upper = math.inf if paired.relative_upper is None else paired.relative_upper
    return Look(threshold, paired.relative, lower, upper, paired.confidence, paired.n)


def _allowed(compare: Compare) -> Threshold:
    if compare.max_rise is not None:
        return Threshold(">", compare.max_rise, f"> {compare.max_rise:g}")
    assert compare.max_drop is not None  # the schema asks for one of them
    return Threshold("<", -compare.max_drop, f"< {-compare.max_drop:g}")
