"""Several criteria as one: what is new by any of them is new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor

from gate.config import UNBOUNDED
from gate.coverage.activations import ActivationBatch, Activations
from gate.coverage.base import FORMAT, Criterion, is_format
from gate.coverage.items import NeuronCriterion
from gate.coverage.merging import Merging
from gate.coverage.ranges import share_ranges

__all__ = ["Combination"]

_KEYS = {"format", "criterion", "options", "layers", "begun", "parts"}


class Combination(Criterion):
    """Criteria over the same activations, each counting for itself.

    ``update`` adds up what a sample added to every part. ``covered`` and ``total`` are the sums over the parts that count items; ``value``
    is their quotient, so that a part weighs as much as it has items. Where one of these parts has no fixed number of items, neither has
    the combination: ``total`` is None, and ``value`` the number of covered items.

    A statistic (nlc) covers no items. Its gain is in what ``update`` returns, and nowhere else: its own value is in ``parts``. Where it
    falls that counts as 0, so that it takes nothing away from what the others found.

    Args:
        criteria: taken over, no two of the same name, at least one of which counts items; they must have seen the same layers, or none.

    Raises:
        ValueError: none, two of a kind, a combination among them, statistics only, or other layers.
    """

    name: ClassVar[str] = "combination"
    merging: ClassVar[Mapping[str, Merging]] = {}  # each part's own

    def __init__(self, criteria: Sequence[Criterion]) -> None:
        super().__init__()
        self.parts = {one.name: one for one in criteria}
        if len(self.parts) < len(criteria) or self.name in self.parts:
            raise ValueError(f"each criterion may stand once, and no combination among them: {[one.name for one in criteria]}")
        if not self._counting:
            raise ValueError("a combination needs a criterion that counts items")
        laid_out = [one for one in criteria if one.layers]
        for one in laid_out:
            if list(one.layers.items()) != list(laid_out[0].layers.items()):
                raise ValueError(f"{one.name} has seen other layers than {laid_out[0].name}")
        # What a class says of all its objects differs from one combination to the next.
        self.needs_logits = any(one.needs_logits for one in criteria)  # type: ignore[misc]
        self.needs_labels = any(one.needs_labels for one in criteria)  # type: ignore[misc]
        self._follow()

    @property
    def options(self) -> dict[str, Any]:
        """{criterion: its options}."""
        return {name: one.options for name, one in self.parts.items()}

    @property
    def value(self) -> float:
        """Covered share of the items of all parts, 0 to 1, 0 where there are none; without a total, their number."""
        return self._of_total(self.covered)

    @property
    def raw_value(self) -> float:
        """The same of what any sample has covered."""
        return self._of_total(self.raw_covered)

    @property
    def covered(self) -> int:
        """Items of all parts covered by samples that earn coverage."""
        return sum(one.covered for one in self._counting)

    @property
    def raw_covered(self) -> int:
        """Items of all parts covered by any sample."""
        return sum(one.raw_covered for one in self._counting)

    @property
    def total(self) -> int | None:
        """Items of all parts; None where one of them has no fixed number."""
        total = 0
        for one in self._counting:
            if one.total is None:
                return None
            total += one.total
        return total

    @property
    def nonfinite(self) -> int:
        """Neurons which gave NaN or an infinite value at least once, by any part's account."""
        masks = [one._nonfinite.cpu() for one in self.parts.values() if one.layers]
        return int(torch.stack(masks).any(0).sum()) if masks else 0

    def directions(self, acts: Activations) -> dict[str, Tensor]:
        """Which way most parts would move each neuron; those without an opinion (patterns, the output, statistics) have no say.

        Args:
            acts: some or all of the layers.

        Returns:
            {layer: int8 [N, neurons]}: 1 up, -1 down, 0 undecided or nothing to gain.

        Raises:
            ValueError: an unknown layer, a wrong width, or nothing seen so far.
        """
        self._check_known(acts)
        total = {name: torch.zeros_like(values, dtype=torch.int8) for name, values in acts.items()}
        for one in self.parts.values():
            if isinstance(one, NeuronCriterion):
                for name, found in one.directions(acts).items():
                    total[name] += found
        return {name: votes.sign() for name, votes in total.items()}

    def merge(self, other: Criterion) -> Self:
        """See ``Criterion.merge``, part by part; where one can't be merged, none is."""
        self._check_same(other)
        theirs = cast(Combination, other).parts
        self.parts = {name: one.copy().merge(theirs[name]) for name, one in self.parts.items()}
        self._follow()
        return self

    def empty(self) -> Self:
        """See ``Criterion.empty``."""
        return type(self)([one.empty() for one in self.parts.values()])

    def state_dict(self) -> dict[str, Any]:
        """See ``Criterion.state_dict``; ``parts`` holds that of each part by its name."""
        return super().state_dict() | {"parts": {name: one.state_dict() for name, one in self.parts.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See ``Criterion.load_state_dict``; where one part's can't be loaded, none is."""
        known = isinstance(state, Mapping) and set(state) == _KEYS and is_format(state["format"])
        if not known or state["criterion"] != self.name or state["options"] != self.options:
            raise ValueError(f"this is no state of format {FORMAT} of a combination with {self.options}")
        parts = state["parts"]
        if not isinstance(parts, Mapping) or set(parts) != set(self.parts):
            raise ValueError("'parts' of the coverage state must be the states of all its criteria")
        loaded = {name: one.copy() for name, one in self.parts.items()}
        for name, one in loaded.items():
            one.load_state_dict(parts[name])
        joined = type(self)(list(loaded.values()))
        if not isinstance(state["layers"], Mapping) or dict(state["layers"]) != joined._layers:
            raise ValueError("the coverage state is damaged: its parts have other layers than it says")
        self.__dict__.update(joined.__dict__)

    @property
    def _counting(self) -> list[Criterion]:
        """The parts that count items."""
        return [one for one in self.parts.values() if UNBOUNDED.get(one.name) != "statistic"]

    def _of_total(self, covered: int) -> float:
        total = self.total
        if total is None:
            return float(covered)
        return covered / total if total else 0.0

    def _follow(self) -> None:
        """Takes over what the parts know together."""
        for one in self.parts.values():
            if one.layers and not self._layers:
                self._lay_out(one.layers, one._device)
            self._begun = self._begun or one._begun

    def _laid_out(self) -> None:
        new = [one for one in self.parts.values() if not one.layers]
        try:
            for one in new:
                one._lay_out(self._layers, self._device)
        except Exception:
            for one in new:  # what one part refuses, none has seen
                one._layers = {}
            raise

    def _missing(self) -> str | None:
        return next((missing for one in self.parts.values() if (missing := one._missing())), None)

    def _learn(self, batch: ActivationBatch, y: Tensor | None) -> None:
        for one in self.parts.values():
            one.fit(batch, y if one.needs_labels else None)
        share_ranges(self.parts.values())

    def _count(self, batch: ActivationBatch, *, earning: bool) -> Tensor:
        added = torch.zeros(len(batch), dtype=torch.int64, device=batch.device)
        for one in self.parts.values():
            one._batch(batch, None)
            added = added + one._counted(batch, [(None, batch, earning)]).clamp(min=0)
        return added
