"""Coverage signatures: one number for all that a sample covers, so that two samples which cover the same can be found without comparing."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from gate.coverage.activations import ActivationBatch
from gate.coverage.base import Criterion
from gate.coverage.bits import Bits
from gate.coverage.hits import Known, hits_beyond, known_to
from gate.coverage.one_thread import one_thread

__all__ = ["Signatures"]

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)  # 2^64 over the golden ratio, as an int64
_FIRST = 0xBF58476D1CE4E5B9 - (1 << 64)
_SECOND = 0x94D049BB133111EB - (1 << 64)


class Signatures:
    """Signs the samples of batches by the items that they cover beyond those covered when this was made.

    A signature is the sum, modulo 2^64, of a fixed pseudo-random number for each item: SplitMix64's output function (Steele, Lea, Flood,
    "Fast splittable pseudorandom number generators", OOPSLA 2014) of criterion and item. The order of the items does not matter, and the
    same items give the same number on every device and in every process. Of n different sets of items some two share a signature with a
    chance of at most n² / 2^65: a million come to 3e-8. 0 stands for a sample that covers nothing beyond.

    Where one of the criteria is a statistic, which has no items, equal items do not mean equal coverage: then every signature is 0.

    Args:
        criteria: by name.
    """

    def __init__(self, criteria: Mapping[str, Criterion]) -> None:
        self._parts: list[tuple[Criterion, Known]] = []
        for _, one in sorted(criteria.items()):
            covered = known_to(one)
            if covered is None:
                self._parts = []
                break
            self._parts.append((one, covered))

    def of(self, batch: ActivationBatch) -> Tensor:
        """int64 [N], on the batch's device."""
        signed = torch.zeros(len(batch), dtype=torch.int64, device=batch.device)
        with one_thread(batch.device):
            for place, (one, known) in enumerate(self._parts):
                one._batch(batch, None)  # brings it to the batch's device
                known = known.to(batch.device) if isinstance(known, Bits) else known.moved_to(batch.device)
                self._parts[place] = (one, known)
                sample, item = hits_beyond(one, batch, known)
                signed.index_add_(0, sample, _mixed(item + (place << 57)))
        return signed


def _mixed(numbers: Tensor) -> Tensor:
    """SplitMix64's output function of int64 numbers; shifts fill with zeros, as of unsigned ones."""
    z = (numbers + 1) * _GOLDEN
    z = (z ^ (z >> 30 & (1 << 34) - 1)) * _FIRST
    z = (z ^ (z >> 27 & (1 << 37) - 1)) * _SECOND
    return z ^ (z >> 31 & (1 << 33) - 1)
