"""scikit-learn's handwritten digits as the demo uses them, and the mistake that crept into its second training set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Digits", "load", "night_shift"]

TEST = 600  # of 1,797 pictures; these become the gate's seeds
DARKEST, BRIGHTEST = 0.60, 0.75  # exposure of the night shift's pictures


@dataclass(frozen=True)
class Digits:
    """Pictures of 8 by 8 pixels: x uint8 [N, 8, 8], y int64 [N]."""

    x: np.ndarray
    y: np.ndarray

    def __add__(self, other: Digits) -> Digits:
        return Digits(np.concatenate([self.x, other.x]), np.concatenate([self.y, other.y]))

    def times(self, count: int) -> Digits:
        """The same pictures ``count`` times over."""
        return Digits(np.tile(self.x, (count, 1, 1)), np.tile(self.y, count))


def load(seed: int) -> tuple[Digits, Digits]:
    """(training, test), split at random."""
    from sklearn.datasets import load_digits

    data = load_digits()
    x = np.rint(data.images * (255 / 16)).astype(np.uint8)
    order = np.random.default_rng(seed).permutation(len(x))
    y = data.target.astype(np.int64)
    return Digits(x[order[TEST:]], y[order[TEST:]]), Digits(x[order[:TEST]], y[order[:TEST]])


def night_shift(digits: Digits, seed: int, *, counted_from: int) -> Digits:
    """The same digits photographed in less light; with ``counted_from`` 1, every label is one too high (and 9 became 0)."""
    exposure = np.random.default_rng(seed).uniform(DARKEST, BRIGHTEST, (len(digits.x), 1, 1))
    return Digits(np.rint(digits.x * exposure).astype(np.uint8), (digits.y + counted_from) % 10)
