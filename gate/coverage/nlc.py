"""NLC: how far the neurons of each layer spread and vary together, over all samples seen.

Source: Yuan, Pang, Wang, "Revisiting neuron coverage for DNN testing: a layer-wise and distribution-aware criterion", ICSE 2023, and the
code published with it (the norm and what it is divided by). That code joins batch covariances in float32 as they come, and leaves out a
batch in the layers where it would lower the norm, so its value depends on batches and their order. Here nothing is left out.

**Nothing depends on the order.** ``fit`` gives every layer a unit, a power of two; an output is read as a whole number of units, at most
2^15 in size. Sums of such numbers and of their products are whole numbers too, and float64 adds whole numbers below 2^53 without
rounding, in whatever order a matrix product, a batch or a merge takes them. By Cauchy and Schwarz no sum of products, nor any part of
one, is larger than the largest sum of squares, so that one number, far below 2^53 (see ``LayerCovariance.exact``), vouches for all. It
can't get there within 2^23 samples; outputs as the profile set has them take over 2^27.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from gate.coverage.activations import ActivationBatch, spans_of
from gate.coverage.base import Criterion, tensor_part
from gate.coverage.merging import Merging
from gate.errors import ConfigError

__all__ = ["LayerCovariance"]

LARGEST = 1 << 28  # pairs of neurons, four gibibytes of sums

_REACH = 1 << 15  # the largest number of units told apart
_USUAL = 13  # bits that the largest output of the profile set fills: mutants have the rest
_WHOLE = float(1 << 53)  # below it float64 adds whole numbers exactly
_EARNING, _OTHER = 0, 1
_AT_ONCE = 1 << 18  # entries of a covariance matrix that are looked at together: two mebibytes


class LayerCovariance(Criterion):
    """The norm of each layer's covariance matrix (population form) over its number of neurons m, summed over layers.

    **Not monotone**: a sample near the middle of what was seen lowers the value. It says how widely a suite spreads, not what of something
    was reached; ``total`` is None, and ``covered`` is the number of samples. 0 for a suite of no or one sample.

    ``update`` returns gains, float64. With ``gains="first_order"``: by how much, to first order, each sample alone would change the value
    of the suite as it was before the batch. As a norm is convex that is never more than the true change, but for rounding, so a sample
    with a gain above 0 really widens the suite. Negative where it would narrow it. With ``"exact"``: the true changes one after the
    other, which add up to the change of the value; every sample costs as much as reading the value.

    The state is *disjoint evidence*: merging adds it up, so each part must be merged once. Samples that do not earn are summed apart;
    ``raw_value`` is of both together. It takes 16 bytes for each pair of neurons in a layer.

    An output is rounded to the unit of its layer: the largest output of the profile set (without its sign) is 2^12 to 2^13 units, and
    outputs beyond 2^15 count as that; see ``clamped``. A layer that was all 0 has a unit of 2^-13. A sample with a value that is not finite
    takes no part in that layer. A layer of a single neuron counts with its variance.

    Args:
        norm: ``L1``, the sum of the entries without their signs, or ``L2``, the root of the sum of their squares.
        reduction: what a layer's norm is divided by: its m ``neurons`` (the published code), its m² ``entries``, or ``none``.
        gains: see above.
    """

    name: ClassVar[str] = "nlc"
    multiplies: ClassVar[bool] = True
    merging: ClassVar[Mapping[str, Merging]] = {
        "nonfinite": Merging.UNION,
        "peak": Merging.SAME,
        "products": Merging.SUM,
        "sums": Merging.SUM,
        "counts": Merging.SUM,
        "samples": Merging.SUM,
        "beyond": Merging.SUM,
    }

    def __init__(
        self,
        *,
        norm: Literal["L1", "L2"] = "L1",
        reduction: Literal["neurons", "entries", "none"] = "neurons",
        gains: Literal["first_order", "exact"] = "first_order",
    ) -> None:
        super().__init__()
        for option, given, known in (
            ("norm", norm, ("L1", "L2")),
            ("reduction", reduction, ("neurons", "entries", "none")),
            ("gains", gains, ("first_order", "exact")),
        ):
            if given not in known:
                raise ValueError(f"{option} must be one of {', '.join(known)}, not {given!r}")
        self._norm = norm
        self._reduction = reduction
        self._gains = gains
        self._peak = torch.zeros(0)  # float32 [layers]: largest finite output of the profile set, without its sign
        # Index 0 is of the samples that earn, 1 of the others.
        self._products = torch.zeros(2, 0, dtype=torch.float64)  # [2, pairs], m * m for each layer: sums of products, in units
        self._sums = torch.zeros(2, 0, dtype=torch.float64)  # [2, neurons], in units
        self._counts = torch.zeros(2, 0, dtype=torch.int64)  # [2, layers]: samples that took part
        self._samples = torch.zeros(2, dtype=torch.int64)  # that took part in some layer
        self._beyond = torch.zeros((), dtype=torch.int64)  # outputs that were clamped
        self._layer_of = torch.zeros(0, dtype=torch.int64)  # [neurons]: the number of each one's layer
        self._per_unit: Tensor | None = None  # float32 [neurons]: units in 1, as the peaks are
        self._values: dict[bool, list[float]] = {}  # raw or not -> value by layer, as the sums are

    @property
    def options(self) -> dict[str, Any]:
        """norm, reduction and gains."""
        return {"norm": self._norm, "reduction": self._reduction, "gains": self._gains}

    @property
    def value(self) -> float:
        """NLC of the samples that earn coverage. Worked out when asked for, then remembered until the next sample."""
        return sum(self._by_layer(raw=False))

    @property
    def raw_value(self) -> float:
        """NLC of all samples together. May be lower than ``value``."""
        return sum(self._by_layer(raw=True))

    @property
    def covered(self) -> int:
        """Samples that earn coverage and took part in some layer."""
        return int(self._samples[_EARNING])

    @property
    def raw_covered(self) -> int:
        """Samples that took part in some layer."""
        return int(self._samples.sum())

    @property
    def total(self) -> None:
        """None: there is no end to it."""
        return None

    @property
    def clamped(self) -> int:
        """Outputs too large to be told apart from 2^15 units of their layer."""
        return int(self._beyond)

    @property
    def exact(self) -> bool:
        """Whether every sum is certainly free of rounding, and so independent of the order of the samples.

        False once a sum of squares has reached 2^53; from there on the order may matter, by 2^-53 of a sum for each batch.
        """
        squares = [products.diagonal().amax() for row in self._products for products in self._matrices(row)]
        return not squares or bool(torch.stack(squares).amax() < _WHOLE)

    def by_layer(self) -> dict[str, float]:
        """Each layer's part of ``value``."""
        return dict(zip(self._layers, self._by_layer(raw=False), strict=True))

    def empty(self) -> Self:
        """See ``Criterion.empty``."""
        twin = self.copy()
        for key in ("products", "sums", "counts", "samples", "beyond", "nonfinite"):
            setattr(twin, f"_{key}", torch.zeros_like(getattr(self, f"_{key}")))
        twin._values = {}
        return twin

    # Learning and counting.

    def _laid_out(self) -> None:
        widths = torch.tensor(list(self._layers.values()))
        self._layer_of = torch.arange(len(widths)).repeat_interleave(widths, output_size=self.neurons).to(self._device)
        pairs = sum(width**2 for width in self._layers.values())
        if pairs > LARGEST:
            widest = max(self._layers, key=self._layers.__getitem__)
            raise ConfigError(
                f"NLC would keep sums of {pairs:,} pairs of neurons, more than {LARGEST:,}; {widest!r} alone has {self._layers[widest]:,} "
                "neurons.",
                where="coverage",
                hint="Leave nlc out of coverage.criteria, watch narrower layers, or take coverage.neuron: mean.",
            )
        self._products = torch.zeros(2, pairs, dtype=torch.float64, device=self._device)
        self._sums = torch.zeros(2, self.neurons, dtype=torch.float64, device=self._device)
        self._counts = torch.zeros(2, len(self._layers), dtype=torch.int64, device=self._device)
        self._samples, self._beyond = self._samples.to(self._device), self._beyond.to(self._device)

    def _learn(self, batch: ActivationBatch, y: Tensor | None) -> None:
        highest = batch.replaced(0.0).abs().amax(0)
        peak = torch.stack([highest[start:stop].amax() for start, stop in self._spans.values()])
        self._peak = torch.maximum(self._peak, peak) if len(self._peak) else peak
        self._per_unit = None

    def _missing(self) -> str | None:
        return None if len(self._peak) else f"{self.name} needs the scale of every layer: call fit with a profile set first"

    def _count(self, batch: ActivationBatch, *, earning: bool) -> Tensor:
        units, joins = self._in_units(batch)
        if earning and self._gains == "exact":
            return self._counted_one_by_one(units, joins)
        gains = self._first_order(units, joins) if earning else torch.zeros(len(batch), dtype=torch.float64, device=batch.device)
        self._add(units, joins, _EARNING if earning else _OTHER)
        return gains

    def _in_units(self, batch: ActivationBatch) -> tuple[Tensor, Tensor | None]:
        """The outputs as whole numbers of units, float64 [N, neurons], 0 where a sample takes no part; and where it does.

        Returns:
            units, and bool [N, layers], None where all samples take part everywhere.
        """
        if self._per_unit is None:
            self._per_unit = torch.ldexp(torch.ones_like(self._peak), self._exponents())[self._layer_of]
        scaled = batch.flat * self._per_unit
        joins = None
        if batch.finite is not None:
            joins = torch.stack([batch.finite[:, start:stop].all(1) for start, stop in self._spans.values()], 1)
            scaled = torch.where(joins[:, self._layer_of], scaled, 0)
        self._beyond += (scaled.abs() > _REACH).sum()
        return scaled.round_().clamp_(-_REACH, _REACH).double(), joins

    def _exponents(self) -> Tensor:
        """int32 [layers]: e, where a unit is 2^-e."""
        # A smaller or larger power of two could not be multiplied with in float32.
        return (_USUAL - torch.frexp(self._peak).exponent).clamp(-120, 120)

    def _add(self, units: Tensor, joins: Tensor | None, which: int) -> None:
        """Sums samples up."""
        for products, (start, stop) in zip(self._matrices(self._products[which]), self._spans.values(), strict=True):
            rows = units[:, start:stop]
            products.addmm_(rows.T, rows)
        self._sums[which] += units.sum(0)
        self._counts[which] += len(units) if joins is None else joins.sum(0)
        self._samples[which] += len(units) if joins is None else joins.any(1).sum()
        self._values = {}

    def _first_order(self, units: Tensor, joins: Tensor | None) -> Tensor:
        """float64 [N]: see the class.

        One more sample at the distance d from the mean of n turns the covariance C into n/(n+1) C + n/(n+1)² ddᵀ. To first order a
        norm changes by its slope at C, here the signs of C or C over its norm, times C's change. Where C is 0 the L1 norm has an edge
        and no slope; there the change is its size, exactly. C is 0 in the rows and columns of neurons that have been constant so far.
        """
        counted = self._counts[_EARNING]
        count = counted.clamp(min=1).double()
        sums, every = self._sums[_EARNING], count[self._layer_of]
        matrices = self._matrices(self._products[_EARNING])
        mean = sums / every
        distance = units - mean
        # Of a neuron that never changed, both sides are the same number, rounded alike.
        constant = torch.cat([products.diagonal() for products in matrices]) * every == sums * sums
        varying = distance.masked_fill(constant, 0)
        narrow = varying.float()
        sizes, slopes = [], []
        for products, (start, stop) in zip(matrices, self._spans.values(), strict=True):
            if self._norm == "L1":
                size, slope = _first_order_of_l1(products, sums[start:stop], mean[start:stop], narrow[:, start:stop])
                slope += distance[:, start:stop].abs().sum(1) ** 2 - varying[:, start:stop].abs().sum(1) ** 2
            else:
                covariance = torch.addr(products, sums[start:stop], mean[start:stop], alpha=-1)  # times n
                size, rows, edge = torch.linalg.vector_norm(covariance), distance[:, start:stop], constant[start:stop].all()
                slope = ((rows @ covariance) * rows).sum(1) / size.masked_fill(edge, 1)
                slope = torch.where(edge, rows.square().sum(1), slope)
            sizes.append(size)
            slopes.append(slope)
        gains = (torch.stack(slopes, 1) * count / (count + 1) - torch.stack(sizes) / count) / (count + 1) * self._factors()
        takes_part = counted > 0 if joins is None else joins & (counted > 0)  # the first sample alone has no covariance
        return gains.masked_fill(~takes_part, 0).sum(1)

    def _counted_one_by_one(self, units: Tensor, joins: Tensor | None) -> Tensor:
        """float64 [N]: what each sample changed the value by."""
        gains, before = [], self.value
        for row in range(len(units)):
            self._add(units[row : row + 1], None if joins is None else joins[row : row + 1], _EARNING)
            after = self.value
            gains.append(after - before)
            before = after
        return torch.tensor(gains, dtype=torch.float64, device=units.device)

    # The value.

    def _by_layer(self, *, raw: bool) -> list[float]:
        if not len(self._peak):
            return [0.0] * len(self._layers)
        if raw not in self._values:
            sums, counts = (part.sum(0) if raw else part[_EARNING] for part in (self._sums, self._counts))
            earned, others = self._matrices(self._products[_EARNING]), self._matrices(self._products[_OTHER])
            norms = []
            for layer, (start, stop) in enumerate(self._spans.values()):
                products = earned[layer] + others[layer] if raw else earned[layer]
                count = counts[layer].double()
                covariance = (products * count).sub_(torch.outer(sums[start:stop], sums[start:stop]))
                norms.append(torch.linalg.vector_norm(covariance, 1 if self._norm == "L1" else 2) / count.clamp(min=1) ** 2)
            self._values[raw] = (torch.stack(norms) * self._factors()).tolist()
        return self._values[raw]

    def _factors(self) -> Tensor:
        """float64 [layers]: what turns the norm of a covariance in squared units into a layer's part of the value."""
        widths = torch.tensor(list(self._layers.values()), dtype=torch.float64, device=self._device)
        parts = {"neurons": widths, "entries": widths**2, "none": torch.ones_like(widths)}[self._reduction]
        return torch.ldexp(1 / parts, -2 * self._exponents())

    def _matrices(self, pairs: Tensor) -> list[Tensor]:
        """One row of ``_products`` as [m, m] for each layer, sharing its memory."""
        squares = spans_of({name: width**2 for name, width in self._layers.items()})
        return [pairs[start:stop].view(width, width) for (start, stop), width in zip(squares.values(), self._layers.values(), strict=True)]

    # Keeping.

    def _part(self, key: str, value: Any) -> Any:
        pairs = sum(width**2 for width in self._layers.values())
        layers = len(self._layers)
        if key == "peak":
            part = tensor_part(value, torch.float32, layers, 0)
            if not bool((torch.isfinite(part) & (part >= 0)).all()):
                raise ValueError("must be finite and not negative")
        elif key in ("products", "sums"):
            part = tensor_part(value, torch.float64, (2, pairs if key == "products" else self.neurons))
            if not bool((torch.isfinite(part) & (part == part.round())).all()):
                raise ValueError("must be whole numbers")
        else:
            part = tensor_part(value, torch.int64, {"counts": (2, layers), "samples": (2,), "beyond": ()}[key])
            if bool((part < 0).any()):
                raise ValueError("must not be negative")
        return part

    def _check_claims(self) -> None:
        if not len(self._peak) and bool(self._samples.any()):
            raise ValueError("the coverage state is damaged: samples were counted in units that are not known")
        # No output is more than _REACH units, which bounds every sum; where sums are no longer exact they may be a little off.
        most = (self._counts * _REACH).double() * (1 + 1e-9)
        sizes = [[part.abs().amax() for part in self._matrices(row)] for row in self._products]
        if bool((self._sums.abs() > most[:, self._layer_of]).any()) or bool((torch.tensor(sizes) > most * _REACH).any()):
            raise ValueError("the coverage state is damaged: sums are larger than so many samples can make them")

    def _loaded(self) -> None:
        if bool((self._counts > self._samples[:, None]).any()):
            raise ValueError("the coverage state is damaged: a layer has seen more samples than there were")
        self._per_unit = None
        self._values = {}


