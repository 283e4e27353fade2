"""Fixed, memorised, still there or unknown: told by what a network can have seen and what it can't."""

from __future__ import annotations

from typing import Any

import pytest
from test_repair import defect

from gate.corpus.export import half_of
from gate.triage.verdicts import Exported, Outcome, Recurrence, outcomes

IN_A = [name for name in (f"s-{number}" for number in range(200)) if half_of(name) == "a"]
IN_B = [name for name in (f"s-{number}" for number in range(200)) if half_of(name) == "b"]


def replayed(half: str, count: int, *, files: int = 0, seeds: int = 0, fresh: tuple[int, int] = (0, 0), **changes: Any) -> list[Recurrence]:
    """``count`` defects of one half, of which the first ones fail; the fresh mutants are the first one's."""
    names = IN_A if half == "a" else IN_B
    mutants = tuple(row < fresh[0] for row in range(fresh[1]))
    return [
        Recurrence(defect(seed_id=names[row], **changes), file=row < files, seed=row < seeds, fresh=mutants if row == 0 else ())
        for row in range(count)
    ]


def of(*members: list[Recurrence], exported: Exported = "a") -> Outcome:
    (found,) = outcomes([one for part in members for one in part], exported).values()
    return found


@pytest.mark.parametrize(
    ("seen", "unseen", "word"),
    [
        ({"fresh": (0, 32)}, {}, "fixed"),
        ({"fresh": (1, 32)}, {}, "fixed"),  # nobody is right about everything
        ({"fresh": (2, 32)}, {}, "memorised"),
        ({"fresh": (0, 32)}, {"files": 1}, "memorised"),  # one file in five of the half that was held back
        ({"fresh": (0, 32)}, {"seeds": 1}, "memorised"),
        ({"files": 1, "fresh": (0, 32)}, {}, "still there"),
        ({"seeds": 1, "fresh": (0, 32)}, {}, "still there"),
        ({"files": 5, "fresh": (32, 32)}, {"files": 5}, "still there"),
        ({}, {}, "unknown"),  # no fresh mutants
    ],
)
def test_what_can_have_been_seen_is_told_from_what_can_not(seen: dict[str, Any], unseen: dict[str, Any], word: str) -> None:
    assert of(replayed("a", 5, **seen), replayed("b", 5, **unseen)).word == word


def test_where_nothing_was_exported_nothing_is_memorised() -> None:
    assert of(replayed("b", 5, files=1, fresh=(0, 32))).word == "still there"
    assert of(replayed("b", 5, fresh=(9, 32))).word == "still there"
    assert of(replayed("a", 5, fresh=(9, 32)), exported="b").word == "still there"


def test_one_file_in_fifty_may_fail() -> None:
    assert of(replayed("a", 50, files=1, fresh=(0, 32))).word == "fixed"
    assert of(replayed("a", 50, files=3, fresh=(0, 32))).word == "still there"


def test_what_is_never_exported_counts_as_unseen_in_either_half() -> None:
    exam = replayed("a", 3, files=3, arm="judging")
    found = of(replayed("a", 5, fresh=(0, 32)), exam)
    assert (found.exported, found.held_back, found.word) == ((0, 5), (3, 3), "memorised")


@pytest.mark.parametrize("oracle", ["crash", "non_finite", "numeric_path", "batch_dependence"])
def test_a_program_that_was_put_right_needs_no_fresh_mutants(oracle: str) -> None:
    assert of(replayed("a", 3, oracle=oracle)).word == "fixed"
    assert of(replayed("a", 3, files=1, oracle=oracle)).word == "still there"


@pytest.mark.parametrize("oracle", ["confidence_collapse", "saturated", "timeout"])
def test_what_one_answer_does_not_show_is_unknown(oracle: str) -> None:
    assert of(replayed("a", 3, fresh=(0, 32), oracle=oracle)).word == "unknown"


def test_a_defect_recurs_by_its_file_before_its_seed_input_before_fresh_mutants() -> None:
    one = defect()
    assert Recurrence(one, True, True, (True,)).why == "file"
    assert Recurrence(one, False, True, (True,)).why == "seed"
    assert Recurrence(one, False, False, (False, True)).why == "fresh"
    assert Recurrence(one, False, False, (False,) * 9).why is None


def test_more_fresh_mutants_make_no_defect_recur_sooner() -> None:
    assert Recurrence(defect(), False, False, (False, False, False, False, True)).why is None
    assert Recurrence(defect(), False, False, (False, False, False, True)).why == "fresh"
