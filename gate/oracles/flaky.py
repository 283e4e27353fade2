"""The same file gets another answer when it is run again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from gate.oracles.crash import Crash
from gate.oracles.oracle import Declared, Needs, Observation
from gate.oracles.timeout import Timeout

__all__ = ["Flaky", "answers"]

NON_FINITE = "non_finite"


class Flaky(Declared):
    """Complains where replays of one input do not all say what the finding said. Such a finding is kept apart and is no defect.

    Always on: it is what confirming finds.
    """

    name: ClassVar[str] = "flaky"
    rank: ClassVar[int] = 12
    needs: ClassVar[Needs] = Needs.REPLAYS
    cost: ClassVar[int] = 2  # ten where the model's answers were seen to change
    says: ClassVar[str] = "is not answered the same every time"

    def complains(self, seen: Sequence[Observation], wanted: str) -> bool:
        """Whether some replay, of one row each, answers something else than ``wanted`` (a class number or a fault, as in ``answers``)."""
        return set(answers(seen)) != {wanted}


def answers(seen: Sequence[Observation]) -> dict[str, int]:
    """How often each answer came over replays of one row: by class number as text, or the fault (crash, timeout, non_finite)."""
    return dict(Counter(_answer(one) for one in seen))


def _answer(one: Observation) -> str:
    if one.raised:
        return Crash.name
    if one.silent:
        return Timeout.name
    predicted = int(one.predicted[0])
    return NON_FINITE if predicted < 0 else str(predicted)
