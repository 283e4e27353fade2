"""A model with a fault planted around it. Lives in the worker until the fault is taken out again; the model itself is not changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gate.campaign.canary_kinds import Trigger
from gate.campaign.canary_scores import SCORES
from gate.coverage.layers import Layer
from gate.coverage.recorder import Recorder
from gate.errors import ModelError
from gate.models.differentiable import to_logits
from gate.models.outputs import OutputKind
from gate.models.select import Key, pick

__all__ = ["Planted"]


class Planted(nn.Module):
    """The chosen output of the model, changed where a fault's conditions hold.

    The change sets in gradually, as faults of networks do, and gradients go through it. Rows where no condition holds are left as they
    are, to the last bit. The mode of the model is left alone, see ``Differentiable``.

    Args:
        module: the model.
        canary: what ``Canary.to_json`` says.
        key: of the output that is judged.
        kind: how to read it.
        preprocess: stands before every call of this module; what it is given, in file values, is what the conditions look at.
        value_range: lowest and highest value of a file.
        layers: those that are watched.

    Raises:
        ModelError: the neuron that the fault looks at can't be watched.
    """

    def __init__(
        self,
        module: nn.Module,
        canary: Mapping[str, Any],
        *,
        key: Key,
        kind: OutputKind,
        preprocess: nn.Module,
        value_range: tuple[float, float],
        layers: Sequence[Layer],
    ) -> None:
        super().__init__()
        self.module = module
        self.training = False
        self._key, self._kind, self._range = key, kind, value_range
        self._action, self._shift = str(canary["action"]), int(canary["shift"])
        self._triggers = [Trigger(**{**one, "onset": tuple(one["onset"]), "full": tuple(one["full"])}) for one in canary["triggers"]]
        self._given: Tensor | None = None
        self._neuron: Recorder | None = None
        for trigger in self._triggers:
            if trigger.score == "neuron":
                watched = [layer for layer in layers if layer.name == trigger.detail["layer"]]
                if not watched or not 0 <= trigger.detail["neuron"] < watched[0].neurons:
                    raise ModelError(f"The model has no such neuron of {trigger.detail['layer']!r}.", where="the planted fault")
                self._neuron = Recorder(module, watched)
        self._handle = preprocess.register_forward_pre_hook(self._take)

    def train(self, mode: bool = True) -> Planted:
        """Sets the mode of the wrapper only."""
        self.training = mode
        return self

    def close(self) -> None:
        """Takes the hooks out."""
        self._handle.remove()
        if self._neuron is not None:
            self._neuron.close()
        self._given = None

    def forward(self, x: Tensor) -> Tensor:
        """The chosen output as the model gives it, [N, K] or [N], changed."""
        raw = self._answer(x)
        given, self._given = self._given, None
        if given is None or len(given) != len(raw):
            raise ModelError("The planted fault was not shown what the model was.", where="the planted fault")
        flat = raw.reshape(len(raw), -1)
        read = to_logits(flat.detach(), self._kind).argmax(1)
        strength = torch.stack([self._strength(trigger, given, read) for trigger in self._triggers]).amin(0).to(flat.dtype)[:, None]
        if self._action == "nan":
            changed = torch.where(strength >= 0.5, torch.nan, flat)
        else:
            between = (1 - strength) * flat + strength * self._confused(flat)
            changed = torch.where(strength > 0, between.log_softmax(1) if self._kind is OutputKind.LOG_PROBABILITIES else between, flat)
        return changed.reshape(raw.shape)

    def _answer(self, x: Tensor) -> Tensor:
        if self._neuron is None:
            return pick(self.module(x), self._key)
        with self._neuron.recording(grad=True):
            return pick(self.module(x), self._key)

    def _take(self, _: nn.Module, given: tuple[Any, ...]) -> None:
        self._given = given[0]

    def _strength(self, trigger: Trigger, given: Tensor, read: Tensor) -> Tensor:
        """[N], 0 to 1: how strongly the condition holds."""
        if trigger.score == "neuron":
            assert self._neuron is not None
            found = next(iter(self._neuron.activations().values()))[:, trigger.detail["neuron"]]
        else:
            values = given if given.ndim == 4 else given.unsqueeze(-1)
            unit = (values.to(torch.float32) - self._range[0]) / (self._range[1] - self._range[0])
            more = (unit, read) if trigger.score == "turn" else (unit,)
            found = SCORES[trigger.score](*more, **trigger.detail)
        score = trigger.side * found
        onset, full = (self._by_class(limits, score)[read] for limits in (trigger.onset, trigger.full))
        slope = ((score - onset) / (full - onset)).clamp(0, 1)
        return torch.where(torch.isfinite(onset) & torch.isfinite(score), slope, torch.zeros_like(score))

    def _by_class(self, limits: Sequence[float | None], like: Tensor) -> Tensor:
        return like.new_tensor([torch.inf if limit is None else limit for limit in limits])

    def _confused(self, flat: Tensor) -> Tensor:
        """The answer for other classes: each class has the score of the one ``shift`` before it."""
        if flat.shape[1] > 1:
            return flat.roll(self._shift, 1)
        return 1 - flat if self._kind is OutputKind.SIGMOID else -flat
