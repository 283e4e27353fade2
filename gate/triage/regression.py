"""Do the defects of an earlier run come back? Replays their files, their seed inputs, and fresh mutants of the same root cause."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gate.campaign.loop import Seeds
from gate.campaign.preflight import predict_all
from gate.campaign.supervisor import Refused, Worker
from gate.corpus.export import file_of, half_of
from gate.corpus.trainable import severities_found
from gate.domains.domain import InputDomain
from gate.domains.mark import Mark, lay
from gate.errors import DataError
from gate.models.outputs import OutputKind, predictions
from gate.oracles import Switches
from gate.oracles.universal_mark import AnyMark
from gate.randomness import generator
from gate.result import Defect, Result
from gate.triage.backends import disagree_again, is_backend
from gate.triage.doubts import doubted_again
from gate.triage.mark_defects import read_mark
from gate.triage.verdicts import Recurrence

__all__ = ["FRESH_MUTANTS", "EarlierRun", "SeedInputs", "read_answers", "read_earlier", "replay_all", "replay_earlier", "same_classes"]

FRESH_MUTANTS = 4  # of each earlier defect; at least one that fails means that the root cause is still there
TRIES = 4  # for each of them: an invalid mutant is drawn anew, so that every defect gets the same number, within reason


@dataclass(frozen=True)
class EarlierRun:
    """An earlier run with the files of its D defects in memory: from now on nothing on disk can change them."""

    result: Result
    folder: Path  # for messages
    mutants: np.ndarray  # [D, H, W, C] in the file dtype; empty where there is no defect
    originals: np.ndarray  # the same
    marks: Mapping[str, Mark] = field(default_factory=dict)  # by defect id: the universal mark on it, where its file is there


@dataclass(frozen=True)
class SeedInputs:
    """What fresh mutants are made of: S clean samples that the model classifies correctly."""

    x: np.ndarray  # [S, H, W, C] in the file dtype
    labels: np.ndarray  # int64 [S]
    ids: tuple[str, ...]


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

    return EarlierRun(result, folder, files("mutant_data"), files("original_data"), _marks(result, folder, shape))


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
    switches: Switches | None = None,
) -> tuple[Recurrence, ...]:
    """Replays every defect of an earlier run on the model in the worker; see ``replay_all``.

    Fresh mutants start from seed inputs of the other half than the defect's where there are such, so that they were never exported for
    training together with it.

    Raises:
        DataError: the earlier run was made with other classes.
    """
    same_classes(earlier, classes)

    def rows_for(defect: Defect) -> Sequence[int]:
        same_class = np.flatnonzero(seeds.labels == defect.label)
        return [int(row) for row in same_class if half_of(seeds.ids[row]) != half_of(defect.seed_id)] or list(map(int, same_class))

    return replay_all(
        earlier,
        worker=worker,
        domain=domain,
        seeds=SeedInputs(seeds.x, seeds.labels, seeds.ids),
        rows_for=rows_for,
        output_kind=output_kind,
        batch_size=batch_size,
        campaign_seed=campaign_seed,
        check=check,
        switches=switches,
    )


def replay_all(
    earlier: EarlierRun,
    *,
    worker: Worker,
    domain: InputDomain,
    seeds: SeedInputs,
    rows_for: Callable[[Defect], Sequence[int]],
    output_kind: OutputKind,
    batch_size: int,
    campaign_seed: int,
    fresh: Callable[[Defect], int] = lambda defect: FRESH_MUTANTS,
    check: Callable[[], None] = lambda: None,
    switches: Switches | None = None,
) -> tuple[Recurrence, ...]:
    """Asks of every defect all three: whether its file gives any wrong class, its seed input is misclassified, fresh mutants fail.

    Fresh mutants are the recipe's natural operators with fresh parameters, at the severities at which the campaign found the defect: a
    minimised severity is where its own seed input just fails, and others would not yet. Recipes in which the model took part have none: an
    attack on the new model would measure its robustness in general, not this defect. A probe has no class: its file fails where the answer
    is not finite. The fresh mutants of a universal mark are other inputs that carry it, and fail where they are read as its class.
    Where an oracle complained although the class was kept, it is asked again. An exception that the model raises is an answer that is not
    finite. A defect that came from how the model is run recurs
    when it still answers wrongly when run so; where it can't be run so, nothing can be said, and the defect is left out.

    Args:
        earlier: the run.
        worker: with the model loaded.
        domain: makes mutants and says which are valid.
        seeds: that fresh mutants may start from.
        rows_for: which of them may serve for a defect.
        output_kind: how to read the model's output.
        batch_size: samples in one forward pass.
        campaign_seed: addresses the random numbers of fresh mutants.
        fresh: how many of them a defect gets.
        switches: with the thresholds of oracles that look at more than the class; the defaults where None.
        check: called before the fresh mutants of each defect are made; whatever it raises ends the replay.
    """
    defects = earlier.result.defects
    if not defects:
        return ()
    by_file = _wrong(defects, read_answers(worker, earlier.mutants, output_kind, batch_size))
    by_seed = _wrong(defects, read_answers(worker, earlier.originals, output_kind, batch_size))
    run_otherwise = disagree_again(worker, defects, earlier.mutants, output_kind, domain.value_range)
    doubted = doubted_again(worker, defects, earlier.mutants, earlier.originals, output_kind, switches or Switches())
    owners: list[int] = []
    mutants: list[np.ndarray] = []
    for row, defect in enumerate(defects):
        check()
        if defect.oracle == AnyMark.name:
            made = _marked(defect, fresh(defect), earlier.marks.get(defect.id), seeds, rows_for, campaign_seed)
        else:
            made = _fresh_mutants(defect, fresh(defect), domain, seeds, rows_for, campaign_seed)
        owners += [row] * len(made)
        mutants += made
    failed: list[list[bool]] = [[] for _ in defects]
    if mutants:
        for row, answer in zip(owners, read_answers(worker, np.stack(mutants), output_kind, batch_size), strict=True):
            failed[row].append(_failed(defects[row], int(answer)))
    return tuple(
        Recurrence(
            defect,
            bool(by_file[row]) or run_otherwise.get(defect.id, False) or doubted.get(defect.id, False),
            bool(by_seed[row]),
            tuple(failed[row]),
            FRESH_MUTANTS,
        )
        for row, defect in enumerate(defects)
        if not is_backend(defect) or defect.id in run_otherwise
    )


def read_answers(worker: Worker, x: np.ndarray, output_kind: OutputKind, batch_size: int) -> np.ndarray:
    """int64 [N]: the predicted classes of [N, ...] samples; -1 where the answer is not finite, or where the model raises.

    A batch in which it raises is halved until it is known which samples it raises on.
    """
    if not len(x):
        return np.empty(0, dtype=np.int64)
    try:
        return predictions(predict_all(worker, x, batch_size), output_kind)
    except Refused:
        if len(x) == 1:
            return np.array([-1])
        half = len(x) // 2
        return np.concatenate([read_answers(worker, part, output_kind, batch_size) for part in (x[:half], x[half:])])


def _read(
    defect: Defect, name: str, folder: Path, load: Callable[[Path], np.ndarray], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> np.ndarray:
    path = file_of(defect, name, folder)
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


def _fresh_mutants(
    defect: Defect,
    count: int,
    domain: InputDomain,
    seeds: SeedInputs,
    rows_for: Callable[[Defect], Sequence[int]],
    campaign_seed: int,
) -> list[np.ndarray]:
    """At most ``count`` valid ones [H, W, C]."""
    operators = _operators(defect, domain)
    if not operators or defect.label is None:
        return []
    rows = rows_for(defect)
    if not len(rows):
        return []
    random = generator(campaign_seed, "regression", defect.id)
    mutants: list[np.ndarray] = []
    for seed in random.choice(np.array(rows), size=TRIES * count):
        if len(mutants) == count:
            break
        recipe = [domain.step(name, severity, int(random.integers(2**31))) for name, severity in operators]
        mutant = domain.replay(seeds.x[seed], recipe)
        if domain.valid(mutant[None], seeds.x[seed][None], [recipe])[0]:
            mutants.append(mutant)
    return mutants


def _failed(defect: Defect, answer: int) -> bool:
    """Whether an answer to a fresh mutant is wrong; with a mark on it, only where it goes to the mark's class or is none at all."""
    if defect.oracle == AnyMark.name:
        return answer in (defect.predicted, -1)
    return answer != defect.label


