"""The file that a coverage map is stored in. Does not import torch: whoever keeps a map need not understand it.

A zip archive, its members stored as they are:

* ``head.json``: the format's name and version, the gate's version, the digests of the model and of the profile set, and what every
  criterion holds: its options, its layers and their widths, its parts.
* one member a part, compressed by itself (``.gz`` or ``.bz2``, whichever is shorter): sets as portable Roaring bitmaps, named
  ``<criterion>/<part>.roaring``; everything else as NumPy's ``.npy``.

The kinds of parts:

* ``items``: a set of the numbers below ``size``. With ``besides: hit``, what it holds besides the set ``hit``: the numbers that ``hit``
  lacks, numbered anew in their order.
* ``truths``: truth values of a ``shape``, as the set of the places where they are true.
* ``codes``: a set of int64 numbers, rising, each less the one before. With ``besides: hit``, those that ``hit`` lacks.
* ``numbers``: an array of a ``dtype`` and ``shape``.
* ``value``: a plain value, in the head.

The same contents always make the same bytes, so two maps are equal where their files are.

A map may come from anybody. Nothing in it is unpickled, nothing is unpacked to more than the head says, the head can't say more than
``LARGEST`` bytes, and every set is checked number by number.
"""

from __future__ import annotations

import bz2
import io
import json
import math
import os
import re
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from gate.coverage.roaring import LARGEST_SIZE, longest, unpack
from gate.errors import CoverageMapError

__all__ = ["SEEDS_MAP", "Arrays", "MapContents", "check_parts", "read_map", "refused", "write_map"]

Arrays = dict[str, np.ndarray]

SEEDS_MAP = "seeds.map"  # in a run's folder campaign/: the seed inputs' coverage, from which every arm starts
FORMAT = "gate.coverage/1"
LARGEST = 4 << 30  # bytes that all parts together may come to in memory
_LONGEST_HEAD = 16 << 20  # bytes
_HEAD = "head.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+.-]{0,99}")
_PART = re.compile(r"[a-z][a-z0-9_]{0,49}")
_DTYPES = ("uint8", "int32", "int64", "float32", "float64")
_FIELDS = {
    "items": {"size"},
    "truths": {"shape"},
    "codes": {"shape"},
    "numbers": {"dtype", "shape"},
    "value": {"value"},
}
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip archive knows


@dataclass(frozen=True)
class MapContents:
    """What a map holds, as it is stored and sent.

    Attributes:
        model: digest.
        profile: digest.
        criteria: {name: description}, plain JSON values; the parts' kinds are explained above.
        arrays: of the parts that have one, by ``name/part``; sets are uint8 [bytes].
    """

    model: str
    profile: str
    criteria: Mapping[str, Any]
    arrays: Arrays


def refused(
    what: str, path: Path, hint: str = "The file is damaged or was changed; take it from the run's folder again."
) -> CoverageMapError:
    """The error that a map at ``path`` is refused with."""
    return CoverageMapError(f"The coverage map is refused. {what}", where=str(path), hint=hint)


def write_map(path: Path, contents: MapContents) -> None:
    """Writes a map; a file of that name is replaced once the new one is whole.

    Raises:
        ValueError: ``contents`` is not what ``MapContents`` says.
        OSError: the file can't be written.
    """
    check_parts(contents.criteria, contents.arrays)
    head = {
        "format": FORMAT,
        "gate": _gate_version(),
        "model": contents.model,
        "profile": contents.profile,
        "criteria": contents.criteria,
    }
    members = {_HEAD: json.dumps(head, indent=1, ensure_ascii=True, allow_nan=False).encode("ascii")}
    if len(members[_HEAD]) > _LONGEST_HEAD:
        raise ValueError(f"the description of a coverage map may have {_LONGEST_HEAD} bytes, this one has {len(members[_HEAD])}")
    for name, array in sorted(contents.arrays.items()):
        criterion, _, part = name.partition("/")
        if contents.criteria[criterion]["parts"][part]["kind"] in ("items", "truths"):
            shortest, ending = min(((_gzip(array.tobytes()), "gz"), (bz2.compress(array.tobytes()), "bz2")), key=lambda one: len(one[0]))
            members[f"{name}.roaring.{ending}"] = shortest
        else:
            # Measured numbers hardly get shorter however long one tries.
            members[f"{name}.npy.gz"] = _gzip(_npy(array), level=1)
    half = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with zipfile.ZipFile(half, "w", zipfile.ZIP_STORED) as archive:
            for name, data in members.items():
                info = zipfile.ZipInfo(name, _EPOCH)
                info.create_system, info.external_attr = 3, 0o644 << 16  # the same on every system
                archive.writestr(info, data)
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)


