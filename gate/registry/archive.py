"""A folder as one file, and back: a run has thousands of small files, and a server takes its time over each.

Unpacking trusts nothing: names that leave the folder, links, repeated names and sizes beyond the limits are refused before anything is
written, so that an archive is taken whole or not at all.
"""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from gate.errors import DataError
from gate.registry.copy import plain_relative

__all__ = ["DEFECTS", "DEFECTS_ARCHIVE", "pack", "unpack"]

DEFECTS = "defects"  # of a run folder
DEFECTS_ARCHIVE = "defects.zip"  # what it travels as

MAX_FILES = 1_000_000
MAX_BYTES = 8 << 30  # unpacked
MAX_RATIO = 200  # unpacked to packed, for members over a mebibyte: pictures hardly shrink at all


def pack(folder: Path, archive: Path, names: Collection[str]) -> int:
    """Writes every ordinary file of these subfolders of ``folder`` into a zip, sorted, with a fixed date; returns how many there were."""
    count = 0
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(path for name in names if not (folder / name).is_symlink() for path in (folder / name).rglob("*")):
            if path.is_file() and not path.is_symlink():
                # Pictures and npz files are compressed already.
                kind = zipfile.ZIP_STORED if path.suffix in (".png", ".npz") else zipfile.ZIP_DEFLATED
                file.writestr(zipfile.ZipInfo(path.relative_to(folder).as_posix()), path.read_bytes(), kind)
                count += 1
    return count


def unpack(archive: Path, into: Path) -> None:
    """Unpacks what ``pack`` wrote.

    Raises:
        DataError: the archive is damaged or unsafe; nothing has been written then.
    """
    where = str(archive)
    try:
        with zipfile.ZipFile(archive) as file:
            members = file.infolist()
            _check(members, where)
            damaged = file.testzip()
            if damaged is not None:
                raise DataError(
                    f"The archive is damaged at {damaged!r}.",
                    where=where,
                    hint="Give the folder of that run, or run the gate again to have a new record.",
                )
            for member in members:
                target = into / member.filename
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                target.write_bytes(file.read(member))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise DataError(f"The archive can't be read: {error}.", where=where, hint="Give the output folder of the run instead.") from error


def _check(members: list[zipfile.ZipInfo], where: str) -> None:
    hint = "Don't use this archive; find out who wrote it."
    names = [member.filename for member in members]
    if len(members) > MAX_FILES or sum(member.file_size for member in members) > MAX_BYTES:
        raise DataError("The archive unpacks to more than is allowed.", where=where, hint=hint)
    parents = {parent.as_posix() for name in names for parent in PurePosixPath(name).parents}
    if len(set(names)) != len(names) or parents.intersection(names):
        raise DataError("The archive names a file twice.", where=where, hint=hint)
    for member in members:
        kind = stat.S_IFMT(member.external_attr >> 16)
        if member.is_dir() or not plain_relative(member.filename) or kind not in (0, stat.S_IFREG):
            raise DataError(f"The archive holds {member.filename!r}, which is no plain file inside it.", where=where, hint=hint)
        if member.file_size > 1 << 20 and member.file_size > MAX_RATIO * max(member.compress_size, 1):
            raise DataError(f"The archive's {member.filename!r} unpacks to far more than it should.", where=where, hint=hint)
