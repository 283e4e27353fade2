"""One batch of activations, side by side in item order, with what several criteria need of it computed once.

Criteria look at the same numbers in the same ways: which are finite, which lie beyond a neuron's usual range, which are the largest of
their layer. Whatever one of them asks for first is kept here for the others, as long as the batch lives.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from gate.config import FLOAT32_MAX

__all__ = ["ActivationBatch", "Activations", "check_layer", "said_of"]

Activations = Mapping[str, Tensor]
"""{layer: floating tensor [N, neurons]}, the same N for every layer."""

T = TypeVar("T")


class ActivationBatch:
    """N samples of M neurons.

    Attributes:
        layers: {layer: neurons}, in item order.
        flat: float32 [N, M].
        logits: float [N, K] that the model answered with, or None.
    """

    def __init__(self, layers: Mapping[str, int], flat: Tensor, logits: Tensor | None = None) -> None:
        self.layers = dict(layers)
        self.flat = flat
        self.logits = logits
        self._memo: dict[Hashable, object] = {}
        self._top: tuple[Tensor, Tensor] | None = None  # of the largest k asked for so far

    @classmethod
    def of(cls, acts: Activations, logits: Tensor | None = None, layers: Mapping[str, int] | None = None) -> ActivationBatch:
        """Lays activations side by side.

        Args:
            acts: the activations.
            logits: of the same samples.
            layers: the layers and widths that are wanted, in item order; None takes them as they come.

        Raises:
            ValueError: none at all, other layers or widths than wanted, not floating [N, neurons], or different numbers of samples.
        """
        if not isinstance(acts, Mapping) or not acts:
            raise ValueError(
                "no layers given" if isinstance(acts, Mapping) else f"activations must be {{layer: tensor}}, not a {type(acts).__name__}"
            )
        if layers and set(acts) != set(layers):
            raise ValueError(f"wrong layers: missing {sorted(set(layers) - set(acts))}, not watched {sorted(set(acts) - set(layers))}")
        for name, values in acts.items():
            check_layer(name, values, (layers or {}).get(name))
        counts = {name: len(values) for name, values in acts.items()}
        samples = next(iter(counts.values()))
        if any(count != samples for count in counts.values()):
            raise ValueError(f"the layers have different numbers of samples: {counts}")
        if logits is not None and not (_is_matrix(logits) and len(logits) == samples):
            raise ValueError(f"logits must be a floating tensor [{samples}, classes], not {said_of(logits)}")
        order = list(layers or acts)
        flat = torch.cat([acts[name].detach().to(torch.float32) for name in order], dim=1)
        if logits is not None:
            logits = logits.detach().to(flat.device, logits.dtype if logits.dtype == torch.float64 else torch.float32)
        return cls({name: acts[name].shape[1] for name in order}, flat, logits)

    def __len__(self) -> int:
        return len(self.flat)

    @property
    def device(self) -> torch.device:
        """Where the activations are."""
        return self.flat.device

    def memo(self, key: Hashable, make: Callable[[], T]) -> T:
        """What ``make`` returned the first time that ``key`` was asked for."""
        if key not in self._memo:
            self._memo[key] = make()
        return cast(T, self._memo[key])

    def rows(self, index: Tensor) -> ActivationBatch:
        """The samples int64 [n] of this batch, in that order."""
        logits = None if self.logits is None else self.logits[index]
        return ActivationBatch(self.layers, self.flat[index], logits)

    @property
    def spans(self) -> dict[str, tuple[int, int]]:
        """{layer: (first neuron, one past the last)}."""
        return self.memo("spans", lambda: spans_of(self.layers))

    @property
    def finite(self) -> Tensor | None:
        """bool [N, M]: which are neither NaN nor infinite; None where all are, which is the usual case and costs one look."""
        return self.memo("finite", lambda: None if math.isfinite(self._spread) else torch.isfinite(self.flat))

    @property
    def _spread(self) -> float:
        """The highest less the lowest of all outputs; NaN or infinite where one of them is. Waits for the device, once."""

        def make() -> float:
            if not self.flat.numel():
                return 0.0
            lowest, highest = torch.stack(torch.aminmax(self.flat.detach())).tolist()
            return float(highest - lowest)  # in float64, where no difference of float32 numbers overflows

        return self.memo("spread", make)

    def replaced(self, value: float) -> Tensor:
        """float32 [N, M]: ``flat`` with ``value`` in place of what is not finite."""
        finite = self.finite
        return self.flat if finite is None else self.memo(("replaced", value), lambda: torch.where(finite, self.flat, value))

    def range(self) -> tuple[Tensor, Tensor]:
        """Lowest and highest finite value of each neuron, float32 [M] each; +inf and -inf where there is none."""
        return self.memo("range", lambda: (self.replaced(torch.inf).amin(0), self.replaced(-torch.inf).amax(0)))

    def scaled(self) -> Tensor:
        """float32 [N, M]: every sample's outputs inside a layer brought to 0..1, from the lowest finite one to the highest.

        NaN where all of a layer are equal; of what is not finite no more is said than that it is not finite or beyond 0..1.
        """
        scaled = torch.empty_like(self.flat)
        lows, highs = self._blocks(self.replaced(torch.inf)), self._blocks(self.replaced(-torch.inf))
        for low, high, block, into in zip(lows, highs, self._blocks(self.flat), self._blocks(scaled), strict=True):
            low, high = low.amin(2, keepdim=True), high.amax(2, keepdim=True)
            if not self._spread <= FLOAT32_MAX:
                # A difference that float32 can't hold is that of halves, twice. Halves of so large numbers are exact.
                half = torch.where(torch.isposinf(high - low), 0.5, 1.0)
                block, low, high = block * half, low * half, high * half
            torch.sub(block, low, out=into).div_(high - low)
        return scaled

    def top(self, k: int) -> tuple[Tensor, Tensor]:
        """The k largest of each layer, the lower number first where outputs are equal, so that every device answers alike.

        Returns:
            neurons: int64 [N, layers, k], numbered over all layers, in falling order of their outputs.
            usable: bool [N, layers, k]; False where a layer has fewer finite outputs.
        """
        # The first few of a longer list are the shorter list.
        if self._top is None or self._top[0].shape[2] < k:
            self._top = self._find_top(k)
        neurons, usable = self._top
        return neurons[:, :, :k], usable[:, :, :k]

    def _find_top(self, k: int) -> tuple[Tensor, Tensor]:
        blocks = self._blocks(self.replaced(-torch.inf))
        # One more than wanted shows whether the last place is shared.
        found: list[Sequence[Tensor]] = [block.topk(min(k + 1, block.shape[2]), dim=2) for block in blocks]
        tied = [values[:, :, 1:] == values[:, :, :-1] for values, _ in found]
        if bool(torch.cat([shared.flatten(1) for shared in tied], 1).any()):
            # topk leaves open which of equal outputs it takes; a stable sort does not. It costs more, so only where there are any.
            for block, (values, index), pairs in zip(blocks, found, tied, strict=True):
                shared = pairs.any(2)
                ordered, order = torch.sort(block[shared], dim=1, descending=True, stable=True)
                values[shared], index[shared] = ordered[:, : values.shape[2]], order[:, : index.shape[2]]
        first = [torch.arange(start, stop, width, device=self.device) for start, stop, width in self._runs]
        neurons = torch.cat([index[:, :, :k] for _, index in found], 1) + torch.cat(first)[:, None]
        if self.finite is None:
            return neurons, torch.ones_like(neurons, dtype=torch.bool)
        return neurons, torch.cat([values[:, :, :k] > -torch.inf for values, _ in found], 1)

    def _blocks(self, flat: Tensor) -> list[Tensor]:
        """Views [N, layers, width] of ``flat`` [N, M], in item order: equally wide layers in a row, which one call serves."""

        def make() -> list[Tensor]:
            return [flat[:, start:stop].view(len(flat), (stop - start) // width, width) for start, stop, width in self._runs]

        return self.memo("blocks", make) if flat is self.flat else make()

    @property
    def _runs(self) -> list[tuple[int, int, int]]:
        """First neuron, one past the last, and width of the layers, for all equally wide layers in a row."""

        def make() -> list[tuple[int, int, int]]:
            runs, start = [], 0
            for width, run in itertools.groupby(self.layers.values()):
                stop = start + width * sum(1 for _ in run)
                runs.append((start, stop, width))
                start = stop
            return runs

        return self.memo("runs", make)


def spans_of(layers: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """{layer: (first neuron, one past the last)} where the layers lie side by side."""
    ends = list(itertools.accumulate(layers.values()))
    return {name: (end - width, end) for (name, width), end in zip(layers.items(), ends, strict=True)}


def _is_matrix(values: Any) -> bool:
    return (
        isinstance(values, Tensor)
        and values.layout == torch.strided
        and values.ndim == 2
        and values.is_floating_point()
        and values.shape[1] > 0
    )


def said_of(values: Any) -> str:
    """What something is that should be a tensor, for messages."""
    if not isinstance(values, Tensor):
        return f"a {type(values).__name__}"
    return f"{values.dtype} {list(values.shape)}" + ("" if values.layout == torch.strided else f", {values.layout}")


def check_layer(name: str, values: Tensor, width: int | None) -> None:
    """Raises ValueError unless ``values`` is floating [N, neurons], of ``width`` neurons where that is given."""
    if not _is_matrix(values):
        raise ValueError(f"layer {name!r}: activations must be a floating tensor [N, neurons], not {said_of(values)}")
    if width is not None and values.shape[1] != width:
        raise ValueError(f"layer {name!r} has {width} neurons, these activations have {values.shape[1]}")
