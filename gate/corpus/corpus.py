"""The corpus: seed inputs and the valid mutants that covered something new, each with the recipe that made it from its seed input."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from gate.corpus.columns import Columns
from gate.corpus.selection import draw, promise

__all__ = ["Corpus"]

Positions = npt.NDArray[np.int64] | Sequence[int]


class Corpus:
    """Owns the entries. Lives in the supervisor.

    The first S entries are the seed inputs, in their order. An entry is named by its position, which never changes, as what it holds
    never does (data, seed input, recipe); so whoever has a position may look at it later. What is known of an entry stands in columns,
    [N] each, which are read and changed in place.

    Args:
        seeds: [S, ...], the seed inputs in the file dtype.
    """

    def __init__(self, seeds: np.ndarray) -> None:
        self.seeds = seeds
        self._columns = Columns(
            seed=np.int64,
            new=np.float64,
            picks=np.int64,
            margin=np.float64,
            open=np.bool_,
            length=np.int64,
            severity=np.float64,
            step=np.int64,
            signature=np.int64,
            distance=np.float64,
            stability=np.float64,
        )
        count = len(seeds)
        self._columns.extend(
            count,
            seed=np.arange(count),
            new=0.0,
            picks=0,
            margin=1.0,
            open=True,
            length=0,
            severity=0.0,
            step=-1,
            signature=0,
            distance=0.0,
            stability=1.0,
        )
        self._made: list[tuple[Any, ...]] = []
        self._mutants = np.empty((0, *seeds.shape[1:]), dtype=seeds.dtype)  # with room behind the last

    def __len__(self) -> int:
        return len(self._columns)

    # Columns. Views: to be looked up anew after entries were added.

    @property
    def new_items(self) -> npt.NDArray[np.float64]:
        """[N]: items that each entry covered first (of a statistic: that gain); 0 for seed inputs."""
        return self._columns["new"]

    @property
    def picks(self) -> npt.NDArray[np.int64]:
        """[N]: how often each was chosen."""
        return self._columns["picks"]

    @property
    def margins(self) -> npt.NDArray[np.float64]:
        """[N]: probability of the label minus that of the best other class, -1 to 1."""
        return self._columns["margin"]

    @property
    def open(self) -> npt.NDArray[np.bool_]:
        """[N]: may it be mutated further?"""
        return self._columns["open"]

    @property
    def steps(self) -> npt.NDArray[np.int64]:
        """[N]: the campaign's step that each was added in; -1 for seed inputs."""
        return self._columns["step"]

    @property
    def signatures(self) -> npt.NDArray[np.int64]:
        """[N]: of the items that each covers; 0 where they are not known."""
        return self._columns["signature"]

    @property
    def distances(self) -> npt.NDArray[np.float64]:
        """[N]: mean absolute difference from the seed input, in file values."""
        return self._columns["distance"]

    @property
    def stabilities(self) -> npt.NDArray[np.float64]:
        """[N]: share of replays that gave the commonest answer; 1 where the model is deterministic, and of seed inputs."""
        return self._columns["stability"]

    def seeds_of(self, positions: Positions) -> npt.NDArray[np.int64]:
        """int64 [n]: the seed inputs that entries came from."""
        found: npt.NDArray[np.int64] = self._columns["seed"][positions]
        return found

    def lengths(self, positions: Positions) -> npt.NDArray[np.int64]:
        """int64 [n]: natural steps in their recipes."""
        found: npt.NDArray[np.int64] = self._columns["length"][positions]
        return found

    def severities(self, positions: Positions) -> npt.NDArray[np.float64]:
        """float64 [n]: summed severity of the natural steps in their recipes."""
        found: npt.NDArray[np.float64] = self._columns["severity"][positions]
        return found

    @property
    def recipes(self) -> Sequence[tuple[Any, ...]]:
        """N recipes; a seed input's is empty."""
        return _Recipes(self, None)

    def recipes_of(self, positions: Positions) -> Sequence[tuple[Any, ...]]:
        """n recipes, looked up when one is asked for; what is asked for later is the same."""
        return _Recipes(self, np.asarray(positions, dtype=np.int64))

    def inputs(self, positions: Positions) -> np.ndarray:
        """[n, ...]: the entries' data, a new array."""
        positions = np.asarray(positions, dtype=np.int64)
        first = len(self.seeds)
        found: np.ndarray = self.seeds[np.minimum(positions, first - 1)]
        rows = np.flatnonzero(positions >= first)
        if len(rows):
            found[rows] = self._mutants[positions[rows] - first]
        return found

    # Growing.

    def set_margins(self, margins: np.ndarray) -> None:
        """Gives the seed inputs their margins, float [S]."""
        self._columns["margin"][: len(self.seeds)] = margins

    def add_all(
        self,
        mutants: np.ndarray,
        seeds: npt.NDArray[np.int64],
        recipes: Sequence[Sequence[Any]],
        *,
        lengths: npt.NDArray[np.int64],
        severities: npt.NDArray[np.float64],
        new_items: npt.NDArray[np.float64],
        margins: npt.NDArray[np.float64],
        open_: npt.NDArray[np.bool_],
        step: int,
        signatures: npt.NDArray[np.int64] | None = None,
        stabilities: npt.NDArray[np.float64] | None = None,
    ) -> None:
        """Keeps the valid mutants of a step that covered something first.

        Args:
            mutants: [n, ...] in the file dtype; copied.
            seeds: [n], positions of the seed inputs.
            recipes: n, each from the seed input.
            lengths: [n], natural steps in each recipe.
            severities: [n], their summed severity.
            new_items: [n], items that each covered first; of a statistic, that gain.
            margins: [n], see ``margins``.
            open_: [n], may it be mutated further?
            step: of the campaign.
            signatures: [n], see ``signatures``.
            stabilities: [n], see ``stabilities``; 1 where None.
        """
        count, before = len(mutants), len(self._made)
        if before + count > len(self._mutants):
            grown = np.empty((max(before + count, 2 * len(self._mutants)), *self._mutants.shape[1:]), dtype=self._mutants.dtype)
            grown[:before] = self._mutants[:before]
            self._mutants = grown
        self._mutants[before : before + count] = mutants
        self._made.extend(tuple(recipe) for recipe in recipes)
        self._columns.extend(
            count,
            seed=seeds,
            new=new_items,
            picks=0,
            margin=margins,
            open=open_,
            length=lengths,
            severity=severities,
            step=step,
            signature=0 if signatures is None else signatures,
            distance=_distances(mutants, self.seeds[seeds]),
            stability=1.0 if stabilities is None else stabilities,
        )

    def add(self, mutant: np.ndarray, seed: int, recipe: Sequence[Any], *, new_items: float, margin: float, open_: bool) -> None:
        """Keeps one valid mutant; see ``add_all``."""
        self.add_all(
            mutant[None],
            np.array([seed]),
            [recipe],
            lengths=np.array([len(recipe)]),
            severities=np.array([sum(float(one.severity) for one in recipe)]),
            new_items=np.array([new_items], dtype=np.float64),
            margins=np.array([margin]),
            open_=np.array([open_]),
            step=0,
        )

    def pick(self, count: int, random: np.random.Generator) -> np.ndarray:
        """int64 [count]: entries to mutate next, by promise; counts the picks."""
        chosen = draw(promise(self.new_items, self.picks, self.margins) * self.open, count, random)
        self.count_picks(chosen)
        return chosen

    def count_picks(self, positions: npt.NDArray[np.int64]) -> None:
        """Notes that entries were chosen, int64 [n]; one may stand there several times."""
        np.add.at(self._columns["picks"], positions, 1)

    def seed_of(self, position: int) -> int:
        """The seed input that an entry came from."""
        return int(self._columns["seed"][position])

    def save(self, folder: Path, seed_ids: Sequence[str]) -> None:
        """Writes ``corpus.npz`` (mutants and their seed input's position) and ``corpus.jsonl`` (their recipes, in the same order)."""
        first = len(self.seeds)
        np.savez_compressed(folder / "corpus.npz", x=self._mutants[: len(self._made)], seed=self._columns["seed"][first:])
        with (folder / "corpus.jsonl").open("w", encoding="utf-8") as file:
            for position in range(first, len(self)):
                new = float(self.new_items[position])
                row = {
                    "seed_id": seed_ids[self.seed_of(position)],
                    "new_items": int(new) if new.is_integer() else new,
                    "recipe": [step.to_json() for step in self._recipe(position)],
                }
                file.write(json.dumps(row, allow_nan=False) + "\n")

    def _recipe(self, position: int) -> tuple[Any, ...]:
        first = len(self.seeds)
        return () if position < first else self._made[position - first]


class _Recipes(Sequence[tuple[Any, ...]]):
    """The recipes of all entries, or of some positions."""

    def __init__(self, corpus: Corpus, positions: npt.NDArray[np.int64] | None) -> None:
        self._corpus = corpus
        self._positions = positions

    def __len__(self) -> int:
        return len(self._corpus) if self._positions is None else len(self._positions)

    @overload
    def __getitem__(self, row: int) -> tuple[Any, ...]: ...
    @overload
    def __getitem__(self, row: slice) -> tuple[tuple[Any, ...], ...]: ...
    def __getitem__(self, row: int | slice) -> Any:
        if isinstance(row, slice):
            return tuple(self[one] for one in range(*row.indices(len(self))))
        row = range(len(self))[row]
        return self._corpus._recipe(row if self._positions is None else int(self._positions[row]))


def _distances(mutants: np.ndarray, seeds: np.ndarray) -> npt.NDArray[np.float64]:
    """[n]: mean absolute differences."""
    apart = np.abs(np.subtract(mutants, seeds, dtype=np.float64))
    found: npt.NDArray[np.float64] = apart.reshape(len(mutants), -1).mean(axis=1) if len(mutants) else np.empty(0)
    return found
