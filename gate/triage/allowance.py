"""What explaining the defects may spend: a share of the budget, counted in model work, with a clock beside it where time is limited."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Allowance"]


class Allowance:
    """Forward-equivalents that may still be spent. What is done in which order follows from them alone, never from how fast anybody is.

    Args:
        calls: forward-equivalents in all; a backward pass counts two.
        late: whether the time is up, whatever is left of the calls.
        within: another allowance that this one is a part of; what is taken here is taken there.
    """

    def __init__(self, calls: int, late: Callable[[], bool] = lambda: False, *, within: Allowance | None = None) -> None:
        self.calls = calls
        self.spent = 0
        self._late = late
        self._within = within

    @property
    def left(self) -> int:
        """Forward-equivalents that may be taken now; 0 once the time is up."""
        if self._late():
            return 0
        own = max(0, self.calls - self.spent)
        return own if self._within is None else min(own, self._within.left)

    @property
    def late(self) -> bool:
        """Whether it is the clock that ended it."""
        return self._late() or (self._within is not None and self._within.late)

    def take(self, calls: int) -> bool:
        """Books so many forward-equivalents; False, and nothing is booked, where that is more than is left."""
        if calls > self.left:
            return False
        self.book(calls)
        return True

    def book(self, calls: int) -> None:
        """Counts what has been spent, whether it was allowed or not."""
        self.spent += calls
        if self._within is not None:
            self._within.book(calls)
