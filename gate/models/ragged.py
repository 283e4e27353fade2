"""Outputs whose samples have different numbers of positions: packed and nested sequences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from gate.models.select import first_tensor

__all__ = ["Ragged", "first_output"]


@dataclass(frozen=True)
class Ragged:
    """A batch of sequences of different lengths."""

    values: Tensor  # [N, T, ...], zeros behind the end of a sequence
    lengths: Tensor  # int64 [N], on the same device

    @property
    def inside(self) -> Tensor:
        """bool [N, T]: which positions belong to their sequence."""
        return torch.arange(self.values.shape[1], device=self.lengths.device) < self.lengths[:, None]


def first_output(output: Any) -> Tensor | Ragged | None:
    """What ``first_tensor`` finds, with packed and nested sequences opened; None where there is no tensor.

    A packed sequence is what recurrent layers return for one; a nested tensor is what torch's transformer encoder works on where it is
    given a padding mask.
    """
    packed = _packed(output)
    if packed is not None:
        values, lengths = pad_packed_sequence(packed, batch_first=True)
        return Ragged(values, lengths.to(values.device))
    found = first_tensor(output)
    if found is None or not found.is_nested:
        return found
    padded = torch.nested.to_padded_tensor(found, 0.0)
    jagged = found.layout == torch.jagged
    sizes: Tensor = found.offsets().diff() if jagged else found._nested_tensor_size()[:, 0]  # type: ignore[attr-defined]
    return Ragged(padded, sizes.to(padded.device))


def _packed(output: Any) -> PackedSequence | None:
    """The packed sequence that an output is or begins with."""
    while isinstance(output, (tuple, list, Mapping)) and not isinstance(output, PackedSequence):
        if not output:
            return None
        output = next(iter(output.values() if isinstance(output, Mapping) else output))
    return output if isinstance(output, PackedSequence) else None
