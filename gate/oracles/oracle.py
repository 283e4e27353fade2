"""What an oracle is: it looks at a whole batch of outputs and says which of them are wrong."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

import numpy as np

from gate.models.outputs import OutputKind, predictions, probabilities

__all__ = ["MARGIN", "Declared", "Needs", "Observation", "Oracle", "observe"]

# Another batch size moves outputs by about 3e-8 of their size; what lies this near to a threshold could turn round on another machine.
MARGIN = 1e-4


class Needs(StrEnum):
    """What an oracle must know beside the answer itself."""

    NOTHING = "nothing"
    LABEL = "label"
    SEED = "seed input's answer"
    SECOND = "second answer"
    REPLAYS = "replays"


@dataclass(frozen=True)
class Observation:
    """A batch as the oracles see it, in the supervisor. All arrays have N rows."""

    raw: np.ndarray  # [N, K] float32: what the model answered
    probabilities: np.ndarray  # [N, C] float64; rows of outputs that are not finite are NaN
    predicted: np.ndarray  # [N] int64; -1 where the output is not finite
    labels: np.ndarray  # [N] int64; -1 where nobody knows
    kind: OutputKind = OutputKind.LOGITS  # how the raw numbers are read
    before: np.ndarray | None = None  # [N, C] float64: probabilities of the seed inputs; None where there are none, as for probes
    raw_before: np.ndarray | None = None  # [N, K] float32: what the model answered to them
    raised: Mapping[int, str] = field(default_factory=dict)  # by row the exception that came instead of an answer; such rows hold NaN
    silent: frozenset[int] = frozenset()  # rows to which no answer came in time; likewise


def observe(
    raw: np.ndarray,
    kind: OutputKind,
    labels: np.ndarray,
    *,
    before: np.ndarray | None = None,
    raw_before: np.ndarray | None = None,
    raised: Mapping[int, str] | None = None,
    silent: frozenset[int] = frozenset(),
) -> Observation:
    """Raw outputs [N, K] read as probabilities and predictions; see ``Observation`` for the arguments."""
    return Observation(raw, probabilities(raw, kind), predictions(raw, kind), labels, kind, before, raw_before, dict(raised or {}), silent)


class Declared:
    """What every oracle declares of itself."""

    name: ClassVar[str]
    rank: ClassVar[int]  # where several complain about one input, the lowest names the defect
    needs: ClassVar[Needs]
    cost: ClassVar[int] = 0  # forward passes per sample beside the one that was made
    says: ClassVar[str]  # what it complains of, to be read after "the input" or a class's name


class Oracle(Declared, ABC):
    """One kind of complaint about one answer."""

    @abstractmethod
    def complains(self, seen: Observation) -> np.ndarray:
        """bool [N]: which samples this oracle finds wrong."""

    @abstractmethod
    def holds(self, seen: Observation) -> np.ndarray:
        """bool [N]: which complaints are clear enough to survive a replay elsewhere, by a margin."""
