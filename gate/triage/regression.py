"""Do the defects of an earlier run come back? Replays their files, their seed inputs, and fresh mutants of the same root cause."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gate.campaign.loop import Seeds
from gate.campaign.preflight import predict_all
from gate.campaign.supervisor import Worker
from gate.corpus.export import half_of
from gate.domains.domain import InputDomain
from gate.errors import DataError
from gate.models.outputs import OutputKind, predictions
from gate.randomness import generator
from gate.result import Defect, Result

__all__ = ["FRESH_MUTANTS", "EarlierRun", "Recurrence", "read_earlier", "replay_earlier", "same_classes"]

FRESH_MUTANTS = 4  # of each earlier defect; at least one that fails means that the root cause is still there
FRESH_TRIES = 16  # an invalid mutant is drawn anew, so that every defect gets the same number, within reason


@dataclass(frozen=True)
class EarlierRun:
    """An earlier run with the files of its D defects in memory: from now on nothing on disk can change them."""

    result: Result
    folder: Path  # for messages
    mutants: np.ndarray  # [D, H, W, C] in the file dtype; empty where there is no defect
    originals: np.ndarray  # the same


@dataclass(frozen=True)
class Recurrence:
    """What became of one earlier defect; None: it does not recur."""

    defect: Defect
    why: Literal["file", "seed", "fresh"] | None


def read_earlier(folder: Path, load: Callable[[Path], np.ndarray], shape: tuple[int, ...], dtype: np.dtype[Any]) -> EarlierRun:
    """Reads the record and every file that a replay needs, before anything is fuzzed.

    Args:
        folder: of a finished run.
        load: reads one sample [H, W, C].
        shape: [H, W, C] of this run's seed inputs.
        dtype: of this run's seed inputs.

    Raises:
        OutputError: the folder holds no finished run.
        DataError: a file is missing or broken, or was made for another input.
    """
    result = Result.load(folder)

    def files(name: str) -> np.ndarray:
        samples = [_read(defect, name, folder, load, shape, dtype) for defect in result.defects]
        return np.stack(samples) if samples else np.empty((0, *shape), dtype=dtype)

    return EarlierRun(result, folder, files("mutant_data"), files("original_data"))


def same_classes(earlier: EarlierRun, classes: Sequence[str]) -> None:
    """Refuses an earlier run that can't be compared.

    Raises:
        DataError: it was made with other classes.
    """
    if tuple(earlier.result.classes) != tuple(classes):
        raise DataError(
            "The earlier run was made with other classes.",
            where=str(earlier.folder),
            hint="Give --previous none, or a run of a model with the same class names in the same order.",
        )


def replay_earlier(
    earlier: EarlierRun,
    *,
    worker: Worker,
    domain: InputDomain,
    seeds: Seeds,
    classes: Sequence[str],
    output_kind: OutputKind,
    batch_size: int,
    campaign_seed: int,
    check: Callable[[], None] = lambda: None,
) -> tuple[Recurrence, ...]:
    """Replays every defect of an earlier run on the model in the worker.

    A defect recurs when its file gives any wrong class (``file``), or its seed input is now misclassified (``seed``), or one of
    ``FRESH_MUTANTS`` fresh mutants fails (``fresh``): the recipe's natural operators at the same severities with fresh parameters, on seed
    inputs of the same class and the other half where there are such, so that they were never exported for training together with the
    defect. Recipes in which the model took part have no fresh mutants: an attack on the new model would measure its robustness in
    general, not this defect. A probe has no class: its defect recurs when the answer to its file is not finite.

    ``check`` is called before the fresh mutants of each defect are made; whatever it raises ends the replay.

    Raises:
        DataError: the earlier run was made with other classes.
    """
    same_classes(earlier, classes)
    defects = earlier.result.defects
    if not defects:
        return ()
    by_file = _wrong(defects, _predict(worker, earlier.mutants, output_kind, batch_size))
    by_seed = _wrong(defects, _predict(worker, earlier.originals, output_kind, batch_size))
    by_fresh = _fresh_failures(defects, worker, domain, seeds, output_kind, batch_size, campaign_seed, check)
    return tuple(
        Recurrence(defect, "file" if by_file[row] else "seed" if by_seed[row] else "fresh" if by_fresh[row] else None)
        for row, defect in enumerate(defects)
    )


def _read(
    defect: Defect, name: str, folder: Path, load: Callable[[Path], np.ndarray], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> np.ndarray:
    path = folder / defect.files.get(name, "")
    if not path.is_file() or not path.resolve().is_relative_to(folder.resolve()):
        raise DataError(f"The earlier run lacks a file of its defect {defect.id}.", where=str(path), hint="Give the whole run folder.")
    sample = load(path)
    if sample.shape != shape or sample.dtype != dtype:
        raise DataError(
            f"The earlier run's defect {defect.id} is {sample.dtype} {list(sample.shape)}; "
            f"this run's seed inputs are {dtype} {list(shape)}.",
            where=str(path),
            hint="Give --previous none, or an earlier run with the same input settings.",
        )
    return sample


def _wrong(defects: Sequence[Defect], predicted: np.ndarray) -> np.ndarray:
    """bool [D]: another class than the label; of a probe, which has none, no finite answer."""
    labels = np.array([-1 if defect.label is None else defect.label for defect in defects])
    return np.where(labels < 0, predicted < 0, predicted != labels)


def _predict(worker: Worker, x: np.ndarray, output_kind: OutputKind, batch_size: int) -> np.ndarray:
    return predictions(predict_all(worker, x, batch_size), output_kind)


def _fresh_failures(
    defects: Sequence[Defect],
    worker: Worker,
    domain: InputDomain,
    seeds: Seeds,
    output_kind: OutputKind,
    batch_size: int,
    campaign_seed: int,
    check: Callable[[], None],
) -> np.ndarray:
    """bool [D]: at least one fresh mutant fails."""
    owners: list[int] = []
    mutants: list[np.ndarray] = []
    for row, defect in enumerate(defects):
        check()
        if not defect.natural:
            continue
        operators = [(str(step["operator"]), float(step["severity"])) for step in defect.recipe]
        if any(name not in domain.natural for name, _ in operators):
            continue
        same_class = np.flatnonzero(seeds.labels == defect.label)
        held_out = [seed for seed in same_class if half_of(seeds.ids[seed]) != half_of(defect.seed_id)]
        pool = held_out or list(same_class)
        if not pool:
            continue
        random = generator(campaign_seed, "regression", defect.id)
        made = 0
        for seed in random.choice(np.array(pool), size=FRESH_TRIES):
            if made == FRESH_MUTANTS:
                break
            recipe = [domain.step(name, severity, int(random.integers(2**31))) for name, severity in operators]
            mutant = domain.replay(seeds.x[seed], recipe)
            if domain.valid(mutant[None], seeds.x[seed][None], [recipe])[0]:
                made += 1
                owners.append(row)
                mutants.append(mutant)
    failed = np.zeros(len(defects), dtype=bool)
    if mutants:
        predicted = _predict(worker, np.stack(mutants), output_kind, batch_size)
        for row, answer in zip(owners, predicted, strict=True):
            failed[row] |= bool(answer != defects[row].label)
    return failed