def _marked(
    defect: Defect,
    count: int,
    mark: Mark | None,
    seeds: SeedInputs,
    rows_for: Callable[[Defect], Sequence[int]],
    campaign_seed: int,
) -> list[np.ndarray]:
    """At most ``count`` other inputs [H, W, C] of the same class that carry the mark; none where its file is not known."""
    rows = [row for row in rows_for(defect) if seeds.ids[row] != defect.seed_id]
    if mark is None or not rows:
        return []
    chosen = generator(campaign_seed, "regression", defect.id).permutation(np.array(rows))[:count]
    return list(lay(seeds.x[chosen], mark.weight, mark.picture))


def _marks(result: Result, folder: Path, shape: tuple[int, ...]) -> dict[str, Mark]:
    found = {}
    for defect in result.defects:
        path = folder / defect.files.get("mark_data", "")
        if defect.oracle != AnyMark.name or not path.is_file() or not path.resolve().is_relative_to(folder.resolve()):
            continue
        mark = read_mark(path, defect.family.removeprefix("mark_"), shape)
        if mark is not None:
            found[defect.id] = mark
    return found


def _operators(defect: Defect, domain: InputDomain) -> list[tuple[str, float]]:
    """The steps of the recipe as (operator, severity); none where one of them is no natural operator of this domain."""
    steps = [str(step.get("operator")) for step in defect.recipe]
    found = severities_found(defect)
    # A record may have been edited: every step needs a severity that can be true.
    usable = sum(map(len, severities_found(defect.model_copy(update={"minimal": None})).values()))
    if not defect.natural or any(name not in domain.natural for name in steps) or usable < len(steps):
        return []
    once = len(set(steps)) == len(steps)
    own = [float(step["severity"]) for step in defect.recipe]
    return [(name, max(found[name]) if once else severity) for name, severity in zip(steps, own, strict=True)]
