"""The digest of a folder: one SHA-256 over a sorted manifest of its files, so that a verdict belongs to exact bytes.

Canonical form, for other programs that want to recompute it. The text starts with the line ``gate-manifest/1``; one line for each
regular file follows, in rising order of its path's bytes, each ending in one line feed (0x0A)::

    <sha256 of the content, 64 lower-case hex digits> SPACE <size in bytes, decimal> SPACE <path>

The path is relative to the folder and uses ``/``. Its bytes stand as the file system has them (UTF-8 on Linux, not normalised), except
that backslash, line feed and carriage return are written as ``\\\\``, ``\\n`` and ``\\r``; the order is that of the unescaped bytes. Empty
folders, modes, owners and times do not count. The digest is ``sha256:`` and the hex SHA-256 of that text.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from gate.errors import ModelError

__all__ = ["ManifestEntry", "canonical_text", "digest", "manifest"]

HEADER = b"gate-manifest/1\n"
_BLOCK = 1 << 20


@dataclass(frozen=True)
class ManifestEntry:
    """One file: its path relative to the folder (``/`` between parts), size in bytes, and SHA-256 in hex."""

    path: str
    size: int
    sha256: str


def manifest(folder: Path) -> tuple[ManifestEntry, ...]:
    """Every file below ``folder``, sorted by the bytes of its path.

    Raises:
        ModelError: the folder is missing or a link, holds a symbolic link, a device, a pipe or a socket, a file can't be read, or a file
            changes while it is read.
    """
    if folder.is_symlink() or not folder.is_dir():
        raise ModelError("There is no such folder of files.", where=str(folder), hint="Give the folder that holds the file MLmodel.")
    files: list[str] = []
    pending = [""]
    while pending:
        inside = pending.pop()
        try:
            with os.scandir(folder / inside) as entries:
                for entry in entries:
                    path = f"{inside}/{entry.name}" if inside else entry.name
                    if entry.is_symlink():
                        raise _refused(folder, path, "is a symbolic link")
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(path)
                    elif entry.is_file(follow_symlinks=False):
                        files.append(path)
                    else:
                        raise _refused(folder, path, "is neither a file nor a folder")
        except OSError as error:
            raise ModelError(
                f"The folder can't be read: {error.strerror}.",
                where=str(folder / inside),
                hint="Make it readable for whoever runs the gate.",
            ) from error
    return tuple(_entry(folder, path) for path in sorted(files, key=os.fsencode))


def canonical_text(entries: tuple[ManifestEntry, ...]) -> bytes:
    """The manifest as the bytes that are hashed; see the module for the form."""
    lines = [HEADER]
    for entry in sorted(entries, key=lambda entry: os.fsencode(entry.path)):
        path = os.fsencode(entry.path).replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
        lines.append(b"%s %d %s\n" % (entry.sha256.encode("ascii"), entry.size, path))
    return b"".join(lines)


def digest(folder: Path) -> str:
    """``sha256:<hex>`` of everything in ``folder``.

    Raises:
        ModelError: as for :func:`manifest`.
    """
    return "sha256:" + hashlib.sha256(canonical_text(manifest(folder))).hexdigest()


def _entry(folder: Path, path: str) -> ManifestEntry:
    # Opened without following links and checked on the open file: what was listed as a file may have been swapped since. Not blocking,
    # so that a pipe put in its place can't hang the gate.
    try:
        descriptor = os.open(folder / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                raise _refused(folder, path, "is neither a file nor a folder")
            content = hashlib.sha256()
            size = 0
            while block := file.read(_BLOCK):
                content.update(block)
                size += len(block)
            after = os.fstat(descriptor)
    except OSError as error:
        raise ModelError(
            f"The file can't be read: {error.strerror}.", where=str(folder / path), hint="Make it readable for whoever runs the gate."
        ) from error
    if not size == before.st_size == after.st_size or before.st_mtime_ns != after.st_mtime_ns:
        raise ModelError("The file changed while it was read.", where=str(folder / path), hint="Test a copy that nothing writes to.")
    return ManifestEntry(path, size, content.hexdigest())


def _refused(folder: Path, path: str, what: str) -> ModelError:
    return ModelError(
        f"{path!r} {what}; a model folder may hold only ordinary files and folders.",
        where=str(folder),
        hint="Log the model again with a copy of the file in its place.",
    )
