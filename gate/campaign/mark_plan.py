"""How the marks' share of the model work is spent: a cheap look at everything, then more and more work on fewer and fewer candidates.

Successive halving, with a quarter kept at each level (Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter
optimization", AISTATS 2016). Work is counted in forward-equivalents of one sample; a backward pass counts two.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CHILDREN", "FULL", "LEAST_HELD_OUT", "LEAST_INPUTS", "Plan", "least_work", "plan"]

LEAST_INPUTS = 8  # that a mark is searched on
LEAST_HELD_OUT = 20  # that it is measured on
MOST_HELD_OUT = 200
FULL = 50_000  # forward-equivalents beyond which more work was not seen to find more
CHILDREN = 4  # variants of a mark that evolution tries in one step
KEPT = 4  # one in so many candidates is kept from one level to the next
FINALISTS = 4  # candidates measured at the end
LEAST_STEPS = 4  # on one candidate, without which climbing gets nowhere
MOST_STEPS = 40


@dataclass(frozen=True)
class Plan:
    """What is done with an allowance."""

    inputs: int  # that marks are searched on
    starts: int  # marks in the screen, the first of them
    levels: tuple[tuple[int, int], ...]  # (candidates, steps on each of them), in order; none where there is only enough for the screen
    finalists: int
    held_out: int  # inputs that each finalist is measured on


def least_work(starts: int) -> int:
    """Forward-equivalents of the smallest plan for so many starting marks: the screen, and measuring its best mark."""
    return starts * LEAST_INPUTS + LEAST_HELD_OUT


def plan(allowance: int, *, plain: int, starts: int, candidates: int, inputs: int, held_out: int, gradients: bool) -> Plan | None:
    """The plan for an allowance in forward-equivalents; None where it does not pay for the screen.

    Args:
        allowance: of model work.
        plain: marks that the screen has at least.
        starts: marks that it has where they take no more than a quarter of the allowance.
        candidates: (class, kind) pairs.
        inputs: seed inputs to search on, ``LEAST_INPUTS`` or more.
        held_out: others to measure on, ``LEAST_HELD_OUT`` or more.
        gradients: whether the model has them; else evolution tries ``CHILDREN`` variants a step.
    """
    if allowance < least_work(plain):
        return None
    inputs = min(inputs, LEAST_INPUTS if allowance < 2_000 else 16 if allowance < 20_000 else 32)
    starts = starts if starts * inputs <= allowance / 4 else plain
    while starts * inputs + LEAST_HELD_OUT > allowance / 2 and inputs > LEAST_INPUTS:
        inputs -= 1
    left = allowance - starts * inputs
    finalists = max(1, min(candidates, FINALISTS, left // (4 * LEAST_HELD_OUT)))
    measured = max(LEAST_HELD_OUT, min(held_out, MOST_HELD_OUT, left // (4 * finalists)))
    left -= finalists * measured
    cost = (3 if gradients else CHILDREN) * inputs  # of one step on one candidate
    sizes = [candidates]
    while sizes[-1] > finalists:
        sizes.append(max(finalists, sizes[-1] // KEPT))
    # A level that can't take more candidates than the next one would keep is no level.
    while len(sizes) > 1 and left // len(sizes) // (LEAST_STEPS * cost) <= sizes[1]:
        sizes.pop(0)
    levels: list[tuple[int, int]] = []
    for number, size in enumerate(sizes):
        part = left // (len(sizes) - number)
        affordable = min(size, part // (LEAST_STEPS * cost), levels[-1][0] if levels else size)
        if affordable < 1:
            continue
        steps = min(MOST_STEPS, part // (affordable * cost))
        levels.append((affordable, steps))
        left -= affordable * steps * cost
    measured = min(held_out, MOST_HELD_OUT, measured + left // finalists)  # what is left narrows the intervals
    return Plan(inputs, starts, tuple(levels), finalists, measured)
