"""The bookkeeping of every criterion whose items are numbered: which of them are covered, and who covered them first.

Everything happens once for a whole batch and on the activations' own device:

* **Two sets of packed bits.** What samples that earn have covered, and what any sample has, which is never less. Joining two maps is
  the union of both.
* **In order.** ``update`` returns what each sample would have added had the samples come one by one: within a batch an item goes to the
  first sample that covers it. How a sequence of samples is cut into batches therefore changes nothing.
* **Cost.** A look-up per activation, then work in proportion to the new hits. Nothing of the size of the whole map is touched.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from gate.coverage.activations import ActivationBatch, Activations
from gate.coverage.base import Criterion
from gate.coverage.bits import Bits
from gate.coverage.merging import Merging

__all__ = ["Hits", "ItemCriterion", "NeuronCriterion", "hits_of", "places"]

_FEW = 1 << 15

Hits = tuple[Tensor, Tensor]
"""Sample and item of each hit, int64 [H] both, in the order of the samples; a sample may hit an item once only."""


class ItemCriterion(Criterion):
    """Base of the criteria with a fixed number of items, ``_size`` of them, numbered from 0."""

    merging: ClassVar[Mapping[str, Merging]] = {"hit": Merging.UNION, "raw": Merging.UNION, "nonfinite": Merging.UNION}

    def __init__(self) -> None:
        super().__init__()
        self._hit = Bits(0)
        self._raw = Bits(0)
        self._covered = 0
        self._seen = 0

    @abstractmethod
    def _size(self) -> int:
        """How many items are numbered, also those that can't be covered."""

    @abstractmethod
    def _fresh(self, batch: ActivationBatch, known: Bits) -> Hits:
        """The hits of a batch on items that are not in ``known``."""

    @property
    def covered(self) -> int:
        """Items covered by samples that earn coverage."""
        return self._covered

    @property
    def raw_covered(self) -> int:
        """Items covered by any sample."""
        return self._seen

    @property
    def value(self) -> float:
        """Covered share of the items, 0 to 1; 0 where there are none."""
        return self._covered / self.total if self.total else 0.0

    @property
    def raw_value(self) -> float:
        """Share of the items covered by any sample, 0 to 1; 0 where there are none."""
        return self._seen / self.total if self.total else 0.0

    def empty(self) -> Self:
        """See ``Criterion.empty``."""
        twin = self.copy()
        twin._hit, twin._raw = Bits(self._hit.size, self._device), Bits(self._raw.size, self._device)
        twin._nonfinite = torch.zeros_like(self._nonfinite)
        twin._covered = twin._seen = 0
        return twin

    def _laid_out(self) -> None:
        self._hit, self._raw = Bits(self._size(), self._device), Bits(self._size(), self._device)

    def _learn(self, batch: ActivationBatch, y: Tensor | None) -> None:
        pass

    def _count(self, batch: ActivationBatch, *, earning: bool) -> Tensor:
        sample, item = self._fresh(batch, self._hit if earning else self._raw)
        if not len(item):
            return torch.zeros(len(batch), dtype=torch.int64, device=batch.device)
        item, sample = _first_to_cover(item, sample, self._hit.size, len(batch))
        added = torch.zeros(len(batch), dtype=torch.int64, device=batch.device)
        if not earning:
            self._raw.add(item)
            self._seen += len(item)
            return added
        # While both sets are the same, what is new to one is new to the other.
        unseen = item if self._seen == self._covered else item[~self._raw.has(item)]
        if unseen is item:
            self._hit.add(item, self._raw)
        else:
            self._hit.add(item)
            self._raw.add(unseen)
        self._covered += len(item)
        self._seen += len(unseen)
        return added.scatter_add_(0, sample, torch.ones_like(sample))

    def _part(self, key: str, value: Any) -> Any:
        return Bits.of(value, self._hit.size) if key in ("hit", "raw") else super()._part(key, value)

    def _loaded(self) -> None:
        if not self._hit.within(self._raw):
            raise ValueError("the coverage state is damaged: 'hit' holds items that 'raw' does not")
        self._covered, self._seen = self._hit.count(), self._raw.count()


