"""Surprise coverage: how much of a scale of surprise has been seen. Base of LSA, DSA and MDSA, which differ in what surprise is.

A sample's surprise is a number: how far its activations lie from those that the profile samples of the same class have, the class being
the one that the model gives the sample. The scale between two bounds is cut into equal sections, which are the items.

Sources: Kim, Feldt, Yoo, "Guiding deep learning system testing using surprise adequacy", ICSE 2019; Weiss, Chakraborty, Tonella, "A review
and refinement of surprise adequacy", DeepTest 2021, on how much hangs on the bounds and on how many profile samples are kept.
"""

from __future__ import annotations

import math
import sys
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from gate.coverage.activations import ActivationBatch, Activations
from gate.coverage.base import tensor_part
from gate.coverage.bits import Bits
from gate.coverage.items import Hits, ItemCriterion
from gate.coverage.merging import Merging
from gate.coverage.number_options import checked_number, checked_whole

__all__ = ["SINGULAR", "SurpriseCriterion", "chosen_neurons"]

SINGULAR = 1e-10  # of a covariance's largest eigenvalue: below it, float32 activations don't tell a variance from none

_ASKED = 1000  # references whose own surprise sets the bounds, at most, but for two of each class
_QUANTILE = 0.99  # of their surprise: one odd profile sample should not stretch the scale


