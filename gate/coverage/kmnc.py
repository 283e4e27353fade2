"""KMNC: the range of every neuron over the profile set, cut into equal sections; a section is covered once an output falls into it.

Source: Ma et al., "DeepGauge: multi-granularity testing criteria for deep learning systems", ASE 2018.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from gate.coverage.activations import ActivationBatch
from gate.coverage.bits import Bits
from gate.coverage.items import Hits, places
from gate.coverage.number_options import checked_whole
from gate.coverage.ranges import RangedCriterion, beyond, strictly

__all__ = ["KMultisection"]


class _Plan(NamedTuple):
    """What the ranges come to, worked out once for as long as they stay as they are.

    Neurons without sections have a range of 0 to 1 here, so that no arithmetic with theirs must be looked after.
    """

    of: Tensor  # the lower ends that this was worked out from
    low: Tensor  # float32 [neurons]
    width: Tensor  # float32 [neurons], of the whole range
    first: Tensor  # int32, or int64 where there are too many items, [neurons]: number of the neuron's first item
    never: Tensor | None  # bool [neurons]: has no sections; None where all have


class KMultisection(RangedCriterion):
    """``sections`` items a neuron.

    Section j holds low + j·w ≤ output < low + (j+1)·w with w = (high - low) / sections; the last one also holds ``high``. An output out
    of range counts for none. A neuron with low = high (or a range wider than float32 can hold) has no sections and is not in ``total``.

    Args:
        sections: how many a neuron.
        edges: ``left`` gives an output on an edge between two sections to the upper one, as above; ``right`` to the lower one, as some
            implementations have it: low + j·w < output ≤ low + (j+1)·w, the first one also holding ``low``.
    """

    name: ClassVar[str] = "kmnc"

    def __init__(self, *, sections: int = 1000, edges: Literal["left", "right"] = "left") -> None:
        super().__init__()
        if edges not in ("left", "right"):
            raise ValueError(f"edges must be 'left' or 'right', not {edges!r}")
        self._sections = checked_whole("sections", sections)
        self._edges = edges
        self._known_plan: _Plan | None = None

    @property
    def items_per_neuron(self) -> int:
        """The number of sections."""
        return self._sections

    @property
    def options(self) -> dict[str, Any]:
        """sections and edges."""
        return {"sections": self._sections, "edges": self._edges}

    def _possible(self) -> Tensor:
        return (self._low < self._high) & torch.isfinite(self._high - self._low)

    def _missing(self) -> str | None:
        missing = super()._missing()
        # Once is enough: the ranges stay as they are from the first update on.
        if missing is None and not self._begun and not bool(self._possible().any()):
            missing = "no neuron of the watched layers varies over the profile set, so there are no sections: give more samples"
        return missing

    def _section(self, values: Tensor, low: Tensor, width: Tensor) -> Tensor:
        """float32, the shape of ``values``: the number of the section, where they lie in a range that begins at ``low``."""
        position = (values - low).div_(width).mul_(self._sections)
        if self._edges == "right":
            position = position.ceil_().sub_(1)
        # For what a number that no integer can hold becomes one is left open.
        return position.clamp_(0, self._sections - 1)

    def _plan(self) -> _Plan:
        if self._known_plan is None or self._known_plan.of is not self._low:
            possible = self._possible()
            dtype = torch.int32 if self._size() < 1 << 31 else torch.int64
            self._known_plan = _Plan(
                of=self._low,
                low=torch.where(possible, self._low, 0),
                width=torch.where(possible, self._high - self._low, 1),
                first=torch.arange(self.neurons, device=possible.device, dtype=dtype) * self._sections,
                never=None if bool(possible.all()) else ~possible,
            )
        return self._known_plan

    def _inside(self, batch: ActivationBatch) -> Tensor:
        """bool [N, M]: which activations lie in a section."""
        below, above = beyond(batch, self._low, self._high)
        outside = below | above
        never = self._plan().never
        if never is not None:
            outside |= never
        return strictly(outside.logical_not_(), batch)

    def _items(self, batch: ActivationBatch, columns: Tensor | None = None) -> Tensor:
        plan, flat, inside = self._plan(), batch.replaced(0.0), self._inside(batch)
        low, width, first = plan.low, plan.width, plan.first
        if columns is not None:
            flat, inside, low, width, first = flat[:, columns], inside[:, columns], low[columns], width[columns], first[columns]
        items = self._section(flat, low, width).to(torch.int64).add_(first)
        return torch.where(inside, items, -1)

    def _fresh(self, batch: ActivationBatch, known: Bits) -> Hits:
        plan = self._plan()
        # All that happens to every activation happens in 32 bits where these are enough.
        items = self._section(batch.replaced(0.0), plan.low, plan.width).to(plan.first.dtype).add_(plan.first)
        place = places(self._inside(batch) & ~known.has(items))
        return place // batch.flat.shape[1], items.view(-1).index_select(0, place).to(torch.int64)

    def _directions(self, start: int, values: Tensor) -> Tensor:
        count, stop, k = values.shape[1], start + values.shape[1], self._sections
        low, high = self._low[start:stop], self._high[start:stop]
        # One past either end of the range stands for all that lies out there.
        plan = self._plan()
        section = self._section(values.nan_to_num(0.0), plan.low[start:stop], plan.width[start:stop]).to(torch.int64)
        section = torch.where(values < low, -1, torch.where(values > high, k, section))
        # Open sections in the order of their numbers: the neighbours of a section in this list are the nearest open ones.
        open_ones = self._open(start, stop).flatten().nonzero().flatten()
        if not len(open_ones):
            return torch.zeros_like(section, dtype=torch.int8)
        first = torch.arange(count, device=values.device) * k
        here = first + section
        above = torch.searchsorted(open_ones, here, right=True)
        below = torch.searchsorted(open_ones, here) - 1
        far = 2 * k + 2  # farther than any section of the neuron
        next_one = open_ones[above.clamp(max=len(open_ones) - 1)]
        last_one = open_ones[below.clamp(min=0)]
        up = torch.where((above < len(open_ones)) & (next_one < first + k), next_one - here, far)
        down = torch.where((below >= 0) & (last_one >= first), here - last_one, far)
        return torch.where(torch.minimum(up, down) < far, torch.where(up <= down, 1, -1), 0).to(torch.int8)

    def _gaps(self, batch: ActivationBatch) -> Tensor:
        values, plan, k = batch.replaced(0.0), self._plan(), self._sections
        section = self._section(values, plan.low, plan.width).to(torch.int64)
        # One past either end of the range stands for all that lies out there.
        section = torch.where(values < self._low, -1, torch.where(values > self._high, k, section))
        open_ones = places(self._open(0, self.neurons))
        if not len(open_ones):
            return torch.zeros_like(values)
        first = torch.arange(self.neurons, device=values.device) * k
        here = first + section
        above, below = torch.searchsorted(open_ones, here, right=True), torch.searchsorted(open_ones, here) - 1
        next_one, last_one = open_ones[above.clamp(max=len(open_ones) - 1)], open_ones[below.clamp(min=0)]
        width = plan.width / k
        up = plan.low + (next_one - first + 0.5) * width - values
        down = plan.low + (last_one - first + 0.5) * width - values
        up = torch.where((above < len(open_ones)) & (next_one < first + k), up, torch.inf)
        down = torch.where((below >= 0) & (last_one >= first), down, -torch.inf)
        return torch.where(up <= -down, up, down)
