"""Records the outputs of chosen layers while a model runs, as one float32 matrix [N, neurons] a layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from gate.coverage.layers import Layer
from gate.errors import ModelError
from gate.models.ragged import Ragged, first_output
from gate.models.trace import named_modules

__all__ = ["Recorder"]

_AT_ONCE = 1 << 18  # numbers of a half-precision output that are converted in one go
_PARTS = 32  # at least, where an output has more than that: a float32 copy of one part is a sixteenth of it


class Recorder:
    """Hooks that are registered once and idle outside of ``recording``.

    Every output becomes [N, neurons] at once, in float32 whatever the model's precision, as the layer's ``neuron`` says: the mean over the
    pixels of a convolution or the tokens of a sequence, the largest there, or every element of a sample's output in row-major order. Of a
    module that returns a tuple the first tensor counts; of one that is called several times in a forward pass the average over the calls,
    and with ``max`` the largest. Of packed and nested sequences only the positions inside of a sequence count. A later operation in place
    can't change what was recorded.

    No copy of a whole output is made for ``mean`` and ``max``, apart from sequences of different lengths.

    While hooks are registered, torch leaves out the fused fast path of its transformer layers, so outputs may differ in the last bits from
    those of a model without a recorder: keep one recorder for as long as results are compared.

    Args:
        module: the model.
        layers: usable ones, of ``list_layers`` of the same model.

    Raises:
        ModelError: the model has no such module.
    """

    def __init__(self, module: nn.Module, layers: Sequence[Layer]) -> None:
        self.layers = tuple(layers)
        self._sums: dict[str, Tensor] = {}
        self._calls: dict[str, int] = {}
        self._on = False
        self._grad = False
        self._handles: list[Any] = []
        modules: dict[str, list[nn.Module]] = {}
        for name, child in named_modules(module):
            modules.setdefault(name, []).append(child)
        for layer in self.layers:
            if layer.name not in modules:
                self.close()
                raise ModelError(f"The model has no layer {layer.name!r}.", where="coverage.layers")
            for child in modules[layer.name]:
                self._handles.append(child.register_forward_hook(self._watch(layer)))

    @contextmanager
    def recording(self, *, grad: bool = False) -> Iterator[Recorder]:
        """Run the model once inside, then read ``activations``.

        Args:
            grad: keep the graph, so that activations can be differentiated with respect to the input.
        """
        self._sums, self._calls = {}, {}
        self._on, self._grad = True, grad
        try:
            yield self
        finally:
            self._on = False

    def activations(self, *, partial: bool = False) -> dict[str, Tensor]:
        """{layer: float32 [N, neurons]} of the forward pass inside the last ``recording``, in the order of the layers.

        Args:
            partial: leave out layers that did not run instead of refusing.

        Raises:
            ModelError: a layer did not run, as in a model that chooses its way by the input.
        """
        missing = [layer.name for layer in self.layers if layer.name not in self._sums]
        if missing and not partial:
            raise ModelError(
                f"The layer {missing[0]!r} did not run in this forward pass.",
                where="coverage.layers",
                hint="Leave out layers that run for some inputs only.",
            )
        return {
            layer.name: self._sums[layer.name] / self._calls[layer.name]
            if self._calls[layer.name] > 1 and layer.neuron != "max"
            else self._sums[layer.name]
            for layer in self.layers
            if layer.name in self._sums
        }

    def forget(self) -> None:
        """Lets go of the recorded tensors."""
        self._sums, self._calls = {}, {}

    def close(self) -> None:
        """Removes the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _watch(self, layer: Layer) -> Any:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            if not self._on:
                return
            found = first_output(output)
            if found is None:
                raise ModelError(f"The layer {layer.name!r} returned no tensor this time.", where="coverage.layers")
            with torch.set_grad_enabled(self._grad and torch.is_grad_enabled()):
                values = _over_sequences(found, layer) if isinstance(found, Ragged) else _reduced(found, layer)
            earlier = self._sums.get(layer.name)
            if earlier is not None:
                values = torch.maximum(earlier, values) if layer.neuron == "max" else earlier + values
            self._sums[layer.name] = values
            self._calls[layer.name] = self._calls.get(layer.name, 0) + 1

        return hook


def _reduced(output: Tensor, layer: Layer) -> Tensor:
    """float32 [N, neurons], a tensor of its own."""
    if layer.neuron == "element":
        flat = output.movedim(layer.batch_axis, 0).flatten(1).to(torch.float32)
        return flat.clone() if flat.untyped_storage().data_ptr() == output.untyped_storage().data_ptr() else flat
    positions = tuple(axis for axis in range(output.ndim) if axis not in (layer.batch_axis, layer.neuron_axis))
    if not positions:
        return output.to(torch.float32, copy=True)
    if layer.neuron == "max":
        return output.amax(dim=positions).to(torch.float32)
    if output.dtype == torch.float64:
        return output.mean(dim=positions).to(torch.float32)
    if output.is_cpu and output.dtype != torch.float32 and output.numel() > _AT_ONCE:
        return _mean_in_parts(output, layer, positions)
    return output.mean(dim=positions, dtype=torch.float32)


def _mean_in_parts(output: Tensor, layer: Layer, positions: tuple[int, ...]) -> Tensor:
    """The mean in float32 of a half-precision output on the CPU, where torch converts all that it averages before it does so."""
    samples, neurons = output.shape[layer.batch_axis], output.shape[layer.neuron_axis]
    parts = max(_PARTS, -(-output.numel() // _AT_ONCE))
    rows, columns = max(1, samples // parts), -(-neurons * samples // parts) if samples < parts else neurons
    return torch.cat(
        [
            torch.cat([part.mean(positions, dtype=torch.float32) for part in torch.split(some, columns, dim=layer.neuron_axis)], dim=1)
            for some in torch.split(output, rows, dim=layer.batch_axis)
        ]
    )


def _over_sequences(found: Ragged, layer: Layer) -> Tensor:
    """float32 [N, neurons] over the positions that belong to a sequence; the padding behind its end counts for nothing."""
    positions = tuple(axis for axis in range(1, found.values.ndim) if axis != layer.neuron_axis)
    if layer.neuron == "max":
        inside = found.inside.reshape(*found.inside.shape, *[1] * (found.values.ndim - 2))
        return found.values.masked_fill(~inside, -torch.inf).amax(dim=positions).to(torch.float32)
    others = found.values[0, 0].numel() // found.values.shape[layer.neuron_axis]
    count = (found.lengths.clamp(min=1) * others).unsqueeze(1)
    return found.values.sum(dim=positions, dtype=torch.float32) / count
