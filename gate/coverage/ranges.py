"""The range of every neuron over the profile set, for the criteria that need one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from gate.coverage.items import Activations, Criterion

__all__ = ["BoundedCriterion", "RangedCriterion"]


class RangedCriterion(Criterion):
    """A criterion over [low, high] of every neuron, learned by ``fit``.

    Ranges widen with every profile batch, so a profile set of any size can be streamed. A neuron that gave no finite value has low > high.
    """

    def __init__(self) -> None:
        super().__init__()
        self._low = torch.zeros(0)  # float32 [neurons]
        self._high = torch.zeros(0)

    def fit(self, acts: Activations, y: Tensor | None = None) -> Self:
        """See ``Criterion.fit``; learns low and high of every neuron."""
        super().fit(acts, y)
        flat = self._flat(acts)
        finite = torch.isfinite(flat)
        low = torch.where(finite, flat, torch.inf).amin(0)
        high = torch.where(finite, flat, -torch.inf).amax(0)
        self._low = torch.minimum(self._low, low) if len(self._low) else low
        self._high = torch.maximum(self._high, high) if len(self._high) else high
        return self

    @property
    def low(self) -> Tensor:
        """float32 [neurons]: lowest finite output over the profile set."""
        return self._low

    @property
    def high(self) -> Tensor:
        """float32 [neurons]: highest finite output over the profile set."""
        return self._high

    def _missing(self) -> str | None:
        return None if len(self._low) else f"{self.name} needs the range of every neuron: call fit with a profile set first"

    def state_dict(self) -> dict[str, Any]:
        """See ``Criterion.state_dict``; with low and high."""
        return {**super().state_dict(), "low": self._low.cpu().clone(), "high": self._high.cpu().clone()}

    def _parsed(self, state: Mapping[str, Any]) -> Self:
        fresh = super()._parsed(state)
        for key in ("low", "high"):
            value = state[key]
            if not isinstance(value, Tensor) or value.dtype != torch.float32 or value.shape not in ((fresh.neurons,), (0,)):
                raise ValueError(f"{key!r} of the coverage state must be a float32 tensor of length {fresh.neurons}")
            setattr(fresh, f"_{key}", value.detach().cpu().clone())
        return fresh

    def _check_same(self, other: Criterion) -> None:
        super()._check_same(other)
        assert isinstance(other, RangedCriterion)
        if not _equal(self._low, other._low) or not _equal(self._high, other._high):
            raise ValueError(f"{self.name}: the ranges come from another profile set")


class BoundedCriterion(RangedCriterion):
    """A criterion over what lies outside of a range. Base of NBC and SNAC, which share their options.

    Args:
        margin: the range is widened by this many standard deviations of the neuron over the profile set (population form).
        bounds: a fixed (lower, upper) for every neuron in place of the profile's range; then no fit is needed.
    """

    def __init__(self, *, margin: float = 0.0, bounds: Sequence[float] | None = None) -> None:
        super().__init__()
        if not 0 <= margin < float("inf"):
            raise ValueError(f"margin must be 0 or more standard deviations, not {margin}")
        if bounds is not None and not (len(bounds) == 2 and bounds[0] < bounds[1]):
            raise ValueError(f"bounds must be (lower, upper), not {bounds}")
        if bounds is not None and margin:
            raise ValueError("fixed bounds have no margin; give one of the two")
        self._margin = float(margin)
        self._bounds = None if bounds is None else (float(bounds[0]), float(bounds[1]))
        self._number = torch.zeros(0, dtype=torch.float64)  # [neurons]: finite profile values seen
        self._mean = torch.zeros(0, dtype=torch.float64)
        self._squares = torch.zeros(0, dtype=torch.float64)  # sum of squared deviations from the mean

    @property
    def options(self) -> dict[str, Any]:
        """margin and bounds."""
        return {"margin": self._margin, "bounds": self._bounds and list(self._bounds)}

    def fit(self, acts: Activations, y: Tensor | None = None) -> Self:
        """See ``RangedCriterion.fit``; with a margin, also the spread.

        Batches are joined as in Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
        """
        super().fit(acts, y)
        if self._margin:
            flat = self._flat(acts).double()
            finite = torch.isfinite(flat)
            number = finite.sum(0).double()
            mean = torch.where(finite, flat, 0).sum(0) / number.clamp(min=1)
            squares = torch.where(finite, (flat - mean) ** 2, 0).sum(0)
            if len(self._number):
                joint = (self._number + number).clamp(min=1)
                apart = mean - self._mean
                squares = self._squares + squares + apart**2 * self._number * number / joint
                mean = self._mean + apart * number / joint
                number = self._number + number
            self._number, self._mean, self._squares = number, mean, squares
        return self

    def _missing(self) -> str | None:
        return super()._missing() if self._bounds is None else None

    def _limits(self) -> tuple[Tensor, Tensor]:
        """Lower and upper limit, float32 [neurons] each."""
        if self._bounds is not None:
            lower, upper = (torch.full((self.neurons,), bound, device=self._state.device) for bound in self._bounds)
            return lower, upper
        if self._margin:
            spread = self._margin * (self._squares / self._number.clamp(min=1)).sqrt()
            return (self._low - spread).float(), (self._high + spread).float()
        return self._low, self._high

    def _possible(self) -> Tensor:
        # A neuron that gave no finite profile value has no range to leave.
        return self._low <= self._high if len(self._low) and self._bounds is None else super()._possible()

    def state_dict(self) -> dict[str, Any]:
        """See ``RangedCriterion.state_dict``; with the moments that a margin is made from."""
        moments = {"number": self._number, "mean": self._mean, "squares": self._squares}
        return {**super().state_dict(), **{key: value.cpu().clone() for key, value in moments.items()}}

    def _parsed(self, state: Mapping[str, Any]) -> Self:
        fresh = super()._parsed(state)
        for key in ("number", "mean", "squares"):
            value = state[key]
            length = fresh.neurons if self._margin and len(fresh._low) else 0
            if not isinstance(value, Tensor) or value.dtype != torch.float64 or value.shape != (length,):
                raise ValueError(f"{key!r} of the coverage state must be a float64 tensor of length {length}")
            setattr(fresh, f"_{key}", value.detach().cpu().clone())
        return fresh


def _equal(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one.cpu(), other.cpu())
