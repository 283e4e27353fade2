"""A data set in folders: ``class/picture``, or ``kind/class/picture`` for a set of named slices."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from gate.config import InputSettings
from gate.domains.image.fit import FitError, fit
from gate.domains.image.image_set import writable_text
from gate.domains.image.npz_file import MAX_BYTES
from gate.domains.image.picture_file import BadPictureError, read_picture
from gate.errors import DataError
from gate.strict_yaml import nearest

__all__ = ["FolderSamples", "read_folder"]

_LEFT_BY_SYSTEMS = {"thumbs.db", "desktop.ini"}


@dataclass(frozen=True, eq=False)
class FolderSamples:
    """What the folders hold, sorted by (kind, class, file name)."""

    x: npt.NDArray[np.uint8]  # [N, H, W, C]
    y: npt.NDArray[np.int64]
    kinds: tuple[str, ...] | None
    names: tuple[str, ...]
    classes: tuple[str, ...]
    skipped: int


@dataclass(frozen=True)
class _Found:
    path: Path
    class_name: str
    kind: str | None


def read_folder(
    source: Path,
    settings: InputSettings,
    classes: Sequence[str] | None,
    on_bad_file: Literal["error", "skip"],
    role: str,
    check: Callable[[], None] = lambda: None,
) -> FolderSamples:
    """Reads and fits all pictures; ``check`` is called after each, and whatever it raises ends the reading.

    The folders are kinds where each of them holds folders only, and are not all names of ``classes``; else they are classes. Hidden files,
    ``Thumbs.db`` and ``desktop.ini`` are passed over; any other file in a class folder must be a picture.

    Raises:
        DataError: nothing there, folders that are no class, a bad file (unless skipped), pictures of several sizes without ``input.size``.
    """
    where = writable_text(str(source))
    found, folders = _listed(source, classes, role)
    names = _class_names(folders, classes, where)
    if not found:
        raise DataError(f"The {role} folder holds no pictures.", where=where, hint="Put pictures into one folder per class.")
    if settings.channels not in (None, 1, 3):
        raise DataError(
            f"Picture files have 1 or 3 channels; input.channels is {settings.channels}.", where=where, hint="Give such data as .npz."
        )
    pictures: list[npt.NDArray[np.uint8]] = []
    kept: list[_Found] = []
    first_bad: tuple[_Found, str] | None = None
    # Decoding leaves Python's lock, so threads help; the order of results is the order of files. Pillow warns above its own limit of
    # pixels, which lies beyond ours: such files are refused and need no second complaint.
    with warnings.catch_warnings(), ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        try:
            for entry, result in zip(found, pool.map(lambda entry: _read(entry.path, settings), found), strict=True):
                check()
                if isinstance(result, str):
                    if on_bad_file == "error":
                        raise _bad_file(entry, result)
                    first_bad = first_bad or (entry, result)
                    continue
                pictures.append(result)
                kept.append(entry)
                if len(found) * result.nbytes > MAX_BYTES:
                    raise DataError(
                        f"{len(found)} pictures of shape {result.shape} need more than {MAX_BYTES >> 30} GiB.",
                        where=where,
                        hint="Use fewer pictures, or a smaller input.size.",
                    )
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # leaving the pool would read all the others first
            raise
    if first_bad is not None and not kept:
        entry, reason = first_bad
        raise DataError(
            f"None of the {len(found)} files of the {role} folder can be used; the first {reason}.",
            where=writable_text(str(entry.path)),
            hint="Give readable pictures.",
        )
    index = {name: position for position, name in enumerate(names)}
    return FolderSamples(
        x=_stacked(pictures, kept, settings),
        y=np.array([index[entry.class_name] for entry in kept], dtype=np.int64),
        kinds=tuple(entry.kind or "" for entry in kept) if kept[0].kind is not None else None,
        names=tuple(writable_text(str(entry.path.relative_to(source))) for entry in kept),
        classes=names,
        skipped=len(found) - len(kept),
    )


def _listed(source: Path, classes: Sequence[str] | None, role: str) -> tuple[list[_Found], list[str]]:
    """The picture files, and the names of the class folders, empty ones too."""
    where = writable_text(str(source))
    folders, files = _content(source)
    if files and not folders:
        raise DataError(f"The {role} folder holds files, but no folder per class.", where=where, hint="Move pictures to <class>/<picture>.")
    inner = {folder: _content(folder) for folder in folders}
    by_kind = bool(folders) and all(inside and not files for inside, files in inner.values())
    if by_kind and classes is not None and {writable_text(folder.name) for folder in folders} <= set(classes):
        by_kind = False
    levels: list[tuple[str | None, Path]] = [(None, folder) for folder in folders]
    if by_kind:
        levels = [(writable_text(kind.name), folder) for kind in folders for folder in inner[kind][0]]
    found: list[_Found] = []
    for kind, folder in levels:
        deeper, pictures = _content(folder) if by_kind else inner[folder]
        if deeper:
            raise DataError(
                "A class folder holds folders.",
                where=writable_text(str(deeper[0])),
                hint="Use <class>/<picture> or <kind>/<class>/<picture>.",
            )
        found.extend(_Found(path, writable_text(folder.name), kind) for path in pictures)
    return found, sorted({writable_text(folder.name) for _, folder in levels})


def _content(folder: Path) -> tuple[list[Path], list[Path]]:
    """(folders, files), each sorted by name."""
    try:
        entries = sorted(folder.iterdir(), key=lambda path: os.fsencode(path.name))
    except OSError as error:
        raise DataError(
            f"The folder can't be read: {error.strerror or error}.",
            where=writable_text(str(folder)),
            hint="Make it readable for whoever runs the gate.",
        ) from error
    entries = [path for path in entries if not path.name.startswith(".") and path.name.lower() not in _LEFT_BY_SYSTEMS]
    return [path for path in entries if path.is_dir()], [path for path in entries if not path.is_dir()]


def _class_names(folders: Sequence[str], classes: Sequence[str] | None, where: str) -> tuple[str, ...]:
    if classes is None:
        return tuple(folders)
    for name in folders:
        if name not in classes:
            close = nearest(name, classes)
            raise DataError(
                f"The folder {name!r} is none of the {len(classes)} classes.",
                where=where,
                hint=f"Is it {close!r}?" if close else "Name the folders like the classes, or correct the list `classes`.",
            )
    return tuple(classes)


def _read(path: Path, settings: InputSettings) -> npt.NDArray[np.uint8] | str:
    """[H, W, C], or what is wrong with the file."""
    try:
        picture = read_picture(path)
        if settings.channels is not None:
            picture = picture.convert("L" if settings.channels == 1 else "RGB")
        fitted: Image.Image = fit(picture, settings)
    except (BadPictureError, FitError) as error:
        return str(error)
    array = np.asarray(fitted, dtype=np.uint8)
    return array[:, :, None] if array.ndim == 2 else array


def _bad_file(entry: _Found, reason: str) -> DataError:
    return DataError(
        f"The file {writable_text(entry.path.name)!r} {reason}.",
        where=writable_text(str(entry.path)),
        hint="Remove or replace the file, or set data.on_bad_file: skip.",
    )


def _stacked(pictures: list[npt.NDArray[np.uint8]], kept: list[_Found], settings: InputSettings) -> npt.NDArray[np.uint8]:
    channels = max(picture.shape[2] for picture in pictures)  # grey pictures among colour ones become colour
    size = pictures[0].shape[:2]
    result = np.empty((len(pictures), *size, channels), dtype=np.uint8)
    for row, picture in enumerate(pictures):
        if picture.shape[:2] != size:
            raise DataError(
                f"The pictures are of several sizes: {size[0]} x {size[1]} and {picture.shape[0]} x {picture.shape[1]}.",
                where=writable_text(str(kept[row].path)),
                hint="Set input.size to the model's height and width.",
            )
        result[row] = picture
    return result
