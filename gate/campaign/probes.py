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
from gate.campaign.supervisor import Worker
from gate.domains.probe import Probe
from gate.errors import ModelError, WorkerError
from gate.models.outputs import OutputKind, predictions, probabilities
from gate.oracles.batch_dependence import BatchDependence
from gate.oracles.non_finite import NonFinite
from gate.oracles.numeric_path import NumericPath
from gate.oracles.oracle import Observation
from gate.oracles.pair import apart
from gate.oracles.unjustified_confidence import UnjustifiedConfidence

__all__ = ["Probed", "Tally", "run_probes"]

# Samples that a probe takes once it was answered: in company, beside a seed input, and on each path.
_COMPARED = 2 + len(NumericPath.PLAIN)


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

    Raises:
        WorkerError: the worker died, kept silent or lied; where it was on one probe alone, the message names it.
        ModelError: the model raised an exception; likewise.
    """
    done = Probed()

    def seen(raw: np.ndarray) -> Observation:
        return Observation(raw, probabilities(raw, output_kind), predictions(raw, output_kind), np.full(len(raw), -1))

    try:
        rows: list[np.ndarray] = []
        try:
            for probe in probes:
                done.late = late(1 + (_COMPARED * (len(rows) + 1) if deterministic else 0))
                if done.late:
                    break
                begin(f"the probe {probe.name} was answered")
                rows.append(_alone(worker, probe))
        finally:
            done.probes, done.model_calls = tuple(probes[: len(rows)]), len(rows)
            if rows:
                done.answers = seen(np.concatenate(rows))
                done.tallies |= _of_one(done.probes, done.answers)
        if done.answers is None or not deterministic:
            return done
        begin("the probes were answered in company")
        company = seen(_in_company(worker, done.probes, seeds, batch_size))
        done.model_calls += 2 * len(rows)
        done.tallies[BatchDependence.name] = _compared(BatchDependence().complains(done.answers, company), done.answers, company)
        for path in NumericPath.PLAIN:
            if late(len(rows)):
                done.late = True
                break
            begin(f"the probes were answered on the numeric path {path}")
            other = _on_path(worker, path, done.probes, batch_size)
            if other is None:
                done.untaken = (*done.untaken, path)
                continue
            done.model_calls += len(rows)
            answers = seen(other)
            name = f"{NumericPath.name}:{path}"
            done.tallies[name] = _compared(NumericPath(path).complains(done.answers, answers), done.answers, answers)
    except (BudgetSpent, Interrupted) as error:
        done.stopped = error.what
    return done


def _alone(worker: Worker, probe: Probe) -> np.ndarray:
    """Raw outputs float32 [1, K] of one probe."""
    try:
        _, arrays = worker.call("forward", {}, {"x": probe.x[None]})
    except (WorkerError, ModelError) as error:
        error.what = f"{error.what.rstrip('.')}. The input in flight was the probe {probe.name!r}, alone."
        raise
    return arrays["raw"]


def _of_one(probes: Sequence[Probe], answers: Observation) -> dict[str, Tally]:
    """What the oracles say that need one answer only."""
    nothing = np.array([probe.shows_nothing for probe in probes])
    sure = UnjustifiedConfidence().complains(answers) & nothing
    confidence = np.where(nothing, np.nan_to_num(answers.probabilities).max(axis=1, initial=0.0), -1.0)
    highest = float(confidence.max()) if nothing.any() else None
    return {
        NonFinite.name: Tally(len(probes), tuple(np.flatnonzero(NonFinite().complains(answers)).tolist())),
        UnjustifiedConfidence.name: Tally(int(nothing.sum()), _worst_first(sure, confidence), highest),
    }


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


def _compared(complains: np.ndarray, first: Observation, second: Observation) -> Tally:
    distance = apart(first, second)
    return Tally(len(complains), _worst_first(complains, distance), float(distance.max()))


def _worst_first(complains: np.ndarray, distance: np.ndarray) -> tuple[int, ...]:
    rows = np.flatnonzero(complains)
    return tuple(rows[np.argsort(-distance[rows], kind="stable")].tolist())
