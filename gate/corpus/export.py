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

from gate.corpus.augmentation_files import plan, write_augmentation
from gate.corpus.trainable import failing_operators, trainable
from gate.corpus.training_readme import readme
from gate.domains.image.limits import Domain
from gate.errors import DataError, OutputError, UsageError
from gate.result import Defect, Result

__all__ = ["Export", "Training", "export", "file_of", "half_of"]


@dataclass(frozen=True)
class Training:
    """What an augmentation pipeline beside the pictures needs to know."""

    domain: Domain  # the policy's, by which the mutants were made
    value_range: tuple[float, float]  # of the files


@dataclass(frozen=True)
class Export:
    """What was written."""

    folder: Path
    exported: int
    held_out: int  # of the other half
    kept_back: int  # of the judging arm, or nothing that other weights would change
    augmentation: bool = False  # whether there is a pipeline


def half_of(seed_id: str) -> Literal["a", "b"]:
    """The half a seed input belongs to: by a hash of its identity, so the same in every run."""
    return "a" if hashlib.sha256(seed_id.encode()).digest()[0] & 1 == 0 else "b"


def export(
    result: Result,
    run: Path,
    out: Path,
    *,
    half: Literal["a", "b", "all"],
    load: Callable[[Path], np.ndarray],
    training: Training | None = None,
) -> Export:
    """Writes ``train.npz`` (x in the file dtype, y), a folder of pictures per class, and ``defects.csv``.

    Only defects that a training set can use (``gate.corpus.trainable``), under their true labels. The half that is left out stays unseen,
    so that a fix can be judged on its seed inputs (``data.judge_half``, ``gate regress``).

    Args:
        result: the run's record.
        run: its folder.
        out: a new or empty folder.
        half: which half of the seed inputs.
        load: reads a sample's data file.
        training: also writes an augmentation pipeline and a ``README.md`` that says how to train and how to prove the fix.

    Raises:
        UsageError: for training, no half would be left to judge the fix on.
        OutputError: ``out`` is not empty or can't be written.
        DataError: the run has no such defect, or lacks its files.
    """
    if training is not None and half == "all":
        raise UsageError(
            "With all defects exported, none is left to tell a fix from memorised examples.",
            where="--half all",
            hint="Export half a or b, and leave the other to `gate regress`.",
        )
    usable = [defect for defect in result.defects if trainable(defect)]
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
                        _cell(defect.seed_id),
                        defect.label,
                        defect.predicted,
                        _cell(defect.family),
                        _cell(operators),
                        defect.severity,
                        _cell(defect.root_cause),
                    ]
                )
        written = training is not None and _write_training(out, usable, x, half, training)
    except OSError as error:
        raise OutputError(
            f"The export can't be written: {error.strerror or error}.", where=str(out), hint="Give another folder with --out."
        ) from error
    return Export(out, len(chosen), len(usable) - len(chosen), len(result.defects) - len(usable), written)


def _cell(text: str) -> str:
    """Text that a spreadsheet does not take for a formula, see OWASP, CSV injection."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _write_training(out: Path, usable: list[Defect], x: np.ndarray, half: str, training: Training) -> bool:
    """The ranges come from the defects of both halves: they are the policy's limits and give no picture away."""
    shape = (int(x.shape[1]), int(x.shape[2]), int(x.shape[3]))
    planned = plan(failing_operators(usable), training.domain, shape)
    written = write_augmentation(out, planned, shape, training.value_range)
    (out / "README.md").write_text(readme(x, half, planned, training.value_range, written), encoding="utf-8")
    return written


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