def read_map(path: Path, *, model: str | None, profile: str | None) -> MapContents:
    """Reads a map and checks all that can be checked without knowing the criteria.

    Args:
        path: of the file.
        model: digest of the model it must belong to; None takes any.
        profile: digest of the profile set it must belong to; None takes any.

    Raises:
        CoverageMapError: it can't be read, is damaged or of another version, or belongs to another model or profile set.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if not members or members[0].filename != _HEAD:
                raise ValueError("it does not begin with its head")
            head = _head(_member(archive, members[0], _LONGEST_HEAD), path)
            _check_belongs(head, path, model, profile)
            wanted = _wanted(head["criteria"])
            arrays = {}
            for member in members[1:]:
                stem, _, ending = member.filename.rpartition(".")
                name, _, form = stem.rpartition(".")
                if name not in wanted or name in arrays or (form == "roaring") != wanted[name].is_set or form not in ("roaring", "npy"):
                    raise ValueError("it holds a member that its head does not tell of")
                most = wanted[name].longest
                data = _expanded(_member(archive, member, most + most // 100 + 1000), ending, most)
                arrays[name] = np.frombuffer(data, dtype=np.uint8) if wanted[name].is_set else wanted[name].read(data)
        check_parts(head["criteria"], arrays)
    except OSError as error:
        raise refused(
            f"It can't be read: {error.strerror or error}.", path, "Check the path; a run writes campaign/coverage.map."
        ) from error
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, zlib.error, EOFError, ValueError, MemoryError) as error:
        raise refused(f"It is damaged: {error}.", path) from error
    return MapContents(head["model"], head["profile"], head["criteria"], arrays)


def check_parts(criteria: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Whether descriptions and arrays are what a map may hold and belong together, set by set and number by number.

    Raises:
        ValueError: what is wrong.
    """
    wanted = _wanted(criteria)
    if set(arrays) != set(wanted):
        raise ValueError(f"the parts {sorted(set(wanted) ^ set(arrays))[:3]} are described or there, and not both")
    for name, array in arrays.items():
        wanted[name].check(array)


@dataclass(frozen=True)
class _Wanted:
    """An array as it is described."""

    name: str
    kind: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]  # of a set, of what it unpacks to

    @property
    def is_set(self) -> bool:
        return self.kind in ("items", "truths")

    @property
    def longest(self) -> int:
        """Bytes it may have, uncompressed."""
        return longest(math.prod(self.shape)) if self.is_set else math.prod(self.shape) * self.dtype.itemsize + 10_000

    @property
    def memory(self) -> int:
        """Bytes it comes to in memory, once unpacked."""
        count = math.prod(self.shape)
        return count // 8 if self.kind == "items" else count * self.dtype.itemsize

    def check(self, array: np.ndarray) -> None:
        if self.is_set:
            if array.dtype != np.uint8 or array.ndim != 1 or len(array) > self.longest:
                raise ValueError(f"{self.name} is no set of its size")
            try:
                unpack(array.tobytes(), math.prod(self.shape))
            except ValueError as error:
                raise ValueError(f"{self.name} is no set: {error}") from error
        elif array.dtype != self.dtype or array.shape != self.shape:
            raise ValueError(f"{self.name} is {array.dtype} {list(array.shape)} and not {self.dtype} {list(self.shape)}")

    def read(self, data: bytes) -> np.ndarray:
        """The array of a ``.npy`` file."""
        stream = io.BytesIO(data)
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError(f"{self.name} is of another version of .npy")
        # Before anything is made that is as large as the file says.
        try:
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
        except (SyntaxError, tokenize.TokenError) as error:  # what a header that is no Python comes to in NumPy
            raise ValueError(f"{self.name} has no header of .npy") from error
        if shape != self.shape or fortran or dtype != self.dtype or len(data) - stream.tell() != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{self.name} is not what the head says")
        return np.frombuffer(data, dtype=dtype, offset=stream.tell()).reshape(shape)


def _wanted(criteria: Any) -> dict[str, _Wanted]:
    """The arrays that descriptions tell of, by ``name/part``. Raises ValueError where they can't be true."""
    wanted: dict[str, _Wanted] = {}
    _need(isinstance(criteria, Mapping), "the criteria are no table")
    neurons = 0
    for name, described in criteria.items():
        _need(isinstance(name, str) and _NAME.fullmatch(name), f"{str(name)[:100]!r} is no name for a criterion")
        _need(
            isinstance(described, Mapping) and set(described) == {"criterion", "options", "layers", "begun", "state", "parts"},
            f"{name} is not described as a criterion is",
        )
        _need(isinstance(described["criterion"], str) and isinstance(described["begun"], bool), f"{name} says not what it is")
        _need(all(isinstance(described[key], Mapping) for key in ("options", "layers", "parts")), f"the tables of {name} are none")
        _need(all(_whole(count) and count > 0 for count in described["layers"].values()), f"{name} has layers without a width")
        neurons += sum(described["layers"].values())
        for part, said in described["parts"].items():
            _need(isinstance(part, str) and _PART.fullmatch(part), f"{name} has a part {str(part)[:100]!r}")
            one = _described(f"{name}/{part}", said, described["parts"])
            if one is not None:
                wanted[one.name] = one
    memory = neurons + sum(one.memory for one in wanted.values())
    _need(memory <= LARGEST, f"it would come to {memory} bytes in memory, {LARGEST} are allowed")
    return wanted


