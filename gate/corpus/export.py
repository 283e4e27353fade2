"""Writes the defects of one half of the seed inputs as a training set, so that a fix can be judged on the other half."""

from __future__ import annotations

import csv
import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from gate.errors import DataError, OutputError
from gate.result import Defect, Result

__all__ = ["Export", "export", "half_of"]


@dataclass(frozen=True)
class Export:
    """What was written."""

    folder: Path
    exported: int
    held_out: int


def half_of(seed_id: str) -> Literal["a", "b"]:
    """The half a seed input belongs to: by a hash of its identity, so the same in every run."""
    return "a" if hashlib.sha256(seed_id.encode()).digest()[0] & 1 == 0 else "b"


def export(result: Result, run: Path, out: Path, *, half: Literal["a", "b", "all"], load: Callable[[Path], np.ndarray]) -> Export:
    """Writes ``train.npz`` (x in the file dtype, y), a folder of pictures per class, and ``defects.csv``.

    Only defects that a training set can use: a changed prediction of a natural recipe or an attack, with its true label. The half that is
    left out stays unseen, so that its seed inputs can tell a fix from memorised examples.

    Args:
        result: the run's record.
        run: its folder.
        out: a new or empty folder.
        half: which half of the seed inputs.
        load: reads a sample's data file.

    Raises:
        OutputError: ``out`` is not empty or can't be written.
        DataError: the run has no such defect, or lacks its files.
    """
    chosen = [defect for defect in result.defects if half == "all" or half_of(defect.seed_id) == half]
    if not chosen:
        raise DataError(
            f"The run has no defect of half {half!r} to export.",
            where=str(run),
            hint="Try the other half, or give the campaign more budget.",
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise OutputError("The export folder is not empty.", where=str(out), hint="Give a new folder with --out.")
        x = np.stack([_read(defect, run, load) for defect in chosen])
        np.savez_compressed(out / "train.npz", x=x, y=np.array([defect.label for defect in chosen], dtype=np.int64))
        for defect in chosen:
            folder = out / "pictures" / _folder_name(result, defect.label)
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(run / defect.files["mutant"], folder / f"{defect.id}.png")
        with (out / "defects.csv").open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["id", "seed_id", "label", "predicted", "families", "operators", "severity", "root_cause"])
            for defect in chosen:
                operators = "+".join(str(step["operator"]) for step in defect.recipe)
                rows.writerow(
                    [
                        defect.id,
                        defect.seed_id,
                        defect.label,
                        defect.predicted,
                        defect.family,
                        operators,
                        defect.severity,
                        defect.root_cause,
                    ]
                )
    except OSError as error:
        raise OutputError(f"The export can't be written: {error.strerror or error}.", where=str(out)) from error
    return Export(out, len(chosen), len(result.defects) - len(chosen))


def _read(defect: Defect, run: Path, load: Callable[[Path], np.ndarray]) -> np.ndarray:
    path = run / defect.files.get("mutant_data", "")
    if not path.is_file():
        raise DataError(f"The run lacks a file of its defect {defect.id}.", where=str(path), hint="Give the whole run folder.")
    return load(path)


def _folder_name(result: Result, label: int) -> str:
    """The class name where it can be a folder's, its number otherwise: a name must not choose where files go."""
    name = result.class_name(label)
    plain = name.strip() and len(name) <= 64 and all(letter.isalnum() or letter in "-_ " for letter in name)
    return name if plain else f"class-{label}"