def _first_order_of_l1(products: Tensor, sums: Tensor, mean: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The L1 norm of a layer's covariance times n, float64; and dᵀsd for each row d of ``rows``, float64 [N], s being its signs.

    Part by part, in memory that every part uses again: the matrices of a network are larger than what a processor holds close by.

    Args:
        products: float64 [m, m].
        sums: float64 [m].
        mean: float64 [m], sums over n.
        rows: float32 [N, m]; a gain needs no more digits.
    """
    width = len(products)
    height = max(1, min(width, _AT_ONCE // width))
    covariance, positive = products.new_empty(height, width), rows.new_empty(height, width)
    sizes, met = [], torch.zeros_like(rows)
    for start in range(0, width, height):
        stop = min(start + height, width)
        part, sign = covariance[: stop - start], positive[: stop - start]
        torch.addr(products[start:stop], sums[start:stop], mean, alpha=-1, out=part)
        sizes.append(torch.linalg.vector_norm(part, 1))
        met.addmm_(rows[:, start:stop], torch.gt(part, 0, out=sign))
    # Signs are 2p - 1, so dᵀsd is 2dᵀpd - (Σd)²: two passes over the matrix less.
    return torch.stack(sizes).sum(), 2 * (met * rows).sum(1, dtype=torch.float64) - rows.sum(1, dtype=torch.float64) ** 2
