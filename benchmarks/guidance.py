"""What guidance is worth, as a table: ``python -m benchmarks.guidance`` (or ``make bench-guidance``). Exit 1 where a ratio is below 3.

Work is counted, not timed: a forward pass of one sample is one, a backward pass two. So the figures are the same on a busy machine.

* ``reach``: the work in which random search first reached the valid coverage that it has after all its executions, over the work in which
  the guided search reached the same. Where the guided search does not get there, its work counts as what it spent and the row says so.
* ``equal``: valid coverage after the same work.
* ``findings``: distinct valid findings of natural mutants per thousand of them, random search's and the guided search's.

Random search is the random control arm's own generator: seed inputs, natural operators, severities and chain lengths drawn evenly. Both
start from the same seed inputs' coverage, in one process, with the search arm, the session and the validity check of the gate itself.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.guidance_subjects import SUBJECTS, GuidanceSubject
from benchmarks.pairs import median
from gate.campaign.batch import Batch, Outcome
from gate.campaign.controls import random_batch
from gate.campaign.search import SearchArm
from gate.campaign.session import Session
from gate.campaign.supervisor import Request
from gate.config import CoverageSettings, SearchSettings
from gate.corpus.corpus import Corpus
from gate.domains.image.domain import ImageDomain
from gate.domains.image.limits import Domain
from gate.models.outputs import OutputKind, predictions, probabilities

__all__ = ["Arena", "Curve", "main"]

CRITERIA = ("kmnc", "nbc", "snac", "nc", "tknc", "kmnc+nbc")
TARGET = 3.0
EXECUTIONS = 20_000


class InProcess:
    """Answers what a worker answers, without a process around it."""

    def __init__(self) -> None:
        self._session = Session()
        self.work = 0

    def call(
        self,
        operation: str,
        parameters: Mapping[str, Any] | None = None,
        arrays: Mapping[str, np.ndarray] | None = None,
        *,
        timeout: float | None = None,
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """See ``gate.campaign.supervisor.Worker.call``; what JSON would do to the parameters happens here, too."""
        asked = json.loads(json.dumps(dict(parameters or {})))
        fields, found = getattr(self._session, f"do_{operation}")(dict(arrays or {}), **asked)
        return fields, found

    def ask(self, operation: str, parameters: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Request:
        """See ``gate.campaign.supervisor.Worker.ask``; answered at once."""
        return Request(operation, {}, {}, 0.0, answered=self.call(operation, parameters, arrays))

    def answer(self, request: Request) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """See ``gate.campaign.supervisor.Worker.answer``."""
        assert request.answered is not None
        return request.answered

    @property
    def model_calls(self) -> int:
        """Forward-equivalents that the session has counted so far."""
        return int(self._session.do_describe({})[0]["model_calls"])


@dataclass(frozen=True)
class Curve:
    """Coverage over work. Both [n], rising."""

    work: np.ndarray
    coverage: np.ndarray
    found: int  # distinct valid findings by natural mutants: seed input, predicted class, families
    executions: int  # of natural mutants

    def work_to(self, coverage: float) -> float | None:
        """The work after which it was first reached; None where it was not."""
        there = np.flatnonzero(self.coverage >= coverage)
        return float(self.work[there[0]]) if len(there) else None

    def after(self, work: float) -> float:
        """The coverage that this work came to."""
        return float(self.coverage[np.searchsorted(self.work, work, side="right") - 1])


class Arena:
    """A model with its seeds' coverage taken, ready for one random and one guided search."""

    def __init__(self, subject: GuidanceSubject, criteria: str, device: str = "cpu", **coverage: Any) -> None:
        self.worker = InProcess()
        self._batch_size = subject.batch_size
        self.worker.call(
            "load",
            {
                "folder": str(subject.folder),
                "description": {"format": "pickle", "model_file": "data/model.pth"},
                "device": device,
                "reading": subject.reading,
                "value_range": [0, 255],
                "channels": subject.x.shape[3],
                "output_key": None,
                "classes": subject.classes,
                "seed": 0,
            },
        )
        raw = np.concatenate([self.worker.call("forward", {}, {"x": part})[1]["raw"] for part in _parts(subject.x, self._batch_size)])
        right = predictions(raw, OutputKind.LOGITS) == subject.y
        self.x, self.y = subject.x[right], subject.y[right]
        self.probabilities = probabilities(raw[right], OutputKind.LOGITS)
        self.settings = CoverageSettings.model_validate({"criteria": criteria, **coverage})
        watched, _ = self.worker.call("watch", {"coverage": self.settings.model_dump(mode="json"), "kind": "logits"}, {"x": self.x[:3]})
        self.gradients, self.steerable = bool(watched["gradients"]), bool(watched["steerable"])
        for x, y in zip(_parts(self.x, self._batch_size), _parts(self.y, self._batch_size), strict=True):
            self.worker.call("profile", {}, {"x": x, "y": y})
        for x in _parts(self.x, self._batch_size):
            self.worker.call("cover_seeds", {}, {"x": x})
        opened, _ = self.worker.call("open_arms", {"arms": ["search", "random", "noise"]})
        self.initial = _together(opened["coverage"])
        self.domain = ImageDomain(Domain(), self.x.shape[1:], np.uint8, (0.0, 255.0))

    def random(self, campaign_seed: int, executions: int) -> Curve:
        """Random search for so many executions."""
        return self._curve("random", executions, lambda step, left: random_batch(self.domain, self.x, campaign_seed, step, left))

    def guided(self, campaign_seed: int, work: int, until: float | None = None, **settings: Any) -> Curve:
        """Guided search until it has spent this work or reached this coverage."""
        self.arm = SearchArm(
            self.domain,
            Corpus(self.x),
            self.y,
            self.worker,  # type: ignore[arg-type]
            gradients=self.gradients,
            steerable=self.steerable,
            campaign_seed=campaign_seed,
            settings=SearchSettings.model_validate(settings),
            probabilities=self.probabilities,
            deterministic=True,
            batch_size=self._batch_size,
        )
        return self._curve("search", work, self.arm.propose, until=until)

    def _curve(self, arm: str, limit: int, propose: Any, until: float | None = None) -> Curve:
        begun, spent, executions = self.worker.model_calls, 0, 0
        works, values = [0], [self.initial]
        found: set[tuple[int, int, str]] = set()
        step = 0
        while spent < limit and (until is None or values[-1] < until):
            batch: Batch = propose(step, min(self._batch_size, limit - spent))
            step += 1
            outcome, said = self._run(batch)
            new = self._new(batch, outcome, found)
            if arm == "search":
                self.arm.take(batch, outcome, new)
            executions += len(batch.x) if batch.kept is None else 0
            spent = self.worker.model_calls - begun
            works.append(spent)
            values.append(_together(said["valid"]))
        assisted = {self.domain.family(name) for name in (*self.domain.model_bounds, *self.domain.splicing)}
        natural = [key for key in found if assisted.isdisjoint(key[2].split("+"))]
        return Curve(np.array(works), np.array(values), len(natural), executions)

    def _run(self, batch: Batch) -> tuple[Outcome, dict[str, Any]]:
        if batch.kept is None:
            said, made = self.worker.call("run", {"arm": batch.arm}, {"x": batch.x, "earns": batch.valid})
        else:
            said, made = self.worker.call("run_kept", {"arm": batch.arm, "token": batch.kept}, {"earns": batch.valid})
        predicted = predictions(made["raw"], OutputKind.LOGITS)
        complaint = np.where(predicted != self.y[batch.seeds], 0, -1)
        return Outcome(probabilities(made["raw"], OutputKind.LOGITS), predicted, complaint, made["new_items"]), said

    def _new(self, batch: Batch, outcome: Outcome, found: set[tuple[int, int, str]]) -> np.ndarray:
        """bool [N]: which mutants are new distinct findings."""
        new = np.zeros(len(batch.x), dtype=bool)
        for row in np.flatnonzero((outcome.complaint >= 0) & batch.valid).tolist():
            families = "+".join(sorted({self.domain.family(step.operator) for step in batch.recipes[row]}))
            key = (int(batch.seeds[row]), int(outcome.predicted[row]), families)
            new[row] = key not in found
            found.add(key)
        return new


