"""Many yes-or-no answers in little memory: a set of item numbers as packed bits, on the activations' own device."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from gate.errors import ConfigError

__all__ = ["LARGEST", "Bits"]

LARGEST = 1 << 32  # numbers in a set: as many as a map can store, and half a gibibyte of memory

_WORD = 32


class Bits:
    """A subset of the numbers 0 to ``size`` - 1; bit ``i % 32`` of word ``i // 32`` stands for number i.

    Args:
        size: how many numbers there are.
        device: where the words live.

    Raises:
        ConfigError: ``size`` is more than ``LARGEST``.
    """

    def __init__(self, size: int, device: torch.device | None = None) -> None:
        if size > LARGEST:
            raise ConfigError(
                f"{size:,} items are more than one coverage criterion can have, {LARGEST:,}.",
                where="coverage",
                hint="Watch fewer layers, or cut the ranges of their neurons into fewer sections.",
            )
        self.size = size
        self.words = torch.zeros(-(-size // _WORD), dtype=torch.int32, device=device)

    @classmethod
    def of(cls, words: Any, size: int) -> Bits:
        """The set that ``words`` holds, taken over as a copy on the CPU.

        Raises:
            ValueError: not an int32 tensor of the right length, or a number beyond ``size`` is in it.
        """
        bits = cls(size)
        if not isinstance(words, Tensor) or words.dtype != torch.int32 or words.shape != bits.words.shape:
            raise ValueError(f"must be an int32 tensor of length {len(bits.words)}")
        bits.words = words.detach().cpu().clone()
        if size % _WORD and int(bits.words[-1]) & 0xFFFFFFFF & ~((1 << size % _WORD) - 1):
            raise ValueError(f"holds numbers beyond {size - 1}")
        return bits

    def has(self, items: Tensor) -> Tensor:
        """bool, the shape of ``items`` (int32 or int64, each from 0 to size - 1)."""
        words = torch.index_select(self.words, 0, (items >> 5).reshape(-1)).view(items.shape)
        return ((words >> (items & 31)) & 1).to(torch.bool)

    def add(self, items: Tensor, *also: Bits) -> None:
        """Puts ``items`` in, and into ``also``: int32 or int64 [H], all different, none of them in yet.

        Adding their bits up is therefore the same as or-ing them.
        """
        word, bit = items >> 5, torch.ones_like(items, dtype=torch.int32) << (items & 31).to(torch.int32)
        for bits in (self, *also):
            bits.words.index_add_(0, word, bit)

    def unfolded(self, start: int = 0, stop: int | None = None) -> Tensor:
        """bool [stop - start]: which of these numbers are in."""
        stop = self.size if stop is None else stop
        first = start // _WORD
        words = self.words[first : -(-stop // _WORD)]
        inside = slice(start - first * _WORD, stop - first * _WORD)
        if _on_cpu(words):
            octets = words.numpy().astype("<i4", copy=False).view(np.uint8)
            return torch.from_numpy(np.unpackbits(octets, bitorder="little")[inside].view(np.bool_))
        bits = (words[:, None] >> torch.arange(_WORD, device=words.device, dtype=torch.int32)) & 1
        return bits.view(-1)[inside].to(torch.bool)

    def count(self, start: int = 0, stop: int | None = None) -> int:
        """How many of the numbers from ``start`` to ``stop`` - 1 are in."""
        stop = self.size if stop is None else stop
        if start >= stop:
            return 0
        head, tail = -(-start // _WORD), stop // _WORD  # whole words between
        if head >= tail:
            return int(self.unfolded(start, stop).sum())
        total = _ones(self.words[head:tail])
        if start < head * _WORD:
            total += int(self.unfolded(start, head * _WORD).sum())
        if tail * _WORD < stop:
            total += int(self.unfolded(tail * _WORD, stop).sum())
        return total

    def union(self, other: Self) -> Bits:
        """A new set with what is in either, on this one's device."""
        both = Bits(0)
        both.size, theirs = self.size, other.words.to(self.words.device)
        # One thread is enough for it, and does not wait for others to have a processor.
        both.words = torch.from_numpy(self.words.numpy() | theirs.numpy()) if _on_cpu(theirs) else self.words | theirs
        return both

    def within(self, other: Self) -> bool:
        """Whether ``other``, on the same device, holds all that this one holds."""
        if _on_cpu(self.words):
            return not (self.words.numpy() & ~other.words.numpy()).any()
        return not bool((self.words & ~other.words).any())

    def to(self, device: torch.device) -> Bits:
        """The same set on a device."""
        moved = Bits(0)
        moved.size, moved.words = self.size, self.words.to(device)
        return moved

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bits) and self.size == other.size and torch.equal(self.words.cpu(), other.words.cpu())

    __hash__ = None  # type: ignore[assignment]


def _ones(words: Tensor) -> int:
    """How many bits of some int32 words are one."""
    if _on_cpu(words):
        return int(np.bitwise_count(words.numpy().view(np.uint32)).sum(dtype=np.int64))
    # Sums of neighbours in ever wider fields; the masks keep the sign bit out.
    words = words - ((words >> 1) & 0x55555555)
    words = (words & 0x33333333) + ((words >> 2) & 0x33333333)
    words = (words + (words >> 4)) & 0x0F0F0F0F
    return int(((words * 0x01010101) >> 24).sum())


def _on_cpu(words: Tensor) -> bool:
    return words.device.type == "cpu"
