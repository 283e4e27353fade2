"""Writes samples as files that load back byte for byte, and makes pictures for people to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from gate.domains.image.npz_file import read_arrays
from gate.domains.image.picture_file import BadPictureError, read_picture
from gate.errors import DataError

__all__ = ["AMPLIFICATION", "difference", "load", "save", "viewable"]

AMPLIFICATION = 100.0

Picture = npt.NDArray[np.uint8]


def save(path: Path, array: npt.NDArray[Any], value_range: tuple[float, float]) -> Path:
    """Writes one sample [H, W, C]: uint8 with one or three channels as PNG, anything else as ``.npz`` with ``x`` and ``value_range``.

    The file is complete or not there at all, and has been read back and compared.

    Args:
        path: without suffix, or with the one that fits; the right suffix is put in its place.

    Returns:
        The path with its suffix.

    Raises:
        DataError: the file does not load back as it was written.
    """
    as_png = array.dtype == np.uint8 and array.ndim == 3 and array.shape[2] in (1, 3)
    stem = path.with_name(path.name.removesuffix(".png").removesuffix(".npz"))
    target = stem.with_name(stem.name + (".png" if as_png else ".npz"))
    draft = target.with_name(f".{target.name}.part")
    try:
        with draft.open("wb") as stream:
            if as_png:
                Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array).save(stream, format="PNG")
            else:
                np.savez_compressed(stream, x=array, value_range=np.array(value_range, dtype=np.float64))
        again = _load(draft, as_png)
        if again.dtype != array.dtype or again.shape != array.shape or again.tobytes() != array.tobytes():
            raise DataError("The sample does not load back as it was written.", where=str(target), hint="Check the disk.")
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    return target


def load(path: Path) -> npt.NDArray[Any]:
    """The sample [H, W, C] that ``save`` wrote.

    Raises:
        DataError: the file is missing or broken.
    """
    return _load(path, path.suffix == ".png")


def _load(path: Path, as_png: bool) -> npt.NDArray[Any]:
    if not as_png:
        arrays = read_arrays(path, ("x",))
        if "x" not in arrays:
            raise DataError("The file has no array 'x'.", where=str(path), hint="Give a sample as the gate wrote it.")
        return arrays["x"]
    try:
        array = np.asarray(read_picture(path), dtype=np.uint8)
    except BadPictureError as error:
        raise DataError(f"The file {path.name!r} {error}.", where=str(path)) from error
    return array[:, :, None] if array.ndim == 2 else array


def viewable(array: npt.NDArray[Any], value_range: tuple[float, float] | None = None) -> Picture:
    """uint8 [H, W] or [H, W, 3]: the value range on 0 to 255.

    Of two channels the first is shown, of more than three the first three; a value that is not finite is shown black.

    Args:
        array: [H, W, C].
        value_range: None: 0 to 255 for uint8, 0 to 1 for other dtypes.
    """
    if value_range is None:
        value_range = (0.0, 255.0) if array.dtype == np.uint8 else (0.0, 1.0)
    low, high = value_range
    share = (array.astype(np.float64) - low) / (high - low)
    levels: Picture = np.rint(255 * np.clip(np.where(np.isfinite(share), share, 0.0), 0, 1)).astype(np.uint8)
    return levels[:, :, :3] if array.shape[2] >= 3 else levels[:, :, 0]


def difference(original: npt.NDArray[Any], mutant: npt.NDArray[Any], value_range: tuple[float, float]) -> Picture:
    """uint8 [H, W] or [H, W, 3]: the absolute difference times ``AMPLIFICATION``, clipped at white; black where nothing changed.

    The factor is the same for all, so that two pictures can be compared: white is a change of a hundredth of the value range or more.
    """
    return viewable(np.minimum(1.0, _distance(original, mutant, value_range) * AMPLIFICATION), (0.0, 1.0))


def _distance(original: npt.NDArray[Any], mutant: npt.NDArray[Any], value_range: tuple[float, float]) -> npt.NDArray[np.float64]:
    """Absolute differences as shares of the value range; 1 where one of both is not finite."""
    low, high = value_range
    distance = np.abs(mutant.astype(np.float64) - original.astype(np.float64)) / (high - low)
    return np.where(np.isfinite(distance), distance, 1.0)
