"""Reads arrays out of ``.npz`` files that nobody has vouched for: no pickles, and no more bytes than announced and allowed."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gate.domains.image.image_set import writable_text
from gate.errors import DataError

__all__ = ["MAX_BYTES", "read_arrays"]

MAX_BYTES = 8 << 30  # of one array in memory

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_arrays(path: Path, wanted: Collection[str]) -> dict[str, npt.NDArray[Any]]:
    """The arrays of these names that the file holds; others are not read.

    Raises:
        DataError: no ``.npz``, broken, larger than announced or allowed, or with Python objects inside (which are never unpickled).
    """
    where = writable_text(str(path))
    try:
        with zipfile.ZipFile(path) as archive:
            members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
            return {name: _array(archive, members[name], where) for name in wanted if name in members}
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError("There is no such file.", where=where, hint="Check the path; one in gate.yaml is relative to that file.") from error
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"The file can't be read as .npz: {reason}.", where=where, hint="Write it with numpy.savez_compressed.") from error


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, where: str) -> npt.NDArray[Any]:
    name = member.filename.removesuffix(".npy")
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        if version not in _HEADERS:
            raise ValueError(f"array {name!r} has format version {version}")
        shape, fortran, dtype = _HEADERS[version](stream)
        if dtype.hasobject:
            raise DataError(
                f"The array {name!r} holds Python objects; they are pickles, which can run any program, and are not read.",
                where=where,
                hint="Save plain numbers, and names with .astype(str).",
            )
        if any(side < 0 for side in shape):
            raise ValueError(f"array {name!r} has the shape {shape}")
        size = math.prod(shape) * dtype.itemsize
        if size > MAX_BYTES:
            raise DataError(
                f"The array {name!r} needs {size / 2**30:.1f} GiB; {MAX_BYTES >> 30} GiB are allowed.",
                where=where,
                hint="Use fewer samples.",
            )
        # The archive's own announcement bounds what is unpacked, the header what is kept.
        data = stream.read(size)
        if len(data) != size or stream.read(1):
            raise ValueError(f"array {name!r} has another length than its header says")
    array: npt.NDArray[Any] = np.ndarray(shape, dtype, buffer=bytearray(data), order="F" if fortran else "C")
    return array
