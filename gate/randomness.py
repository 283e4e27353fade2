"""Random numbers that depend on an address, never on a worker, the clock or a global generator.

Every draw in a campaign comes from ``generator(campaign_seed, *address)``, where the address says what the draw is for: an arm,
a step, a slot, a seed input. Two campaigns with the same seed therefore draw the same numbers at the same address, whatever ran
before, beside or after.
"""

from __future__ import annotations

import hashlib

import numpy as np

__all__ = ["generator", "integer"]

Address = str | int


def _digest(seed: int, address: tuple[Address, ...]) -> bytes:
    # The type letter keeps "1" and 1 apart; the unit separator keeps ("ab", "c") and ("a", "bc") apart.
    text = "\x1f".join(f"{'i' if isinstance(part, int) else 's'}{part}" for part in (seed, *address))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def generator(seed: int, *address: Address) -> np.random.Generator:
    """A counter-based generator (Philox 4x64) keyed by ``seed`` and ``address``.

    Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
    """
    return np.random.Generator(np.random.Philox(key=int.from_bytes(_digest(seed, address), "little")))


def integer(seed: int, *address: Address) -> int:
    """One number in [0, 2**31), for libraries that want an integer seed of their own."""
    return int.from_bytes(_digest(seed, address)[:4], "little") & 0x7FFFFFFF
