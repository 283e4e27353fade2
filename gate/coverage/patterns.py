"""The bookkeeping of every criterion that counts distinct patterns: which have occurred, and who showed them first.

A pattern is one number, its code, so a set of patterns is a set of int64 numbers on the activations' own device:

* **Groups.** A sample shows at most one pattern in each group (a layer, or some layers in a row). The group stands in the upper bits of
  the code, so one set holds the patterns of all groups.
* **Codes.** Where the patterns of a group are few enough for the bits left, each has a number of its own. Where they are not, the code is
  the sum, modulo 2^bits, of fixed pseudo-random keys of the neurons in the pattern: the same on every device and in every process, and
  whatever the order of the neurons. Two given patterns then share a code, and count as one, with a chance of 2^-bits. Of n patterns of
  a group some two do so with a chance of at most n² / 2^(bits + 1) (the birthday bound): a million patterns in each of 64 groups, where
  bits is 57, come to 64 · 3.5e-6, or one chance in 4,500 that any count is off by one.
* **In order.** ``update`` returns what each sample would have added had the samples come one by one: within a batch a pattern goes to the
  first sample that shows it. How a sequence of samples is cut into batches therefore changes nothing.
* **Cost.** Look-ups in sorted numbers, and a merge in proportion to the new ones (see ``Codes.add``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from gate.coverage.activations import ActivationBatch
from gate.coverage.base import Criterion
from gate.coverage.merging import Merging

__all__ = ["CODE_BITS", "Codes", "PatternCriterion", "keys_of", "row_name"]

CODE_BITS = 63  # an int64 that is not negative

_GROWTH = 4  # a run of codes is merged with the next one until it is this many times as long
_SHORT = 4096  # codes; merging fewer costs next to nothing


class Codes:
    """A set of int64 numbers, none of them negative.

    Held as sorted runs of falling length, of which the later ones are merged as they grow: a number is moved a few times for every
    factor by which the set grows, and never at every update, however large the set has become.
    """

    def __init__(self, device: torch.device | None = None) -> None:
        self._runs = [torch.zeros(0, dtype=torch.int64, device=device)]

    @classmethod
    def of(cls, numbers: Any) -> Codes:
        """The set of these numbers, taken over as a copy on the CPU.

        Raises:
            ValueError: no int64 tensor [P] of rising numbers from 0.
        """
        if not isinstance(numbers, Tensor) or numbers.dtype != torch.int64 or numbers.ndim != 1:
            raise ValueError("must be an int64 tensor [patterns]")
        if len(numbers) and (int(numbers[0]) < 0 or not bool((numbers[1:] > numbers[:-1]).all())):
            raise ValueError("must be rising numbers from 0")
        codes = cls()
        codes._runs = [numbers.detach().cpu().clone()]
        return codes

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def has(self, codes: Tensor) -> Tensor:
        """bool, the shape of ``codes`` (int64)."""
        wanted = codes.reshape(-1)
        found = torch.zeros_like(wanted, dtype=torch.bool)
        for run in self._runs:
            if len(run):
                found |= run[torch.searchsorted(run, wanted).clamp_(max=len(run) - 1)] == wanted
        return found.view(codes.shape)

    def add(self, codes: Tensor) -> None:
        """Puts ``codes`` in: int64 [P], rising, none of them in yet."""
        self._runs.append(codes)
        while len(self._runs) > 1 and len(self._runs[-2]) < max(_GROWTH * len(self._runs[-1]), _SHORT):
            self._runs[-2:] = [_merged(self._runs[-2], self._runs[-1])]

    def numbers(self) -> Tensor:
        """int64 [P]: all of them, rising, on the set's device."""
        while len(self._runs) > 1:
            self._runs[-2:] = [_merged(self._runs[-2], self._runs[-1])]
        return self._runs[0]

    def counts(self, bits: int, groups: int) -> list[int]:
        """How many numbers each group has that stands above the lowest ``bits`` bits."""
        last = (torch.arange(groups, device=self._runs[0].device) << bits) + ((1 << bits) - 1)
        below = sum(torch.searchsorted(run, last, right=True) for run in self._runs)
        assert isinstance(below, Tensor)
        found: list[int] = torch.diff(below, prepend=below.new_zeros(1)).tolist()
        return found

    def union(self, other: Self) -> Codes:
        """A new set with what is in either, on this one's device."""
        both = Codes()
        both._runs = [self.numbers()]
        theirs = other.numbers().to(self._runs[0].device)
        both.add(theirs[~self.has(theirs)])
        return both

    def moved_to(self, device: torch.device) -> Codes:
        """The same set on a device."""
        moved = Codes()
        moved._runs = [run.to(device) for run in self._runs]
        return moved

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Codes) and torch.equal(self.numbers().cpu(), other.numbers().cpu())

    __hash__ = None  # type: ignore[assignment]


