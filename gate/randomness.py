"""Random numbers that depend on an address, never on a worker, the clock or a global generator.

Every draw in a campaign comes from ``generator(campaign_seed, *address)``, where the address says what the draw is for: an arm,
a step, a slot, a seed input. Two campaigns with the same seed therefore draw the same numbers at the same address, whatever ran
before, beside or after.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

__all__ = ["generator", "hashed", "integer", "key", "uniforms"]

Address = str | int

_GAMMA = np.uint64(0x9E3779B97F4A7C15)  # the odd number next to 2**64 divided by the golden ratio


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


def key(seed: int, *address: Address) -> int:
    """One number in [0, 2**64), from which ``hashed`` and ``uniforms`` draw for many at once."""
    return int.from_bytes(_digest(seed, address)[:8], "little")


def hashed(keys: npt.NDArray[np.uint64], index: npt.NDArray[np.uint64] | int) -> npt.NDArray[np.uint64]:
    """uint64 of the common shape of keys and index: number ``index`` (not negative) of each key's stream; the same on every machine.

    SplitMix64: its counter at ``key + (index + 1) * gamma``, then its finaliser.
    Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    """
    with np.errstate(over="ignore"):  # arithmetic is meant modulo 2**64
        mixed = np.asarray(keys, dtype=np.uint64) + (np.asarray(index, dtype=np.uint64) + np.uint64(1)) * _GAMMA
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        result: npt.NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(31))
    return result


def uniforms(keys: npt.NDArray[np.uint64], index: npt.NDArray[np.uint64] | int) -> npt.NDArray[np.float64]:
    """float64 in [0, 1), a multiple of 2**-53, of the common shape of keys and index: ``hashed``, as shares."""
    result: npt.NDArray[np.float64] = (hashed(keys, index) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return result
