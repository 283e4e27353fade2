"""Which neurons a mutant's answer hangs on: activation patching. Runs in the worker.

The mutant is run with one neuron put back to what it was for the seed input (a channel over all its positions, a feature over all tokens),
and how far the answer comes back is that neuron's effect. So it is a cause that is measured, not a correlation.

Vig et al., "Investigating Gender Bias in Language Models Using Causal Mediation Analysis", 2020; Meng et al., "Locating and Editing Factual
Associations in GPT", 2022; Heimersheim and Nanda, "How to use and interpret activation patching", 2024. What is tried first where there are
too many follows attribution patching (Syed et al. 2023; Kramár et al. 2024): gradient times change, a first-order guess at the effect.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from gate.campaign.attribution_work import MOST_NAMED
from gate.coverage.layers import Layer
from gate.models.ragged import first_output
from gate.models.select import first_tensor
from gate.models.trace import named_modules

__all__ = ["Patched", "patch"]

T = TypeVar("T")
Parts = Callable[[int, Callable[[slice], T]], list[T]]

_BY_CHANGE = 4  # every fourth neuron is tried because it moved far, whatever its gradient says: behind a ReLU that is off it says nothing
_SAME = 1e-6  # margins nearer than this share of the clean one are equal: restoring a neuron has nothing to win
_LEAST = 0.01  # an effect below this explains nothing
_SAID = 200  # characters of a layer and why it can't be patched
_HALF = 0.5  # of the way back, where the prediction itself had been kept


@dataclass(frozen=True)
class Patched:
    """The neurons whose clean value brings the answer back farthest, at most ``MOST_NAMED``."""

    layers: Tensor  # int64 [K]: positions among the watched layers
    neurons: Tensor  # int64 [K]
    effects: Tensor  # float64 [K], falling
    restores: Tensor  # bool [K]
    tried: int = 0
    of: int = 0  # neurons of the layers that can be patched
    reason: str | None = None  # why none were tried


def patch(
    module: nn.Module,
    layers: Sequence[Layer],
    logits: Callable[[Tensor], Tensor],
    parts: Parts[Any],
    both: Tensor,
    *,
    label: int,
    most: int,
    batch: int,
    gradients: bool,
) -> Patched:
    """Restores neurons of one mutant, one in each copy of it.

    A mutant whose answer is not finite hangs on the first layer that is not: its broken neurons are tried first and, where none of them
    suffices alone, all together.

    Args:
        module: the model, on its device.
        layers: the watched ones, whose neurons are meant.
        logits: one pass: file values [N, ...] -> float64 [N, C], with a graph where gradients are on.
        parts: runs work on the rows of a batch, see ``gate.campaign.halving``.
        both: file values [2, ...]: the seed input, then the mutant.
        label: class of the seed input.
        most: neurons that may be tried.
        batch: copies of the mutant in one pass.
        gradients: whether the model has usable ones.
    """
    tap = _Tap(module, layers)
    try:
        return _patched(tap, logits, parts, both, label=label, most=most, batch=batch, gradients=gradients)
    finally:
        tap.close()


def _patched(
    tap: _Tap,
    logits: Callable[[Tensor], Tensor],
    parts: Parts[Any],
    both: Tensor,
    *,
    label: int,
    most: int,
    batch: int,
    gradients: bool,
) -> Patched:
    def look(rows: slice) -> Tensor | None:
        if rows.stop - rows.start < 2:
            return None
        with torch.no_grad(), tap.keeping():
            return logits(both[rows])

    seen = parts(2, look)
    if len(seen) > 1:
        return _none(tap, "the device's memory is too small for the seed input and its mutant together")
    clean, broken = seen[0]
    before, after = (float(margin(row[None], label)[0]) for row in (clean, broken))
    if not before > 0:  # also where it is NaN
        return _none(tap, "this model does not read the seed input as its label")
    if math.isfinite(after) and before - after <= _SAME * max(1.0, before):
        return _none(tap, "this model's own answer to the mutant is as clear as the one to the seed input")
    units = tap.units()
    if not len(units):
        why = next(iter(tap.skipped.items()), None)
        return _none(tap, "none of the watched layers can be patched" + (f"; {why[0]}: {why[1]}"[:_SAID] if why else ""))
    moved = tap.moved()
    if not math.isfinite(after):
        first = tap.broken_first()
        order = _falling(torch.where(first, torch.inf, moved.clamp(max=torch.finfo(moved.dtype).max)))
    elif gradients and len(units) > most:
        rival = _without(broken[None], label).argmax(1)

        def contrast(rows: slice) -> Tensor | None:
            if rows.stop - rows.start < 2:
                return None
            with torch.enable_grad(), tap.keeping(grad=True):
                answers = logits(both[rows].to(torch.float32).requires_grad_(True))
                return tap.guess((answers[:, label] - answers[:, int(rival)]).sum())

        guesses = parts(2, contrast)
        order = _mixed(guesses[0], moved) if len(guesses) == 1 else _falling(moved)
    else:
        order = _falling(moved)
    chosen = units[order[:most]]
    answers = _answers(tap, logits, parts, both[1], [chosen[row : row + 1] for row in range(len(chosen))], batch)
    effects = _effects(margin(answers, label), before, after)
    right = answers.argmax(1) == label
    # A prediction that was kept can't come back; then half of the lost margin has to.
    restores = torch.isfinite(answers).all(1) & (right if not after > 0 else effects >= _HALF)
    if not math.isfinite(after) and not restores.any():
        together = units[tap.broken_first().cpu()]
        if len(together) > 1:
            answer = _answers(tap, logits, parts, both[1], [together], batch)
            if bool(torch.isfinite(answer).all()) and int(answer[0].argmax()) == label:
                return _named(tap, together, torch.ones(len(together), dtype=torch.float64), len(chosen))
    return _named(tap, chosen, effects.cpu(), len(chosen), restores.cpu())


def margin(logits: Tensor, label: int) -> Tensor:
    """float [N]: the logit of a class less the largest of the others; NaN where one of them is not finite."""
    lead = logits[:, label] - _without(logits, label).amax(1)
    return torch.where(torch.isfinite(logits).all(1), lead, torch.nan)


def _without(logits: Tensor, label: int) -> Tensor:
    others = logits.clone()
    others[:, label] = -torch.inf
    return others


def _effects(margins: Tensor, before: float, after: float) -> Tensor:
    """float64 [K]: shares of the way back. Of a mutant without a finite answer: 1 where the answer is finite and right again, else 0."""
    if not math.isfinite(after):
        return (margins > 0).to(torch.float64)
    return torch.nan_to_num((margins - after) / (before - after), nan=0.0)


def _answers(
    tap: _Tap, logits: Callable[[Tensor], Tensor], parts: Parts[Any], mutant: Tensor, sets: Sequence[Tensor], batch: int
) -> Tensor:
    """float64 [K, C]: the answers to K copies of a mutant, each with a set of units int64 [n, 2] restored."""
    found: list[Tensor] = []
    for start in range(0, len(sets), batch):
        some = sets[start : start + batch]

        def work(rows: slice, some: Sequence[Tensor] = some) -> Tensor:
            part = some[rows]
            with torch.no_grad(), tap.restoring(part):
                return logits(mutant.expand(len(part), *mutant.shape))

        found += parts(len(some), work)
    return torch.cat(found)


def _falling(scores: Tensor) -> Tensor:
    """int64 [M]: positions by falling score, the first among equals first."""
    return torch.sort(scores, descending=True, stable=True).indices.cpu()


def _mixed(guess: Tensor, moved: Tensor) -> Tensor:
    """Positions in the order of the guess, every fourth by how far it moved."""
    first, second = _falling(guess).tolist(), iter(_falling(moved).tolist())
    taken: set[int] = set()
    order: list[int] = []
    guessed = iter(first)
    while len(order) < len(first):
        source = second if len(order) % _BY_CHANGE == _BY_CHANGE - 1 else guessed
        position = next(one for one in source if one not in taken)
        taken.add(position)
        order.append(position)
    return torch.tensor(order)


def _named(tap: _Tap, units: Tensor, effects: Tensor, tried: int, restores: Tensor | None = None) -> Patched:
    order = [row for row in _falling(effects).tolist() if effects[row] >= _LEAST][:MOST_NAMED]
    back = torch.ones(len(units), dtype=torch.bool) if restores is None else restores
    return Patched(units[order, 0], units[order, 1], effects[order], back[order], tried, tap.total)


def _none(tap: _Tap, reason: str) -> Patched:
    empty = torch.empty(0, dtype=torch.int64)
    return Patched(empty, empty, empty.to(torch.float64), empty.to(torch.bool), 0, tap.total, reason)


class _Tap:
    """Hooks on the watched layers: they keep what a pass put out, or put parts of it into another pass.

    A layer that is called several times is kept, and restored, call by call. Units are neurons int64 [M, 2]: (layer, neuron).
    """

    def __init__(self, module: nn.Module, layers: Sequence[Layer]) -> None:
        self._layers = tuple(layers)
        self._kept: dict[int, list[Tensor]] = {}  # by layer: of each call, its output for the seed input and the mutant
        self._graph: dict[int, list[Tensor]] = {}
        self._put: dict[int, tuple[Tensor, Tensor]] = {}  # by layer: rows and neurons to restore
        self._calls: dict[int, int] = {}
        self._doing: str = ""
        self.skipped: dict[str, str] = {}
        modules: dict[str, list[nn.Module]] = {}
        for name, child in named_modules(module):
            modules.setdefault(name, []).append(child)
        self._handles = [
            child.register_forward_hook(self._hook(number)) for number, layer in enumerate(self._layers) for child in modules[layer.name]
        ]

    def close(self) -> None:
        """Removes the hooks."""
        for handle in self._handles:
            handle.remove()

    @contextmanager
    def keeping(self, *, grad: bool = False) -> Iterator[None]:
        """The pass inside is that of the seed input and the mutant; with ``grad`` the outputs keep their graph."""
        kept = self._graph if grad else self._kept
        kept.clear()
        yield from self._while("graph" if grad else "keep")

    @contextmanager
    def restoring(self, sets: Sequence[Tensor]) -> Iterator[None]:
        """In the pass inside, row r has the units ``sets[r]`` int64 [n, 2] as they were for the seed input."""
        rows = torch.cat([torch.full((len(units),), row) for row, units in enumerate(sets)])
        units = torch.cat(list(sets))
        self._put = {}
        for number in sorted(set(units[:, 0].tolist())):
            here = units[:, 0] == number
            device = self._kept[number][0].device
            self._put[number] = rows[here].to(device), units[here, 1].to(device)
        yield from self._while("restore")

    def _while(self, doing: str) -> Iterator[None]:
        self._doing, self._calls = doing, {}
        try:
            yield
        finally:
            self._doing = ""

    @property
    def total(self) -> int:
        """Neurons of the layers that can be patched."""
        return sum(layer.neurons for number, layer in enumerate(self._layers) if number in self._kept)

    def units(self) -> Tensor:
        """int64 [M, 2]: every neuron that can be patched, in the order of execution."""
        made = [
            torch.stack([torch.full((layer.neurons,), number), torch.arange(layer.neurons)], 1)
            for number, layer in enumerate(self._layers)
            if number in self._kept
        ]
        return torch.cat(made) if made else torch.empty(0, 2, dtype=torch.int64)

    def moved(self) -> Tensor:
        """float64 [M]: how far each neuron is from its clean value, as a multiple of what is usual in its layer; inf where it broke."""
        found = []
        for number, calls in self._kept.items():
            change = self._per_neuron(number, [(broken - clean).abs() for clean, broken in self._rows(number, calls)])
            finite = torch.isfinite(change)
            usual = torch.where(finite, change, 0.0).sum() / finite.sum().clamp(min=1)
            scaled = torch.where(finite, change / usual.clamp(min=torch.finfo(torch.float64).tiny), torch.inf)
            found.append(torch.where((usual == 0) & finite, 0.0, scaled))
        return torch.cat(found)

    def broken_first(self) -> Tensor:
        """bool [M]: the neurons that only the mutant makes not finite, of the first layer that has such."""
        found, known = [], False
        for number, calls in self._kept.items():
            pairs = self._rows(number, calls)
            lost = [torch.isfinite(clean) & ~torch.isfinite(broken) for clean, broken in pairs]
            here = self._per_neuron(number, [one.to(torch.float64) for one in lost]) > 0
            found.append(torch.zeros_like(here) if known else here)
            known = known or bool(here.any())
        return torch.cat(found)

    def guess(self, score: Tensor) -> Tensor:
        """float64 [M]: how much of ``score`` restoring each neuron should bring back, to first order.

        The gradient is the mean of that at the seed input and that at the mutant: at the mutant alone a neuron that a ReLU has shut has
        none, although opening it again may be all that it takes (Kramár et al. 2024 on such false negatives).
        """
        outputs = [(number, call) for number, calls in self._graph.items() for call in calls if call.requires_grad]
        slopes = torch.autograd.grad(score, [call for _, call in outputs], allow_unused=True)
        by_layer: dict[int, list[Tensor]] = {}
        for (number, call), slope in zip(outputs, slopes, strict=True):
            if slope is not None:
                (at_clean, at_broken), (clean, broken) = (self._rows(number, [part.detach()])[0] for part in (slope, call))
                by_layer.setdefault(number, []).append((clean - broken) * (at_clean + at_broken) / 2)
        found = []
        for number in self._kept:
            calls = by_layer.get(number)
            width = self._layers[number].neurons
            found.append(torch.zeros(width, dtype=torch.float64, device=score.device) if calls is None else self._per_neuron(number, calls))
        return torch.nan_to_num(torch.cat(found), nan=0.0)

    def _rows(self, number: int, calls: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
        """Of each call the outputs for the seed input and for the mutant, float64, without the batch axis."""
        axis = self._layers[number].batch_axis
        return [(clean, broken) for clean, broken in (call.to(torch.float64).unbind(axis) for call in calls)]

    def _per_neuron(self, number: int, calls: Sequence[Tensor]) -> Tensor:
        """float64 [neurons]: the sum over positions and calls of values in the shape of one sample's output."""
        layer = self._layers[number]
        axis = layer.neuron_axis - 1
        parts = [one.flatten() if layer.neuron == "element" else one.movedim(axis, 0).reshape(layer.neurons, -1).sum(1) for one in calls]
        return torch.stack(parts).sum(0)

    def _hook(self, number: int) -> Any:
        layer = self._layers[number]

        def hook(_: nn.Module, __: Any, output: Any) -> Any:
            if not self._doing or layer.name in self.skipped:
                return None
            call = self._calls.get(number, 0)
            self._calls[number] = call + 1
            found = first_output(output)
            if self._doing == "restore":
                return self._restored(number, call, output, found) if isinstance(found, Tensor) else None
            if not isinstance(found, Tensor) or found is not first_tensor(output):
                self._skip(number, "its samples have different numbers of positions")
                return None
            if not found.is_floating_point() or found.shape[layer.batch_axis] != 2:
                self._skip(number, "its output has no row for each sample")
                return None
            # A copy is kept, and with a graph handed on: an operation in place that follows would change what was kept.
            copied = found.clone()
            if self._doing == "keep":
                self._kept.setdefault(number, []).append(copied)
                return None
            self._graph.setdefault(number, []).append(found)
            return _with(output, found, copied)

        return hook

    def _restored(self, number: int, call: int, output: Any, found: Tensor) -> Any:
        clean = self._kept.get(number, [])
        if number not in self._put or call >= len(clean):
            return None
        rows, neurons = self._put[number]
        changed = found.clone()
        into, where = self._places(number, changed, rows, neurons)
        source, origin = self._places(number, clean[call], torch.zeros_like(rows), neurons)
        if into.shape[1:] != source.shape[1:]:
            return None
        into[where] = source[origin].to(changed.dtype)
        return _with(output, found, changed)

    def _places(self, number: int, values: Tensor, rows: Tensor, neurons: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """A view of an output with the batch first, and the index of rows' neurons in it."""
        layer = self._layers[number]
        if layer.neuron != "element":
            return values.movedim((layer.batch_axis, layer.neuron_axis), (0, 1)), (rows, neurons)
        view = values.movedim(layer.batch_axis, 0)
        return view, (rows, *torch.unravel_index(neurons, view.shape[1:]))

    def _skip(self, number: int, why: str) -> None:
        self.skipped[self._layers[number].name] = why
        self._kept.pop(number, None)
        self._graph.pop(number, None)


def _with(output: Any, old: Tensor, new: Tensor) -> Any:
    """The same answer with one tensor in place of another."""
    if output is old:
        return new
    if isinstance(output, tuple):
        parts = [_with(part, old, new) for part in output]
        return type(output)(*parts) if hasattr(output, "_fields") else type(output)(parts)
    if isinstance(output, list):
        return [_with(part, old, new) for part in output]
    if isinstance(output, Mapping):
        changed: Any = copy.copy(output)
        for key, part in output.items():
            changed[key] = _with(part, old, new)
        return changed
    if hasattr(output, "__dataclass_fields__"):
        changed = copy.copy(output)
        for name in output.__dataclass_fields__:
            object.__setattr__(changed, name, _with(getattr(output, name), old, new))
        return changed
    return output
