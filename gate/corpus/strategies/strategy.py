"""What a strategy is asked, and what it knows of the entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Pool", "Strategy"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Pool:
    """n entries that may be mutated, the older before the newer. What is not known of one is NaN."""

    quality: Floats  # [n], 0 to 1; see gate.corpus.quality
    room: Floats  # [n], 0 to 1: how much of a chain's bound is left for further operators
    picks: npt.NDArray[np.int64]  # [n]: how often each was chosen
    margins: Floats  # [n]: probability of the label minus that of the best other class, -1 to 1
    entropies: Floats  # [n]: of the model's answer, over that of an even answer, 0 to 1
    gradients: Floats  # [n]: norm of the gradient towards what is not covered
    novelties: Floats  # [n]: distance from the entries that are nearest in feature space
    variances: Floats  # [n]: of the answer, with dropout

    def __len__(self) -> int:
        return len(self.quality)

    @property
    def worth(self) -> Floats:
        """[n]: the quality, less for an entry from which no operator leads far any more, or that was chosen often already."""
        result: Floats = self.quality * self.room / (1.0 + self.picks)
        return result


class Strategy(Protocol):
    """Says which entries to mutate next."""

    @property
    def name(self) -> str:
        """As ``search.strategy`` has it."""

    def weights(self, pool: Pool) -> Floats:
        """float64 [n], not negative: entries are drawn in proportion. All zero where the strategy knows nothing of these entries yet."""
