"""The probes' turn: first in a campaign, since they are cheap and find the rude faults. Lives in the supervisor.

Each probe is answered alone (so that a crash, a hang or an exception can be laid at its door), then in the company of other probes and seed
inputs, then on other numeric paths. Nothing here earns coverage, and no oracle here needs a label.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gate.campaign.budget import BudgetSpent
from gate.campaign.deadline import Interrupted
from gate.campaign.raising import Raising, exception_in_words
from gate.campaign.raising_steps import no_answers
from gate.campaign.supervisor import Refused, Worker
from gate.domains.probe import Probe
from gate.errors import ModelError, WorkerError
from gate.models.outputs import OutputKind
from gate.oracles import Switches
from gate.oracles.batch_dependence import BatchDependence
from gate.oracles.crash import Crash
from gate.oracles.non_finite import NonFinite
from gate.oracles.numeric_path import NumericPath
from gate.oracles.oracle import Observation, observe
from gate.oracles.pair import apart
from gate.oracles.unjustified_confidence import UnjustifiedConfidence

__all__ = ["Probed", "Tally", "run_probes"]

# Samples that a probe takes once it was answered: in company, beside a seed input, and on each path.
_COMPARED = 2 + NumericPath.passes_per_input()


@dataclass(frozen=True)
class Tally:
    """What one oracle said."""

    tried: int  # probes it looked at
    findings: tuple[int, ...]  # positions of the probes it complains about, the worst first
    worst: float | None = (
        None  # the largest difference of a probability that it saw, whether it complains or not; of confidence: the highest
    )


@dataclass
class Probed:
    """What the probes' turn brought; P of the probes were answered."""

    probes: tuple[Probe, ...] = ()  # P, in order
    answers: Observation | None = None  # of P rows, each answered alone; labels are -1
    tallies: dict[str, Tally] = field(default_factory=dict)  # by oracle; numeric paths as numeric_path:<path>
    untaken: tuple[str, ...] = ()  # numeric paths that the model can't take
    model_calls: int = 0
    late: bool = False  # whether the time for probes was over before all of it was done
    stopped: str | None = None  # why not all of it was done

    @property
    def compared(self) -> bool:
        """Whether answers were compared with others of the same probes."""
        return any(name.split(":")[0] in _DISAGREEMENTS for name in self.tallies)

    @property
    def disagreeing(self) -> set[int]:
        """Positions of the probes with another answer in other company or on another numeric path."""
        return {row for name, tally in self.tallies.items() if name.split(":")[0] in _DISAGREEMENTS for row in tally.findings}


_DISAGREEMENTS = (BatchDependence.name, NumericPath.name)


def run_probes(
    worker: Worker,
    probes: Sequence[Probe],
    seeds: np.ndarray,
    output_kind: OutputKind,
    batch_size: int,
    *,
    deterministic: bool,
    begin: Callable[[str], None],
    late: Callable[[int], bool] = lambda _: False,
    switches: Switches | None = None,
) -> Probed:
    """Has every probe answered and asks the oracles. Where the time is up or somebody says stop, what was done until then counts.

    Where there is no time for all of them, the first ones are answered and compared.

    Args:
        worker: with the model loaded.
        probes: in order.
        seeds: [S, ...] seed inputs, which keep the probes company.
        output_kind: how to read the model's output.
        batch_size: largest batch.
        deterministic: whether the same batch gives the same answers; else a comparison of two answers says nothing and is left out.
        begin: told what is done next, for messages.
        late: whether the time for probes would be over once so many more samples have run.
        switches: which oracles are on; None: those that are by default.

    Raises:
        WorkerError: the worker died, kept silent or lied; where it was on one probe alone, the message names it.
        Refused: the model raised an exception on too many probes in a row.
        ModelError: it is otherwise at fault; likewise.
    """
    done = Probed()
    asked = switches or Switches()
    raising = Raising()
    raised: dict[int, str] = {}

    def seen(raw: np.ndarray) -> Observation:
        return observe(raw, output_kind, np.full(len(raw), -1))

    try:
        rows: list[np.ndarray | None] = []  # None: it raised
        try:
            for probe in probes:
                done.late = late(1 + (_COMPARED * (len(rows) + 1) if deterministic else 0))
                if done.late:
                    break
                begin(f"the probe {probe.name} was answered")
                try:
                    rows.append(_alone(worker, probe))
                    raising.answered()
                except Refused as error:
                    raised[len(rows)] = raising.note(error)
                    rows.append(None)
        finally:
            done.probes, done.model_calls = tuple(probes[: len(rows)]), len(rows)
            if rows:
                done.answers = observe(_with_nan(rows, output_kind), output_kind, np.full(len(rows), -1), raised=raised)
                done.tallies |= _of_one(done.probes, done.answers, asked)
        compared = [row for row, answer in enumerate(rows) if answer is not None]
        if not compared or not deterministic:
            return done
        calm = tuple(probes[row] for row in compared)
        alone = seen(np.concatenate([answer for answer in rows if answer is not None]))
        try:
            if asked.batch_dependence.on:
                begin("the probes were answered in company")
                company = seen(_in_company(worker, calm, seeds, batch_size))
                done.model_calls += 2 * len(calm)
                complains = BatchDependence().complains(alone, company)
                done.tallies[BatchDependence.name] = _compared(complains, alone, company, compared)
            for path in NumericPath.PLAIN if asked.numeric_path.on else ():
                some = NumericPath.sparsely(path, len(calm))
                if late(len(some) * NumericPath.PATHS[path].passes):
                    done.late = True
                    break
                begin(f"the probes were answered on the numeric path {path}")
                other = _on_path(worker, path, [calm[row] for row in some], batch_size)
                if other is None:
                    done.untaken = (*done.untaken, path)
                    continue
                done.model_calls += len(some)
                first, answers = seen(alone.raw[some]), seen(other)
                name = f"{NumericPath.name}:{path}"
                complains = NumericPath(path).complains(first, answers)
                done.tallies[name] = _compared(complains, first, answers, [compared[row] for row in some])
        except Refused as error:  # each was answered alone, so it is the company or the path
            done.stopped = f"the model raised where answers were compared: {exception_in_words(error)}"
    except (BudgetSpent, Interrupted) as error:
        done.stopped = error.what
    return done


