"""The bookkeeping that every criterion shares: numbered items, which of them are covered, and who covered them first.

A criterion numbers what can be covered: item ``i * items_per_neuron + j`` is the j-th item of neuron i, the neurons of all layers being
numbered through in the order of the first activations seen. For each activation it says which item that activation covers, or none.
Everything else happens here, once for a whole batch and on the activations' own device:

* **Two maps in one.** Each item is 0 (never seen), 1 (seen, but only by samples that earn nothing, such as invalid mutants) or
  2 (covered). ``value`` reports the second level, ``raw_value`` the first and second together. So raw coverage can never be lower, and
  the union of two maps is the maximum of the two.
* **In order.** ``update`` returns what each sample would have added had the samples come one by one: within a batch an item goes to the
  first sample that covers it. How a sequence of samples is cut into batches therefore changes nothing.
* **Cost.** A look-up per activation, then work in proportion to the new hits. Nothing of the size of the whole map is touched.
* **Not finite is not coverage.** NaN and infinite activations cover nothing; the neurons that gave them are counted in ``nonfinite``.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

__all__ = ["Activations", "Criterion"]

Activations = Mapping[str, Tensor]
"""{layer: floating tensor [N, neurons]}, the same N for every layer."""

_FORMAT = 1
_RAW, _COVERED = 1, 2


class Criterion(ABC):
    """Base of the criteria whose items can be numbered. Not safe for use from several threads at once.

    The state lives on the device of the last activations seen; ``state_dict`` brings it to the CPU.
    """

    name: ClassVar[str]

    def __init__(self) -> None:
        self._layers: dict[str, int] = {}  # name -> neurons, in item order
        self._state = torch.zeros(0, dtype=torch.uint8)  # [items]
        self._nonfinite = torch.zeros(0, dtype=torch.bool)  # [neurons]
        self._covered = 0
        self._seen = 0
        self._begun = False  # an update or a loaded state: from now on the ranges stay as they are

    # What a criterion says about itself.

    @property
    def items_per_neuron(self) -> int:
        """Items one neuron has."""
        return 1

    @property
    @abstractmethod
    def options(self) -> dict[str, Any]:
        """The options this criterion was made with; states merge only where they agree."""

    @abstractmethod
    def _items(self, flat: Tensor, finite: Tensor) -> Tensor:
        """The item that each activation covers.

        Args:
            flat: float32 [N, M], all layers side by side.
            finite: bool [N, M]; where False the answer is ignored.

        Returns:
            int64 [N, M]; -1 where it covers none.
        """

    @abstractmethod
    def _directions(self, start: int, values: Tensor) -> Tensor:
        """int8 [N, neurons]: see ``directions``; ``values`` is float32 [N, neurons] of the layer whose first neuron is ``start``."""

    def _possible(self) -> Tensor:
        """bool [neurons]: which neurons have items at all."""
        return torch.ones(self.neurons, dtype=torch.bool, device=self._state.device)

    def _missing(self) -> str | None:
        """Why an update can't be counted yet, or None."""
        return None

    # What it has seen.

    @property
    def layers(self) -> dict[str, int]:
        """{layer: neurons}, empty before the first activations."""
        return dict(self._layers)

    @property
    def neurons(self) -> int:
        """Neurons over all layers."""
        return sum(self._layers.values())

    @property
    def covered(self) -> int:
        """Items covered by samples that earn coverage."""
        return self._covered

    @property
    def raw_covered(self) -> int:
        """Items covered by any sample."""
        return self._seen

    @property
    def total(self) -> int:
        """Items there are. 0 before the first activations."""
        return int(self._possible().sum()) * self.items_per_neuron

    @property
    def value(self) -> float:
        """Covered share of the items, 0 to 1; 0 where there are none."""
        return self._covered / self.total if self.total else 0.0

    @property
    def raw_value(self) -> float:
        """Share of the items covered by any sample, 0 to 1; 0 where there are none."""
        return self._seen / self.total if self.total else 0.0

    @property
    def nonfinite(self) -> int:
        """Neurons which gave NaN or an infinite value at least once."""
        return int(self._nonfinite.sum())

    def by_layer(self) -> dict[str, float]:
        """Covered share of each layer's items. A layer without items (see KMNC) is left out."""
        shares = {}
        possible = self._possible()
        for name, (start, stop) in self._spans().items():
            total = int(possible[start:stop].sum()) * self.items_per_neuron
            if total:
                per = self.items_per_neuron
                shares[name] = int((self._state[start * per : stop * per] == _COVERED).sum()) / total
        return shares

    def open_neurons(self) -> dict[str, Tensor]:
        """{layer: bool [neurons]}: neurons that still have an item to cover."""
        free = (self._state.view(-1, self.items_per_neuron) != _COVERED).any(1) & self._possible()
        return {name: free[start:stop] for name, (start, stop) in self._spans().items()}

    def directions(self, acts: Activations) -> dict[str, Tensor]:
        """Which way each neuron's output must move, from where it is, to reach the nearest item not yet covered.

        Args:
            acts: some or all of the layers.

        Returns:
            {layer: int8 [N, neurons]}: 1 up, -1 down, 0 nothing to gain by moving (or the activation is not finite).

        Raises:
            ValueError: an unknown layer, a wrong width, or nothing seen so far.
        """
        spans = self._spans()
        unknown = [name for name in acts if name not in spans]
        if unknown or not spans:
            raise ValueError(
                f"{self.name} does not watch the layer {unknown[0]!r}" if spans else f"{self.name} has seen no activations yet"
            )
        result = {}
        for name, values in acts.items():
            _check_tensor(name, values, self._layers[name])
            self._move(values.device)
            values = values.detach().to(torch.float32)
            found = self._directions(spans[name][0], values)
            result[name] = torch.where(torch.isfinite(values), found, 0).to(torch.int8)
        return result

    # Counting.

    def fit(self, acts: Activations, y: Tensor | None = None) -> Self:
        """Learns from a clean profile set what the criterion needs: the layers, and in some criteria the range of every neuron.

        May be called batch by batch before the first update.

        Args:
            acts: float tensors [P, neurons]; values that are not finite are left out.
            y: class labels; part of the common interface, no criterion of this family needs them.

        Raises:
            ValueError: no samples, wrong layers or widths, or coverage has been counted already.
        """
        flat = self._flat(acts)
        if self._begun:
            raise ValueError(f"{self.name} has counted coverage already; ranges can't change under it: make a new criterion")
        if not len(flat):
            raise ValueError("the profile set is empty")
        return self

    def update(self, acts: Activations, logits: Tensor | None = None, *, earns: Tensor | None = None) -> Tensor:
        """Counts a batch.

        Args:
            acts: float tensors [N, neurons] of exactly the layers seen before, on any one device.
            logits: part of the common interface, no criterion of this family looks at them.
            earns: bool [N]; samples with False extend only the raw map. All earn where None.

        Returns:
            int64 [N] on the activations' device: newly covered items each sample added, in order. 0 where it does not earn.

        Raises:
            ValueError: not fitted where that is needed; wrong layers, widths, or mask.
        """
        flat = self._flat(acts)
        missing = self._missing()
        if missing:
            raise ValueError(missing)
        samples = len(flat)
        device = flat.device
        if earns is None:
            earns = torch.ones(samples, dtype=torch.bool, device=device)
        elif earns.shape != (samples,) or earns.dtype != torch.bool:
            raise ValueError(f"earns must be a bool tensor [{samples}], not {earns.dtype} {list(earns.shape)}")
        earns = earns.to(device)
        self._begun = True
        finite = torch.isfinite(flat)
        self._nonfinite |= ~finite.all(0)
        items = self._items(flat, finite)
        level = earns.to(torch.uint8) + _RAW
        new = (items >= 0) & finite & (self._state[items.clamp(min=0)] < level[:, None])
        sample, column = new.nonzero(as_tuple=True)  # row by row, so in the order of the samples
        item = items[sample, column]
        earning = earns[sample]
        first = _first_of_each(item[earning])
        won = item[earning][first]
        self._covered += len(won)
        self._seen += int((self._state[won] == 0).sum())
        self._state[won] = _COVERED
        seen = torch.unique(item[~earning])
        seen = seen[self._state[seen] == 0]
        self._seen += len(seen)
        self._state[seen] = _RAW
        return torch.bincount(sample[earning][first], minlength=samples)

    # Keeping and joining.

    def merge(self, other: Criterion) -> Self:
        """Adds what ``other`` has covered: the union, in both maps.

        Raises:
            ValueError: another criterion, other options, layers or ranges.
        """
        self._check_same(other)
        if other._layers:
            if not self._layers:
                self._lay_out(other._layers, other._state.device)
            self._state = torch.maximum(self._state, other._state.to(self._state.device))
            self._nonfinite = self._nonfinite | other._nonfinite.to(self._nonfinite.device)
            self._begun = self._begun or other._begun
            self._count()
        return self

    def copy(self) -> Self:
        """An independent criterion with the same ranges and the same coverage."""
        return copy.deepcopy(self)

    def empty(self) -> Self:
        """An independent criterion with the same layers and ranges, nothing covered."""
        twin = self.copy()
        twin._state.zero_()
        twin._nonfinite.zero_()
        twin._covered = twin._seen = 0
        return twin

    def state_dict(self) -> dict[str, Any]:
        """Everything, as plain values (that survive JSON) and CPU tensors.

        Keys: format, criterion, options, layers, state (uint8 [items]), nonfinite (bool [neurons]), and what ``fit`` learned.
        """
        return {
            "format": _FORMAT,
            "criterion": self.name,
            "options": self.options,
            "layers": dict(self._layers),
            "state": self._state.cpu().clone(),
            "nonfinite": self._nonfinite.cpu().clone(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a ``state_dict``.

        Raises:
            ValueError: of another criterion, of other options, malformed, or of other layers or ranges than this one already has.
        """
        loaded = self._parsed(state)
        if self._layers:
            self._check_same(loaded)
        self.__dict__.update(loaded.__dict__)

    def _parsed(self, state: Mapping[str, Any]) -> Self:
        """A new criterion holding ``state``."""
        expected = set(self.state_dict())
        if set(state) != expected or state["format"] != _FORMAT:
            raise ValueError(f"this is no coverage state of format {_FORMAT} with {', '.join(sorted(expected))}")
        if state["criterion"] != self.name or state["options"] != self.options:
            raise ValueError(
                f"the state is of {state['criterion']!r} with {state['options']}, this criterion is {self.name!r} with {self.options}"
            )
        layers = state["layers"]
        if not isinstance(layers, Mapping) or not all(isinstance(n, int) and n > 0 for n in layers.values()):
            raise ValueError("the layers of the coverage state must be names with a number of neurons")
        fresh = type(self)(**self.options)
        fresh._lay_out(layers, torch.device("cpu"))
        fresh._state = _checked(state["state"], "state", torch.uint8, len(fresh._state))
        fresh._nonfinite = _checked(state["nonfinite"], "nonfinite", torch.bool, fresh.neurons)
        if len(fresh._state) and int(fresh._state.max()) > _COVERED:
            raise ValueError(f"the coverage state has levels other than 0 to {_COVERED}")
        fresh._begun = True
        fresh._count()
        return fresh

    def _check_same(self, other: Criterion) -> None:
        if other.name != self.name or other.options != self.options:
            raise ValueError(f"{other.name} with {other.options} can't be joined with {self.name} with {self.options}")
        if self._layers and other._layers and list(self._layers.items()) != list(other._layers.items()):
            raise ValueError(f"other layers: {other._layers}, here {self._layers}")

    def _count(self) -> None:
        self._covered = int((self._state == _COVERED).sum())
        self._seen = int((self._state > 0).sum())

    # Laying out.

    def _spans(self) -> dict[str, tuple[int, int]]:
        """{layer: (first neuron, one past the last)}."""
        spans, start = {}, 0
        for name, width in self._layers.items():
            spans[name] = (start, start + width)
            start += width
        return spans

    def _lay_out(self, layers: Mapping[str, int], device: torch.device) -> None:
        self._layers = dict(layers)
        self._state = torch.zeros(self.neurons * self.items_per_neuron, dtype=torch.uint8, device=device)
        self._nonfinite = torch.zeros(self.neurons, dtype=torch.bool, device=device)

    def _move(self, device: torch.device) -> None:
        """Brings every tensor of the criterion to ``device``."""
        if self._state.device != device:
            for key, value in list(vars(self).items()):
                if isinstance(value, Tensor):
                    setattr(self, key, value.to(device))

    def _flat(self, acts: Activations) -> Tensor:
        """float32 [N, M]: the layers side by side in item order; lays out the items at the first call."""
        if not acts:
            raise ValueError("no layers given")
        if self._layers and set(acts) != set(self._layers):
            missing = sorted(set(self._layers) - set(acts))
            extra = sorted(set(acts) - set(self._layers))
            raise ValueError(f"wrong layers: missing {missing}, not watched {extra}")
        for name, values in acts.items():
            _check_tensor(name, values, self._layers.get(name))
        counts = {name: len(values) for name, values in acts.items()}
        if len(set(counts.values())) > 1:
            raise ValueError(f"the layers have different numbers of samples: {counts}")
        device = next(iter(acts.values())).device
        if not self._layers:
            self._lay_out({name: values.shape[1] for name, values in acts.items()}, device)
        self._move(device)
        return torch.cat([acts[name].detach().to(torch.float32) for name in self._layers], dim=1)


def _check_tensor(name: str, values: Tensor, width: int | None) -> None:
    if values.ndim != 2 or not values.is_floating_point() or not values.shape[1]:
        raise ValueError(f"layer {name!r}: activations must be a floating tensor [N, neurons], not {values.dtype} {list(values.shape)}")
    if width is not None and values.shape[1] != width:
        raise ValueError(f"layer {name!r} has {width} neurons, these activations have {values.shape[1]}")


def _checked(value: Any, what: str, dtype: torch.dtype, length: int) -> Tensor:
    if not isinstance(value, Tensor) or value.dtype != dtype or value.shape != (length,):
        raise ValueError(f"{what!r} of the coverage state must be a {dtype} tensor of length {length}")
    return value.detach().cpu().clone()


def _first_of_each(item: Tensor) -> Tensor:
    """Positions, in ``item`` [H], of the first occurrence of every distinct value."""
    ordered, position = torch.sort(item, stable=True)
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return position[first]
