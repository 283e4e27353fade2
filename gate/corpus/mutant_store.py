"""The mutants of a corpus: those used last in memory, all of them in the file."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gate.corpus.columns import Columns

__all__ = ["MutantStore"]


class MutantStore:
    """Hands out mutants by number, whole batches at once.

    At most ``memory`` bytes of them are held; where room is needed, those that were used longest ago make it and are read again when they
    are asked for. What is handed out never depends on which they were.

    Args:
        shape: of one mutant.
        dtype: of the files.
        read: [n] numbers -> [n, *shape], whatever was added; None: everything is held.
        memory: bytes; one mutant is held in any case.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: npt.DTypeLike,
        *,
        read: Callable[[npt.NDArray[np.int64]], np.ndarray] | None = None,
        memory: int | None = None,
    ) -> None:
        self._read = read
        self._held = np.empty((0, *shape), dtype=dtype)
        one = max(1, int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize)
        self._most = None if read is None or memory is None else max(1, memory // one)
        self._places = Columns(place=np.int64)  # of every mutant, where it is held; -1: nowhere
        self._used = np.zeros(0, dtype=np.int64)  # [places]: when last
        self._owner = np.full(0, -1, dtype=np.int64)  # [places]: whose mutant it is
        self._filled = 0  # places taken so far, from the first on
        self._now = 0

    def __len__(self) -> int:
        return len(self._places)

    @property
    def held(self) -> int:
        """Mutants in memory."""
        return self._filled

    def add(self, mutants: np.ndarray) -> None:
        """Takes copies of [n, ...]; they get the next numbers. With ``read``, it must find them already."""
        first, count = len(self), len(mutants)
        self._places.extend(count, place=-1)
        self._hold(np.arange(first, first + count), mutants)

    def take(self, numbers: npt.NDArray[np.int64]) -> np.ndarray:
        """[n, ...]: a new array; a number may stand there several times."""
        places = self._places["place"][numbers]
        lost = np.flatnonzero(places < 0)
        found: np.ndarray = self._held[places]
        self._now += 1
        self._used[places[places >= 0]] = self._now
        if len(lost):
            assert self._read is not None
            wanted, row = np.unique(numbers[lost], return_inverse=True)
            again = self._read(wanted)
            found[lost] = again[row]
            self._hold(wanted, again)
        return found

    def _hold(self, numbers: npt.NDArray[np.int64], mutants: np.ndarray) -> None:
        """Puts mutants into places, as many as there are: the last of them where there are too few."""
        self._now += 1
        if self._most is not None and len(numbers) > self._most:
            numbers, mutants = numbers[-self._most :], mutants[-self._most :]
        self._grow(self._filled + len(numbers))
        fresh = np.arange(self._filled, min(self._filled + len(numbers), len(self._held)))
        self._filled += len(fresh)
        missing = len(numbers) - len(fresh)
        if missing:
            oldest = np.argpartition(self._used[: self._filled - len(fresh)], missing - 1)[:missing]
            self._places["place"][self._owner[oldest]] = -1
            fresh = np.concatenate([fresh, oldest])
        self._held[fresh] = mutants
        self._owner[fresh] = numbers
        self._used[fresh] = self._now
        self._places["place"][numbers] = fresh

    def _grow(self, wanted: int) -> None:
        room = len(self._held)
        if wanted <= room or room == self._most:
            return
        room = max(wanted, 2 * room)
        if self._most is not None:
            room = min(room, self._most)
        held = np.empty((room, *self._held.shape[1:]), dtype=self._held.dtype)
        held[: self._filled] = self._held[: self._filled]
        used, owner = np.zeros(room, dtype=np.int64), np.full(room, -1, dtype=np.int64)
        used[: self._filled], owner[: self._filled] = self._used[: self._filled], self._owner[: self._filled]
        self._held, self._used, self._owner = held, used, owner
