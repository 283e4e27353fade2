"""How fast a campaign runs beside the bare model, as a table: ``python -m benchmarks.throughput`` (or ``make bench-throughput``).

Each pair is one campaign and as many bare forward passes of the same batch, in turn. The campaign is a real one: proposing, validity,
the worker process and the wire to it, coverage, oracles, learning and events; natural operators only, all arms. Its forward-equivalents are
what the worker counts, its time goes from the first proposal to the last answer. Confirming is no part of it: how much there is to confirm,
the model decides. Each pair has a campaign seed of its own.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from benchmarks.pairs import median
from benchmarks.subjects import resnet, threads
from gate.campaign.budget import Budget
from gate.campaign.events import EventLog
from gate.campaign.judging import JudgingArm
from gate.campaign.keeper import Keeper
from gate.campaign.loop import Campaign, Seeds
from gate.campaign.search import SearchArm
from gate.campaign.supervisor import Worker
from gate.config import BudgetSettings, CoverageSettings, SearchSettings
from gate.corpus.corpus import Corpus
from gate.domains.image.domain import ImageDomain
from gate.domains.image.image_set import sample_ids
from gate.domains.image.limits import Domain
from gate.models.outputs import OutputKind, predictions, probabilities

__all__ = ["main"]

SHARES = {"judging": 0.3, "random": 0.05, "noise": 0.02}
SEEDS = 5
MEMORY_EXECUTIONS = 200_000
MEMORY_GROWTH = 64  # MiB that either process may grow over the last three quarters of the executions


@dataclass(frozen=True)
class Subject:
    """A model and its correctly classified samples."""

    name: str
    module: nn.Module
    x: np.ndarray  # uint8 [N, H, W, C]
    y: np.ndarray  # int64 [N]
    classes: int
    batch: int
    executions: int  # of one campaign


def digits(batch: int, executions: int) -> Subject:
    """The demo's network on scikit-learn's digits."""
    from gate.demo.digits import load
    from gate.demo.network import train

    training, test = load(0)
    return Subject(f"digits CNN, batch {batch}", train(training, 0).eval(), test.x[..., None], test.y, 10, batch, executions)


def resnet18(batch: int, executions: int) -> Subject:
    """A ResNet-18 with random weights on pictures of shapes and grain, which belong to the class that it takes them for."""
    made = resnet(18, 64, 64, "cpu")
    pictures = np.concatenate([x.permute(0, 2, 3, 1).numpy() for x in made.inputs(2)])
    x = np.clip(pictures * 48 + 128, 0, 255).astype(np.uint8)
    with torch.no_grad():
        y = made.bare(torch.from_numpy(x).permute(0, 3, 1, 2).float() / 255).argmax(1).numpy()
    return Subject(f"ResNet-18, 64 px, batch {batch}", made.bare, x, y, 1000, batch, executions)


class Arena:
    """Owns a worker with a subject's model; every campaign in it starts from the seeds' coverage."""

    def __init__(self, subject: Subject, worker: Worker, *, device: str, threads: int) -> None:
        self.subject, self.worker = subject, worker
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "data"
            data.mkdir()
            torch.save(subject.module, data / "model.pth", pickle_module=cloudpickle)
            (data / "pickle_module_info.txt").write_text("cloudpickle")
            parameters = {
                "folder": folder,
                "description": {"format": "pickle", "model_file": "data/model.pth"},
                "device": device,
                "reading": {},
                "value_range": [0, 255],
                "channels": subject.x.shape[3],
                "output_key": None,
                "classes": subject.classes,
                "seed": 0,
                "threads": threads,
            }
            worker.call("load", parameters)
        raw = np.concatenate([worker.call("forward", {}, {"x": part})[1]["raw"] for part in _batches(subject.x, subject.batch)])
        rows = np.flatnonzero(predictions(raw, OutputKind.LOGITS) == subject.y)
        x, y = subject.x[rows], subject.y[rows]
        self.seeds = Seeds(x, y, sample_ids(x, y), probabilities(raw[rows], OutputKind.LOGITS))
        self.coverage = CoverageSettings(on_stall="continue")
        worker.call("watch", {"coverage": self.coverage.model_dump(mode="json"), "kind": "logits"}, {"x": x[:3]})
        for start in range(0, len(x), subject.batch):
            rows = slice(start, start + subject.batch)
            worker.call("profile", {}, {"x": x[rows], "y": y[rows]})
        for part in _batches(x, subject.batch):
            worker.call("cover_seeds", {}, {"x": part})
        self.domain = ImageDomain(Domain(), x.shape[1:], x.dtype, (0.0, 255.0))

    def campaign(self, seed: int, executions: int, batch: int, shares: Mapping[str, float], observe: Callable[..., None]) -> Campaign:
        """A campaign on natural operators that has not run yet."""
        opened, _ = self.worker.call("open_arms", {"arms": ["search", "random", "noise"]})
        seeds, corpus = self.seeds, Corpus(self.seeds.x)
        search = SearchArm(
            self.domain,
            corpus,
            seeds.labels,
            self.worker,
            gradients=False,
            steerable=False,
            campaign_seed=seed,
            settings=SearchSettings(strategy="recency"),
            probabilities=seeds.probabilities,
            deterministic=True,
            batch_size=batch,
        )
        return Campaign(
            worker=self.worker,
            domain=self.domain,
            seeds=seeds,
            search=search,
            judging=JudgingArm(self.domain, seeds.x, seeds.ids, 8, seed),
            shares=dict(shares),
            budget=Budget(BudgetSettings(executions=executions)),
            batch_size=batch,
            output_kind=OutputKind.LOGITS,
            initial=opened["coverage"],
            coverage=self.coverage,
            events=EventLog(Path(os.devnull), (observe,)),
            confirm=lambda _: True,
            stop=lambda: False,
            campaign_seed=seed,
        )

    def rate(self, seed: int, executions: int, batch: int, shares: Mapping[str, float] = SHARES) -> float:
        """Forward-equivalents per second of one campaign."""
        made = self.campaign(seed, executions, batch, shares, lambda _: None)
        before = self.worker.call("describe")[0]["model_calls"]
        started = time.perf_counter()
        made.run()
        seconds = time.perf_counter() - started
        return float((self.worker.call("describe")[0]["model_calls"] - before) / seconds)

    def bare(self, executions: int, device: str) -> float:
        """Forward passes per second of the model alone, in batches that lie on the device."""
        x = torch.from_numpy(np.resize(self.seeds.x, (self.subject.batch, *self.seeds.x.shape[1:])))
        inputs = (x.permute(0, 3, 1, 2).float() / 255).contiguous().to(device)
        module = self.subject.module.to(device)
        turns = max(1, executions // self.subject.batch)
        with torch.no_grad():
            module(inputs)
            started = time.perf_counter()
            for _ in range(turns):
                module(inputs)
            if inputs.is_cuda:
                torch.cuda.synchronize()
        return turns * self.subject.batch / (time.perf_counter() - started)


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    what: str
    found: str
    target: str
    met: bool


@dataclass(frozen=True)
class Bench:
    """How to measure."""

    device: str
    threads: int
    workers: int
    seeds: int
    quick: bool


@contextmanager
def _arena(subject: Subject, bench: Bench) -> Iterator[Arena]:
    with tempfile.TemporaryDirectory() as private:
        started = Keeper(Path(private), helpers=bench.workers - 1) if bench.workers > 1 else Worker(Path(private))
        with started as worker:
            yield Arena(subject, worker, device=bench.device, threads=bench.threads)


def _against_bare(bench: Bench, subject: Subject, least: float) -> Iterator[Row]:
    executions = subject.executions // (4 if bench.quick else 1)
    with _arena(subject, bench) as arena:
        arena.rate(1000, executions // 4, subject.batch)  # what is done once is done
        ratios, rates = [], []
        for seed in range(bench.seeds):
            before = arena.bare(executions, bench.device)
            rates.append(arena.rate(seed, executions, subject.batch))
            ratios.append(rates[-1] / ((before + arena.bare(executions, bench.device)) / 2))
    found = median(ratios)
    what = f"{subject.name}: campaign over bare model"
    yield Row(what, f"{found}, {median(rates).value:,.0f} forward-equivalents/s", f"≥ {least}", found.value >= least)


def _batches_pay(bench: Bench) -> Iterator[Row]:
    subject = digits(32, 0)
    shares = {"judging": 0.0, "random": 0.05, "noise": 0.02}  # judging takes eight at once, whatever the batch
    few, many = (200, 2_000) if bench.quick else (600, 12_000)
    with _arena(subject, bench) as arena:
        arena.rate(1000, 200, 32, shares)
        ratios = [arena.rate(seed, many, 32, shares) / arena.rate(seed, few, 1, shares) for seed in range(bench.seeds)]
    found = median(ratios)
    yield Row("digits CNN: batch 32 over batch 1", str(found), "≥ 5", found.value >= 5)


def _memory(bench: Bench) -> Iterator[Row]:
    executions = MEMORY_EXECUTIONS // (10 if bench.quick else 1)
    with _arena(digits(256, 0), bench) as arena:
        samples: list[tuple[int, float, float]] = []

        def observe(event: dict[str, Any]) -> None:
            if event["event"] == "step" and event["step"] % 16 == 0:
                samples.append((event["executions"], _resident(os.getpid()), _resident(arena.worker.pid)))

        arena.campaign(0, executions, 256, SHARES, observe).run()
    at, supervisor, worker = (np.array(column) for column in zip(*samples, strict=True))
    late = at > executions / 4
    for name, values in (("supervisor", supervisor), ("worker", worker)):
        slope = float(np.polyfit(at[late], values[late], 1)[0]) * executions * 0.75
        what = f"digits CNN: growth of the {name} over the last three quarters of {executions:,} executions"
        yield Row(what, f"{slope:+.1f} MiB, to {values[-1]:,.0f} MiB", f"< {MEMORY_GROWTH} MiB", slope < MEMORY_GROWTH)


def _resident(pid: int) -> float:
    """MiB that a process holds in memory. Linux only."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def _batches(x: np.ndarray, size: int) -> Iterator[np.ndarray]:
    return (x[start : start + size] for start in range(0, len(x), size))


