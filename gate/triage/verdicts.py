"""What a replay of earlier defects says of one root cause: fixed, memorised, still there, or unknown.

Training on exported defects can teach a network those files and nothing else. So what it can have seen (the exported half) is told apart
from what it can't: the files of the half that was held back, and fresh mutants.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gate.corpus.export import half_of
from gate.corpus.trainable import trainable
from gate.result import Defect

__all__ = ["TOLERATED", "Exported", "Outcome", "Recurrence", "Word", "outcomes", "was_exported"]

TOLERATED = 0.05  # share that may fail of what a network should now get right: no network is right about everything

Exported = Literal["a", "b", "all"]
Word = Literal["fixed", "memorised", "still there", "unknown"]

# Of these, a right answer to the file means that the complaint is gone, and fresh mutants say whether it is gone for others as well.
_OF_ANSWERS = ("changed_prediction", "confident_misclassification", "baseline_disagreement", "universal_mark")
# Nobody learns these by heart: a program that was put right needs no fresh mutants to show it.
_OF_THE_PROGRAM = ("crash", "non_finite", "numeric_path", "batch_dependence")


@dataclass(frozen=True)
class Recurrence:
    """What became of one earlier defect."""

    defect: Defect
    file: bool  # its file gives a wrong class, or no finite answer
    seed: bool  # its seed input is misclassified
    fresh: tuple[bool, ...] = ()  # of each fresh mutant that was made, in order, whether it fails
    counted: int = 4  # so many of them decide whether the defect recurs, so that more of them make no defect recur sooner

    @property
    def why(self) -> Literal["file", "seed", "fresh"] | None:
        """How it recurs, the plainest way first; None: it does not."""
        if self.file or self.seed:
            return "file" if self.file else "seed"
        return "fresh" if any(self.fresh[: self.counted]) else None


@dataclass(frozen=True)
class Outcome:
    """What became of one root cause. Pairs are (failed, of)."""

    root_cause: str
    word: Word
    recurring: tuple[int, int]  # defects, as ``regression_rate`` counts them
    exported: tuple[int, int]  # defects that may have been trained on: whose file or seed input fails
    held_back: tuple[int, int]  # of the others
    fresh: tuple[int, int]  # fresh mutants


def was_exported(seed_id: str, exported: Exported) -> bool:
    """Whether this seed input is of the half whose defects may have been trained on."""
    return exported == "all" or half_of(seed_id) == exported


def outcomes(recurrences: Sequence[Recurrence], exported: Exported) -> Mapping[str, Outcome]:
    """By root cause, what became of it.

    Args:
        recurrences: of all its defects.
        exported: the half of the seed inputs whose defects may have been trained on; ``all`` where that is not known.
    """
    groups: dict[str, list[Recurrence]] = defaultdict(list)
    for one in recurrences:
        groups[one.defect.root_cause].append(one)
    return {cause: _outcome(cause, members, exported) for cause, members in groups.items()}


def _outcome(cause: str, members: Sequence[Recurrence], exported: Exported) -> Outcome:
    known = [one for one in members if trainable(one.defect) and was_exported(one.defect.seed_id, exported)]
    unseen = [one for one in members if not (trainable(one.defect) and was_exported(one.defect.seed_id, exported))]
    mutants = [failed for one in members for failed in one.fresh]
    fresh = sum(mutants), len(mutants)
    oracles = {one.defect.oracle for one in members}
    told = oracles <= {*_OF_THE_PROGRAM} or (fresh[1] > 0 and oracles <= {*_OF_THE_PROGRAM, *_OF_ANSWERS})
    return Outcome(
        root_cause=cause,
        word=_word(_failing(known), _failing(unseen), fresh, told),
        recurring=(sum(one.why is not None for one in members), len(members)),
        exported=_failing(known),
        held_back=_failing(unseen),
        fresh=fresh,
    )


def _failing(members: Sequence[Recurrence]) -> tuple[int, int]:
    return sum(one.file or one.seed for one in members), len(members)


def _word(known: tuple[int, int], unseen: tuple[int, int], fresh: tuple[int, int], told: bool) -> Word:
    if _too_many(known):
        return "still there"
    if _too_many(unseen) or _too_many(fresh):
        return "memorised" if known[1] else "still there"
    return "fixed" if told else "unknown"


def _too_many(counts: tuple[int, int]) -> bool:
    failed, of = counts
    return of > 0 and failed / of > TOLERATED
