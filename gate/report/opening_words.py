"""What a person reads first: why the verdict came out so, what that number means, and which classes are taken for which.

One root cause is one fault of one pair of classes in one family of changes, so a mistake in the training data that shows in many families
has many of them. The pairs of classes alone tell such a pattern in one line.
"""

from __future__ import annotations

from collections import Counter

from gate.report.numbers import count
from gate.report.text import NAME, visible
from gate.report.words import meaning, title
from gate.result import Result, RuleResult

__all__ = ["mixed_up", "plain_reason", "what_it_means"]

_PAIRS = 3
_LEAST = 2  # defects of the most frequent pair, below which there is no pattern to tell


def plain_reason(reason: str, result: Result) -> str:
    """A reason with the metric's name for people: ``Defect rate: 27.4 % …`` for ``defect-rate: defect_rate is 27.4 % …``."""
    rule = _rule_of(reason, result)
    if rule is None:
        return reason
    rest = reason.removeprefix(f"{rule.id}: ").removeprefix(f"{rule.metric} ")
    return f"{title(rule.metric)}: {rest.removeprefix('is ')}" if rest.startswith("is ") else f"{title(rule.metric)} {rest}"


def what_it_means(result: Result) -> str:
    """What the metric that decided says, in one sentence; empty where no rule decided."""
    rule = _rule_of(result.reasons[0], result) if result.reasons else None
    return meaning(rule.metric, rule) if rule is not None else ""


def mixed_up(result: Result) -> str:
    """The pairs of classes of most defects, e.g. ``Wrong most often: four read as nine (39 defects) and one read as seven (12).``

    Empty where no pair of classes has two defects.
    """
    pairs = Counter(
        (defect.label, defect.predicted)
        for defect in result.defects
        if defect.label is not None and defect.predicted is not None and defect.predicted != defect.label
    )
    told = sorted(((pair, found) for pair, found in pairs.items() if found >= _LEAST), key=lambda one: (-one[1], one[0]))[:_PAIRS]
    if not told:
        return ""
    words = []
    for number, ((label, predicted), found) in enumerate(told):
        names = (visible(result.class_name(index), NAME) for index in (label, predicted))
        words.append(f"{' read as '.join(names)} ({count(found)}{'' if number else ' defects'})")
    listed = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
    return f"Wrong most often: {listed}."


def _rule_of(reason: str, result: Result) -> RuleResult | None:
    return next((rule for rule in result.rules if reason.removeprefix(f"{rule.id}: ").startswith(f"{rule.metric} ")), None)