PARTS: dict[str, Callable[[Bench], Iterator[Row]]] = {
    "resnet": lambda bench: _against_bare(bench, resnet18(64, 3_072), 0.7),
    "digits": lambda bench: _against_bare(bench, digits(256, 40_960), 0.3),
    "batches": _batches_pay,
    "memory": _memory,
}


def main() -> int:
    """Measures, prints the table, and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer executions; judges nothing")
    parser.add_argument("--only", action="append", choices=tuple(PARTS), help="this part alone; may be given several times")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads of the bare model and of each worker (2)")
    parser.add_argument("--workers", type=int, default=1, help="processes that run the model (1)")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"pairs, each with a campaign seed of its own ({SEEDS})")
    given = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # of the workers; see there
    bench = Bench(given.device, given.threads, given.workers, given.seeds, given.quick)
    title = f"throughput on {given.device}, {given.threads} threads, {given.workers} worker{'s' if given.workers > 1 else ''}"
    table = Table("what", "found", "target", "result", title=title)
    missed = 0
    before = os.getloadavg()[0]
    with threads(bench.threads):
        for name in given.only or PARTS:
            for row in PARTS[name](bench):
                missed += not (bench.quick or row.met)
                result = "" if bench.quick else "[green]met[/]" if row.met else "[bold red]MISSED[/]"
                table.add_row(row.what, row.found, row.target, result)
                print(f"{row.what}: {row.found}", file=sys.stderr, flush=True)
    Console(width=None if sys.stdout.isatty() else 180).print(table)
    print(f"Medians over {bench.seeds} pairs, with their 95 % intervals, or nearly so, in brackets.")
    print(f"Load average {before:.1f} before and {os.getloadavg()[0]:.1f} after, on {os.cpu_count()} CPUs.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