class PatternCriterion(Criterion):
    """Base of the criteria that count distinct patterns. Their value is that count, for there is no fixed number of patterns to reach."""

    merging: ClassVar[Mapping[str, Merging]] = {"hit": Merging.UNION, "raw": Merging.UNION, "nonfinite": Merging.UNION}

    def __init__(self) -> None:
        super().__init__()
        self._hit = Codes()
        self._raw = Codes()
        self._bits = CODE_BITS  # for the patterns of one group
        self._offsets = torch.zeros(0, dtype=torch.int64)  # [groups]: their numbers, in the bits above

    @abstractmethod
    def _groups(self) -> list[str]:
        """The name of every group, known once the layers are."""

    @abstractmethod
    def _patterns(self, batch: ActivationBatch) -> tuple[Tensor, Tensor | None]:
        """What the samples show.

        Returns:
            code: int64 [N, groups], each below 2^bits.
            usable: bool [N, groups]: where there is a pattern at all; None: everywhere.
        """

    @property
    def value(self) -> float:
        """Distinct patterns of samples that earn coverage, over all groups."""
        return float(len(self._hit))

    @property
    def raw_value(self) -> float:
        """Distinct patterns of all samples."""
        return float(len(self._raw))

    @property
    def covered(self) -> int:
        """``value`` as a whole number."""
        return len(self._hit)

    @property
    def raw_covered(self) -> int:
        """``raw_value`` as a whole number."""
        return len(self._raw)

    @property
    def total(self) -> None:
        """None: how many patterns a network can show is not known."""
        return None

    def by_layer(self) -> dict[str, float]:
        """Distinct patterns of samples that earn coverage, group by group; empty where all layers together are the one group."""
        if not self._layers or (len(self._offsets) == 1 and len(self._layers) > 1):
            return {}
        return dict(zip(self._groups(), map(float, self._hit.counts(self._bits, len(self._offsets))), strict=True))

    def empty(self) -> Self:
        """See ``Criterion.empty``."""
        twin = type(self)(**self.options)
        if self._layers:
            twin._lay_out(self._layers, self._device)
        twin._begun = self._begun
        return twin

    def state_dict(self) -> dict[str, Any]:
        """See ``Criterion.state_dict``; the sets are rising int64 numbers."""
        return super().state_dict() | {key: getattr(self, f"_{key}").numbers().cpu().clone() for key in ("hit", "raw")}

    def _laid_out(self) -> None:
        groups = len(self._groups())
        self._bits = CODE_BITS - (groups - 1).bit_length()
        self._offsets = torch.arange(groups, device=self._device) << self._bits
        self._hit, self._raw = Codes(self._device), Codes(self._device)

    def _learn(self, batch: ActivationBatch, y: Tensor | None) -> None:
        pass

    def _count(self, batch: ActivationBatch, *, earning: bool) -> Tensor:
        code, usable = self._patterns(batch)
        code = code | self._offsets
        fresh = ~(self._hit if earning else self._raw).has(code)
        if usable is not None:
            fresh &= usable
        place = fresh.view(-1).nonzero().flatten()  # row by row, so in the order of the samples
        if not len(place):
            return torch.zeros(len(batch), dtype=torch.int64, device=batch.device)
        position, ordered = _first_of_each(code.view(-1)[place])
        if not earning:
            self._raw.add(ordered)
            return torch.zeros(len(batch), dtype=torch.int64, device=batch.device)
        self._hit.add(ordered)
        self._raw.add(ordered[~self._raw.has(ordered)])
        return torch.bincount(place[position] // code.shape[1], minlength=len(batch))

    def _part(self, key: str, value: Any) -> Any:
        if key not in ("hit", "raw"):
            return super()._part(key, value)
        codes = Codes.of(value)
        limit = len(self._offsets) << self._bits
        if len(codes) and int(codes.numbers()[-1]) >= limit:
            raise ValueError(f"holds numbers beyond {limit - 1}")
        return codes

    def _loaded(self) -> None:
        if not bool(self._raw.has(self._hit.numbers().to(self._device)).all()):
            raise ValueError("the coverage state is damaged: 'hit' holds patterns that 'raw' does not")


def row_name(layers: Sequence[str]) -> str:
    """What a group over these layers in a row is called."""
    return layers[0] if len(layers) == 1 else f"{layers[0]} to {layers[-1]}"


def keys_of(neurons: int, bits: int) -> Tensor:
    """int64 [neurons], each below 2^bits: pseudo-random numbers that depend on the neuron's number alone.

    They are SplitMix64's first outputs from the seed 0 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
    """
    z = np.arange(1, neurons + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return torch.from_numpy((z >> np.uint64(64 - bits)).astype(np.int64))


def _first_of_each(codes: Tensor) -> tuple[Tensor, Tensor]:
    """Positions, in int64 [H], of the first occurrence of every distinct code, and these codes, rising."""
    ordered, position = codes.sort(stable=True)
    first = torch.ones_like(ordered, dtype=torch.bool)
    torch.ne(ordered[1:], ordered[:-1], out=first[1:])
    return position[first], ordered[first]


def _merged(one: Tensor, other: Tensor) -> Tensor:
    """int64: the numbers of two rising tensors that have none in common, rising."""
    short, long = sorted((one, other), key=len)
    if not len(short):
        return long
    place = torch.searchsorted(long, short) + torch.arange(len(short), device=short.device)
    merged = torch.empty(len(long) + len(short), dtype=torch.int64, device=long.device)
    free = torch.ones_like(merged, dtype=torch.bool)
    free[place] = False
    merged.masked_scatter_(free, long)
    merged[place] = short
    return merged
