"""The smallest choice of sets that together hold what all of them hold.

Finding it is NP-hard (Karp 1972), so it is approached, in steps that never make the choice larger:

1. **Greedy**: again and again the set with the most items that are still missing. At most H(d) times the optimum, where d is the size of
   the largest set and H(d) = 1 + 1/2 + ... + 1/d (Chvátal, "A greedy heuristic for the set-covering problem", Mathematics of Operations
   Research 1979; all sets cost the same here, since it is their number that counts). Sets that alone hold some item come first.
2. **Redundancy elimination**: a set goes whose items the others of the choice hold as well.
3. **Local search**: a few neighbouring sets are taken out and what is missing then is covered anew, greedily with a little randomness; what
   comes of it stays if it is no larger (ruin and recreate: Schrimpf et al., Journal of Computational Physics 2000).

It ends when the choice is proven to be the smallest (there are as many items, no two of which any set holds together), when ``PATIENCE``
rounds in a row have made it no smaller, or when the time is up. Given time enough, the result depends on the sets alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gate.randomness import generator

__all__ = ["Cover", "Sets", "smallest_cover"]

PATIENCE = 400  # rounds of the local search without a smaller choice
_RUIN = 12  # sets that a round takes out at most

Ints = npt.NDArray[np.int64]


class Sets:
    """N sets of items, and for every item the sets that hold it.

    Args:
        owner: int64 [H], the set of each membership, below ``count``.
        item: int64 [H], its item, any numbers; the same membership may stand there several times.
        count: N.
    """

    def __init__(self, owner: Ints, item: Ints, count: int) -> None:
        self.names, item = np.unique(item, return_inverse=True)  # [M], rising
        pair = np.unique(owner * max(1, len(self.names)) + item)
        owner, item = np.divmod(pair, max(1, len(self.names)))
        self.count = count
        self._items = item
        self._from = np.searchsorted(owner, np.arange(count + 1))
        order = np.argsort(item, kind="stable")
        self._owners = owner[order]
        self._by = np.searchsorted(item[order], np.arange(len(self.names) + 1))

    @property
    def items(self) -> int:
        """M: distinct items over all sets."""
        return len(self.names)

    def of(self, one: int) -> Ints:
        """Items of a set, rising, as positions in ``names``."""
        return self._items[self._from[one] : self._from[one + 1]]

    def of_all(self, sets: Ints) -> Ints:
        """Items of several sets, one after the other."""
        return self._items[_ranges(self._from[sets], self._from[sets + 1])]

    def holders(self, items: Ints) -> Ints:
        """The sets that hold each of these items, one after the other."""
        return self._owners[_ranges(self._by[items], self._by[items + 1])]

    def held(self) -> Ints:
        """[M]: by how many sets each item is held."""
        return np.diff(self._by)

    def sizes(self) -> Ints:
        """[N]: items of each set."""
        return np.diff(self._from)


@dataclass(frozen=True)
class Cover:
    """A choice of sets that holds everything."""

    chosen: Ints  # rising
    least: int  # no choice can have fewer
    rounds: int  # of the local search
    ended: bool  # False: the time was up

    @property
    def proven(self) -> bool:
        """Whether there is no smaller one."""
        return len(self.chosen) == self.least


def smallest_cover(sets: Sets, *, simple: Ints | None = None, out_of_time: Callable[[], bool] = lambda: False, seed: int = 0) -> Cover:
    """Chooses as few sets as it finds that hold every item.

    Args:
        sets: what there is.
        simple: int64 [N], the sets' numbers from the simplest to the least simple: between equals the simpler one is taken.
        out_of_time: asked all the time; True ends the search with the best choice so far. The greedy choice is made in any case.
        seed: of the local search.
    """
    order = np.arange(sets.count) if simple is None else simple
    rank = np.empty(sets.count, dtype=np.int64)
    rank[order] = np.arange(sets.count)
    choice = _Choice(sets, rank)
    held = sets.held()
    choice.add(np.unique(sets.holders(np.flatnonzero(held == 1))))
    necessary = choice.chosen.copy()
    choice.complete()
    choice.drop_redundant()
    least = _least(sets, held)
    rounds = idle = 0
    while choice.size > least and idle < PATIENCE and not out_of_time():
        random = generator(seed, "cover", rounds)
        before = choice.size
        taken = _neighbours(sets, choice.chosen & ~necessary, random)
        if not len(taken):
            break
        kept = choice.copy()
        choice.remove(taken)
        choice.complete(random)
        choice.drop_redundant()
        if choice.size > before:
            choice = kept
        rounds += 1
        idle = idle + 1 if choice.size == before else 0
    ended = choice.size <= least or idle >= PATIENCE or not out_of_time()
    return Cover(np.flatnonzero(choice.chosen), least, rounds, ended)


class _Choice:
    """Some of the sets, and how often each item is held by them."""

    def __init__(self, sets: Sets, rank: Ints) -> None:
        self._sets = sets
        self._rank = rank
        self.chosen = np.zeros(sets.count, dtype=np.bool_)
        self.times = np.zeros(sets.items, dtype=np.int64)

    @property
    def size(self) -> int:
        return int(self.chosen.sum())

    def copy(self) -> _Choice:
        twin = _Choice(self._sets, self._rank)
        twin.chosen, twin.times = self.chosen.copy(), self.times.copy()
        return twin

    def add(self, sets: Ints) -> None:
        self.chosen[sets] = True
        self.times += np.bincount(self._sets.of_all(sets), minlength=self._sets.items)

    def remove(self, sets: Ints) -> None:
        self.chosen[sets] = False
        self.times -= np.bincount(self._sets.of_all(sets), minlength=self._sets.items)

    def complete(self, random: np.random.Generator | None = None) -> None:
        """Adds sets, greedily, until every item is held; with ``random`` a set may also be taken that adds a little less than another."""
        missing = np.flatnonzero(self.times == 0)
        gain = np.bincount(self._sets.holders(missing), minlength=self._sets.count)
        while len(missing):
            candidates = np.flatnonzero(gain)
            worth = gain[candidates].astype(np.float64)
            if random is not None:
                worth *= random.uniform(0.7, 1.0, size=len(worth))
            best = candidates[worth == worth.max()]
            one = best[np.argmin(self._rank[best])]
            mine = self._sets.of(int(one))
            new = mine[self.times[mine] == 0]
            self.chosen[one] = True
            self.times[mine] += 1
            gain -= np.bincount(self._sets.holders(new), minlength=self._sets.count)
            missing = missing[self.times[missing] == 0]

    def drop_redundant(self) -> None:
        """Takes sets out, the least simple first, as long as the others hold all their items."""
        chosen = np.flatnonzero(self.chosen)
        for one in chosen[np.argsort(-self._rank[chosen])].tolist():
            mine = self._sets.of(one)
            if not len(mine) or int(self.times[mine].min()) > 1:
                self.chosen[one] = False
                self.times[mine] -= 1


def _neighbours(sets: Sets, free: npt.NDArray[np.bool_], random: np.random.Generator) -> Ints:
    """Some sets of the choice that could share their work: a random one, and others that hold an item together with a set that it meets."""
    candidates = np.flatnonzero(free)
    if not len(candidates):
        return candidates
    one = int(random.choice(candidates))
    met = np.unique(sets.holders(sets.of(one)))
    if len(met) > 200:
        met = random.choice(met, 200, replace=False)
    near = np.unique(sets.holders(np.unique(sets.of_all(met))))
    near = near[free[near] & (near != one)]
    count = min(len(near), int(random.integers(1, _RUIN)))
    return np.concatenate([[one], random.choice(near, count, replace=False)]) if count else np.array([one])


def _least(sets: Sets, held: Ints) -> int:
    """Items, no two of which any set holds together, as many as are found: each needs a set of its own."""
    blocked = np.zeros(sets.items, dtype=np.bool_)
    count = 0
    for item in np.argsort(held, kind="stable").tolist():
        if not blocked[item]:
            count += 1
            blocked[sets.of_all(sets.holders(np.array([item])))] = True
    return count


def _ranges(starts: Ints, stops: Ints) -> Ints:
    """The numbers of several ranges, one after the other."""
    lengths = stops - starts
    total = int(lengths.sum())
    if not total:
        return np.zeros(0, dtype=np.int64)
    offsets = np.repeat(starts - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    found: Ints = np.arange(total) + offsets
    return found