def _alone(worker: Worker, probe: Probe) -> np.ndarray:
    """Raw outputs float32 [1, K] of one probe; errors name it, but for an exception of the model's."""
    try:
        _, arrays = worker.call("forward", {}, {"x": probe.x[None]})
    except Refused:
        raise
    except (WorkerError, ModelError) as error:
        error.what = f"{error.what.rstrip('.')}. The input in flight was the probe {probe.name!r}, alone."
        raise
    return arrays["raw"]


def _with_nan(rows: Sequence[np.ndarray | None], output_kind: OutputKind) -> np.ndarray:
    """float32 [P, K]: NaN in the rows without an answer."""
    blank = next((np.full_like(row, np.nan) for row in rows if row is not None), no_answers(1, 2, output_kind))
    return np.concatenate([blank if row is None else row for row in rows])


def _of_one(probes: Sequence[Probe], answers: Observation, asked: Switches) -> dict[str, Tally]:
    """What the oracles say that need one answer only."""
    faults = [oracle for oracle, switch in ((Crash(), asked.crash), (NonFinite(), asked.non_finite)) if switch.on]
    said = {one.name: Tally(len(probes), tuple(np.flatnonzero(one.complains(answers)).tolist())) for one in faults}
    if not asked.unjustified_confidence.on:
        return said
    nothing = np.array([probe.shows_nothing for probe in probes])
    sure = UnjustifiedConfidence().complains(answers) & nothing
    confidence = np.where(nothing, np.nan_to_num(answers.probabilities).max(axis=1, initial=0.0), -1.0)
    highest = float(confidence.max()) if nothing.any() else None
    return {**said, UnjustifiedConfidence.name: Tally(int(nothing.sum()), _worst_first(sure, confidence), highest)}


def _in_company(worker: Worker, probes: Sequence[Probe], seeds: np.ndarray, batch_size: int) -> np.ndarray:
    """Raw outputs float32 [P, K] in the probes' order; they are run backwards, each beside a seed input."""
    x = np.stack([probe.x for probe in probes])[::-1]
    beside = seeds[np.arange(len(x)) % len(seeds)]
    mixed = np.stack([x, beside], axis=1).reshape(2 * len(x), *x.shape[1:])
    size = max(2, batch_size - batch_size % 2)
    raw = [worker.call("forward", {}, {"x": mixed[start : start + size]})[1]["raw"] for start in range(0, len(mixed), size)]
    return np.concatenate(raw)[::2][::-1]


def _on_path(worker: Worker, path: str, probes: Sequence[Probe], batch_size: int) -> np.ndarray | None:
    raw = []
    for start in range(0, len(probes), batch_size):
        x = np.stack([probe.x for probe in probes[start : start + batch_size]])
        fields, arrays = worker.call("numeric_path", {"path": path}, {"x": x})
        if not fields["supported"]:
            return None
        raw.append(arrays["raw"])
    return np.concatenate(raw)


def _compared(complains: np.ndarray, first: Observation, second: Observation, positions: Sequence[int]) -> Tally:
    """``positions``: of the rows among all probes."""
    distance = apart(first, second)
    return Tally(len(complains), tuple(positions[row] for row in _worst_first(complains, distance)), float(distance.max()))


def _worst_first(complains: np.ndarray, distance: np.ndarray) -> tuple[int, ...]:
    rows = np.flatnonzero(complains)
    return tuple(rows[np.argsort(-distance[rows], kind="stable")].tolist())
