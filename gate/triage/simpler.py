"""Which of two mutants is the simpler one: the order that minimising searches in, and that duplicates and examples are chosen by.

Minimising is a search for a smaller key. So the order must be total (no two different mutants compare as equal: otherwise which one is kept
would depend on who came first), well-founded (every step of the search goes down, so it can't go round in circles), and the same in every
run (it looks at the mutant and its recipe, never at the clock, the arm or an index). What comes first decides:

1. *Steps of the recipe.* "Rotated" is a cause that a person can look for; "rotated, then foggy, then stored as JPEG" is three guesses. One
   strong step is therefore simpler than two weak ones, although it may change more: a repair is made for an operator, not for a distance.
2. *Families.* Two steps of one family are one kind of change, and the family names the root cause.
3. *Steps whose result is stored*: made with the model's help or by splicing. No camera makes them, and no recipe makes them again.
4. *Summed severity*, rounded as in the record, so that what reads as equal is equal. Now the question is how much of the same is needed.
5. *Changed positions.* Severity says nothing of attacks and splices, and of two equally severe changes the smaller one is easier to see.
6. *Distance* from the seed input, for what changes the same positions less.
7. *A digest of the bytes and the recipe.* It means nothing, and ends every tie the same way in every run.

The confidence of the wrong answer is left out on purpose: a mutant just over the edge is as much a defect as one far beyond it, and
preferring sure ones would keep minimising from going where it should, to the edge.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gate.result import Defect

__all__ = ["Simplicity", "changed_share", "defect_simplicity", "simplicity"]

Simplicity = tuple[int, int, int, float, int, float, str]


def simplicity(
    recipe: Sequence[Mapping[str, Any]], families: Sequence[str], stored: int, mutant: np.ndarray, seed: np.ndarray
) -> Simplicity:
    """The sort key of one mutant; the smaller key is the simpler mutant.

    Args:
        recipe: its steps as the record holds them.
        families: of the steps, each once.
        stored: steps whose result is stored instead of being made again.
        mutant: [..., C] in the file dtype; the last axis holds the channels of one position.
        seed: its seed input, likewise.
    """
    severity = round(float(sum(float(step.get("severity", 0.0)) for step in recipe)), 6)
    apart = mutant.astype(np.float64) - seed.astype(np.float64)
    text = json.dumps(list(recipe), sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(mutant.tobytes() + text.encode()).hexdigest()
    changed = int((mutant != seed).any(axis=-1).sum())
    return len(recipe), len(families), stored, severity, changed, float(np.sqrt(np.square(apart).mean())), digest


def changed_share(mutant: np.ndarray, seed: np.ndarray) -> float:
    """Share of the positions [...] at which any channel differs, 0 to 1."""
    return float((mutant != seed).any(axis=-1).mean())


def defect_simplicity(defect: Defect) -> tuple[bool, int, int, int, float, float, str]:
    """The same order as far as the record alone tells it, for choosing an example; what was minimised comes first."""
    area = 1.0 if defect.minimal is None else defect.minimal.area
    return (defect.minimal is None, len(defect.recipe), len(defect.families), int(not defect.natural), defect.severity, area, defect.id)
