"""Output coverage: which classes the model has answered, and how sure of each it was.

Source: Gupta, Saha, Rai, "Robust black-box testing of deep neural networks using co-domain coverage", 2024 (arXiv 2408.06766), who cut
[0, 1] into sections for each class and may ask for several inputs in each. The largest of K probabilities can't lie below 1/K, so here
[1/K, 1] is cut, of which every section can be reached, and one input covers it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from gate.coverage.activations import ActivationBatch
from gate.coverage.base import Criterion, Parts, tensor_part
from gate.coverage.bits import Bits
from gate.coverage.items import Hits, ItemCriterion
from gate.coverage.merging import Merging
from gate.coverage.number_options import checked_whole

__all__ = ["OutputCoverage"]


class OutputCoverage(ItemCriterion):
    """``sections`` items for each of K classes; item ``class * sections + j`` is the j-th section of that class.

    An answer belongs to the class with the largest logit, the lowest number among equals; its confidence p is that class's softmax
    probability, in float64. Section j holds 1/K + j·w ≤ p < 1/K + (j+1)·w with w = (1 - 1/K) / sections; the last one also holds 1.

    One single column of logits is read as that of class 1 of two, class 0 having the logit 0: p is the sigmoid, or what is left of it.

    An answer with a value that is not finite covers nothing. Activations are looked at for what is not finite, and for nothing else.

    K is learnt from the first logits; ``total`` is 0 before.

    Args:
        sections: of the confidence, for each class.
    """

    name: ClassVar[str] = "output"
    # The broken columns come first: how many there are says how long the others are.
    merging: ClassVar[Mapping[str, Merging]] = {"broken": Merging.UNION, **ItemCriterion.merging}
    needs_logits: ClassVar[bool] = True

    def __init__(self, *, sections: int = 10) -> None:
        super().__init__()
        self._sections = checked_whole("sections", sections)
        self._broken = torch.zeros(0, dtype=torch.bool)  # [columns of the logits]: gave a value that is not finite; empty before the first

    @property
    def options(self) -> dict[str, Any]:
        """sections."""
        return {"sections": self._sections}

    @property
    def _columns(self) -> int:
        """Of the logits; 0 before the first ones."""
        return len(self._broken)

    @property
    def classes(self) -> int:
        """K; 0 before the first logits."""
        return 2 if self._columns == 1 else self._columns

    @property
    def total(self) -> int:
        """Items there are; 0 before the first logits."""
        return self._size()

    @property
    def nonfinite_outputs(self) -> int:
        """Columns of the logits that held NaN or an infinite value at least once."""
        return int(self._broken.sum())

    def by_class(self) -> list[float]:
        """Covered share of each class's sections, in the order of the classes; empty before the first logits."""
        covered = self._hit.unfolded().view(-1, self._sections).sum(1)
        return [number / self._sections for number in covered.tolist()]

    def merge(self, other: Criterion) -> Self:
        """See ``Criterion.merge``; one of the two may not have seen logits yet.

        Raises:
            ValueError: as there, or another number of classes.
        """
        self._check_same(other)
        assert isinstance(other, OutputCoverage)
        if other._columns and not self._columns:
            self._know(other._columns)
        elif self._columns and not other._columns:
            other = other.copy()
            other._know(self._columns)
        return super().merge(other)

    def empty(self) -> Self:
        """See ``Criterion.empty``."""
        twin = super().empty()
        twin._broken = torch.zeros_like(self._broken)
        return twin

    def _size(self) -> int:
        return self.classes * self._sections

    def _know(self, columns: int) -> None:
        """The number of columns has just become known."""
        self._broken = torch.zeros(columns, dtype=torch.bool, device=self._device)
        self._laid_out()

    def _counted(self, batch: ActivationBatch, parts: Parts) -> Tensor:
        if batch.logits is not None and len(batch):
            columns = batch.logits.shape[1]
            if self._columns not in (0, columns):
                raise ValueError(f"these logits have {columns} columns, those before had {self._columns}")
            if not self._columns:
                self._begin(batch)  # sets the device
                self._know(columns)
        return super()._counted(batch, parts)

    def _fresh(self, batch: ActivationBatch, known: Bits) -> Hits:
        assert batch.logits is not None
        logits = batch.logits.to(torch.float64)
        usable: Tensor | None = None  # all, as a rule: one sum tells
        if not bool(torch.isfinite(logits.sum())):
            finite = torch.isfinite(logits)
            self._broken |= ~finite.all(0)
            usable = finite.all(1)
            logits = torch.where(usable[:, None], logits, 0)
        if self._columns == 1:
            logits = torch.cat([torch.zeros_like(logits), logits], 1)
        label = logits.argmax(1)  # the first of equals
        confidence = torch.softmax(logits, 1).gather(1, label[:, None])[:, 0]
        lowest = 1 / self.classes
        # Rounding may carry a confidence beyond either end.
        section = ((confidence - lowest) / (1 - lowest) * self._sections).clamp_(0, self._sections - 1).to(torch.int64)
        item = label * self._sections + section
        fresh = ~known.has(item)
        sample = (fresh if usable is None else fresh & usable).nonzero().flatten()
        return sample, item[sample]

    def _part(self, key: str, value: Any) -> Any:
        if key == "broken":
            columns = len(value) if isinstance(value, Tensor) and value.ndim == 1 and self._layers else 0
            broken = tensor_part(value, torch.bool, columns)
            self._know(columns)
            return broken
        return super()._part(key, value)

    def _check_same(self, other: Criterion) -> None:
        super()._check_same(other)
        if isinstance(other, OutputCoverage) and self._columns and other._columns and self._columns != other._columns:
            raise ValueError(f"other classes: logits of {other._columns} columns, here of {self._columns}")
