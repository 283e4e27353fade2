"""``gate corpus minimize``: as few entries of a run's corpus as cover the same."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from gate.afterwards import model_of, reading_of
from gate.campaign.supervisor import Worker
from gate.config import CoverageSettings, kind_of
from gate.corpus.corpus_file import CorpusFile, CorpusWriter, read_corpus
from gate.corpus.cover import Sets, smallest_cover
from gate.corpus.locate import corpus_of
from gate.coverage.map_file import SEEDS_MAP, read_map
from gate.errors import CoverageMapError, DataError, ModelError, OutputError
from gate.result import Result

__all__ = ["Minimised", "minimise"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Minimised:
    """What became of a corpus."""

    out: Path
    before: int  # entries
    after: int
    least: int  # no choice of entries that covers the same can have fewer
    items: Mapping[str, int]  # covered beyond the seed inputs, by criterion; the same before and after
    left_out: tuple[str, ...]  # criteria without items, which are not kept
    bytes_before: int
    bytes_after: int
    model_calls: int
    rounds: int  # of the local search
    ended: bool  # False: the time was up before the search was


def minimise(
    run: Path, out: Path, *, seconds: float, device: str = "auto", tracking_uri: str | None = None, batch_size: int = 128
) -> Minimised:
    """Writes a corpus file with as few entries as are found that cover what all of them do.

    What counts is what entries cover beyond the seed inputs, in every criterion with items or patterns that the run measured: a campaign
    always begins with the seed inputs' own coverage. The model is asked what each entry covers, entries are chosen (see
    ``gate.corpus.cover``), the new file is written, read back, and the model is asked about it once more; only if that is exactly the same
    the file stays. Given time enough, the result depends on the run and the model alone.

    Args:
        run: folder of a run.
        out: the new file; must not exist.
        seconds: for everything. The model is asked, and a choice is made, in any case; what is left of the time improves it.
        device: auto, cpu, cuda or cuda:N.
        tracking_uri: MLflow's; the run's own where None.
        batch_size: samples in one forward pass; always so many, so that an answer does not depend on how many entries there are.

    Raises:
        OutputError: ``out`` exists or can't be written, or ``run`` is no finished run.
        DataError: the run has no corpus, or its corpus is refused.
        CoverageMapError: the seed inputs' coverage is missing or does not belong to the model.
        ModelError: the model is no longer the one of the run, or does not answer the same twice.
        GateError: whatever fetching, loading and running a model can raise.
    """
    started = time.monotonic()
    if out.exists():
        raise OutputError("The file exists already.", where=str(out), hint="Give a new file with --out.")
    result = Result.load(run)
    corpus = read_corpus(corpus_of(str(run)))
    map_path = run / "campaign" / SEEDS_MAP
    known = read_map(map_path, model=result.candidate.digest, profile=None)
    settings = _coverage_settings(run)
    if list(known.criteria) != sorted(settings.criteria):
        raise CoverageMapError(
            "The map holds other criteria than the run measured.", where=str(map_path), hint="Give the whole run folder."
        )
    left_out = tuple(name for name in settings.criteria if kind_of(name) == "statistic")
    names = tuple(name for name in settings.criteria if name not in left_out)
    if not names:
        raise DataError(
            f"The run measured {', '.join(left_out)} alone, which has no items that entries could share.",
            where=str(run),
            hint="Run the gate with a criterion that counts items, such as kmnc.",
        )
    current = corpus.current
    reading = reading_of(run)
    with model_of(run, result, reading, device=device, tracking_uri=tracking_uri) as loaded:
        worker = loaded.worker
        if len(current):
            parameters = {"coverage": settings.model_dump(mode="json"), "kind": str(reading.output_kind)}
            worker.call("watch", parameters, {"x": corpus.mutants(current[:3])})
            worker.call("restore", {"criteria": known.criteria}, known.arrays)
        hits = _hits(worker, corpus, current, names, batch_size)
        covered = _covered(hits)
        cover = smallest_cover(
            _sets(hits, len(current)),
            simple=_simplest_first(corpus, current),
            out_of_time=lambda: time.monotonic() - started > seconds,
        )
        try:
            _write(out, corpus, current[cover.chosen])
            written = read_corpus(out)
            again = _covered(_hits(worker, written, written.current, names, batch_size))
            if not all(np.array_equal(again[name], covered[name]) for name in names):
                before, after = (sum(map(len, one.values())) for one in (covered, again))
                raise ModelError(
                    f"Asked again, the model covers {after:,} items with the smaller corpus and not the same {before:,}.",
                    where=loaded.uri,
                    hint="It does not answer the same twice, so what entries cover can't be compared; see the checks in the run's report.",
                )
        except BaseException:
            out.unlink(missing_ok=True)
            raise
        calls = int(worker.call("describe")[0]["model_calls"])
    return Minimised(
        out=out,
        before=len(current),
        after=len(cover.chosen),
        least=cover.least,
        items={name: len(items) for name, items in covered.items()},
        left_out=left_out,
        bytes_before=corpus.size,
        bytes_after=written.size,
        model_calls=calls,
        rounds=cover.rounds,
        ended=cover.ended,
    )


Hits = dict[str, tuple[Ints, Ints]]
"""By criterion: entry (its place among those asked about) and item (of a pattern: its code) of everything that entries cover, [H] each."""


def _hits(worker: Worker, corpus: CorpusFile, numbers: Ints, names: tuple[str, ...], batch_size: int) -> Hits:
    """What entries cover beyond the seed inputs."""
    nothing = np.zeros(0, dtype=np.int64)
    owners: dict[str, list[Ints]] = {name: [nothing] for name in names}
    items: dict[str, list[Ints]] = {name: [nothing] for name in names}
    for start in range(0, len(numbers), batch_size):
        x = corpus.mutants(numbers[start : start + batch_size])
        # Always as many samples, so that the model answers an entry the same whatever stands beside it.
        padded = np.concatenate([x, np.repeat(x[:1], batch_size - len(x), axis=0)])
        _, arrays = worker.call("items", {}, {"x": padded})
        for name in names:
            sample, item = arrays[name]
            mine = sample < len(x)
            owners[name].append(sample[mine] + start)
            items[name].append(item[mine])
    return {name: (np.concatenate(owners[name]), np.concatenate(items[name])) for name in names}


def _sets(hits: Hits, count: int) -> Sets:
    """Entries as sets, the items of all criteria numbered through."""
    owners, items, first = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)], 0
    for owner, item in hits.values():
        distinct, number = np.unique(item, return_inverse=True)
        owners.append(owner)
        items.append(number + first)
        first += len(distinct)
    return Sets(np.concatenate(owners), np.concatenate(items), count)


def _covered(hits: Hits) -> dict[str, Ints]:
    """The distinct items, rising."""
    return {name: np.unique(item) for name, (_, item) in hits.items()}


def _simplest_first(corpus: CorpusFile, numbers: Ints) -> Ints:
    """Places in ``numbers``, from the simplest entry to the least simple: fewer steps, nearer the seed input, earlier in the file."""
    lengths = np.array([len(corpus.entries.recipes[number]) for number in numbers.tolist()], dtype=np.int64)
    order: Ints = np.lexsort((numbers, corpus.entries.distances[numbers], lengths))
    return order


def _write(out: Path, corpus: CorpusFile, numbers: Ints) -> None:
    """Writes entries, step by step as they were."""
    file = CorpusWriter(out, corpus.head)
    try:
        for step in np.unique(corpus.steps[numbers]).tolist():
            chosen = numbers[corpus.steps[numbers] == step]
            entries = corpus.entries.rows(chosen)
            file.append(replace(entries, replaces=np.full(len(chosen), -1)), corpus.mutants(chosen), step=step)
    finally:
        file.close()


def _coverage_settings(run: Path) -> CoverageSettings:
    """What the run measured coverage by."""
    path = run / "campaign" / "identity.json"
    try:
        said: Any = json.loads(path.read_text(encoding="utf-8"))["settings"]["coverage"]
        return CoverageSettings.model_validate_json(json.dumps(said))
    except (OSError, ValueError, KeyError, TypeError, RecursionError, ValidationError) as error:
        raise OutputError(
            "The run does not say how it measured coverage.", where=str(path), hint="Give the whole folder of a run."
        ) from error