def _together(values: Mapping[str, float]) -> float:
    """One number for several criteria: the mean of those that are shares, else their sum."""
    shares = [value for value in values.values() if 0 <= value <= 1]
    return float(np.mean(shares)) if len(shares) == len(values) else float(sum(values.values()))


def _parts(values: np.ndarray, size: int) -> Iterator[np.ndarray]:
    return (values[start : start + size] for start in range(0, len(values), size))


def main() -> None:
    """Measures and prints."""
    given = argparse.ArgumentParser(prog="python -m benchmarks.guidance", description="What guidance is worth, in model work.")
    given.add_argument("--subjects", default="digits,fashion", help=f"of {', '.join(SUBJECTS)}; separated by commas")
    given.add_argument("--criteria", default=",".join(CRITERIA), help="guide and measure; separated by commas")
    given.add_argument("--strategies", default="mixture", help="which entry next, see search.strategy; a row for each, separated by commas")
    given.add_argument("--seeds", type=int, default=5)
    given.add_argument("--first", type=int, default=10, help="the first campaign seed; the search was tuned on lower ones")
    given.add_argument("--stop", action="store_true", help="the guided search ends once it has reached random's coverage: no column equal")
    given.add_argument("--executions", type=int, default=EXECUTIONS, help="of random search")
    given.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "fuzzgate-guidance")
    given.add_argument("--device", default="cpu")
    given.add_argument("--out", type=Path, help="a JSON file for the figures")
    asked = given.parse_args()
    console, rows = Console(), []
    for name in asked.subjects.split(","):
        subject = SUBJECTS[name](asked.cache)
        for criterion in asked.criteria.split(","):
            for strategy in asked.strategies.split(","):
                rows.append(_row(subject, criterion, strategy, asked))
                console.print(rows[-1])
                if asked.out is not None:
                    asked.out.write_text(json.dumps(rows, indent=1))
    shown = ("model", "guide", "strategy", "reached", "random", "guided", "ratio", "equal", "findings")
    table = Table(*shown)
    for row in rows:
        table.add_row(*(str(row[key]) for key in shown))
    console.print(table)
    sys.exit(any(row["median"] < TARGET for row in rows))