class SurpriseCriterion(ItemCriterion):
    """``sections`` items, section j holding lower + j·w ≤ surprise < lower + (j+1)·w with w = (upper - lower) / sections; the last one also
    holds ``upper``. What lies outside of the bounds covers none.

    ``fit`` keeps the first ``references`` samples of every class whose activations are all finite. It may go on until the first update.

    A sample's class is that of its largest logit, the lowest number among equals; of a single column of logits, 1 where it is above 0
    and else 0. Its surprise is not defined where that class has no references (or fewer than the criterion needs), where an activation
    or a logit is not finite, or as the criterion says; then it covers none.

    Without bounds given, the references' own surprise sets them, each measured without itself where the criterion can: from ``lower``
    to the 99th percentile, and as far again, since the search looks for what is more surprising than the profile set.

    It is worked out in float64 from float32 activations. Through products of matrices, another batch size can change its last digits.

    Args:
        sections: how many.
        references: samples kept for each class.
        upper: of the bounds; None: from the profile set.
    """

    # The references come first: reading them sorts the classes too.
    merging: ClassVar[Mapping[str, Merging]] = {**ItemCriterion.merging, "references": Merging.SAME, "classes": Merging.SAME}
    needs_logits: ClassVar[bool] = True
    multiplies: ClassVar[bool] = True
    needs_labels: ClassVar[bool] = True
    least: ClassVar[int] = 1  # references without which a class has no surprise

    def __init__(self, *, sections: int = 100, references: int = 1000, upper: float | None = None) -> None:
        super().__init__()
        self._sections, self._most = checked_whole("sections", sections), checked_whole("references", references)
        if references < self.least:
            raise ValueError(f"references must be at least {self.least} for {self.name}, not {references}")
        self._upper = checked_bound("upper", upper)
        self._kept = torch.zeros(0, 0)  # float32 [R, neurons], by class, within it as they came
        self._classes = torch.zeros(0, dtype=torch.int64)  # [R]
        self._waiting: list[Tensor] = []  # rows that belong to ``_kept`` once they are sorted in
        # Worked out from the references when first needed; None before.
        self._bounds: tuple[float, float] | None = None
        self._labels = torch.zeros(0, dtype=torch.int64)  # [K]: the classes there are, rising
        self._defined = torch.zeros(0, dtype=torch.bool)  # [K]: whether they have enough references
        self._starts: list[int] = []  # [K + 1]: where each class begins among the references

    # For the subclasses.

    @abstractmethod
    def _derive(self) -> None:
        """Works out from ``_references`` and ``_starts`` what ``_within`` needs. Raises ValueError where that can't be done."""

    @abstractmethod
    def _within(self, index: int, rows: Tensor, own: Tensor | None) -> Tensor:
        """The surprise of samples of one class.

        Args:
            index: of the class, in ``_labels``.
            rows: float32 [n, neurons], finite.
            own: int64 [n], the place of each row among the class's references, to be measured without itself; None: they are none.

        Returns:
            float64 [n]; NaN where it is not defined.
        """

    def _lower(self) -> float | None:
        """The lower bound; None: the lowest surprise of a reference, itself included."""
        return 0.0

    # The values.

    @property
    def options(self) -> dict[str, Any]:
        """sections, references and upper."""
        return {"sections": self._sections, "references": self._most, "upper": self._upper}

    @property
    def total(self) -> int:
        """The number of sections; 0 before the first activations."""
        return self._hit.size

    @property
    def bounds(self) -> tuple[float, float]:
        """Lower and upper bound of the scale.

        Raises:
            ValueError: no references yet, or they don't allow it.
        """
        self._prepare()
        assert self._bounds is not None
        return self._bounds

    def surprise(self, acts: Activations | ActivationBatch, logits: Tensor | None = None) -> Tensor:
        """The surprise of samples; counts nothing.

        Args:
            acts: float tensors [N, neurons], as for ``update``.
            logits: float [N, K], the model's answers.

        Returns:
            float64 [N] on the activations' device; NaN where it is not defined.

        Raises:
            ValueError: as ``update``.
        """
        batch = self._batch(acts, logits)
        missing = self._missing()
        if missing is None and batch.logits is None:
            missing = f"{self.name} needs what the model answered: surprise(acts, logits)"
        if missing:
            raise ValueError(missing)
        return self._measured(batch)

    # Learning.

    @property
    def _references(self) -> Tensor:
        """float32 [R, neurons], by class, within it as they came."""
        self._sort_in()
        return self._kept

    @_references.setter
    def _references(self, value: Tensor) -> None:
        self._kept, self._waiting = value, []

    def _sort_in(self) -> None:
        if self._waiting:
            order = torch.argsort(self._classes, stable=True)
            self._kept, self._classes, self._waiting = torch.cat([self._kept, *self._waiting])[order], self._classes[order], []

    def _learn(self, batch: ActivationBatch, y: Tensor | None) -> None:
        assert y is not None
        usable = torch.ones(len(batch), dtype=torch.bool, device=batch.device) if batch.finite is None else batch.finite.all(1)
        new = usable.nonzero().flatten()
        both = torch.cat([self._classes, y[new]])
        ordered, position = torch.sort(both, stable=True)
        place = torch.arange(len(both), device=both.device)
        rank = place - torch.searchsorted(ordered, ordered)  # within the class, in the order they came
        taken = position[(rank < min(self._most, len(both))) & (position >= len(self._classes))].sort().values - len(self._classes)
        rows = new[taken]
        if len(rows):
            self._waiting.append(batch.flat[rows])
            self._classes = torch.cat([self._classes, y[rows]])
            self._bounds = None

    def _missing(self) -> str | None:
        if not len(self._classes):
            return self._without_references()
        self._prepare()
        return None

    def _without_references(self) -> str:
        # Layers become known by fit, which takes samples in only where all of their activations are finite.
        if self._layers:
            return f"{self.name} needs profile samples whose activations are all finite: of every one, some neuron gave NaN or infinity"
        return f"{self.name} needs profile samples with their classes: call fit(acts, y) first"

    def _prepare(self) -> None:
        """Works out what the references say; they stay as they are from the first update on."""
        if self._bounds is not None:
            return
        references = self._references  # sorts the classes too
        if not len(references):
            raise ValueError(self._without_references())
        self._labels, counts = torch.unique_consecutive(self._classes, return_counts=True)
        self._defined = counts >= self.least
        self._starts = [0, *counts.cumsum(0).tolist()]
        if not bool(self._defined.any()):
            raise ValueError(f"{self.name} needs at least {self.least} profile samples of a class")
        self._derive()
        self._bounds = self._own_bounds()

    def _own_bounds(self) -> tuple[float, float]:
        lower, upper = self._lower(), self._upper
        if lower is None or upper is None:
            number = max(2, _ASKED // len(self._labels))
            place = torch.arange(len(self._classes), device=self._device)
            place -= torch.tensor(self._starts[:-1], device=self._device).repeat_interleave(
                torch.tensor(self._starts, device=self._device).diff()
            )
            asked = (place < number).nonzero().flatten()
            rows, classes = self._references[asked], self._classes[asked]
            if lower is None:
                lower = _finite(self._by_class(rows, classes, None)).amin().item() if len(asked) else math.nan
            if upper is None:
                without = _finite(self._by_class(rows, classes, place[asked]))
                # Not defined for any: classes with one reference each.
                upper = lower + 2 * (torch.quantile(without, _QUANTILE).item() - lower) if len(without) else math.nan
        if not lower < upper < math.inf:
            raise ValueError(
                f"{self.name}: the surprise of the profile set gives no scale ({lower:g} to {upper:g}): "
                "give several different samples of each class, or bounds of your own (upper=...)"
            )
        return lower, upper

    # Measuring.

    def _fresh(self, batch: ActivationBatch, known: Bits) -> Hits:
        lower, upper = self.bounds
        surprise = self._measured(batch)
        section = ((surprise - lower) / (upper - lower) * self._sections).floor().clamp(0, self._sections - 1)
        inside = (surprise >= lower) & (surprise <= upper)
        item = torch.where(inside, section, 0).to(torch.int64)
        sample = (inside & ~known.has(item)).nonzero().flatten()
        return sample, item[sample]

    def _measured(self, batch: ActivationBatch) -> Tensor:
        """float64 [N]: worked out once, also for whoever estimates what is left to find."""
        # What it goes by is kept beside it: were that gone, something else could come to stand at its address.
        references = self._references
        return batch.memo(("surprise", id(self), id(references)), lambda: (self, references, self._measure(batch)))[2]

    def _measure(self, batch: ActivationBatch) -> Tensor:
        assert batch.logits is not None
        logits = batch.logits
        # The largest of NaNs is no answer.
        usable = torch.isfinite(logits).all(1) if batch.finite is None else torch.isfinite(logits).all(1) & batch.finite.all(1)
        given = (logits[:, 0] > 0).long() if logits.shape[1] == 1 else logits.argmax(1)
        return self._by_class(batch.flat, given.masked_fill(~usable, -1), None)

    def _by_class(self, rows: Tensor, classes: Tensor, own: Tensor | None) -> Tensor:
        """float64 [n]: the surprise of rows [n, neurons] of these classes (-1: of none); NaN where it is not defined."""
        found = torch.full((len(rows),), torch.nan, dtype=torch.float64, device=rows.device)
        index = torch.searchsorted(self._labels, classes).clamp(max=len(self._labels) - 1)
        known = (self._labels[index] == classes) & self._defined[index]
        ordered, order = torch.sort(torch.where(known, index, len(self._labels)), stable=True)
        # One wait for the device, whatever the number of classes.
        present, counts = (part.tolist() for part in torch.unique_consecutive(ordered, return_counts=True))
        start = 0
        for which, count in zip(present, counts, strict=True):
            if which < len(self._labels):
                members = order[start : start + count]
                found[members] = self._within(which, rows[members], None if own is None else own[members])
            start += count
        return found

    # Keeping.

    def _move(self, device: torch.device) -> None:
        if self._device != device:
            self._sort_in()
            self._bounds = None  # what is derived is derived anew over there
        super()._move(device)

    def _laid_out(self) -> None:
        super()._laid_out()
        self._references = torch.zeros(0, self.neurons, device=self._device)
        self._classes = self._classes.to(self._device)

    def _size(self) -> int:
        return self._sections

    def _part(self, key: str, value: Any) -> Any:
        if key == "references":
            rows = len(value) if isinstance(value, Tensor) and value.ndim else 0
            part = tensor_part(value, torch.float32, (rows, self.neurons))
            if not bool(torch.isfinite(part).all()):
                raise ValueError("must be finite")
            return part
        if key == "classes":
            part = tensor_part(value, torch.int64, len(self._references))
            if bool((part < 0).any()) or bool((part.diff() < 0).any()):
                raise ValueError("must be rising class numbers")
            return part
        return super()._part(key, value)


def checked_bound(option: str, value: float | None) -> float | None:
    """``value`` as a float. Raises ValueError where it is no finite number and not None."""
    return None if value is None else checked_number(option, value, least=-sys.float_info.max, most=sys.float_info.max)


def check_above_zero(upper: float | None) -> None:
    """Raises ValueError where the upper bound of a scale that begins at 0 is not above it."""
    if upper is not None and not upper > 0:
        raise ValueError(f"upper must be above 0, not {upper}")


def checked_choice(var_threshold: float, max_neurons: int | None) -> tuple[float, int | None]:
    """Both, or ValueError where one is out of range."""
    threshold = checked_number("var_threshold", var_threshold, least=0, most=sys.float_info.max)  # of squares
    if max_neurons is not None and (isinstance(max_neurons, bool) or not isinstance(max_neurons, int) or max_neurons < 1):
        raise ValueError(f"max_neurons must be a whole number of at least 1, or None, not {max_neurons!r}")
    return threshold, max_neurons


def chosen_neurons(name: str, references: Tensor, threshold: float, most: int | None) -> Tensor:
    """The neurons that tell samples apart: those that vary at all and enough, of these the ones that vary most.

    Args:
        name: of the criterion, for the message.
        references: float32 [R, neurons].
        threshold: neurons with a smaller variance (population form) over all references are left out.
        most: how many at most; None: all.

    Returns:
        int64 [d], rising, d at least 1.

    Raises:
        ValueError: none varies so much.
    """
    variance = torch.cat([part.double().var(0, correction=0) for part in references.split_with_sizes(_columns(references), 1)])
    order = torch.sort(variance, descending=True, stable=True).indices[:most]
    # Rounding may give a constant neuron a variance, and no density has a width along one.
    tells = (variance >= threshold) & (references.amax(0) > references.amin(0))
    chosen = order[tells[order]].sort().values
    if not len(chosen):
        raise ValueError(f"{name}: no neuron varies with a variance of at least {threshold:g} over the profile set")
    return chosen


def _columns(references: Tensor) -> list[int]:
    """Widths of parts of the columns that are small enough to be widened to float64 one at a time."""
    width = references.shape[1]
    step = max(1, min(width, (1 << 24) // max(1, len(references))))
    return [min(step, width - start) for start in range(0, width, step)]


def _finite(values: Tensor) -> Tensor:
    return values[torch.isfinite(values)]
