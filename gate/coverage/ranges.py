"""The range of every neuron over the profile set, for the criteria that need one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from gate.coverage.activations import ActivationBatch
from gate.coverage.base import Criterion, tensor_part
from gate.coverage.items import NeuronCriterion
from gate.coverage.merging import Merging
from gate.coverage.number_options import checked_number

__all__ = ["BoundedCriterion", "RangedCriterion", "share_ranges"]

_AT_ONCE = 1 << 22  # items of a saved state that are looked at in one go
_LITTLE = 5e-3  # share of a neuron's range
_LEAST_SPREAD = 1e-6


class RangedCriterion(NeuronCriterion):
    """A criterion over [low, high] of every neuron, learned by ``fit``.

    Ranges widen with every profile batch, so a profile set of any size can be streamed. A neuron that gave no finite value has low > high.
    """

    merging: ClassVar[Mapping[str, Merging]] = {**NeuronCriterion.merging, "low": Merging.SAME, "high": Merging.SAME}

    def __init__(self) -> None:
        super().__init__()
        self._low = torch.zeros(0)  # float32 [neurons]
        self._high = torch.zeros(0)

    def _learn(self, batch: ActivationBatch, y: Tensor | None) -> None:
        low, high = batch.range()
        self._low = torch.minimum(self._low, low) if len(self._low) else low
        self._high = torch.maximum(self._high, high) if len(self._high) else high

    @property
    def low(self) -> Tensor:
        """float32 [neurons]: lowest finite output over the profile set."""
        return self._low

    @property
    def high(self) -> Tensor:
        """float32 [neurons]: highest finite output over the profile set."""
        return self._high

    def _check_claims(self) -> None:
        super()._check_claims()
        wrong = ValueError("the coverage state is damaged: neurons have covered items that they don't have")
        if not len(self._low):
            if self._missing() is not None and self._raw.count():
                raise wrong
            return
        per, never = self.items_per_neuron, ~self._possible()
        step = max(1, _AT_ONCE // per)
        for start in range(0, self.neurons if bool(never.any()) else 0, step):
            stop = min(self.neurons, start + step)
            if bool(self._raw.unfolded(start * per, stop * per).view(-1, per)[never[start:stop]].any()):
                raise wrong

    def _missing(self) -> str | None:
        return None if len(self._low) else f"{self.name} needs the range of every neuron: call fit with a profile set first"

    def _part(self, key: str, value: Any) -> Any:
        if key not in ("low", "high"):
            return super()._part(key, value)
        part = tensor_part(value, torch.float32, self.neurons, 0)
        if bool(torch.isnan(part).any()) or (key == "high" and len(part) != len(self._low)):
            raise ValueError("must be one end of a range for each neuron")
        return part


def share_ranges(criteria: Iterable[Criterion]) -> None:
    """Makes criteria whose ranges are equal hold the same tensors, so that one look at a batch serves them all."""
    ranged = [one for one in criteria if isinstance(one, RangedCriterion) and len(one.low)]
    for one in ranged[1:]:
        if torch.equal(one.low, ranged[0].low) and torch.equal(one.high, ranged[0].high):
            one._low, one._high = ranged[0].low, ranged[0].high


def beyond(batch: ActivationBatch, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Which outputs of a batch lie below ``low`` and which above ``high``: bool [N, M] twice, worked out once for all who ask."""
    # The limit is kept beside its answer: were it gone, another tensor could come to stand at its address.
    _, below = batch.memo(("below", id(low)), lambda: (low, batch.flat < low))
    _, above = batch.memo(("above", id(high)), lambda: (high, batch.flat > high))
    return below, above


