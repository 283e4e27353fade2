"""What an oracle is: it looks at a whole batch of outputs and says which of them are wrong."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

__all__ = ["Observation", "Oracle"]


@dataclass(frozen=True)
class Observation:
    """A batch as the oracles see it, in the supervisor. All arrays have N rows."""

    raw: np.ndarray  # [N, K] float32: what the model answered
    probabilities: np.ndarray  # [N, C] float64; rows of outputs that are not finite are NaN
    predicted: np.ndarray  # [N] int64; -1 where the output is not finite
    labels: np.ndarray  # [N] int64


class Oracle(ABC):
    """One kind of complaint. Rank decides which complaint counts where several fit: the lowest."""

    name: ClassVar[str]
    rank: ClassVar[int]

    @abstractmethod
    def complains(self, seen: Observation) -> np.ndarray:
        """bool [N]: which samples this oracle finds wrong."""

    @abstractmethod
    def holds(self, seen: Observation) -> np.ndarray:
        """bool [N]: which complaints are clear enough to survive a replay elsewhere, by a margin."""
