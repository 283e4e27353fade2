"""Labelled pictures at the model's resolution, in the dtype of their files."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ImageSet", "digest_of", "sample_ids", "writable_text"]


@dataclass(frozen=True, eq=False)
class ImageSet:
    """One data set, in a fixed order. N samples."""

    x: npt.NDArray[Any]  # [N, H, W, C], C-contiguous, uint8 or float32
    y: npt.NDArray[np.int64]  # [N], index into classes
    kinds: tuple[str, ...] | None  # [N] slice names, as in a long-tail set
    names: tuple[str, ...]  # [N] file names relative to the source, or row numbers
    classes: tuple[str, ...]
    value_range: tuple[float, float]  # lowest and highest value a file may hold
    source: str
    digest: str  # "sha256:<hex>" over pictures, labels, kinds, classes and range
    skipped: int  # files left out because on_bad_file is skip
    ids: tuple[str, ...]  # [N] distinct: "s-<12 hex>", with "-2", "-3" for repeated samples

    def __len__(self) -> int:
        return len(self.x)


def sample_ids(x: npt.NDArray[Any], y: npt.NDArray[np.int64]) -> tuple[str, ...]:
    """One name per sample that follows from its content and label, so that it is the same in any data set."""
    seen: Counter[str] = Counter()
    ids = []
    for sample, label in zip(x, y, strict=True):
        content = hashlib.sha256(np.ascontiguousarray(sample).tobytes())
        content.update(str(int(label)).encode())
        name = f"s-{content.hexdigest()[:12]}"
        seen[name] += 1
        ids.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return tuple(ids)


def digest_of(
    x: npt.NDArray[Any],
    y: npt.NDArray[np.int64],
    kinds: Sequence[str] | None,
    classes: Sequence[str],
    value_range: tuple[float, float],
) -> str:
    """``sha256:<hex>`` over everything that a result can depend on; names and places of files are not among it."""
    content = hashlib.sha256()
    for part in (str(x.dtype), repr(x.shape), repr(tuple(classes)), repr(None if kinds is None else tuple(kinds)), repr(value_range)):
        content.update(part.encode("utf-8", "backslashreplace") + b"\0")
    content.update(np.ascontiguousarray(y).tobytes())
    for sample in x:
        content.update(np.ascontiguousarray(sample).tobytes())
    return f"sha256:{content.hexdigest()}"


def writable_text(text: str) -> str:
    """The text with lone surrogates (bytes of a file name that are no UTF-8) written out as ``\\udcff``, so that any file can hold it."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
