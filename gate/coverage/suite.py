"""Several criteria on the same activations: one look at each batch serves them all."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Self

import torch
from torch import Tensor

from gate.config import joined_by_plus
from gate.coverage.activations import ActivationBatch, Activations
from gate.coverage.base import Criterion, Parts, split
from gate.coverage.discovery import Discovery, Estimate, discovery_of
from gate.coverage.one_thread import one_thread
from gate.coverage.ranges import share_ranges

__all__ = ["Suite"]


class Suite:
    """Criteria by name, counted together.

    Args:
        criteria: by name; they must have seen the same layers, or none yet.
        guide: those whose newly covered items ``update`` adds up, also written ``kmnc+nbc``; all where None.

    Raises:
        ValueError: no criteria, or a guide that is none of them.
    """

    def __init__(self, criteria: Mapping[str, Criterion], guide: Sequence[str] | str | None = None) -> None:
        if not criteria:
            raise ValueError("no criteria given")
        self.criteria = dict(criteria)
        self.guide = joined_by_plus(guide) if isinstance(guide, str) else tuple(guide or criteria)
        for name in self.guide:
            if name not in self.criteria:
                raise ValueError(f"{name!r} can't guide: it is not among {', '.join(self.criteria)}")
        self._discovery: dict[str, Discovery] = {}

    def fit(self, acts: Activations | ActivationBatch, y: Tensor | None = None) -> Self:
        """``fit`` of every criterion."""
        batch = self.batch(acts)
        for one in self.criteria.values():
            one.fit(batch, y if one.needs_labels else None)
        share_ranges(self.criteria.values())
        return self

    def update(self, acts: Activations | ActivationBatch, logits: Tensor | None = None, *, earns: Tensor | None = None) -> Tensor:
        """``update`` of every criterion.

        Returns:
            float64 [N] on the activations' device: see ``together``.
        """
        return self.together(self.update_each(acts, logits, earns=earns))

    def update_each(
        self, acts: Activations | ActivationBatch, logits: Tensor | None = None, *, earns: Tensor | None = None
    ) -> dict[str, Tensor]:
        """``update`` of every criterion: what it returned, by name."""
        batch = self.batch(acts, logits)
        parts = split(batch, earns)
        added: dict[str, Tensor] = {}
        with one_thread(batch.device):
            added.update((name, self._update(name, batch, parts)) for name, one in self.criteria.items() if not one.multiplies)
        added.update((name, self._update(name, batch, parts)) for name, one in self.criteria.items() if one.multiplies)
        return {name: added[name] for name in self.criteria}

    def _update(self, name: str, batch: ActivationBatch, parts: Parts) -> Tensor:
        one = self.criteria[name]
        one._batch(batch, None)
        added = one._counted(batch, parts)
        if name in self._discovery:
            for _, part, earning in parts:
                if earning:
                    self._discovery[name].take(part)
        return added

    def together(self, added: Mapping[str, Tensor]) -> Tensor:
        """float64 [N]: what each sample added to the guiding criteria together, of what ``update_each`` returned.

        A statistic that falls counts as 0 here, so that it takes nothing away from what the others found.
        """
        counts = [added[name] for name in self.guide if not added[name].is_floating_point()]
        gains = [added[name].clamp(min=0) for name in self.guide if added[name].is_floating_point()]
        return torch.stack(([torch.stack(counts).sum(0).to(torch.float64)] if counts else []) + gains).sum(0)

    def estimate_discovery(self) -> None:
        """From now on keeps, for the criteria that have items, what ``discovery`` needs. What is covered by now counts as known."""
        found = {name: discovery_of(one) for name, one in self.criteria.items()}
        self._discovery = {name: one for name, one in found.items() if one is not None}

    def discovery(self) -> dict[str, Estimate | None]:
        """What there is left to find, by criterion; None where there is no estimate. Waits for the device."""
        return {name: self._discovery[name].estimate() if name in self._discovery else None for name in self.criteria}

    def copy(self) -> Suite:
        """An independent suite with the same contents."""
        return copy.deepcopy(self)

    def batch(self, acts: Activations | ActivationBatch, logits: Tensor | None = None) -> ActivationBatch:
        """The activations side by side, as ``fit`` and ``update`` take them, too: for those who want to look at them as well."""
        if isinstance(acts, ActivationBatch):
            return acts
        layers = next((one.layers for one in self.criteria.values() if one.layers), None)
        return ActivationBatch.of(acts, logits, layers)
