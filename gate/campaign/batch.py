"""A batch of mutants on its way through the model, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Batch", "Finding", "Outcome", "families_of"]


@dataclass(frozen=True)
class Batch:
    """Mutants of one arm and step. All have N rows."""

    arm: str
    step: int
    x: np.ndarray  # [N, H, W, C] in the file dtype
    seeds: np.ndarray  # int64 [N]: positions of the seed inputs
    recipes: Sequence[tuple[Any, ...]]  # N; Chains where the batch is large
    valid: np.ndarray  # bool [N]
    model_calls: int  # what making them cost, in forward-equivalents
    operators: np.ndarray | None = None  # int64 [N]: positions in the names of the search's choice; of the judging arm, in the natural ones
    entries: np.ndarray | None = None  # int64 [N]: of the search arm, the corpus entries that were mutated
    strategies: np.ndarray | None = None  # int64 [N]: of the search arm, which strategies chose them: see EntryChoice.pick
    faults: np.ndarray | None = None  # int64 [N]: why a mutant is invalid: positions in the domain's reasons; -1: valid
    kept: int | None = None  # of a climb's mutants: the token under which the worker keeps the passes in which they were made


@dataclass(frozen=True)
class Outcome:
    """What the model answered and what the oracles say of it. All have N rows."""

    probabilities: np.ndarray  # [N, C] float64
    predicted: np.ndarray  # int64 [N]; -1 where the output is not finite
    complaint: np.ndarray  # int64 [N]: position among the campaign's oracles, -1 for none
    new_items: np.ndarray  # float64 [N]: newly covered items of the guiding criteria (of a statistic its gain), valid mutants only
    signatures: np.ndarray | None = None  # int64 [N]: of what each covers, see gate.coverage.signing; 0 where that is not known
    failed: np.ndarray | None = None  # bool [N]: see ``fails``; None where every complaint is such a failure
    raised: Mapping[int, str] = field(default_factory=dict)  # by row the exception that came instead of an answer
    in_parts: bool = False  # whether all of it together made the model raise

    @property
    def fails(self) -> np.ndarray:
        """bool [N]: another prediction than the label, or none at all. What rates count, whichever oracles are on."""
        return self.complaint >= 0 if self.failed is None else self.failed


@dataclass(frozen=True)
class Finding:
    """An oracle's complaint about one valid mutant; not a defect until it is confirmed."""

    arm: str
    step: int
    slot: int
    seed: int  # position of the seed input
    seed_id: str
    mutant: np.ndarray  # [H, W, C] in the file dtype
    recipe: tuple[Any, ...]
    families: tuple[str, ...]  # sorted, each once
    natural: bool
    oracle: str
    label: int
    predicted: int | None
    confidence_before: float
    confidence_after: float | None
    detail: str | None = None  # of the fault, in words

    @property
    def key(self) -> tuple[str, str, str, int, str]:
        """What makes two findings the same before minimising: arm, seed input, oracle, predicted class or fault, families."""
        return (self.arm, self.seed_id, self.oracle, -1 if self.predicted is None else self.predicted, "+".join(self.families))


def families_of(recipe: tuple[Any, ...], family: Any) -> tuple[str, ...]:
    """The sorted families of a recipe, each once."""
    return tuple(sorted({family(step.operator) for step in recipe}))
