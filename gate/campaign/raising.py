"""A batch that makes the model raise is halved until the inputs at fault are known; the others are answered as usual."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gate.campaign.supervisor import Refused

__all__ = ["MOST_IN_A_ROW", "Piece", "Raising", "exception_in_words"]

MOST_IN_A_ROW = 64  # inputs that raise, without one answer between them, after which the model is taken to answer nothing
_LONGEST = 300  # characters kept of an exception

T = TypeVar("T")


def exception_in_words(error: Refused) -> str:
    """The exception's type and its first line, cut; written by the model, so hostile."""
    lines = error.what.splitlines()
    return (lines[0] if lines else "an exception without a text")[:_LONGEST]


@dataclass(frozen=True)
class Piece(Generic[T]):
    """What was answered to consecutive rows of a batch."""

    rows: slice
    answer: T


@dataclass
class Raising:
    """Counts inputs that raise. Lives in the supervisor, as long as a model is tested.

    Args:
        most: inputs in a row, without one answer between them, that are put up with.
    """

    most: int = MOST_IN_A_ROW
    in_a_row: int = field(default=0, init=False)

    def answered(self) -> None:
        """Notes that something was answered."""
        self.in_a_row = 0

    def note(self, error: Refused) -> str:
        """Notes that one input, alone, made the model raise; the exception in words.

        Raises:
            Refused: ``most`` inputs in a row have.
        """
        self.in_a_row += 1
        if self.in_a_row >= self.most:
            error.what = (
                f"{error.what.rstrip('.')}. The model raised on {self.in_a_row} inputs in a row, each alone, and answered none between"
            )
            raise error
        return exception_in_words(error)

    def halved(
        self,
        count: int,
        ask: Callable[[slice], T],
        error: Refused,
        *,
        alone: Callable[[int], AbstractContextManager[object]] = lambda row: nullcontext(),
    ) -> tuple[Sequence[Piece[T]], dict[int, str], int]:
        """Has the rows of a batch of ``count`` answered that came to an exception as a whole.

        Args:
            count: inputs in the batch, at least one.
            ask: has consecutive rows answered.
            error: what came of all of them; the batch is not tried as a whole again.
            alone: entered before a row is tried alone, and left after.

        Returns:
            The answers, in order of the rows; by row that raised alone, the exception in words; and how many were run in vain, beside the
            one run of each that counts.

        Raises:
            Refused: ``most`` inputs in a row have raised.
            Whatever else ``ask`` raises.
        """
        pieces: list[Piece[T]] = []
        raised: dict[int, str] = {}
        wasted = 0
        waiting = [slice(0, count)]
        refused: Refused | None = error
        while waiting:
            rows = waiting.pop()
            size = rows.stop - rows.start
            if refused is None:
                try:
                    with alone(rows.start) if size == 1 else nullcontext():
                        pieces.append(Piece(rows, ask(rows)))
                    self.answered()
                    continue
                except Refused as another:
                    refused = another
            if size == 1:
                raised[rows.start] = self.note(refused)
            else:
                wasted += size
                middle = rows.start + size // 2
                waiting += [slice(middle, rows.stop), slice(rows.start, middle)]
            refused = None
        return pieces, raised, wasted
