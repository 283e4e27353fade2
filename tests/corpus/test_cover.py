"""The choice holds everything, is never larger than it need be where that is known, and does not depend on how fast it was made."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gate.corpus import cover
from gate.corpus.cover import Sets, smallest_cover


def sets_of(members: list[set[int]]) -> Sets:
    pairs = [(owner, item) for owner, items in enumerate(members) for item in items]
    owner, item = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True)) if pairs else (np.zeros(0, dtype=np.int64),) * 2
    return Sets(owner, item, len(members))


def union(members: list[set[int]], chosen: np.ndarray) -> set[int]:
    return set().union(*(members[one] for one in chosen.tolist()))


def optimum(members: list[set[int]]) -> int:
    everything = set().union(*members)
    return next(
        size
        for size in range(len(members) + 1)
        if any(set().union(*(members[one] for one in some)) == everything for some in itertools.combinations(range(len(members)), size))
    )


@given(st.lists(st.sets(st.integers(0, 11), max_size=5), min_size=1, max_size=10))
@settings(max_examples=150, deadline=None)
def test_it_holds_everything_is_no_larger_and_no_set_of_it_could_be_left_out(members: list[set[int]]) -> None:
    found = smallest_cover(sets_of(members))
    assert union(members, found.chosen) == set().union(*members)
    assert len(found.chosen) <= len(members)
    for one in found.chosen:
        assert union(members, found.chosen[found.chosen != one]) != set().union(*members)
    best = optimum(members)
    assert found.least <= best
    assert len(found.chosen) == best  # so small that the local search finds it
    assert found.ended


def test_greedy_alone_is_misled_where_the_search_is_not() -> None:
    """Two sets hold everything; three others look better one by one."""
    left, right = set(range(7)), set(range(7, 14))
    members = [left, right, {0, 1, 2, 3, 7, 8, 9, 10}, {4, 5, 11, 12}, {6, 13}]
    found = smallest_cover(sets_of(members))
    assert found.chosen.tolist() == [0, 1]
    assert found.proven
    rushed = smallest_cover(sets_of(members), out_of_time=lambda: True)
    assert rushed.chosen.tolist() == [2, 3, 4]
    assert not rushed.ended
    assert not rushed.proven


def test_hidden_partitions_are_found() -> None:
    random = np.random.default_rng(3)
    for trial in range(3):
        parts = np.array_split(random.permutation(240), 16)
        members = [set(part.tolist()) for part in parts]
        members += [set(random.choice(240, size=int(random.integers(4, 14)), replace=False).tolist()) for _ in range(150)]
        members = [members[place] for place in random.permutation(len(members))]
        found = smallest_cover(sets_of(members), seed=trial)
        assert len(found.chosen) == 16
        assert union(members, found.chosen) == set(range(240))


def test_the_same_sets_give_the_same_choice() -> None:
    random = np.random.default_rng(5)
    members = [set(random.choice(90, size=9, replace=False).tolist()) for _ in range(60)]
    one, other = smallest_cover(sets_of(members)), smallest_cover(sets_of(members))
    assert one.chosen.tolist() == other.chosen.tolist()
    assert one.rounds == other.rounds > 0


def test_whenever_the_time_ends_the_choice_holds_everything_and_more_time_makes_it_no_larger() -> None:
    random = np.random.default_rng(6)
    members = [set(random.choice(120, size=8, replace=False).tolist()) for _ in range(90)]
    sizes = []
    for rounds in (0, 5, 40, 200):
        asked = iter(range(10**9))
        found = smallest_cover(sets_of(members), out_of_time=lambda asked=asked, most=rounds: next(asked) >= most)
        assert union(members, found.chosen) == set().union(*members)
        sizes.append(len(found.chosen))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0]


def test_between_equals_the_simpler_one_is_taken() -> None:
    members = [{1, 2}, {1, 2}, {3}, {3}]
    assert smallest_cover(sets_of(members), simple=np.array([1, 3, 0, 2])).chosen.tolist() == [1, 3]
    assert smallest_cover(sets_of(members), simple=np.array([2, 0, 3, 1])).chosen.tolist() == [0, 2]


@pytest.mark.parametrize("members", [[set(), set()], [set()]])
def test_sets_without_items_are_never_needed(members: list[set[int]]) -> None:
    found = smallest_cover(sets_of(members))
    assert found.chosen.tolist() == []
    assert found.proven


def test_patience_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cover, "PATIENCE", 3)
    members = [{a, b} for a, b in itertools.combinations(range(7), 2)]  # four are needed, and three can be proven
    found = smallest_cover(sets_of(members))
    assert len(found.chosen) == 4
    assert (found.rounds, found.ended, found.proven) == (3, True, False)
