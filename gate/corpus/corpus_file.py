"""The file that a corpus is stored in: one file without names or links in it, only ever appended to, and readable at any moment.

A line ``gate.corpus/1``, then frames. A frame is its length (4 bytes, big-endian), a checksum of the length (4 bytes), so many bytes, and
a checksum of them (16 bytes). A checksum is the beginning of the SHA-256 of the checksum of the frame before (zeros before the first) and
of what it stands for. So no frame can be changed, taken out or moved without the next one telling. That guards against damage and
tinkering by hand, not against somebody who computes the checksums anew: what is read is never believed further than it is checked.

* The first frame is the head, JSON: the shape, dtype and value range of an input, and the digest of the set that the seed inputs are of.
* Every other frame holds the entries that one step of the campaign added: the length of a table (4 bytes), the table (JSON, zlib), and the
  mutants one behind the other, each as ``packing`` makes it. The table, by column: ``step`` (one number), ``seed`` (the seed input's
  identity), ``recipe`` (steps with explicit parameters), ``new`` (items it covered first), ``margin``, ``open`` (whether it may be mutated
  further), ``distance``, ``stability`` and ``signature`` (see ``corpus``), ``replaces`` (the entry, counted from 0 in this file, that it
  stands for from now on; -1 for none), ``size`` (of each mutant, in bytes).

What a process that is killed had written is there. What a machine that loses its power had written is there up to the last ``SYNC`` bytes:
the file is synchronised with the disk whenever so many were added, and when it is closed. A last frame that is not whole is cut off by
whoever reads the file, and said; anything else that is wrong makes the file be refused.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import stat
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gate.corpus.columns import Columns
from gate.corpus.packing import pack, unpack
from gate.errors import DataError, OutputError

__all__ = ["CORPUS", "SYNC", "CorpusFile", "CorpusHead", "CorpusWriter", "Entries", "read_corpus"]

CORPUS = "corpus.bin"  # its name in a run's folder campaign/
SYNC = 8 << 20  # bytes that may be lost with the machine's power
_MAGIC = b"gate.corpus/1\n"
_LENGTH = struct.Struct(">I")
_CHECK = 16
_LENGTH_CHECK = 4
_ONE_FRAME = 64 << 20  # bytes of mutants, unpacked, that a frame holds at most, if it holds more than one
_LONGEST_FRAME = 1 << 30
_LONGEST_HEAD = 1 << 16
_LARGEST_SAMPLE = 1 << 29  # bytes
_LONGEST_TABLE = 1 << 28  # bytes of JSON that one frame's table may unpack to
_LONGEST_TABLES = 1 << 31  # ... and all of them together
_MOST_ENTRIES = 1 << 24
_MOST_STEPS = 64  # in one recipe
_HINT = "Give a run folder, or a corpus file that the gate wrote and nobody changed."
_COLUMNS = ("seed", "recipe", "new", "margin", "open", "distance", "stability", "signature", "replaces", "size")


@dataclass(frozen=True)
class CorpusHead:
    """What all entries of a file share."""

    shape: tuple[int, ...]  # of one input
    dtype: str  # uint8 or float32
    value_range: tuple[float, float]
    seeds: str  # digest of the set that the seed inputs are of

    @property
    def sample(self) -> int:
        """Bytes of one input."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, eq=False)
class Entries:
    """N entries by column, as they are stored, without their mutants."""

    seed_ids: tuple[str, ...]
    recipes: tuple[list[Any], ...]  # JSON values
    new_items: npt.NDArray[np.float64]
    margins: npt.NDArray[np.float64]
    open: npt.NDArray[np.bool_]
    distances: npt.NDArray[np.float64]
    stabilities: npt.NDArray[np.float64]
    signatures: npt.NDArray[np.int64]
    replaces: npt.NDArray[np.int64]  # -1: none

    def __len__(self) -> int:
        return len(self.seed_ids)

    def rows(self, rows: npt.NDArray[np.int64]) -> Entries:
        """Some of the entries, in this order; what they replace is left as it is."""
        return Entries(
            tuple(self.seed_ids[row] for row in rows.tolist()),
            tuple(self.recipes[row] for row in rows.tolist()),
            self.new_items[rows],
            self.margins[rows],
            self.open[rows],
            self.distances[rows],
            self.stabilities[rows],
            self.signatures[rows],
            self.replaces[rows],
        )


