"""Runs descents and keeps what their passes showed until the supervisor says which mutants may earn coverage. Lives in the worker."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gate.campaign.descent import descend
from gate.campaign.descent_options import Descent
from gate.campaign.forward import Forward
from gate.campaign.iterates import HeldPasses, Iterates
from gate.coverage.recorder import Recorder
from gate.models.differentiable import to_logits
from gate.models.outputs import OutputKind
from gate.models.select import pick

__all__ = ["Descender"]


class Descender:
    """Knows the model and what was watched.

    Args:
        recorder: of the watched layers.
        forward: how the model runs.
        preprocess: what stands between file values and the model.
        kind: how to read the output.
    """

    def __init__(self, recorder: Recorder, forward: Forward, preprocess: nn.Module, kind: OutputKind) -> None:
        self._recorder = recorder
        self._forward = forward
        self._preprocess = preprocess
        self._kind = kind
        self._layers = {layer.name: layer.neurons for layer in recorder.layers}
        self.held = HeldPasses(self._layers)

    def descend(
        self,
        x: Tensor,
        labels: Tensor,
        targets: Tensor,
        *,
        token: int,
        descent: Descent,
        epsilon: float,
        bounds: tuple[float, float],
        whole: bool,
    ) -> tuple[Tensor, Tensor, int]:
        """Descends and keeps what the passes showed under ``token``; see ``gate.campaign.descent.descend`` for the arguments.

        Returns:
            mutants: float32 [m, H, W, C].
            rows: int64 [m]: the start of each.
            work: forward-equivalents.
        """
        labels, targets = labels.to(x.device), targets.to(x.device)

        def part(rows: slice) -> tuple[int, Iterates]:
            found = descend(
                self._watched,
                lambda raw: to_logits(raw, self._kind),
                x[rows].to(torch.float32),
                labels[rows],
                targets[rows],
                descent=descent,
                epsilon=epsilon,
                bounds=bounds,
                whole=whole,
            )
            return rows.start, found

        parts = self._forward.with_gradients(len(x), part)
        joined = self.held.hold(token, parts)
        self._forward.model_calls += joined.work
        return joined.mutants, joined.rows, joined.work

    def _watched(self, x: Tensor, gradients: bool) -> tuple[Tensor, Tensor]:
        with torch.set_grad_enabled(gradients), self._recorder.recording():
            output = self._forward.run(x, self._preprocess)
        acts = self._recorder.activations()
        self._recorder.forget()
        raw = pick(output, self._forward.key).to(torch.float32).reshape(len(x), -1)
        return torch.cat([acts[name] for name in self._layers], dim=1).to(torch.float32), raw
