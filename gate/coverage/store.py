"""Coverage maps as files: what criteria have learnt and covered, kept for another day and joined with what others have covered.

>>> save("coverage.map", {"kmnc": c}, model=digest, profile=other_digest)
>>> load("coverage.map", model=digest, profile=other_digest)["kmnc"].covered

What such a file holds, byte by byte, stands in ``map_file``; here the parts of a criterion's state become the parts of a file and back.
That goes by what a part is (items, truth values, codes, numbers), so that a new criterion needs nothing here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gate.coverage import criterion
from gate.coverage.base import Criterion
from gate.coverage.bits import Bits
from gate.coverage.combination import Combination
from gate.coverage.map_file import Arrays, MapContents, read_map, refused, write_map
from gate.coverage.patterns import Codes
from gate.coverage.roaring import pack, unpack
from gate.errors import GateError

__all__ = ["load", "merge", "packed", "restored", "save"]

_PLAIN = ("criterion", "options", "layers", "begun")


def save(path: str | Path, criteria: Mapping[str, Criterion], *, model: str, profile: str) -> None:
    """Writes a map; the same state always gives the same bytes. A file of that name is replaced once the new one is whole.

    Args:
        path: of the file.
        criteria: by any names of letters, digits, ``_``, ``+``, ``-`` and ``.``.
        model: digest of the model whose activations were counted.
        profile: digest of the profile set, and of whatever else says which activations these are.

    Raises:
        ValueError: a name that can't be one, or a combination (which is saved by its ``parts``).
        OSError: the file can't be written.
    """
    described, arrays = packed(criteria)
    write_map(Path(path), MapContents(model, profile, described, arrays))


def load(path: str | Path, *, model: str | None, profile: str | None) -> dict[str, Criterion]:
    """Reads a map.

    Args:
        path: of the file, which may come from anybody.
        model: digest of the model it must belong to; None takes any.
        profile: digest of the profile set it must belong to; None takes any.

    Returns:
        The criteria by name, on the CPU.

    Raises:
        CoverageMapError: it can't be read, is damaged or of another version, or belongs to another model or profile set.
    """
    return _unpacked(Path(path), read_map(Path(path), model=model, profile=profile))


def merge(paths: Iterable[str | Path], *, model: str | None, profile: str | None) -> dict[str, Criterion]:
    """Reads maps and joins them, as each criterion declares. All must belong to one model and one profile set, and hold the same criteria.

    Of items and patterns a map may be among them twice; of a statistic (see ``Merging.SUM``) it would count twice.

    Args:
        paths: of at least one file.
        model: digest of the model they must belong to; None: that of the first.
        profile: digest of the profile set; None: that of the first.

    Raises:
        CoverageMapError: as ``load``; or the maps don't belong together.
        ValueError: no files.
    """
    joined: dict[str, Criterion] | None = None
    for path in map(Path, paths):
        contents = read_map(path, model=model, profile=profile)
        model, profile = contents.model, contents.profile
        found = _unpacked(path, contents)
        if joined is None:
            joined = found
            continue
        if set(found) != set(joined):
            raise refused(
                f"It holds other criteria ({', '.join(sorted(found))}) than the first map ({', '.join(sorted(joined))}).",
                path,
                "Join maps that were made with the same settings.",
            )
        for name, one in found.items():
            try:
                joined[name].merge(one)
            except ValueError as error:
                raise refused(
                    f"It can't be joined with the others: {error}.", path, "Join maps that were made with the same settings."
                ) from error
    if joined is None:
        raise ValueError("no maps given")
    return joined


def restored(contents: MapContents, source: str) -> dict[str, Criterion]:
    """The criteria by name, on the CPU, of contents that were read or sent; ``source`` says in errors where they come from.

    Raises:
        CoverageMapError: what they say can't be true.
    """
    return _unpacked(Path(source), contents)


def packed(criteria: Mapping[str, Criterion]) -> tuple[dict[str, Any], Arrays]:
    """What a map holds of criteria, as it is stored and sent.

    Returns:
        {name: description}, plain JSON values; and the arrays it describes by ``name/part``, of which sets are Roaring bitmaps, uint8
        [bytes].

    Raises:
        ValueError: a combination.
    """
    described: dict[str, Any] = {}
    arrays: Arrays = {}
    for name, one in sorted(criteria.items()):
        if isinstance(one, Combination):
            raise ValueError(f"{name!r} is a combination: save its parts, save(path, combination.parts, ...)")
        state = one.state_dict()
        parts: dict[str, Any] = {}
        for key in one.merging:
            parts[key], array = _stored(one, key, state)
            if array is not None:
                arrays[f"{name}/{key}"] = array
        described[name] = {key: state[key] for key in _PLAIN} | {"state": state["format"], "parts": parts}
    return described, arrays


def _stored(one: Criterion, key: str, state: Mapping[str, Any]) -> tuple[dict[str, Any], np.ndarray | None]:
    """One part: what it is, and its array where it has one.

    Whatever a valid sample covers, any sample covers. So ``raw`` is stored without what ``hit`` holds, and its items are numbered anew
    among those that ``hit`` lacks, which are fewer and denser: the file is a third smaller for it.
    """
    value, kept = getattr(one, f"_{key}"), state[key]
    besides = {"besides": "hit"} if key == "raw" and isinstance(value, Bits | Codes) else {}
    if isinstance(value, Bits):
        bits = _truths(kept, value.size)
        if besides:
            bits = bits[~_truths(state["hit"], value.size)]
        return {"kind": "items", "size": len(bits), **besides}, _bytes(pack(bits))
    if isinstance(value, Codes):
        if besides:
            kept = kept[~torch.isin(kept, state["hit"])]
        # Each less the one before. Measured on sixty thousand codes, a 64-bit Roaring bitmap is longer: by a third where they are hashes,
        # by a tenth where they are small numbers.
        return {"kind": "codes", "shape": [len(kept)], **besides}, torch.diff(kept, prepend=kept.new_zeros(1)).numpy()
    if isinstance(kept, Tensor) and kept.dtype == torch.bool:
        return {"kind": "truths", "shape": list(kept.shape)}, _bytes(pack(kept.reshape(-1).numpy()))
    if isinstance(kept, Tensor):
        return {"kind": "numbers", "dtype": str(kept.dtype).removeprefix("torch."), "shape": list(kept.shape)}, kept.contiguous().numpy()
    return {"kind": "value", "value": kept}, None


def _unpacked(path: Path, contents: MapContents) -> dict[str, Criterion]:
    found: dict[str, Criterion] = {}
    for name, described in contents.criteria.items():
        try:
            one = criterion(described["criterion"], **described["options"])
            parts: dict[str, Any] = {}
            for key in sorted(described["parts"], key=lambda key: "besides" in described["parts"][key]):  # hit before raw
                parts[key] = _restored(described["parts"][key], contents.arrays.get(f"{name}/{key}"), parts)
            state = (
                {key: described[key] for key in _PLAIN}
                | {"format": described["state"]}
                | {key: _words(value) if described["parts"][key]["kind"] == "items" else value for key, value in parts.items()}
            )
            one.load_state_dict(state)
        except (
            ValueError,
            TypeError,
            LookupError,
            ArithmeticError,
            RuntimeError,
            MemoryError,
            GateError,
        ) as error:  # torch reports what is too large in its own way
            why = error.what if isinstance(error, GateError) else str(error)
            raise refused(f"What it says of {name!r} can't be true: {why}.", path) from error
        found[name] = one
    return found


def _restored(part: Mapping[str, Any], array: np.ndarray | None, known: Mapping[str, Any]) -> Any:
    """One part: of items bool [size], otherwise as it stands in a state."""
    if part["kind"] == "value":
        return part["value"]
    assert array is not None
    hit = known[part["besides"]] if "besides" in part else None
    if part["kind"] == "items":
        bits = unpack(array.tobytes(), part["size"])
        if hit is None:
            return bits
        room = ~hit
        if np.count_nonzero(room) != len(bits):
            raise ValueError("'hit' and 'raw' are of different sizes")
        both = hit.copy()
        both[np.flatnonzero(room)[bits]] = True  # bits are few as a rule: twice as fast as both[room] = bits
        return both
    if part["kind"] == "truths":
        return torch.from_numpy(unpack(array.tobytes(), math.prod(part["shape"]))).reshape(part["shape"])
    numbers = torch.from_numpy(array.copy())
    if part["kind"] == "codes":
        numbers = numbers.cumsum(0)
        return numbers if hit is None else torch.cat([numbers, hit]).sort().values
    return numbers


def _truths(words: Tensor, size: int) -> np.ndarray:
    """bool [size], from the int32 words of ``Bits``."""
    return np.unpackbits(words.numpy().view(np.uint8), bitorder="little", count=size).view(bool)


def _words(bits: np.ndarray) -> Tensor:
    """The int32 words of ``Bits``, from bool [size]."""
    filled = np.zeros(-(-len(bits) // 32) * 4, dtype=np.uint8)
    filled[: -(-len(bits) // 8)] = np.packbits(bits, bitorder="little")
    return torch.from_numpy(filled.view(np.int32))


def _bytes(data: bytes) -> np.ndarray:
    return np.frombuffer(data, dtype=np.uint8)