class BoundedCriterion(RangedCriterion):
    """A criterion over what lies outside of a range. Base of NBC and SNAC, which share their options.

    Args:
        margin: the range is widened by this many standard deviations of the neuron over the profile set (population form).
        bounds: fixed lower and upper limit for every neuron instead of its range, such as (0.1, 0.9); then no ``fit`` is needed.
    """

    merging: ClassVar[Mapping[str, Merging]] = {
        **RangedCriterion.merging,
        "number": Merging.SAME,
        "mean": Merging.SAME,
        "squares": Merging.SAME,
    }

    def __init__(self, *, margin: float = 0.0, bounds: Sequence[float] | None = None) -> None:
        super().__init__()
        self._margin = checked_number("margin", margin, least=0)
        self._bounds = None if bounds is None else _checked_bounds(bounds)
        if bounds is not None and margin:
            raise ValueError("fixed bounds have no margin; give one of the two")
        self._number = torch.zeros(0, dtype=torch.float64)  # [neurons]: finite profile values seen
        self._mean = torch.zeros(0, dtype=torch.float64)
        self._squares = torch.zeros(0, dtype=torch.float64)  # sum of squared deviations from the mean
        self._known_limits: tuple[Tensor, Tensor] | None = None  # of the ranges as they are

    @property
    def options(self) -> dict[str, Any]:
        """margin and bounds."""
        return {"margin": self._margin, "bounds": self._bounds and list(self._bounds)}

    def _learn(self, batch: ActivationBatch, y: Tensor | None) -> None:
        """With a margin, also the spread.

        Batches are joined as in Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
        """
        super()._learn(batch, y)
        self._known_limits = None
        if not self._margin:
            return
        flat = batch.replaced(0.0).double()
        finite = torch.ones_like(flat, dtype=torch.bool) if batch.finite is None else batch.finite
        number = finite.sum(0).double()
        mean = flat.sum(0) / number.clamp(min=1)
        squares = torch.where(finite, (flat - mean) ** 2, 0).sum(0)
        if len(self._number):
            joint = (self._number + number).clamp(min=1)
            apart = mean - self._mean
            squares = self._squares + squares + apart**2 * self._number * number / joint
            mean = self._mean + apart * number / joint
            number = self._number + number
        self._number, self._mean, self._squares = number, mean, squares

    def _missing(self) -> str | None:
        if self._bounds is not None:
            return None
        missing = super()._missing()
        # Once is enough: the ranges stay as they are from the first update on.
        if missing is None and not self._begun and not bool(self._possible().any()):
            missing = "no neuron of the watched layers gave a finite value over the profile set, so there are no ranges to leave"
        return missing

    def _move(self, device: torch.device) -> None:
        if self._device != device:
            self._known_limits = None
        super()._move(device)

    def _loaded(self) -> None:
        super()._loaded()
        self._known_limits = None

    def _limits(self) -> tuple[Tensor, Tensor]:
        """Lower and upper limit, float32 [neurons] each; a neuron without a range has limits that nothing lies beyond."""
        if self._bounds is not None:
            if self._known_limits is None:
                lower, upper = (torch.full((self.neurons,), bound, device=self._device) for bound in self._bounds)
                self._known_limits = (lower, upper)
            return self._known_limits
        if self._known_limits is None or (not self._margin and self._known_limits[0] is not self._low):
            low, high = self._low, self._high
            if self._margin:
                spread = self._margin * (self._squares / self._number.clamp(min=1)).sqrt()
                low, high = (low - spread).float(), (high + spread).float()
            # A neuron that gave no finite profile value has no range to leave; low = +inf and high = -inf would say that all is beyond.
            empty = self._low > self._high
            if bool(empty.any()):
                low, high = low.masked_fill(empty, -torch.inf), high.masked_fill(empty, torch.inf)
            self._known_limits = (low, high)
        return self._known_limits

    def _little(self, batch: ActivationBatch) -> Tensor:
        """float32 [neurons]: how far beyond its limit an output is wanted."""
        low, high = self._limits() if self._bounds is not None or not len(self._low) else (self._low, self._high)
        return (high - low).clamp(min=_LEAST_SPREAD).mul(_LITTLE).to(batch.device)

    def _possible(self) -> Tensor:
        return self._low <= self._high if len(self._low) and self._bounds is None else super()._possible()

    def _part(self, key: str, value: Any) -> Any:
        if key not in ("number", "mean", "squares"):
            return super()._part(key, value)
        part = tensor_part(value, torch.float64, self.neurons if self._margin and len(self._low) else 0)
        if not bool(torch.isfinite(part).all()) or (key != "mean" and bool((part < 0).any())):
            raise ValueError("must be finite, and neither a number of samples nor a sum of squares negative")
        return part


def _checked_bounds(bounds: Sequence[float]) -> tuple[float, float]:
    try:
        lower, upper = (checked_number("each of the bounds", bound) for bound in bounds)
    except TypeError as error:
        raise ValueError(f"bounds must be two numbers, not {bounds!r}") from error
    if not lower <= upper:
        raise ValueError(f"bounds must be two rising numbers, not {bounds!r}")
    return lower, upper


def strictly(mask: Tensor, batch: ActivationBatch) -> Tensor:
    """``mask`` [N, M] without what is not finite."""
    return mask if batch.finite is None else mask & batch.finite
