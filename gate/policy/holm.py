"""Many rules and slices allowed for: Holm's step-down.

With 40 limits judged at 95 % each, a sound model would breach one of them by chance in most runs. So a breach has to hold at a higher
confidence: with ``m`` limits still in question, at 1 - (1 - c) / m, where c is the rule's own. What breaches there is settled, and the rest
is looked at again with a smaller ``m``, until nothing is added. The chance that any limit at all is breached by chance alone is then at
most the largest 1 - c, however the limits depend on each other.

That holds for different confidences, too: before the first limit breaches that in truth is kept, only limits truly breached have left the
question, so ``m`` is at least the number of limits truly kept, and the chances of these add up to at most the largest 1 - c.

A limit that *holds* needs no such allowance: a run passes only if every one holds, so that the chance to pass a model that is beyond one of
them is at most the chance to be wrong about that one (an intersection-union test).

Sources: S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979); R. L. Berger,
"Multiparameter hypothesis testing and acceptance sampling", Technometrics 24 (1982).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Allowance", "allowed_for", "step_down"]

Key = TypeVar("Key")

_ROUNDS = 16  # each costs intervals at another confidence; ending early only leaves more undecided


@dataclass(frozen=True)
class Allowance(Generic[Key]):
    """What came of allowing for all limits."""

    tests: int
    breached: Mapping[Key, float]  # the confidence at which each was settled
    open: int  # limits still in question at the end, at least 1: what the rest was looked at with


def allowed_for(confidence: float, tests: int) -> float:
    """The confidence at which one of so many limits has to breach."""
    return confidence if tests == 1 else 1 - (1 - confidence) / tests


def step_down(confidences: Mapping[Key, float], beyond: Callable[[Key, float], bool]) -> Allowance[Key]:
    """Which limits are breached with all of them allowed for.

    Args:
        confidences: of each limit, the rule's own.
        beyond: whether the whole interval at a confidence lies beyond the limit; asked at a limit's own confidence first, and never again
            for one that is not beyond there.
    """
    tests = len(confidences)
    candidates = [key for key, confidence in confidences.items() if beyond(key, confidence)]
    breached: dict[Key, float] = {}
    for _ in range(_ROUNDS):
        left = tests - len(breached)
        levels = {key: allowed_for(confidences[key], left) for key in candidates if key not in breached}
        new = {key: level for key, level in levels.items() if beyond(key, level)}
        if not new:
            break
        breached |= new
    return Allowance(tests, breached, max(1, tests - len(breached)))