def _described(name: str, said: Any, beside: Mapping[str, Any]) -> _Wanted | None:
    _need(isinstance(said, Mapping) and isinstance(said.get("kind"), str) and said["kind"] in _FIELDS, f"{name} is of no known kind")
    kind = said["kind"]
    fields = set(said) - {"kind"}
    if kind in ("items", "codes") and "besides" in fields:
        fields -= {"besides"}
        other = beside.get(said["besides"]) if isinstance(said["besides"], str) else None
        _need(isinstance(other, Mapping) and other.get("kind") == kind and "besides" not in other, f"{name} is besides what is not there")
    _need(fields == _FIELDS[kind], f"{name} is not described as {kind} are")
    if kind == "value":
        return None
    shape = [said["size"]] if kind == "items" else said["shape"]
    _need(isinstance(shape, list | tuple) and len(shape) <= 8 and all(map(_whole, shape)), f"{name} has no shape")
    _need(math.prod(shape) <= LARGEST_SIZE, f"{name} is too large")
    _need(kind != "codes" or len(shape) == 1, f"{name} has no shape")
    dtype = {"items": "bool", "truths": "bool", "codes": "int64"}.get(kind) or said["dtype"]
    _need(kind != "numbers" or dtype in _DTYPES, f"{name} is of no known dtype")
    return _Wanted(name, kind, np.dtype(dtype), tuple(shape))


def _check_belongs(head: Mapping[str, Any], path: Path, model: str | None, profile: str | None) -> None:
    for what, mine, wanted in (("model", head["model"], model), ("profile set", head["profile"], profile)):
        if wanted is not None and mine != wanted:
            raise refused(
                f"It belongs to another {what}: {mine[:100]!r}, wanted is {wanted!r}.",
                path,
                "Coverage of different models or profile sets can't be compared item by item; give a map of this one, or begin anew.",
            )


def _head(data: bytes, path: Path) -> dict[str, Any]:
    try:
        head = json.loads(data)
    except RecursionError as error:
        raise ValueError("its head is no JSON") from error
    form = head.get("format") if isinstance(head, dict) else None
    if form != FORMAT:
        raise refused(
            f"It is of format {str(form)[:100]!r}, this version of the gate reads {FORMAT!r}.",
            path,
            "Read it with the version of the gate that wrote it, or let this one make a new map.",
        )
    if set(head) != {"format", "gate", "model", "profile", "criteria"} or not all(
        isinstance(head[key], str) for key in ("model", "profile")
    ):
        raise ValueError("its head lacks something or holds more than it should")
    return dict(head)


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, most: int) -> bytes:
    """The bytes of a member, if it is stored as it is and has no more than ``most``."""
    # Members are compressed by themselves and not by the archive, whose reader sets no bound to what some methods unpack.
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size or info.flag_bits & 1:
        raise ValueError("a member is compressed by the archive or encrypted")
    if info.file_size > most:
        raise ValueError("a member is longer than it can be")
    return archive.read(info)


def _expanded(data: bytes, ending: str, most: int) -> bytes:
    """The uncompressed bytes, if they are no more than ``most``."""
    unpacker: Any
    if ending == "gz":
        unpacker = zlib.decompressobj(wbits=31)
    elif ending == "bz2":
        unpacker = bz2.BZ2Decompressor()
    else:
        raise ValueError("a member is compressed in no known way")
    try:
        expanded: bytes = unpacker.decompress(data, most + 1)
    except OSError as error:  # what bz2 says of data that is none
        raise ValueError("a member can't be unpacked") from error
    if len(expanded) > most or not unpacker.eof or unpacker.unused_data:
        raise ValueError("a member is longer or shorter than it should be")
    return expanded


def _gzip(data: bytes, *, level: int | None = None) -> bytes:
    """Without a time or a name in it; where no level is given, no repetition is looked for, as there is none in a bitmap."""
    strategy = zlib.Z_HUFFMAN_ONLY if level is None else zlib.Z_DEFAULT_STRATEGY
    packer = zlib.compressobj(6 if level is None else level, zlib.DEFLATED, 31, zlib.DEF_MEM_LEVEL, strategy)
    return packer.compress(data) + packer.flush()


def _npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.ascontiguousarray(array).reshape(array.shape), version=(1, 0), allow_pickle=False)
    return stream.getvalue()


def _gate_version() -> str:
    try:
        return version("fuzzgate")
    except PackageNotFoundError:
        return "unknown"


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_SIZE


def _need(holds: Any, wrong: str) -> None:
    if not holds:
        raise ValueError(wrong)