class CorpusWriter:
    """Appends to a corpus file and reads from it what it has written. One process and one thread at a time.

    Args:
        path: of the file; one that is there is replaced.
        head: what all entries share.

    Raises:
        OutputError: the file can't be written.
    """

    def __init__(self, path: Path, head: CorpusHead) -> None:
        self.path = path
        self.head = head
        self._check = bytes(_CHECK)
        self._unsynced = 0
        self._places = Columns(at=np.int64, size=np.int64)  # of each mutant in the file
        try:
            path.unlink(missing_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise self._failed(error) from error
        self._end = 0
        said = {"shape": list(head.shape), "dtype": head.dtype, "value_range": list(head.value_range), "seeds": head.seeds}
        self._write(_MAGIC + self._framed(_json(said)))

    def append(self, entries: Entries, mutants: np.ndarray, *, step: int) -> None:
        """Adds the entries of one step; ``mutants`` is [N, *shape] in the file dtype.

        Raises:
            OutputError: they can't be written.
        """
        rows = max(1, _ONE_FRAME // max(1, self.head.sample))
        for start in range(0, len(entries), rows):
            part = slice(start, start + rows)
            packed = pack(mutants[part])
            sizes = np.fromiter(map(len, packed), dtype=np.int64, count=len(packed))
            table = {
                "step": step,
                "seed": entries.seed_ids[part],
                "recipe": entries.recipes[part],
                "new": entries.new_items[part].tolist(),
                "margin": entries.margins[part].tolist(),
                "open": entries.open[part].tolist(),
                "distance": entries.distances[part].tolist(),
                "stability": entries.stabilities[part].tolist(),
                "signature": entries.signatures[part].tolist(),
                "replaces": entries.replaces[part].tolist(),
                "size": sizes.tolist(),
            }
            said = zlib.compress(_json(table))
            first = self._end + 2 * _LENGTH.size + _LENGTH_CHECK + len(said)
            self._write(self._framed(b"".join((_LENGTH.pack(len(said)), said, *packed))))
            self._places.extend(len(packed), at=first + np.cumsum(sizes) - sizes, size=sizes)

    def read(self, numbers: npt.NDArray[np.int64]) -> np.ndarray:
        """[n, *shape]: mutants by their number in the file, counted from 0.

        Raises:
            OutputError: they can't be read back.
        """
        try:
            return _read(self._file, self._places["at"][numbers], self._places["size"][numbers], self.head)
        except (OSError, ValueError) as error:
            raise OutputError(
                f"The corpus can't be read back: {getattr(error, 'strerror', None) or error}.",
                where=str(self.path),
                hint="Leave the run's folder alone while the gate runs.",
            ) from error

    def close(self) -> None:
        """Synchronises the file with the disk and closes it; nothing can be read or appended any more.

        Raises:
            OutputError: the disk refuses.
        """
        if self._file < 0:
            return
        try:
            os.fsync(self._file)
        except OSError as error:
            raise self._failed(error) from error
        finally:
            os.close(self._file)
            self._file = -1

    def _framed(self, data: bytes) -> bytes:
        length = _LENGTH.pack(len(data))
        check = _checksum(self._check, length)[:_LENGTH_CHECK]
        self._check = _checksum(self._check, data)
        return b"".join((length, check, data, self._check))

    def _write(self, data: bytes) -> None:
        try:
            left = memoryview(data)
            while left:
                left = left[os.pwrite(self._file, left, self._end + len(data) - len(left)) :]
            self._end += len(data)
            self._unsynced += len(data)
            if self._unsynced >= SYNC:
                os.fsync(self._file)
                self._unsynced = 0
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> OutputError:
        return OutputError(
            f"The corpus can't be written: {error.strerror or error}.", where=str(self.path), hint="Make room, or give another --out."
        )


@dataclass(frozen=True, eq=False)
class CorpusFile:
    """A corpus file that was read and checked; the mutants stay in the file, which is kept open, until they are asked for."""

    path: Path
    head: CorpusHead
    entries: Entries
    steps: npt.NDArray[np.int64]  # [N]: the campaign's step that each was added in
    cut: int  # bytes of a last frame that is not whole
    size: int  # of the file, in bytes
    check: str  # the last checksum: the same for the same content
    _file: io.FileIO
    _at: npt.NDArray[np.int64]
    _sizes: npt.NDArray[np.int64]

    @property
    def current(self) -> npt.NDArray[np.int64]:
        """Rising numbers of the entries that no later one replaces."""
        stays = np.ones(len(self.entries), dtype=np.bool_)
        stays[self.entries.replaces[self.entries.replaces >= 0]] = False
        return np.flatnonzero(stays)

    def mutants(self, numbers: npt.NDArray[np.int64]) -> np.ndarray:
        """[n, *shape] in the file dtype, by number.

        Raises:
            DataError: the file can't be read, or what it holds is no mutant.
        """
        try:
            return _read(self._file.fileno(), self._at[numbers], self._sizes[numbers], self.head)
        except (OSError, ValueError) as error:
            raise refused(str(getattr(error, "strerror", None) or error), self.path) from error


def read_corpus(path: Path) -> CorpusFile:
    """Reads a corpus file, which may come from anybody, and checks everything but the mutants, which are checked when they are asked for.

    Raises:
        DataError: it can't be read, is no corpus file, is damaged or was changed, or says more than can be.
    """
    try:
        return _Reader(_opened(path), path).read()
    except OSError as error:
        raise refused(f"it can't be read ({error.strerror or error})", path) from error
    except (ValueError, RecursionError, zlib.error, MemoryError) as error:
        raise refused(str(error) or type(error).__name__, path) from error


def refused(why: str, path: Path) -> DataError:
    """The error that a file is refused with."""
    return DataError(f"The corpus is refused: {why}.", where=str(path), hint=_HINT)


class _Reader:
    """Reads frame by frame. Raises ValueError where the file can't be what it says."""

    def __init__(self, file: io.FileIO, path: Path) -> None:
        self._open, self._file, self._path = file, file.fileno(), path
        self._size = os.fstat(self._file).st_size
        self._at = 0
        self._check = bytes(_CHECK)
        self._tables = 0  # bytes of JSON until now

    def read(self) -> CorpusFile:
        if self._bytes(len(_MAGIC)) != _MAGIC:
            raise ValueError("it is no corpus file of this version of the gate")
        first = self._frame()
        if first is None:
            raise ValueError("its head is not whole")
        head = _head(first)
        columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
        steps: list[int] = []
        places: list[npt.NDArray[np.int64]] = []
        while (data := self._frame()) is not None:
            table, offset = self._table(data)
            count = _check_table(table, len(steps))
            sizes = np.array(table["size"], dtype=np.int64)
            if offset + int(sizes.sum()) != len(data):
                raise ValueError("the mutants of a frame do not fill it")
            places.append(self._at - _CHECK - len(data) + offset + np.cumsum(sizes) - sizes)
            for name in _COLUMNS:
                columns[name].extend(table[name])
            steps.extend([table["step"]] * count)
        entries = Entries(
            tuple(columns["seed"]),
            tuple(columns["recipe"]),
            np.array(columns["new"], dtype=np.float64),
            np.array(columns["margin"], dtype=np.float64),
            np.array(columns["open"], dtype=np.bool_),
            np.array(columns["distance"], dtype=np.float64),
            np.array(columns["stability"], dtype=np.float64),
            np.array(columns["signature"], dtype=np.int64),
            np.array(columns["replaces"], dtype=np.int64),
        )
        at = np.concatenate(places) if places else np.zeros(0, dtype=np.int64)
        sizes = np.array(columns["size"], dtype=np.int64)
        numbers = np.array(steps, dtype=np.int64)
        cut, check = self._size - self._at, self._check.hex()
        return CorpusFile(self._path, head, entries, numbers, cut, self._size, check, self._open, at, sizes)

    def _bytes(self, count: int) -> bytes:
        data = os.pread(self._file, count, self._at)
        self._at += len(data)
        return data

    def _frame(self) -> bytes | None:
        """The next frame; None at the end, or where only a part of one, or room for one that was never written, is left."""
        start = self._at
        said = self._bytes(_LENGTH.size + _LENGTH_CHECK)
        if len(said) == _LENGTH.size + _LENGTH_CHECK:
            if said[_LENGTH.size :] != _checksum(self._check, said[: _LENGTH.size])[:_LENGTH_CHECK]:
                self._cut(start)
                return None
            (length,) = _LENGTH.unpack(said[: _LENGTH.size])
            if length > _LONGEST_FRAME or (start == len(_MAGIC) and length > _LONGEST_HEAD):
                raise ValueError("a part of it is longer than it can be")
            if length <= self._size - self._at - _CHECK:
                data, check = self._bytes(length), self._bytes(_CHECK)
                if check == _checksum(self._check, data):
                    self._check = check
                    return data
                self._cut(start)
                return None
        self._at = start
        return None

    def _cut(self, start: int) -> None:
        """Cuts a frame off that begins at ``start``, if nothing but zeros follows: room made before power was lost."""
        self._at, at = start, self._at - 1  # at least the last byte was never written
        while data := os.pread(self._file, 1 << 20, at):
            if data.strip(b"\0"):
                raise ValueError("it is damaged or was changed")
            at += len(data)

    def _table(self, data: bytes) -> tuple[dict[str, Any], int]:
        """The table of a frame, and where its mutants begin."""
        if len(data) < _LENGTH.size:
            raise ValueError("a frame without a table")
        (length,) = _LENGTH.unpack(data[: _LENGTH.size])
        end = _LENGTH.size + length
        if end > len(data):
            raise ValueError("a table that is longer than its frame")
        unpacker = zlib.decompressobj()
        most = min(_LONGEST_TABLE, _LONGEST_TABLES - self._tables)
        text = unpacker.decompress(data[_LENGTH.size : end], most + 1)
        if len(text) > most or not unpacker.eof or unpacker.unused_data:
            raise ValueError("a table that is larger than it can be")
        self._tables += len(text)
        table = json.loads(text, parse_constant=_no_constant)
        if not isinstance(table, dict):
            raise ValueError("a table that is none")
        return table, end


def _opened(path: Path) -> io.FileIO:
    """A plain file; anything else might never end."""
    file = io.FileIO(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise ValueError("it is no plain file")
    return file


def _read(file: int, at: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], head: CorpusHead) -> np.ndarray:
    parts = [os.pread(file, size, place) for place, size in zip(at.tolist(), sizes.tolist(), strict=True)]
    return unpack(parts, head.shape, head.dtype)


def _checksum(before: bytes, data: bytes) -> bytes:
    return hashlib.sha256(before + data).digest()[:_CHECK]


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} where a number should be")


def _head(data: bytes) -> CorpusHead:
    said = json.loads(data, parse_constant=_no_constant)
    _need(isinstance(said, dict) and set(said) == {"shape", "dtype", "value_range", "seeds"}, "its head lacks something or has more")
    shape, limits = said["shape"], said["value_range"]
    _need(
        isinstance(shape, list) and 1 <= len(shape) <= 8 and all(_whole(n) and 0 < n < 1 << 31 for n in shape), "its inputs have no shape"
    )
    _need(said["dtype"] in ("uint8", "float32"), "its inputs are of no known dtype")
    _need(isinstance(limits, list) and len(limits) == 2 and all(map(_number, limits)) and limits[0] < limits[1], "its values have no range")
    _need(isinstance(said["seeds"], str) and len(said["seeds"]) <= 200, "it does not say which seed inputs it is of")
    head = CorpusHead(tuple(shape), said["dtype"], (float(limits[0]), float(limits[1])), said["seeds"])
    _need(head.sample <= _LARGEST_SAMPLE, "its inputs are larger than can be")
    return head


def _check_table(table: Mapping[str, Any], before: int) -> int:
    """How many entries a table has, after ``before`` of them."""
    _need(set(table) == {"step", *_COLUMNS} and _whole(table["step"], least=-1), "a table lacks something or has more")
    _need(all(isinstance(table[name], list) for name in _COLUMNS), "a table without columns")
    count = len(table["seed"])
    _need(count > 0 and all(len(table[name]) == count for name in _COLUMNS), "a table with columns of different lengths")
    _need(before + count <= _MOST_ENTRIES, f"it has more than {_MOST_ENTRIES:,} entries")
    _need(all(isinstance(name, str) and len(name) <= 200 for name in table["seed"]), "an entry without a seed input")
    _need(all(isinstance(recipe, list) and len(recipe) <= _MOST_STEPS for recipe in table["recipe"]), "an entry without a recipe")
    _need(all(_number(value) and value >= 0 for value in table["new"]), "an entry that covered less than nothing")
    _need(all(_number(value) and -1 <= value <= 1 for value in table["margin"]), "a margin that can't be")
    _need(all(isinstance(value, bool) for value in table["open"]), "an entry that is neither open nor closed")
    _need(all(_number(value) and value >= 0 for value in table["distance"]), "a distance that can't be")
    _need(all(_number(value) and 0 <= value <= 1 for value in table["stability"]), "a stability that can't be")
    _need(all(_whole(value, least=-(1 << 63)) for value in table["signature"]), "a signature that is no number")
    _need(
        all(_whole(value, least=-1) and value < before + row for row, value in enumerate(table["replaces"])),
        "an entry that replaces what comes later",
    )
    _need(all(_whole(value, least=1) and value <= _LONGEST_FRAME for value in table["size"]), "a mutant without a size")
    return count


def _need(holds: bool, wrong: str) -> None:
    if not holds:
        raise ValueError(wrong)


def _whole(value: Any, *, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 1 << 63


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300
