"""A difference from the baseline with its interval on a small scale around zero."""

from __future__ import annotations

from dataclasses import dataclass

from gate.report.numbers import difference, difference_interval

__all__ = ["WIDTH", "Rise", "reach", "rise"]

WIDTH = 240.0  # user units; zero is in the middle
_INSET = 5.0  # room for half a dot at either end


@dataclass(frozen=True)
class Rise:
    """Horizontal places in user units, 0 to ``WIDTH``; ``side`` says which way the whole interval lies, if it does."""

    value: float
    lower: float | None
    upper: float | None
    side: str  # worse | better | open
    worse_from: float  # left end of the side that is worse, or worse than allowed
    worse_width: float
    limit: float | None  # what is allowed, where a rule allows something
    words: str  # the drawing in words, for those who can't see it


def reach(numbers: list[float]) -> float:
    """The half-width of a scale that shows them all; never 0."""
    return max((abs(number) for number in numbers), default=0.0) or 1.0


def rise(
    value: float, lower: float | None, upper: float | None, unit: str, *, higher_is_worse: bool, to: float, allowed: float | None = None
) -> Rise:
    """Lays a difference out on a scale from ``-to`` to ``to``; drawings with the same ``to`` can be compared.

    Args:
        allowed: the difference from which on a rule is breached; None: any that is worse counts as such.
    """
    middle = WIDTH / 2

    def place(number: float) -> float:
        return round(middle + (middle - _INSET) * min(1.0, max(-1.0, number / to)), 1)

    side = "open"
    if lower is not None and upper is not None and (lower > 0 or upper < 0):
        side = "worse" if (lower > 0) == higher_is_worse else "better"
    edge = place(0.0 if allowed is None else allowed)
    within = difference_interval(lower, upper, unit, None).removesuffix(" (interval)")
    return Rise(
        value=place(value),
        lower=None if lower is None else place(lower),
        upper=None if upper is None else place(upper),
        side=side,
        worse_from=edge if higher_is_worse else 0.0,
        worse_width=round(WIDTH - edge if higher_is_worse else edge, 1),
        limit=None if allowed is None else edge,
        words=f"Difference from the baseline: {difference(value, unit)}{f', interval from {within}' if within else ''}"
        f"{f', allowed {difference(allowed, unit)}' if allowed is not None else ''}.",
    )
