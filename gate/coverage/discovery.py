"""How much there is left to find: estimates from the items that few executions have met.

Take n executions and look at the items that were not covered when the search began. Q1 of them were met by exactly one execution, Q2 by
exactly two. Rare items say what the unseen ones are like:

* **The chance that the next execution covers something new.** Leave any one execution out: it covers something which the other n - 1 do
  not exactly where it owns an item of Q1. So the share U / n of executions that own one is an unbiased estimate of the chance that the
  n-th of independent executions covers at least one new item. It is Good and Turing's idea (Good, "The population frequencies of species
  and the estimation of population parameters", Biometrika 1953) with the executions counted instead of the items: Q1 / n is the *number*
  of new items to expect of an execution, and is often more than one.
* **The share that has been seen.** Chao's lower bound on the unseen items, (n - 1) / n · Q1² / (2 Q2) (Chao, "Estimating the population
  size for capture-recapture data with unequal catchability", Biometrics 1987), never more than the criterion has left. Covered items,
  the seeds' included, over these and the unseen ones.

That a fuzzer's executions can be looked at so is from Böhme, "STADS: software testing as species discovery", TOSEM 2018. The estimates take
executions for independent draws from one distribution. A guided search's are not: it learns, so that what was improbable becomes less so,
and then the chance comes out too low (Böhme, Liyanage and Wüstholz, "Estimating residual risk in greybox fuzzing", ESEC/FSE 2021). It is a
guide, no guarantee.

Memory is bounded: counters stop at three, and where a criterion has more than ``LIMIT`` items they are kept for those of a fixed random
sample of the neurons; of patterns, for those in a share of all codes that is halved whenever they become too many. Counts are then scaled
up. The chance becomes 1 - (1 - U/n)^s where one item in s has a counter, as if the other s - 1 parts found new items independently of this
one; as they do so together, that is rather too high than too low.

How executions are cut into batches changes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from gate.coverage.activations import ActivationBatch
from gate.coverage.base import Criterion
from gate.coverage.bits import Bits
from gate.coverage.items import ItemCriterion, NeuronCriterion
from gate.coverage.patterns import PatternCriterion

__all__ = ["ENOUGH", "Discovery", "Estimate", "discovery_of"]

LIMIT = 1 << 18  # counters that a criterion gets
ENOUGH = 20  # executions below which nothing is estimated
_MANY = 3  # where counters stop
_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)  # 2^64 over the golden ratio, as an int64


@dataclass(frozen=True)
class Estimate:
    """What a search may still find."""

    executions: int  # that the estimate rests on
    chance: float  # that the next one covers something new, 0 to 1
    seen: float | None  # share of what it will reach that it has reached; None where no item was met twice, so that it can't be told


class Discovery(ABC):
    """Counts how many executions met each of a criterion's items. Lives beside the criterion, whose counting it does not touch.

    Args:
        criterion: as it is when the search begins; what it has covered by then is not counted.
    """

    def __init__(self, criterion: Criterion) -> None:
        self._criterion = criterion
        self._executions = 0

    def take(self, batch: ActivationBatch) -> None:
        """Takes in executions, all of which earn coverage, after the criterion has counted them."""
        if len(batch):
            self._count(batch, self._executions)
            self._executions += len(batch)

    def estimate(self) -> Estimate | None:
        """What is left to find by the executions so far; None before ``ENOUGH`` of them. Waits for the device."""
        if self._executions < ENOUGH:
            return None
        once, twice, owners, scale = self._rare()
        n = self._executions
        chance = 1.0 - (1.0 - owners / n) ** scale
        return Estimate(n, chance, self._seen(once, twice, scale))

    def _seen(self, once: int, twice: int, scale: float) -> float | None:
        n, covered, total = self._executions, self._criterion.covered, self._criterion.total
        if (once and not twice) or not covered:
            return None
        unseen = scale * (n - 1) / n * once**2 / (2 * twice) if once else 0.0
        if total is not None:
            unseen = min(unseen, total - covered)
        return covered / (covered + unseen)

    @abstractmethod
    def _count(self, batch: ActivationBatch, first: int) -> None:
        """Counts a batch whose executions are numbered from ``first``."""

    @abstractmethod
    def _rare(self) -> tuple[int, int, int, float]:
        """Items met once, items met twice, executions that own one of the first; and how many times more items there are than counters."""


def discovery_of(criterion: Criterion) -> Discovery | None:
    """Counters for a criterion; None where it has no items that could be met."""
    if isinstance(criterion, ItemCriterion):
        return _Items(criterion)
    return _Patterns(criterion) if isinstance(criterion, PatternCriterion) else None


class _Items(Discovery):
    """Counters for numbered items."""

    def __init__(self, criterion: ItemCriterion) -> None:
        super().__init__(criterion)
        self._items = criterion
        self._known = criterion._hit.to(criterion._device)
        self._known.words = self._known.words.clone()
        self._columns: Tensor | None = None  # int64 [C], rising: the sampled neurons; None: all items have counters
        self._scale = 1.0
        self._times = torch.zeros(0, dtype=torch.uint8)  # [counters]: by how many executions the item was met, up to _MANY
        self._owner = torch.zeros(0, dtype=torch.int64)  # [counters]: the last of them

    def _count(self, batch: ActivationBatch, first: int) -> None:
        self._prepare(batch.device)
        sample, counter = self._hits(batch)
        # Of an item that several meet any of them may stay as its owner: it is only asked for where there is one.
        self._owner[counter] = sample + first
        counter, met = torch.unique(counter, return_counts=True)
        self._times[counter] = (met + self._times[counter]).clamp_(max=_MANY).to(torch.uint8)

    def _hits(self, batch: ActivationBatch) -> tuple[Tensor, Tensor]:
        """Sample and counter of each hit on an item that was not covered when the search began, int64 [H] each."""
        if self._columns is None:
            return self._items._fresh(batch, self._known)
        assert isinstance(self._items, NeuronCriterion)
        items = self._items._items(batch, self._columns)
        fresh = (items >= 0) & ~self._known.has(items.clamp(min=0))
        sample, column = fresh.nonzero(as_tuple=True)
        per = self._items.items_per_neuron
        return sample, column * per + items[sample, column] % per

    def _prepare(self, device: torch.device) -> None:
        if not len(self._times):
            size = self._items._size()
            if self._known.size != size:  # the criterion has only now learnt how many items it has, so none was covered before
                self._known = Bits(size, device)
            if size > LIMIT and isinstance(self._items, NeuronCriterion):
                size = self._sample(self._items)
            self._times = torch.zeros(size, dtype=torch.uint8)
            self._owner = torch.zeros(size, dtype=torch.int64)
        if self._times.device != device:
            self._known, self._times, self._owner = self._known.to(device), self._times.to(device), self._owner.to(device)
            self._columns = None if self._columns is None else self._columns.to(device)

    def _sample(self, criterion: NeuronCriterion) -> int:
        """Chooses the neurons whose items get counters, among those that have any; returns how many counters that takes."""
        possible = criterion._possible().nonzero().flatten().cpu()
        number = min(len(possible), max(1, LIMIT // criterion.items_per_neuron))
        # On the CPU and from a fixed seed, so that every device and every run looks at the same neurons.
        chosen = torch.randperm(len(possible), generator=torch.Generator().manual_seed(0))[:number]
        self._columns = possible[chosen].sort().values
        self._scale = len(possible) / number if number else 1.0
        return number * criterion.items_per_neuron

    def _rare(self) -> tuple[int, int, int, float]:
        return *_rarities(self._times, self._owner, self._executions), self._scale


class _Patterns(Discovery):
    """Counters for patterns, by their codes."""

    def __init__(self, criterion: PatternCriterion) -> None:
        super().__init__(criterion)
        self._patterns = criterion
        self._known = criterion._hit.moved_to(criterion._device)
        self._halved = 0  # how often the share of the codes that have counters was halved
        self._codes = torch.zeros(0, dtype=torch.int64)  # [C], rising
        self._times = torch.zeros(0, dtype=torch.uint8)  # [C], as of items
        self._owner = torch.zeros(0, dtype=torch.int64)  # [C]

    def _count(self, batch: ActivationBatch, first: int) -> None:
        if self._codes.device != batch.device:
            self._known = self._known.moved_to(batch.device)
            self._codes, self._times, self._owner = (part.to(batch.device) for part in (self._codes, self._times, self._owner))
        code, usable = self._patterns._patterns(batch)
        code = code | self._patterns._offsets
        fresh = ~self._known.has(code)
        if usable is not None:
            fresh &= usable
        if self._halved:
            fresh &= self._counted(code)
        sample, group = fresh.nonzero(as_tuple=True)
        codes, place, met = torch.unique(code[sample, group], return_inverse=True, return_counts=True)
        owner = torch.zeros_like(codes)
        owner[place] = sample + first  # see _Items
        self._join(codes, met, owner)
        while len(self._codes) > LIMIT:
            self._halved += 1
            kept = self._counted(self._codes)
            self._codes, self._times, self._owner = self._codes[kept], self._times[kept], self._owner[kept]

    def _join(self, codes: Tensor, met: Tensor, owner: Tensor) -> None:
        at = torch.searchsorted(self._codes, codes)
        old = at < len(self._codes)
        if len(self._codes):
            old &= self._codes[at.clamp(max=len(self._codes) - 1)] == codes
        self._times[at[old]] = (met[old] + self._times[at[old]]).clamp_(max=_MANY).to(torch.uint8)
        new = ~old
        place = at[new]
        place += torch.arange(len(place), device=codes.device)
        times = met[new].clamp_(max=_MANY).to(torch.uint8)
        stays = torch.ones(len(self._codes) + len(place), dtype=torch.bool, device=codes.device)
        stays[place] = False
        self._codes = _inserted(self._codes, codes[new], place, stays)
        self._times = _inserted(self._times, times, place, stays)
        self._owner = _inserted(self._owner, owner[new], place, stays)

    def _counted(self, codes: Tensor) -> Tensor:
        """bool, the shape of ``codes``: which are in the share that has counters, by the upper bits of a multiplicative hash (Knuth)."""
        return (codes * _GOLDEN >> (64 - self._halved)) & ((1 << self._halved) - 1) == 0

    def _rare(self) -> tuple[int, int, int, float]:
        return *_rarities(self._times, self._owner, self._executions), float(1 << self._halved)


def _rarities(times: Tensor, owner: Tensor, executions: int) -> tuple[int, int, int]:
    """How many counters stand at one, how many at two, and how many executions own one of the first."""
    owners = owner[times == 1]
    if executions > LIMIT:
        distinct = len(torch.unique(owners))
    else:  # cheaper than sorting, in memory that is still bounded
        owns = torch.zeros(executions, dtype=torch.bool, device=owners.device)
        owns[owners] = True
        distinct = int(owns.sum())
    return len(owners), int((times == 2).sum()), distinct


def _inserted(old: Tensor, new: Tensor, place: Tensor, stays: Tensor) -> Tensor:
    """``old`` with ``new`` put in where it is to stand in the end, int64 ``place``; bool ``stays``: all other places."""
    joined = torch.empty(len(stays), dtype=old.dtype, device=old.device)
    joined.masked_scatter_(stays, old)
    joined[place] = new
    return joined