def _row(subject: GuidanceSubject, criterion: str, strategy: str, asked: argparse.Namespace) -> dict[str, Any]:
    seeds, executions, device = asked.seeds, asked.executions, asked.device
    ratios, equal, works, targets = [], [], [], []
    findings: list[tuple[float, float]] = []
    missed, started = 0, time.monotonic()
    for seed in range(asked.first, asked.first + seeds):
        random = Arena(subject, criterion, device).random(seed, executions)
        target = float(random.coverage[-1])
        reached = random.work_to(target)
        assert reached is not None
        guided = Arena(subject, criterion, device).guided(seed, executions, until=target if asked.stop else None, strategy=strategy)
        spent = guided.work_to(target)
        missed += spent is None
        ratios.append(reached / (guided.work[-1] if spent is None else spent))
        works.append((int(reached), None if spent is None else int(spent)))
        equal.append((target, guided.after(executions)))
        targets.append(target)
        findings.append((1000 * random.found / random.executions, 1000 * guided.found / guided.executions))
    return {
        "model": subject.name,
        "guide": criterion,
        "strategy": strategy,
        "reached": f"{np.median(targets):.4f}",
        "random": int(np.median([one for one, _ in works])),
        "guided": str(int(np.median([other if other is not None else executions for _, other in works])))
        + (f" ({missed} of {seeds} did not get there)" if missed else ""),
        "ratio": str(median(ratios)),
        "median": median(ratios).value,
        "ratios": ratios,
        "works": works,
        "findings": " -> ".join(f"{np.median(side):.1f}" for side in zip(*findings, strict=True)),
        "equal": "not run"
        if asked.stop
        else f"{np.median([one for one, _ in equal]):.4f} -> {np.median([other for _, other in equal]):.4f}",
        "seconds": round(time.monotonic() - started),
    }


if __name__ == "__main__":
    main()
