"""The corpus: seed inputs and the valid mutants that covered something new, each with the recipe that made it from its seed input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from gate.corpus.columns import Columns
from gate.corpus.corpus_file import CorpusWriter, Entries
from gate.corpus.mutant_store import MutantStore

__all__ = ["Corpus"]

Positions = npt.NDArray[np.int64] | Sequence[int]


class Corpus:
    """Owns the entries. Lives in the supervisor.

    The first S entries are the seed inputs, in their order. An entry is named by its position, which never changes, as what it holds
    never does (data, seed input, recipe); so whoever has a position may look at it later. What is known of an entry stands in columns,
    [N] each, which are read and changed in place.

    **Deduplicated by coverage signature.** An entry's signature is a hash of the items that it covers in the guiding criteria and no seed
    input does. An entry is kept because it covers an item first, so of two entries that cover the same items the second is never kept
    to begin with. But a later mutant may cover just what an entry covers and be simpler: made by fewer operators, or by as many and
    nearer its seed input. Then it is kept and the entry is closed: of all mutants that cover the same items the corpus goes on with the
    simplest that was seen (``simplify``).

    Args:
        seeds: [S, ...], the seed inputs in the file dtype.
        file: where every entry is written as it is added; without one, nothing is.
        seed_ids: S identities of the seed inputs, which the file names them by.
        memory: bytes of mutants held in memory where there is a file to read the others from; None: all.
    """

    def __init__(
        self, seeds: np.ndarray, *, file: CorpusWriter | None = None, seed_ids: Sequence[str] = (), memory: int | None = None
    ) -> None:
        self.seeds = seeds
        self.file = file
        self._seed_ids = tuple(seed_ids)
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
        self._mutants = MutantStore(seeds.shape[1:], seeds.dtype, read=None if file is None else file.read, memory=memory)
        self._alike: dict[int, int] = {}  # signature -> the entry that stands for it

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def seed_ids(self) -> tuple[str, ...]:
        """S identities of the seed inputs; their positions where none were given."""
        return self._seed_ids or tuple(map(str, range(len(self.seeds))))

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
            found[rows] = self._mutants.take(positions[rows] - first)
        return found

    @property
    def mutants_held(self) -> int:
        """Mutants in memory."""
        return self._mutants.held

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
        count = len(mutants)
        if not count:
            return
        same = np.zeros(count, dtype=np.int64) if signatures is None else signatures
        stable = np.ones(count) if stabilities is None else stabilities
        self._keep(mutants, seeds, recipes, lengths, severities, new_items, margins, open_, stable, same, np.full(count, -1), step)

    def simplify(
        self,
        mutants: np.ndarray,
        seeds: npt.NDArray[np.int64],
        recipes: Sequence[Sequence[Any]],
        *,
        lengths: npt.NDArray[np.int64],
        severities: npt.NDArray[np.float64],
        margins: npt.NDArray[np.float64],
        open_: npt.NDArray[np.bool_],
        step: int,
        signatures: npt.NDArray[np.int64],
    ) -> int:
        """Lets valid mutants that covered nothing first stand for entries that cover the same items, where they are simpler.

        Simpler is, in this order: may be mutated further; fewer steps; nearer the seed input. The new entry takes over what is known of
        the old one (new items, picks, stability); the old one is closed.

        Args:
            mutants: [n, ...] in the file dtype, and so on, see ``add_all``.

        Returns:
            How many entries have been replaced.
        """
        known = [self._alike.get(one, -1) if one else -1 for one in signatures.tolist()]
        rows = [row for row, entry in enumerate(known) if entry >= 0]
        if not rows:
            return 0
        best: dict[int, tuple[tuple[bool, int, float], int]] = {}
        apart = _distances(mutants[rows], self.seeds[seeds[rows]])
        for row, distance in zip(rows, apart.tolist(), strict=True):
            mine = (not bool(open_[row]), len(recipes[row]), float(distance))
            entry = known[row]
            key = best[entry][0] if entry in best else self._simplicity(entry)
            if mine < key:
                best[entry] = (mine, row)
        if not best:
            return 0
        old = np.array(sorted(best), dtype=np.int64)
        chosen = np.array([best[entry][1] for entry in old.tolist()], dtype=np.int64)
        made = [tuple(recipes[row]) for row in chosen.tolist()]
        self._keep(
            mutants[chosen],
            seeds[chosen],
            made,
            lengths[chosen],
            severities[chosen],
            self.new_items[old],
            margins[chosen],
            open_[chosen],
            self.stabilities[old],
            signatures[chosen],
            old,
            step,
        )
        self._columns["picks"][-len(old) :] = self.picks[old]
        self.open[old] = False
        return len(old)

    def knows(self, signatures: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """bool [n]: whether an entry has this signature."""
        return np.fromiter((one in self._alike for one in signatures.tolist()), dtype=np.bool_, count=len(signatures))

    def _simplicity(self, entry: int) -> tuple[bool, int, float]:
        return not bool(self.open[entry]), len(self._recipe(entry)), float(self.distances[entry])

    def _keep(
        self,
        mutants: np.ndarray,
        seeds: npt.NDArray[np.int64],
        recipes: Sequence[Sequence[Any]],
        lengths: npt.NDArray[np.int64],
        severities: npt.NDArray[np.float64],
        new_items: npt.NDArray[np.float64],
        margins: npt.NDArray[np.float64],
        open_: npt.NDArray[np.bool_],
        stabilities: npt.NDArray[np.float64],
        signatures: npt.NDArray[np.int64],
        replaces: npt.NDArray[np.int64],
        step: int,
    ) -> None:
        count, first = len(mutants), len(self)
        distances = _distances(mutants, self.seeds[seeds])
        made = [tuple(recipe) for recipe in recipes]
        if self.file is not None:
            entries = Entries(
                tuple(self._seed_ids[seed] for seed in seeds.tolist()),
                tuple([one.to_json() for one in recipe] for recipe in made),
                new_items=new_items,
                margins=margins,
                open=open_,
                distances=distances,
                stabilities=stabilities,
                signatures=signatures,
                replaces=np.where(replaces < 0, -1, replaces - len(self.seeds)),
            )
            self.file.append(entries, mutants, step=step)
        self._mutants.add(mutants)
        self._made.extend(made)
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
            signature=signatures,
            distance=distances,
            stability=stabilities,
        )
        self._alike.update((one, first + row) for row, one in enumerate(signatures.tolist()) if one)

    def count_picks(self, positions: npt.NDArray[np.int64]) -> None:
        """Notes that entries were chosen, int64 [n]; one may stand there several times."""
        np.add.at(self._columns["picks"], positions, 1)

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
