"""The corpus: seed inputs and the valid mutants that covered something new, each with the recipe that made it from its seed input."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gate.corpus.selection import draw, promise

__all__ = ["Corpus"]


@dataclass
class Corpus:
    """Owns the entries. Lives in the supervisor; positions never change, so an entry is named by its position.

    The first entries are the seed inputs, in their order.
    """

    seeds: np.ndarray  # [S, H, W, C] in the file dtype
    recipes: list[tuple[Any, ...]] = field(init=False)
    _mutants: list[np.ndarray] = field(init=False, default_factory=list)
    _seed: list[int] = field(init=False)
    _new: list[float] = field(init=False)
    _picks: list[int] = field(init=False)
    _margin: list[float] = field(init=False)
    _open: list[bool] = field(init=False)  # may it be mutated further?

    def __post_init__(self) -> None:
        count = len(self.seeds)
        self.recipes = [()] * count
        self._seed = list(range(count))
        self._new = [0.0] * count
        self._picks = [0] * count
        self._margin = [1.0] * count
        self._open = [True] * count

    def __len__(self) -> int:
        return len(self._seed)

    def set_margins(self, margins: np.ndarray) -> None:
        """Gives the seed inputs their margins, float [S]."""
        self._margin[: len(self.seeds)] = [float(margin) for margin in margins]

    def add(self, mutant: np.ndarray, seed: int, recipe: Sequence[Any], *, new_items: float, margin: float, open_: bool) -> None:
        """Keeps a valid mutant that covered ``new_items`` items first (of a statistic: that gain); ``open_``: may it be mutated further?"""
        self._mutants.append(mutant.copy())
        self._seed.append(seed)
        self.recipes.append(tuple(recipe))
        self._new.append(float(new_items))
        self._picks.append(0)
        self._margin.append(margin)
        self._open.append(open_)

    def pick(self, count: int, random: np.random.Generator) -> np.ndarray:
        """int64 [count]: entries to mutate next, by promise; counts the picks."""
        weights = promise(np.array(self._new), np.array(self._picks), np.array(self._margin)) * np.array(self._open)
        chosen = draw(weights, count, random)
        for position in chosen:
            self._picks[position] += 1
        return chosen

    def seed_of(self, position: int) -> int:
        """The seed input that an entry came from."""
        return self._seed[position]

    def inputs(self, positions: Sequence[int]) -> np.ndarray:
        """[N, H, W, C]: the entries' data."""
        first = len(self.seeds)
        return np.stack([self.seeds[p] if p < first else self._mutants[p - first] for p in positions])

    def save(self, folder: Path, seed_ids: Sequence[str]) -> None:
        """Writes ``corpus.npz`` (mutants and their seed input's position) and ``corpus.jsonl`` (their recipes, in the same order)."""
        shape = (0, *self.seeds.shape[1:])
        mutants = np.stack(self._mutants) if self._mutants else np.empty(shape, dtype=self.seeds.dtype)
        first = len(self.seeds)
        np.savez_compressed(folder / "corpus.npz", x=mutants, seed=np.array(self._seed[first:], dtype=np.int64))
        with (folder / "corpus.jsonl").open("w", encoding="utf-8") as file:
            for position in range(first, len(self)):
                row = {
                    "seed_id": seed_ids[self._seed[position]],
                    "new_items": int(self._new[position]) if self._new[position].is_integer() else self._new[position],
                    "recipe": [step.to_json() for step in self.recipes[position]],
                }
                file.write(json.dumps(row, allow_nan=False) + "\n")