class NeuronCriterion(ItemCriterion):
    """Base of the criteria that give every neuron the same number of items, of which one activation covers one at most.

    Item ``i * items_per_neuron + j`` is the j-th item of neuron i, the neurons of all layers being numbered through in the order of the
    first activations seen.
    """

    @property
    def items_per_neuron(self) -> int:
        """Items one neuron has."""
        return 1

    @abstractmethod
    def _items(self, batch: ActivationBatch, columns: Tensor | None = None) -> Tensor:
        """The item that each activation covers.

        Args:
            batch: the activations.
            columns: int64 [C], the neurons asked for; None: all M of them.

        Returns:
            int64 [N, C]; -1 where it covers none.
        """

    @abstractmethod
    def _directions(self, start: int, values: Tensor) -> Tensor:
        """int8 [N, neurons]: see ``directions``; ``values`` is float32 [N, neurons] of the layer whose first neuron is ``start``."""

    def _possible(self) -> Tensor:
        """bool [neurons]: which neurons have items at all."""
        return torch.ones(self.neurons, dtype=torch.bool, device=self._device)

    def _size(self) -> int:
        return self.neurons * self.items_per_neuron

    @property
    def total(self) -> int:
        """Items there are. 0 before the first activations."""
        return int(self._possible().sum()) * self.items_per_neuron

    def by_layer(self) -> dict[str, float]:
        """Covered share of each layer's items. A layer without items (see KMNC) is left out."""
        shares = {}
        possible, per = self._possible(), self.items_per_neuron
        for name, (start, stop) in self._spans.items():
            total = int(possible[start:stop].sum()) * per
            if total:
                shares[name] = self._hit.count(start * per, stop * per) / total
        return shares

    def directions(self, acts: Activations) -> dict[str, Tensor]:
        """Which way each neuron's output must move, from where it is, to reach the nearest item not yet covered.

        Args:
            acts: some or all of the layers.

        Returns:
            {layer: int8 [N, neurons]}: 1 up, -1 down, 0 nothing to gain by moving (or the activation is not finite).

        Raises:
            ValueError: an unknown layer, a wrong width, or nothing seen so far.
        """
        self._check_known(acts)
        spans, result = self._spans, {}
        for name, values in acts.items():
            self._move(values.device)
            values = values.detach().to(torch.float32)
            found = self._directions(spans[name][0], values)
            result[name] = torch.where(torch.isfinite(values), found, 0).to(torch.int8)
        return result

    def open_items(self) -> Tensor:
        """int64 [neurons]: items of each neuron that are not covered and can be."""
        return self._open(0, self.neurons).sum(1)

    def gaps(self, batch: ActivationBatch) -> Tensor:
        """How far each neuron's output is from its nearest item that is not covered: by what it would have to change, with its sign.

        Where an item has an extent the change leads into its middle, where it has only an end a little beyond it.

        Args:
            batch: activations of the layers that were counted.

        Returns:
            float32 [N, neurons]; 0 where there is nothing to gain or the output is not finite.

        Raises:
            ValueError: other layers, or nothing seen so far.
        """
        self._check_known({})
        batch = self._batch(batch, None)
        return torch.where(torch.isfinite(batch.flat), self._gaps(batch), 0).nan_to_num(0.0, 0.0, 0.0)

    def uncovered(self, batch: ActivationBatch) -> Hits:
        """What a batch would cover first, had each sample come alone. Counts nothing.

        Args:
            batch: activations of the layers that were counted.

        Returns:
            Sample and item of each hit, int64 [H] each.

        Raises:
            ValueError: other layers, or nothing seen so far.
        """
        self._check_known({})
        batch = self._batch(batch, None)
        return self._fresh(batch, self._hit)

    @abstractmethod
    def _gaps(self, batch: ActivationBatch) -> Tensor:
        """float32 [N, neurons]: see ``gaps``; of an output that is not finite anything."""

    def _open(self, start: int, stop: int) -> Tensor:
        """bool [stop - start, items_per_neuron]: items of these neurons that are not covered and can be."""
        per = self.items_per_neuron
        return ~self._hit.unfolded(start * per, stop * per).view(-1, per) & self._possible()[start:stop, None]


def hits_of(mask: Tensor) -> Hits:
    """The hits that a mask [N, M] names, where item and neuron are the same number."""
    place = places(mask)
    sample = place // mask.shape[1]
    return sample, place - sample * mask.shape[1]


def places(mask: Tensor) -> Tensor:
    """int64 [H]: where a mask is true, numbered row by row and so in the order of the samples."""
    flat = mask.reshape(-1)
    # NumPy, on the CPU, takes less than half the time.
    return torch.from_numpy(np.flatnonzero(flat.numpy())) if flat.device.type == "cpu" else flat.nonzero().flatten()


def _first_to_cover(item: Tensor, sample: Tensor, size: int, samples: int) -> tuple[Tensor, Tensor]:
    """Every distinct item of some hits, rising, int32 or int64 [D], and the first sample that covers it, int64 [D].

    Args:
        item: int64 [H], each below ``size``.
        sample: int64 [H], each below ``samples``.
    """
    # Both in one number, so that it needs no stable sort and no way back to the hits; a narrow one sorts faster.
    bits = (samples - 1).bit_length()
    dtype = torch.int32 if size << bits < 1 << 31 else torch.int64
    ordered = _rising((item.to(dtype) << bits) | sample.to(dtype))
    items = ordered >> bits
    first = torch.ones_like(items, dtype=torch.bool)
    torch.ne(items[1:], items[:-1], out=first[1:])
    ordered = ordered.index_select(0, places(first))
    return ordered >> bits, (ordered & ((1 << bits) - 1)).to(torch.int64)


def _rising(keys: Tensor) -> Tensor:
    """``keys`` [H] in rising order."""
    if keys.device.type == "cpu" and len(keys) < _FEW:
        return torch.from_numpy(np.sort(keys.numpy()))  # so few PyTorch sorts only half as fast
    return keys.sort().values
