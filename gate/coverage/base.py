"""What every coverage criterion is: something that learns from a profile set, counts batches, and can be saved, joined and read.

Two things are kept apart everywhere: what samples have covered that *earn* coverage (valid mutants), and what any sample has, the *raw*
coverage. ``value`` reports the first, ``raw_value`` the second, which can never be lower in a criterion that counts items.

How a sequence of samples is cut into batches, saved and joined changes no value. Values that are not finite are not coverage: the
neurons that gave them are counted in ``nonfinite``.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from gate.coverage.activations import ActivationBatch, Activations, check_layer, said_of, spans_of
from gate.coverage.bits import Bits
from gate.coverage.merging import Merging, join
from gate.errors import ConfigError

__all__ = ["Criterion"]

FORMAT = 2
LARGEST = 1 << 27  # neurons: half a gibibyte of activations for every sample


class Criterion(ABC):
    """Base of all criteria. Not safe for use from several threads at once.

    The state lives on the device of the last activations seen; ``state_dict`` brings it to the CPU.

    A part of the state named ``x`` in ``merging`` is the attribute ``_x``: a tensor, ``Bits``, or another set with ``union`` and ``to``.
    """

    name: ClassVar[str]
    merging: ClassVar[Mapping[str, Merging]]
    needs_logits: ClassVar[bool] = False  # whether update wants what the model answered
    multiplies: ClassVar[bool] = False  # whether counting is for the most part products of matrices, for which several threads are faster
    needs_labels: ClassVar[bool] = False  # whether fit wants the classes of the profile set

    def __init__(self) -> None:
        self._layers: dict[str, int] = {}  # name -> neurons, in item order
        self._nonfinite = torch.zeros(0, dtype=torch.bool)  # [neurons]
        self._device = torch.device("cpu")
        self._begun = False  # an update or a loaded state: from now on what was learnt stays as it is

    # What a criterion says about itself.

    @property
    @abstractmethod
    def options(self) -> dict[str, Any]:
        """The options this criterion was made with; states merge only where they agree. Plain JSON values."""

    @property
    @abstractmethod
    def value(self) -> float:
        """What samples that earn coverage have come to."""

    @property
    @abstractmethod
    def raw_value(self) -> float:
        """What all samples together have come to."""

    @property
    @abstractmethod
    def covered(self) -> int:
        """Items covered by samples that earn coverage; of a statistic, how many samples those were."""

    @property
    @abstractmethod
    def raw_covered(self) -> int:
        """Items covered by any sample; of a statistic, how many samples there were."""

    @property
    @abstractmethod
    def total(self) -> int | None:
        """Items there are, 0 before the first activations; None where there is no fixed number of them."""

    def by_layer(self) -> dict[str, float]:
        """``value`` layer by layer, without layers that have no items; empty where the criterion does not look at layers one by one."""
        return {}

    # How it counts, for the subclasses.

    @abstractmethod
    def _learn(self, batch: ActivationBatch, y: Tensor | None) -> None:
        """Takes in a batch of the profile set."""

    @abstractmethod
    def _count(self, batch: ActivationBatch, *, earning: bool) -> Tensor:
        """Counts samples all of which earn, or none of which does.

        Returns:
            int64 or float64 [N]: what each added to the valid coverage (where none earns, it is not looked at).
        """

    def _missing(self) -> str | None:
        """Why an update can't be counted yet, or None."""
        return None

    def _laid_out(self) -> None:  # noqa: B027 - nothing to do in most criteria
        """The layers have just become known."""

    def _loaded(self) -> None:  # noqa: B027 - nothing to do in most criteria
        """Parts of the state were replaced: what is derived from them must be derived again. Raises ValueError if they can't be true."""

    def _check_claims(self) -> None:  # noqa: B027 - most states can't claim what is impossible
        """Raises ValueError where the parts of a saved state, each in order by itself, can't be true together."""

    def _part(self, key: str, value: Any) -> Any:
        """The part ``key`` of a saved state, checked. Raises ValueError: ``must be ...``."""
        raise NotImplementedError(key)

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
    def nonfinite(self) -> int:
        """Neurons which gave NaN or an infinite value at least once."""
        return int(self._nonfinite.sum())

    # Counting.

    def fit(self, acts: Activations | ActivationBatch, y: Tensor | None = None) -> Self:
        """Learns from a clean profile set what the criterion needs: the layers, and in some criteria ranges, references or moments.

        May be called batch by batch before the first update.

        Args:
            acts: float tensors [P, neurons]; values that are not finite are left out.
            y: int64 [P], the classes of the samples, for the criteria with ``needs_labels``.

        Raises:
            ValueError: no samples, wrong layers or widths, labels missing where they are needed, or coverage has been counted already.
        """
        batch = self._batch(acts, None)
        if self._begun:
            raise ValueError(f"{self.name} has counted coverage already; what it learnt can't change under it: make a new criterion")
        if not len(batch):
            raise ValueError("the profile set is empty")
        if self.needs_labels:
            if y is None:
                raise ValueError(f"{self.name} needs the classes of the profile set: fit(acts, y)")
            whole = (
                isinstance(y, Tensor)
                and y.shape == (len(batch),)
                and not (y.is_floating_point() or y.is_complex() or y.dtype == torch.bool)
            )
            if not whole or bool((y < 0).any()):
                raise ValueError(f"y must be {len(batch)} class numbers from 0, not {said_of(y)}")
        self._begin(batch)
        self._learn(batch, None if y is None else y.to(batch.device, torch.int64))
        return self

    def update(self, acts: Activations | ActivationBatch, logits: Tensor | None = None, *, earns: Tensor | None = None) -> Tensor:
        """Counts a batch.

        Args:
            acts: float tensors [N, neurons] of exactly the layers seen before, on any one device.
            logits: float [N, K], the model's answers, for the criteria with ``needs_logits``.
            earns: bool [N]; samples with False extend only the raw coverage. All earn where None.

        Returns:
            [N] on the activations' device: newly covered items each sample added, in order, int64; of a statistic its gain, float64.
            0 where a sample does not earn.

        Raises:
            ValueError: not fitted or without logits where that is needed; wrong layers, widths, or mask.
        """
        batch = self._batch(acts, logits)
        return self._counted(batch, split(batch, earns))

    def _counted(self, batch: ActivationBatch, parts: Parts) -> Tensor:
        """Counts the two parts of a batch and puts the samples' shares in their places."""
        missing = self._missing()
        if missing is None and self.needs_logits and batch.logits is None:
            missing = f"{self.name} needs what the model answered: update(acts, logits)"
        if missing:
            raise ValueError(missing)
        self._begin(batch)
        self._begun = True
        if batch.finite is not None:
            self._nonfinite |= ~batch.finite.all(0)
        added: Tensor | None = None
        for rows, part, earning in parts:
            found = self._count(part, earning=earning)
            if earning:
                added = found if rows is None else found.new_zeros(len(batch)).index_copy_(0, rows, found)
        return torch.zeros(len(batch), dtype=torch.int64, device=batch.device) if added is None else added

    # Keeping and joining.

    def merge(self, other: Criterion) -> Self:
        """Adds what ``other`` has covered, part by part as ``merging`` declares. One that has seen nothing yet becomes like the other.

        Raises:
            ValueError: another criterion, other options, other layers, or another profile set.
        """
        self._check_same(other)
        if not other._layers:
            return self
        if not self._layers:  # nothing learnt and nothing seen
            self.__dict__.update(other.copy().__dict__)
            return self
        joined = {
            key: join(how, getattr(self, f"_{key}"), getattr(other, f"_{key}"), f"{self.name}: the {key} differ")
            for key, how in self.merging.items()
        }
        for key, value in joined.items():
            setattr(self, f"_{key}", value)
        self._begun = self._begun or other._begun
        self._loaded()
        return self

    def copy(self) -> Self:
        """An independent criterion that has learnt and covered the same."""
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # What was learnt is replaced and never changed in place, so copies share it: references may take more memory than all else.
        for key, how in self.merging.items():
            if how is Merging.SAME:
                learnt = getattr(self, f"_{key}")
                memo[id(learnt)] = learnt
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        twin.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return twin

    @abstractmethod
    def empty(self) -> Self:
        """An independent criterion that has learnt the same and covered nothing."""

    def state_dict(self) -> dict[str, Any]:
        """Everything, as plain values (that survive JSON) and CPU tensors.

        Keys: format, criterion, options, layers, begun, and the parts of ``merging``; a set of items is int32 words (see ``Bits``).
        """
        parts = {key: _saved(getattr(self, f"_{key}")) for key in self.merging}
        return {
            "format": FORMAT,
            "criterion": self.name,
            "options": self.options,
            "layers": dict(self._layers),
            "begun": self._begun,
            **parts,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a ``state_dict``.

        Raises:
            ValueError: of another criterion, of other options, malformed, or of other layers or another profile set than this one has.
        """
        expected = {"format", "criterion", "options", "layers", "begun", *self.merging}
        if (
            not isinstance(state, Mapping)
            or set(state) != expected
            or not is_format(state["format"])
            or not isinstance(state["begun"], bool)
        ):
            raise ValueError(f"this is no coverage state of format {FORMAT} with {', '.join(sorted(expected))}")
        if state["criterion"] != self.name or state["options"] != self.options:
            raise ValueError(
                f"the state is of {state['criterion']!r} with {state['options']}, this criterion is {self.name!r} with {self.options}"
            )
        layers = state["layers"]
        if not isinstance(layers, Mapping) or not all(type(n) is int and n > 0 for n in layers.values()):
            raise ValueError("the layers of the coverage state must be names with a number of neurons")
        fresh = type(self)(**self.options)
        if layers:
            fresh._lay_out(layers, torch.device("cpu"))
        for key in self.merging:
            try:
                setattr(fresh, f"_{key}", fresh._checked(key, state[key]))
            except ValueError as error:
                raise ValueError(f"{key!r} of the coverage state {error}") from error
        fresh._begun = state["begun"]
        fresh._loaded()
        fresh._check_claims()
        if self._layers:
            self._check_same(fresh)
            for key, how in self.merging.items():
                if how is Merging.SAME:
                    join(how, getattr(self, f"_{key}"), getattr(fresh, f"_{key}"), f"{self.name}: the {key} differ")
        self.__dict__.update(fresh.__dict__)

    def _checked(self, key: str, value: Any) -> Any:
        return tensor_part(value, torch.bool, self.neurons) if key == "nonfinite" else self._part(key, value)

    def _check_same(self, other: Criterion) -> None:
        if other.name != self.name or other.options != self.options:
            raise ValueError(f"{other.name} with {other.options} can't be joined with {self.name} with {self.options}")
        if self._layers and other._layers and list(self._layers.items()) != list(other._layers.items()):
            raise ValueError(f"other layers: {other._layers}, here {self._layers}")

    # Laying out.

    @property
    def _spans(self) -> dict[str, tuple[int, int]]:
        """{layer: (first neuron, one past the last)}."""
        return spans_of(self._layers)

    def _lay_out(self, layers: Mapping[str, int], device: torch.device) -> None:
        if sum(layers.values()) > LARGEST:
            raise ConfigError(
                f"{sum(layers.values()):,} neurons are more than coverage can watch, {LARGEST:,}.",
                where="coverage.layers",
                hint="Watch fewer layers, or take coverage.neuron: mean.",
            )
        self._layers = dict(layers)
        self._device = device
        self._nonfinite = torch.zeros(self.neurons, dtype=torch.bool, device=device)
        try:
            self._laid_out()
        except Exception:
            self._layers = {}  # layers that are refused stay unknown: the next ones may fit
            raise

    def _move(self, device: torch.device) -> None:
        """Brings everything the criterion holds to ``device``."""
        if self._device != device:
            self._device = device
            for key, value in list(vars(self).items()):
                if isinstance(value, Tensor | Bits) or hasattr(value, "moved_to"):
                    setattr(self, key, value.to(device) if isinstance(value, Tensor | Bits) else value.moved_to(device))

    def _batch(self, acts: Activations | ActivationBatch, logits: Tensor | None) -> ActivationBatch:
        """The activations in this criterion's order of layers, checked. Nothing is learnt of them yet."""
        if isinstance(acts, ActivationBatch):
            batch = acts
            if self._layers and list(self._layers.items()) != list(batch.layers.items()):
                raise ValueError(f"wrong layers: {batch.layers}, watched are {self._layers}")
        else:
            batch = ActivationBatch.of(acts, logits, self._layers)
        if self._layers:
            self._move(batch.device)
        return batch

    def _begin(self, batch: ActivationBatch) -> None:
        """Lays out the items at the first batch that is taken in. One that was refused leaves no trace."""
        if not self._layers:
            self._lay_out(batch.layers, batch.device)

    def _check_known(self, acts: Activations) -> None:
        """Raises ValueError where ``acts`` has a layer or a width that this criterion does not watch, or it has seen nothing yet."""
        if not self._layers:
            raise ValueError(f"{self.name} has seen no activations yet")
        for name, values in acts.items():
            if name not in self._layers:
                raise ValueError(f"{self.name} does not watch the layer {name!r}")
            check_layer(name, values, self._layers[name])


Parts = list[tuple[Tensor | None, ActivationBatch, bool]]
"""Rows (None: all), the batch of these rows, and whether they earn."""


def split(batch: ActivationBatch, earns: Tensor | None) -> Parts:
    """The samples that earn, and those that do not; each part keeps the order, and an empty one is left out.

    Raises:
        ValueError: ``earns`` is no bool tensor [N].
    """
    if earns is None:
        return [(None, batch, True)] if len(batch) else []
    if not isinstance(earns, Tensor) or earns.shape != (len(batch),) or earns.dtype != torch.bool:
        raise ValueError(f"earns must be a bool tensor [{len(batch)}], not {said_of(earns)}")
    # The mask comes from the CPU as a rule, and there its rows are found without waiting for the device.
    number = int(earns.sum())
    if number in (0, len(batch)):
        return [(None, batch, number > 0)] if len(batch) else []
    parts: Parts = []
    for mask, earning in ((earns, True), (~earns, False)):
        rows = mask.nonzero().flatten().to(batch.device)
        parts.append((rows, batch.rows(rows), earning))
    return parts


def tensor_part(value: Any, dtype: torch.dtype, *shapes: int | tuple[int, ...]) -> Tensor:
    """A tensor of a saved state, as a copy on the CPU.

    Raises:
        ValueError: another type, or none of these shapes.
    """
    allowed = [(shape,) if isinstance(shape, int) else shape for shape in shapes]
    if not isinstance(value, Tensor) or value.dtype != dtype or tuple(value.shape) not in allowed:
        raise ValueError(f"must be a {dtype} tensor of shape {' or '.join(str(list(shape)) for shape in allowed)}")
    return value.detach().cpu().clone()


def is_format(value: Any) -> bool:
    """Whether ``value``, whatever it is, is the number of the format of states that is written here."""
    return type(value) is int and value == FORMAT


def _saved(value: Any) -> Any:
    if isinstance(value, Bits):
        return value.words.cpu().clone()
    return value.detach().cpu().clone() if isinstance(value, Tensor) else value
