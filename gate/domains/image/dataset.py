"""Reads seeds, long-tail and profile sets: pictures in folders, or one ``.npz``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gate.config import InputSettings
from gate.domains.image.folder_set import read_folder
from gate.domains.image.image_set import ImageSet, digest_of, sample_ids, writable_text
from gate.domains.image.npz_set import read_npz
from gate.errors import DataError

__all__ = ["ImageSet", "load_images"]


def load_images(
    source: Path,
    *,
    settings: InputSettings,
    classes: Sequence[str] | None,
    on_bad_file: Literal["error", "skip"],
    role: str,
    check: Callable[[], None] = lambda: None,
) -> ImageSet:
    """Reads one data set and brings it to ``settings.size`` as it is described there.

    Args:
        source: a folder with one folder of pictures per class (or ``kind/class/``), or an ``.npz`` with x ([N, H, W] or [N, H, W, C],
            uint8 or float), y (class indices) and optionally kind (slice names).
        settings: size, channels, range, resize and crop; None means: as the data has it.
        classes: names in the model's order; None: the sorted folder names, or the numbers that occur.
        on_bad_file: whether a picture that can't be used is an error or is left out and counted.
        role: what the set is for, as messages name it: seeds, long-tail set, profile set.
        check: called while many pictures are read; whatever it raises ends the reading.

    Raises:
        DataError: with the file and what to do.
    """
    where = writable_text(str(source))
    if source.is_dir():
        read = read_folder(source, settings, classes, on_bad_file, role, check)
        x, y, kinds, names, skipped = read.x, read.y, read.kinds, read.names, read.skipped
        known: tuple[str, ...] = read.classes
    elif source.suffix.lower() == ".npz":
        x, y, kinds, known = read_npz(source, settings, classes, role)
        names, skipped = tuple(str(row) for row in range(len(x))), 0
    elif source.exists():
        raise DataError(f"This file can't be read as {role}.", where=where, hint="Give a folder with one folder per class, or an .npz.")
    else:
        raise DataError(
            f"There is nothing at the path of the {role}.", where=where, hint="Check the path; it is relative to the settings file."
        )
    x = np.ascontiguousarray(x)
    value_range = settings.range or ((0.0, 255.0) if x.dtype == np.uint8 else (0.0, 1.0))
    _check_values(x, value_range, names, where)
    known = tuple(writable_text(name) for name in known)
    return ImageSet(
        x=x,
        y=y,
        kinds=kinds,
        names=names,
        classes=known,
        value_range=(float(value_range[0]), float(value_range[1])),
        source=where,
        digest=digest_of(x, y, kinds, known, value_range),
        skipped=skipped,
        ids=sample_ids(x, y),
    )


def _check_values(x: npt.NDArray[Any], value_range: tuple[float, float], names: Sequence[str], where: str) -> None:
    low, high = value_range
    lowest, highest = x.reshape(len(x), -1).min(axis=1), x.reshape(len(x), -1).max(axis=1)
    # A NaN survives min and max, and an infinity is one of them.
    broken = np.flatnonzero(~(np.isfinite(lowest) & np.isfinite(highest)))
    if len(broken):
        raise DataError(
            f"{len(broken)} of {len(x)} samples hold NaN or infinite values; the first is {names[broken[0]]}.",
            where=where,
            hint="Remove or repair them.",
        )
    outside = np.flatnonzero((lowest < low) | (highest > high))
    if len(outside):
        row = outside[0]
        hint = "Correct the values, or set input.range to what they are."
        if low >= 0 and highest.max() <= 255 and high <= 1:
            hint = "They look like 0 to 255: set input.range: [0, 255], or divide them."
        raise DataError(
            f"Values from {lowest[row]:g} to {highest[row]:g} of sample {names[row]} lie outside the range {low:g} to {high:g}"
            f" ({len(outside)} of {len(x)} samples).",
            where=where,
            hint=hint,
        )
    if high >= 255 and low >= 0 and highest.max() <= 1:
        raise DataError(
            f"All values lie between 0 and 1, where the range {low:g} to {high:g} is declared.",
            where=where,
            hint="Set input.range: [0, 1] if that is their range, or save the pictures with their full range.",
        )
