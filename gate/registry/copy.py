"""Private copies of local files and folders, which hold nothing but ordinary files and never touch anything outside."""

from __future__ import annotations

import os
import re
import shutil
import stat
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from gate.errors import GateError

__all__ = ["copy_private", "local_path", "make_private", "plain_relative"]


def local_path(uri: str) -> Path | None:
    """The path a ``file:`` URI or a plain path means; None for any other kind of URI."""
    if uri.startswith("file:"):
        return Path(unquote(urlsplit(uri).path))
    return None if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", uri) else Path(uri)


def plain_relative(path: str) -> bool:
    """Whether a relative path with ``/`` between parts names something inside the folder it is relative to."""
    return bool(path) and not PurePosixPath(path).is_absolute() and "\x00" not in path and "\\" not in path and ".." not in path.split("/")


def make_private(folder: Path) -> None:
    """Makes ``folder`` (and its parents) readable by this user alone.

    Raises:
        ValueError: it exists and is not empty.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)  # an existing folder keeps its mode otherwise, and the umask may take bits
    if any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty")


def copy_private(source: Path, into: Path, *, error: type[GateError]) -> None:
    """Copies the file or the folder's content into ``into``: folders with mode 0700, files with 0600.

    Raises:
        error: the source is missing, can't be read, or holds a symbolic link, a device, a pipe or a socket.
    """
    if source.is_file():
        _copy_file(source.resolve(), into / source.name, error)
        return
    try:
        root = source.resolve(strict=True)  # the user's own path may go through links; what lies inside may not
        entries = _listed(root)
    except OSError as cause:
        raise error(f"The folder can't be read: {cause.strerror}.", where=str(source)) from cause
    while entries:
        entry = entries.pop()
        path = Path(entry.path)
        target = into / path.relative_to(root)
        if entry.is_symlink():
            raise error(
                f"{str(path.relative_to(root))!r} is a symbolic link; only ordinary files and folders are allowed.",
                where=str(source),
                hint="Put a copy of the file in its place.",
            )
        if entry.is_dir(follow_symlinks=False):
            target.mkdir(mode=0o700)
            try:
                entries += _listed(path)
            except OSError as cause:
                raise error(f"The folder can't be read: {cause.strerror}.", where=str(path)) from cause
        else:
            _copy_file(path, target, error)


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return list(entries)


def _copy_file(source: Path, target: Path, error: type[GateError]) -> None:
    try:
        # Not blocking and not through links: an entry may be a pipe, or may have been swapped since it was listed.
        descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise error("It is neither a file nor a folder; only these are allowed.", where=str(source))
            with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as copy:
                shutil.copyfileobj(file, copy, 1 << 20)
    except OSError as cause:
        raise error(f"The file can't be copied: {cause.strerror}.", where=str(source)) from cause
