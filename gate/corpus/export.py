"""Writes the defects of one half of the seed inputs as a training set, so that a fix can be judged on the other half."""

from __future__ import annotations

import csv
import hashlib
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from gate.errors import DataError, OutputError
from gate.result import Defect, Result

__all__ = ["Export", "export", "file_of", "half_of"]


@dataclass(frozen=True)
class Export:
    """What was written."""

    folder: Path
    exported: int
    held_out: int  # of the other half
    kept_back: int  # of the judging arm, or without a predicted class


def half_of(seed_id: str) -> Literal["a", "b"]:
    """The half a seed input belongs to: by a hash of its identity, so the same in every run."""
    return "a" if hashlib.sha256(seed_id.encode()).digest()[0] & 1 == 0 else "b"


def export(result: Result, run: Path, out: Path, *, half: Literal["a", "b", "all"], load: Callable[[Path], np.ndarray]) -> Export:
    """Writes ``train.npz`` (x in the file dtype, y), a folder of pictures per class, and ``defects.csv``.

    Only defects that a training set can use: changed predictions, with the true label; an output that is not finite is no matter of
    training. Never those of the judging arm: its mutants are the same for every model, so training on them would be training on the next
    exam. The half that is left out stays unseen, so that a fix can be judged on its seed inputs (``data.judge_half``).

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
    usable = [defect for defect in result.defects if defect.predicted is not None and defect.label is not None and defect.arm == "search"]
    chosen = [defect for defect in usable if half == "all" or half_of(defect.seed_id) == half]
    if not chosen:
        raise DataError(
            "The run has no defect to train with." if half == "all" else f"The run has no defect of half {half!r} to train with.",
            where=str(run),
            hint="Give the campaign more budget." if not usable else "Try the other half, or give the campaign more budget.",
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise OutputError("The export folder is not empty.", where=str(out), hint="Give a new folder with --out.")
        x = np.stack([load(file_of(defect, "mutant_data", run)) for defect in chosen])
        pictures = [file_of(defect, "mutant", run) for defect in chosen]
        np.savez_compressed(out / "train.npz", x=x, y=np.array([defect.label for defect in chosen], dtype=np.int64))
        for defect, picture in zip(chosen, pictures, strict=True):
            if not re.fullmatch(r"[\w-]{1,64}", defect.id, re.ASCII):
                raise DataError(
                    "The run's record names a defect by what can't be a file's name.",
                    where=str(run),
                    hint="Don't use a run that was edited.",
                )
            folder = out / "pictures" / _folder_name(result, defect.label)
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(picture, folder / f"{defect.id}.png")
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
        raise OutputError(
            f"The export can't be written: {error.strerror or error}.", where=str(out), hint="Give another folder with --out."
        ) from error
    return Export(out, len(chosen), len(usable) - len(chosen), len(result.defects) - len(usable))


def file_of(defect: Defect, name: str, run: Path) -> Path:
    """The path of a defect's file, which lies inside the run.

    Raises:
        DataError: it is missing, or leads out of the run.
    """
    path = run / defect.files.get(name, "")
    try:
        inside = path.is_file() and path.resolve().is_relative_to(run.resolve())
    except (OSError, ValueError):
        inside = False
    if not inside:
        raise DataError(f"The run lacks a file of its defect {defect.id}.", where=str(path), hint="Give the whole run folder.")
    return path


def _folder_name(result: Result, label: int | None) -> str:
    """The class name where it can be a folder's, its number otherwise: a name must not choose where files go."""
    name = result.class_name(label)
    plain = name.strip() == name != "" and all(letter.isalnum() or letter in "-_ " for letter in name)
    # Two classes must not share a folder either: not by the same name, and not where one is called like another's number.
    alone = [other.casefold() for other in result.classes].count(name.casefold()) <= 1 and not name.casefold().startswith("class-")
    return name if plain and alone and len(name.encode()) <= 64 else f"class-{label}"
