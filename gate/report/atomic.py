"""A file is there whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from gate.errors import GateError, OutputError

__all__ = ["make_folder", "write_text"]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def make_folder(path: Path) -> None:
    """Makes a folder where there is none yet.

    Raises:
        OutputError: it can't be made, or something else has that name.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"The folder can't be made: {error.strerror or error}.", where=str(path), hint="Give another folder.") from error


def write_text(path: Path, text: str) -> Path:
    """Writes UTF-8 text beside ``path`` and renames it onto it, so that a reader sees the old file or the new one.

    Raises:
        OutputError: the folder can't be written (exit 2).
        GateError: the disk is full or broken (exit 3); an earlier file of that name is untouched.
    """
    temporary: str | None = None
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)  # mkstemp makes private files; CI uploads reports as another user
        Path(temporary).replace(path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            raise GateError(
                f"The report can't be written: {reason}.", where=str(path), hint="Free some space, then run `gate report`."
            ) from error
        raise OutputError(f"The report can't be written: {reason}.", where=str(path), hint="Give a folder that can be written.") from error
    return path
