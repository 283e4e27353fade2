"""What gradient steps came to: mutants whose passes were seen while they were made, and are kept until it is known which earn coverage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["HeldPasses", "Iterates"]

HELD = 8  # climbs, or descents, whose passes are kept


@dataclass(frozen=True)
class Iterates:
    """What gradient steps from N samples came to: m mutants, those of the first gradient first."""

    mutants: Tensor  # float32 [m, H, W, C], values that the file dtype can hold
    rows: Tensor  # int64 [m]: the sample that each came from
    flat: Tensor  # float32 [m, neurons]: activations
    raw: Tensor  # float32 [m, K]: outputs
    work: int  # forward-equivalents


class HeldPasses:
    """Owns the activations and outputs of the latest mutants, by token; the oldest make way.

    Args:
        layers: {name: neurons}, in the order in which ``Iterates.flat`` has them.
    """

    def __init__(self, layers: dict[str, int]) -> None:
        self._layers = layers
        self._held: dict[int, tuple[Tensor, Tensor]] = {}

    def hold(self, token: int, parts: Sequence[tuple[int, Iterates]]) -> Iterates:
        """Joins what the parts of a batch came to, each with its first sample's row in the batch, and keeps the passes."""
        # Parts without mutants may not know how wide the activations are.
        some = [part for part in parts if len(part[1].mutants)] or parts[:1]
        joined = Iterates(
            torch.cat([found.mutants for _, found in some]),
            torch.cat([found.rows + first for first, found in some]),
            torch.cat([found.flat for _, found in some]),
            torch.cat([found.raw for _, found in some]),
            sum(found.work for _, found in parts),
        )
        self._held[token] = joined.flat, joined.raw
        while len(self._held) > HELD:
            del self._held[next(iter(self._held))]
        return joined

    def hand_out(self, token: int) -> tuple[dict[str, Tensor], Tensor]:
        """Activations by layer and outputs of a token's mutants, once.

        Raises:
            KeyError: there was no such token, or too many since.
        """
        flat, raw = self._held.pop(token)
        return dict(zip(self._layers, torch.split(flat, list(self._layers.values()), dim=1), strict=True)), raw
