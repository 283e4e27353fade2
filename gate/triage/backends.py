"""Does a right answer stay right where the model runs in another way: another precision or memory layout, alone or beside other inputs?

Inputs that the model reads rightly are answered once more on every numeric path, in batches. Where another class comes out by a margin, or
nothing that is finite, one input is run again by itself; if it happens again, it becomes a defect like any other, with files. Of a seed
input itself the recipe is empty.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gate.campaign.answered import answered
from gate.campaign.raising import Raising, exception_in_words
from gate.campaign.raising_steps import no_answers
from gate.campaign.supervisor import Refused, Worker
from gate.domains.domain import InputDomain
from gate.models.outputs import OutputKind
from gate.oracles import observe
from gate.oracles.batch_dependence import BatchDependence
from gate.oracles.numeric_path import NumericPath
from gate.oracles.oracle import Observation
from gate.oracles.pair import apart
from gate.result import Defect
from gate.triage.allowance import Allowance
from gate.triage.defect_files import write_description
from gate.triage.identity import class_name, defect_id, outcome_of, root_cause_id

__all__ = [
    "ALONE",
    "COMPANY",
    "COMPARED",
    "Compared",
    "Disagreement",
    "Input",
    "compare",
    "confirm",
    "disagree_again",
    "identity_of",
    "is_backend",
    "passes_of",
    "run_as_found",
    "way_in_words",
    "wrong_beside_negative",
]

ALONE, COMPANY = "alone", "company"  # which of two answers is the wrong one, where they depend on the batch
COMPARED = 2 + NumericPath.passes_per_input()  # forward passes of one input: in a batch, alone, and on the paths


@dataclass(frozen=True, eq=False)
class Input:
    """One input that the model reads rightly."""

    x: np.ndarray  # [...] in the file dtype
    original: np.ndarray  # [...]: its seed input
    seed_id: str
    label: int
    recipe: tuple[Any, ...] = ()  # of a mutant


@dataclass(frozen=True)
class Disagreement:
    """One input with another answer."""

    row: int
    oracle: str  # numeric_path | batch_dependence
    way: str  # the numeric path; of batch dependence ``ALONE`` or ``COMPANY``
    predicted: int  # the wrong class; -1 where the answer is not finite


@dataclass
class Tally:
    """What came of one way of running the model."""

    tried: int
    findings: int = 0
    worst: float = 0.0  # the largest difference of a probability


@dataclass
class Compared:
    """What the comparison of N inputs brought."""

    answers: Observation | None = None  # of N rows, answered in batches
    tallies: dict[str, Tally] = field(default_factory=dict)  # by oracle; numeric paths as numeric_path:<path>
    untaken: dict[str, str] = field(default_factory=dict)  # numeric paths (or batch_dependence) without an answer, and why
    found: list[Disagreement] = field(default_factory=list)  # by way, the largest difference first

    @property
    def disagreeing(self) -> int:
        """Inputs with another answer in some way."""
        return len({one.row for one in self.found})

    def refute(self, one: Disagreement) -> None:
        """Takes back what did not happen again."""
        self.found.remove(one)
        self.tallies[f"{one.oracle}:{one.way}" if one.oracle == NumericPath.name else one.oracle].findings -= 1


def compare(
    worker: Worker,
    inputs: Sequence[Input],
    output_kind: OutputKind,
    batch_size: int,
    allowance: Allowance,
    *,
    paths: Sequence[str] = NumericPath.PLAIN,
    alone: bool = True,
    prices: dict[str, int] | None = None,
    begin: Callable[[str], None] = lambda _: None,
    done: Compared | None = None,
) -> Compared:
    """Has every input answered in a batch, alone, and on every path, and looks for changed answers. Books what it takes.

    Args:
        worker: with the model loaded.
        inputs: N of them, at least one.
        output_kind: how to read the model's output.
        batch_size: largest batch.
        allowance: a way that it does not pay for is left out, and named.
        paths: in this order.
        alone: whether answers alone and in company are compared.
        prices: forward-equivalents that a path costs beside its passes.
        begin: told what is done next, for messages.
        done: what is filled in; whoever holds it has what was done before an exception.

    Raises:
        BudgetSpent, Interrupted, WorkerError, ModelError: as the worker does.
    """
    done = Compared() if done is None else done
    x, labels = np.stack([one.x for one in inputs]), np.array([one.label for one in inputs])

    def seen(raw: np.ndarray) -> Observation:
        return observe(raw, output_kind, labels)

    if not allowance.take(len(x)):
        return done
    begin("inputs were answered to compare numeric paths")
    try:
        together, _, wasted = answered(worker, x, batch_size, Raising())  # what was answered once may raise in other company
    except Refused:
        ways = (*((BatchDependence.name,) if alone else ()), *paths)
        done.untaken |= dict.fromkeys(ways, "the model raises an exception on inputs that it has answered before")
        return done
    allowance.book(wasted)
    done.answers = answers = seen(together)
    if alone:
        _compare_alone(worker, x, done, allowance, seen, begin)
    for path in paths:
        some = np.array(NumericPath.sparsely(path, len(x)))
        if not allowance.take(len(some) * NumericPath.PATHS[path].passes + (prices or {}).get(path, 0)):
            done.untaken[path] = "there was no budget for it"
            continue
        begin(f"inputs were answered on the numeric path {path}")
        raw = _on_path(worker, path, x[some], batch_size)
        if raw is None:
            done.untaken[path] = "the model or the device can't take it"
            continue
        first, other = (observe(one, output_kind, labels[some]) for one in (answers.raw[some], raw))
        distance, oracle = np.zeros(len(x)), NumericPath(path)
        distance[some] = apart(first, other)
        places = np.flatnonzero(oracle.turned(first, other) & (first.predicted == first.labels))
        turned = [Disagreement(int(some[place]), oracle.name, path, int(other.predicted[place])) for place in places]
        _note(done, f"{oracle.name}:{path}", len(some), distance, turned)
    return done


def _compare_alone(
    worker: Worker,
    x: np.ndarray,
    done: Compared,
    allowance: Allowance,
    seen: Callable[[np.ndarray], Observation],
    begin: Callable[[str], None],
) -> None:
    company, oracle = done.answers, BatchDependence()
    assert company is not None
    if not allowance.take(len(x)):
        done.untaken[oracle.name] = "there was no budget for it"
        return
    begin("inputs were answered alone")
    try:
        alone = seen(_forward(worker, x, 1))
    except Refused:
        done.untaken[oracle.name] = "the model raises an exception on one input alone"
        return
    found = []
    for row in np.flatnonzero(oracle.turned(alone, company)):
        # Where both are wrong, it is the batch that a model is served with.
        wrong_in_company = company.predicted[row] != company.labels[row]
        way, predicted = (COMPANY, company.predicted[row]) if wrong_in_company else (ALONE, alone.predicted[row])
        found.append(Disagreement(int(row), oracle.name, way, int(predicted)))
    _note(done, oracle.name, len(x), apart(alone, company), found)


def _note(done: Compared, name: str, tried: int, distance: np.ndarray, found: list[Disagreement]) -> None:
    found.sort(key=lambda one: (-distance[one.row], one.row))
    done.tallies[name] = Tally(tried, len(found), float(distance.max()))
    done.found += found


def identity_of(one: Input, found: Disagreement, classes: Sequence[str]) -> str:
    """The id of the defect that a confirmed disagreement becomes: a seed input has one for each way and wrong class."""
    return defect_id(one.seed_id, found.oracle, _outcome(found, classes), (_family(found),))


def confirm(
    worker: Worker,
    domain: InputDomain,
    one: Input,
    found: Disagreement,
    classes: Sequence[str],
    folder: Path,
    output_kind: OutputKind,
    times: int,
) -> Defect | None:
    """The defect, on disk when this returns; None where the answers agreed in one of ``times`` runs of the input by itself.

    Args:
        worker: with the model loaded.
        domain: reads and writes samples.
        one: the input.
        found: what it was found by.
        classes: names.
        folder: the run folder.
        output_kind: how to read the model's output.
        times: how often it is run, at ``passes_of`` each.

    Its folder must not be there yet; see ``identity_of``.
    """
    identity, outcome, family = identity_of(one, found, classes), _outcome(found, classes), _family(found)
    place, base, known = folder / "defects" / identity, f"defects/{identity}", False
    place.mkdir(parents=True, exist_ok=True)
    try:
        data = domain.save(place / "mutant", one.x)
        original = domain.save(place / "original", one.original)
        x, after = domain.load(data), None
        for _ in range(times):
            before, after = run_as_found(worker, x, found.oracle, found.way, one.label, output_kind, domain.value_range)
            if after is None or int(after.predicted[0]) != found.predicted or not _turned(found.oracle, found.way, before, after):
                return None
        assert after is not None
        pictures = (
            ("original", domain.picture(one.original)),
            ("mutant", domain.picture(one.x)),
            ("diff", domain.difference(one.original, one.x)),
        )
        for name, picture in pictures:
            if place / f"{name}.png" not in (data, original):  # the sample's own file may be a picture already
                Image.fromarray(picture).save(place / f"{name}.png")
        defect = Defect(
            id=identity,
            arm="paths",
            seed_id=one.seed_id,
            label=one.label,
            predicted=None if found.predicted < 0 else found.predicted,
            confidence_before=_confidence(before, one.label),
            confidence_after=None if found.predicted < 0 else _confidence(after, found.predicted),
            oracle=found.oracle,
            detail=found.way,
            operator=one.recipe[-1].operator if one.recipe else "none",
            family=family,
            families=(family,),
            natural=False,  # what changes the answer is how the model is run
            severity=round(float(sum(step.severity for step in one.recipe)), 6),
            recipe=tuple(step.to_json() for step in one.recipe),
            root_cause=root_cause_id(found.oracle, class_name(one.label, classes), outcome, family),
            files={
                **{name: f"{base}/{name}.png" for name, _ in pictures},
                "original_data": f"{base}/{original.name}",
                "mutant_data": f"{base}/{data.name}",
            },
        )
        write_description(folder, defect)
        known = True
        return defect
    finally:
        if not known:
            shutil.rmtree(place, ignore_errors=True)


def wrong_beside_negative(worker: Worker, one: Input, output_kind: OutputKind, value_range: tuple[float, float]) -> int | None:
    """The wrong class that an input, right alone, is read as beside its own negative, -1 where that answer is not finite; None: no such."""
    before, after = run_as_found(worker, one.x, BatchDependence.name, COMPANY, one.label, output_kind, value_range)
    if after is None or not _turned(BatchDependence.name, COMPANY, before, after):
        return None
    return int(after.predicted[0])


def passes_of(found: Disagreement) -> int:
    """Forward passes that running one input again as it was found counts as."""
    return 1 + (NumericPath.PATHS[found.way].passes if found.oracle == NumericPath.name else 2)


def is_backend(defect: Defect) -> bool:
    """Whether it is how the model is run that changes the answer, and not the input."""
    return defect.oracle in (NumericPath.name, BatchDependence.name)


def way_in_words(oracle: str, way: str | None) -> str:
    """How a model is run that answers wrongly, e.g. ``when served in half precision (float16)``."""
    if oracle == NumericPath.name and way in NumericPath.PATHS:
        return f"when served {NumericPath.PATHS[way].served}"
    return {ALONE: "when asked alone, not beside other inputs", COMPANY: "when asked beside other inputs, not alone"}.get(way or "", "")


def run_as_found(
    worker: Worker, x: np.ndarray, oracle: str, way: str, label: int, output_kind: OutputKind, value_range: tuple[float, float]
) -> tuple[Observation, Observation | None]:
    """One input's right and wrong answer once more: needs nothing but the input itself, which keeps its own negative company.

    Args:
        worker: with a model loaded.
        x: [...] in the file dtype.
        oracle: numeric_path or batch_dependence.
        way: as in ``Disagreement``.
        label: its class.
        output_kind: how to read the model's output.
        value_range: of a file.

    Returns:
        The answer as tested, and the one on the path; the latter is None where the model or the device can't take it, or the model raises
        on the company. Where it raises on the input alone, both are that exception.
    """

    def seen(raw: np.ndarray) -> Observation:
        return observe(raw[:1], output_kind, np.array([label]))

    try:
        alone = seen(_forward(worker, x[None], 1))
    except Refused as error:
        nothing = no_answers(1, max(2, label + 1), output_kind)
        alone = observe(nothing, output_kind, np.array([label]), raised={0: exception_in_words(error)})
        return alone, alone
    if oracle == NumericPath.name:
        raw = _on_path(worker, way, x[None], 1)
        return alone, None if raw is None else seen(raw)
    low, high = value_range
    negative = (low + high - x.astype(np.float64)).astype(x.dtype)
    try:
        company = seen(_forward(worker, np.stack([x, negative]), 2))
    except Refused:
        return alone, None
    return (company, alone) if way == ALONE else (alone, company)


def disagree_again(
    worker: Worker,
    defects: Sequence[Defect],
    mutants: np.ndarray,
    output_kind: OutputKind,
    value_range: tuple[float, float],
) -> dict[str, bool]:
    """Of an earlier run's defects those that came from how the model is run: whether that still gives another class than the label.

    A numeric path that this model or device can't take says nothing, and its defects are left out.

    Args:
        worker: with the model loaded.
        defects: D of them, of any kind.
        mutants: [D, ...] their inputs.
        output_kind: how to read the model's output.
        value_range: of a file.
    """
    again: dict[str, bool] = {}
    for defect, x in zip(defects, mutants, strict=True):
        if not is_backend(defect) or defect.label is None or not way_in_words(defect.oracle, defect.detail):
            continue
        assert defect.detail is not None
        before, after = run_as_found(worker, x, defect.oracle, defect.detail, defect.label, output_kind, value_range)
        if after is not None:
            again[defect.id] = _turned(defect.oracle, defect.detail, before, after)
    return again


def _turned(oracle: str, way: str, before: Observation, after: Observation) -> bool:
    if int(after.predicted[0]) == int(after.labels[0]):
        return False
    pair = NumericPath(way) if oracle == NumericPath.name else BatchDependence()
    return bool(pair.turned(before, after)[0])


def _forward(worker: Worker, x: np.ndarray, batch_size: int) -> np.ndarray:
    rows = range(0, len(x), batch_size)
    return np.concatenate([worker.call("forward", {}, {"x": x[start : start + batch_size]})[1]["raw"] for start in rows])


def _on_path(worker: Worker, path: str, x: np.ndarray, batch_size: int) -> np.ndarray | None:
    raw = []
    for start in range(0, len(x), batch_size):
        fields, arrays = worker.call("numeric_path", {"path": path}, {"x": x[start : start + batch_size]})
        if not fields["supported"]:
            return None
        raw.append(arrays["raw"])
    return np.concatenate(raw)


def _confidence(seen: Observation, label: int) -> float | None:
    value = float(seen.probabilities[0, label])
    return value if np.isfinite(value) else None


def _outcome(found: Disagreement, classes: Sequence[str]) -> str:
    return outcome_of(None if found.predicted < 0 else found.predicted, classes)


def _family(found: Disagreement) -> str:
    return f"backend_{found.way}" if found.oracle == NumericPath.name else "backend_batch"
