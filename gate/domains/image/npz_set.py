"""A data set in one ``.npz``: ``x``, ``y`` and optionally ``kind``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from gate.config import InputSettings
from gate.domains.image.fit import FitError, fit
from gate.domains.image.image_set import writable_text
from gate.domains.image.npz_file import read_arrays
from gate.domains.image.picture_file import MIN_SIDE
from gate.errors import DataError

__all__ = ["read_npz"]


def read_npz(
    path: Path, settings: InputSettings, classes: Sequence[str] | None, role: str
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64], tuple[str, ...] | None, tuple[str, ...]]:
    """(x [N, H, W, C] uint8 or float32, y [N], kinds, classes); values are not checked yet.

    Raises:
        DataError: arrays are missing or of a shape, dtype or size that fits neither the description nor each other.
    """
    where = writable_text(str(path))
    arrays = read_arrays(path, ("x", "y", "kind"))
    for name in ("x", "y"):
        if name not in arrays:
            raise DataError(f"The {role} file has no array {name!r}.", where=where, hint="Save x, y and optionally kind with numpy.savez.")
    x = _pictures(arrays["x"], settings, where)
    y, names = _labels(arrays["y"], len(x), classes, where)
    return x, y, _kinds(arrays.get("kind"), len(x), where), names


def _pictures(x: npt.NDArray[Any], settings: InputSettings, where: str) -> npt.NDArray[Any]:
    if x.dtype.kind == "f":
        x = x.astype(np.float32)
    elif x.dtype != np.uint8:
        raise DataError(f"The array 'x' is of dtype {x.dtype}.", where=where, hint="Save it as uint8 or as a float type.")
    if x.ndim == 3:
        x = x[..., None]
    if x.ndim != 4:
        raise DataError(f"The array 'x' has the shape {x.shape}.", where=where, hint="It must be [N, H, W] or [N, H, W, C].")
    if not len(x):
        raise DataError("The file holds no samples.", where=where, hint="Save at least a few samples of each class.")
    channels = x.shape[3]
    if settings.channels is not None and channels != settings.channels:
        hint = "Set input.channels to what the data has"
        if x.shape[1] == settings.channels:
            hint = "The channels come last: save x.transpose(0, 2, 3, 1)"
        raise DataError(
            f"The pictures have the shape {x.shape[1:]}, so {channels} channels; input.channels is {settings.channels}.",
            where=where,
            hint=f"{hint}.",
        )
    if settings.channels is None and x.shape[1] in (1, 3) and channels > 4:
        raise DataError(
            f"The pictures have the shape {x.shape[1:]}, which looks like channels first.",
            where=where,
            hint="Save x.transpose(0, 2, 3, 1), or set input.channels if it is right as it is.",
        )
    if min(x.shape[1:3]) < MIN_SIDE or channels < 1:
        raise DataError(
            f"The pictures have the shape {x.shape[1:]}; each side needs {MIN_SIDE} pixels at least.",
            where=where,
            hint="Save larger pictures.",
        )
    if settings.size is None or x.shape[1:3] == settings.size:
        return x
    if x.dtype != np.uint8:
        raise DataError(
            f"The pictures are {x.shape[1]} x {x.shape[2]}; input.size is {settings.size[0]} x {settings.size[1]}.",
            where=where,
            hint="Float data is not resized, as that would change its values: save it at the model's resolution, or as uint8.",
        )
    try:
        return np.stack([_fitted(sample, settings) for sample in x])
    except FitError as error:
        raise DataError(f"Each picture {error}.", where=where, hint="Set input.size or input.resize to what the data needs.") from error


def _fitted(sample: npt.NDArray[np.uint8], settings: InputSettings) -> npt.NDArray[np.uint8]:
    # Channel by channel: Pillow has no picture of two channels or of five.
    return np.stack([np.asarray(fit(Image.fromarray(sample[:, :, c]), settings)) for c in range(sample.shape[2])], axis=-1)


def _labels(y: npt.NDArray[Any], count: int, classes: Sequence[str] | None, where: str) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    if y.dtype.kind not in "iu" or y.shape != (count,):
        raise DataError(
            f"The array 'y' is of dtype {y.dtype} and shape {y.shape}; {count} class indices are needed.",
            where=where,
            hint="Save one whole number per sample, such as y.astype(int); one-hot labels through argmax.",
        )
    # Through Python numbers: a uint64 that is too large must not wrap round to a valid class.
    lowest, highest = int(y.min()), int(y.max())
    if lowest < 0:
        raise DataError(f"The label {lowest} of row {int(y.argmin())} is negative.", where=where, hint="Class indices count from 0.")
    names = tuple(classes) if classes is not None else tuple(str(i) for i in range(min(highest, 99_999) + 1))
    if highest >= len(names):
        raise DataError(
            f"The label {highest} of row {int(y.argmax())} is outside the {len(names)} classes (0 to {len(names) - 1}).",
            where=where,
            hint="Correct the labels, or the list `classes`.",
        )
    return y.astype(np.int64), names


def _kinds(kind: npt.NDArray[Any] | None, count: int, where: str) -> tuple[str, ...] | None:
    if kind is None:
        return None
    if kind.shape != (count,) or kind.dtype.kind not in "US":
        raise DataError(
            f"The array 'kind' is of dtype {kind.dtype} and shape {kind.shape}; {count} names are needed.",
            where=where,
            hint="Save one name per sample with .astype(str).",
        )
    return tuple(writable_text(name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else str(name)) for name in kind.tolist())
