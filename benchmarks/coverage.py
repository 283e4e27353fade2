"""What coverage costs, as a table: ``python -m benchmarks.coverage`` (or ``make bench-coverage``).

A forward pass with the recorder and the update of all criteria, over the bare forward pass on the same batch, pair by pair. Every batch
is new, and the map is empty at first: the first tenth of a sequence, where most of what a batch shows is new, is told apart from the last
third. Besides: how large a map is, how long a hundred of them take to merge, what recording adds to the memory, and how many items
another batch size moves.

Threads wait for each other by spinning, as PyTorch has it, unless the environment says OMP_WAIT_POLICY=PASSIVE as it does in the gate's
worker. Spinning is faster on an idle machine, and many times slower on a busy one: there only the other figures mean anything.

``--quick`` takes a few pairs of each for a fast look, and judges nothing. Exit 0: every target is met; 1: one is missed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from benchmarks.pairs import Pairs, measure, median
from benchmarks.subjects import Subject, digits, resnet, threads
from gate.coverage import criterion
from gate.coverage.base import Criterion
from gate.coverage.suite import Suite

__all__ = ["EIGHT", "PARTS", "Bench", "Row", "fitted", "recording_peaks", "updating"]

Options = Mapping[str, Mapping[str, object]]

EIGHT: Options = {
    "nc": {},
    "kmnc": {"sections": 1000},
    "nbc": {},
    "snac": {},
    "tknc": {"k": 5},
    "tknp": {"k": 5},
    "map": {},
    "output": {},
}
NINE: Options = {**EIGHT, "nlc": {}}
SURPRISE: Options = {"lsa": {}, "dsa": {}, "mdsa": {}}

PROFILE = 10  # batches that the ranges are learnt from
MIB = 1 << 20


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    what: str
    found: str
    remark: str = ""
    target: str = ""
    met: bool | None = None  # None: there is no target


@dataclass(frozen=True)
class Bench:
    """How to measure."""

    device: str
    threads: int
    quick: bool

    def pairs(self, number: int) -> int:
        """How many pairs to take where a full measurement takes ``number``."""
        return max(6, number // 10) if self.quick else number


def fitted(subject: Subject, options: Options) -> Suite:
    """Criteria that have learnt from ``PROFILE`` batches and covered nothing."""
    suite = Suite({name: criterion(name, **chosen) for name, chosen in options.items()})
    for x in subject.inputs(PROFILE):
        acts, logits = subject.record(x)
        suite.fit(acts, logits.argmax(1))
    return suite


def updating(subject: Subject, options: Options, number: int) -> Pairs:
    """Times ``number`` batches without and with coverage, from an empty map on."""
    with torch.inference_mode():
        suite = fitted(subject, options)

        def with_coverage(x: Tensor) -> Tensor:
            acts, logits = subject.record(x)
            return suite.update(acts, logits)

        # Two warm-up batches let the allocator and the kernels settle; a copy takes what they cover.
        for x in subject.inputs(2):
            subject.bare(x)
            suite.copy().update(*subject.record(x))
        return measure(subject.bare, with_coverage, subject.inputs(number))


def _row(subject: Subject, what: str, pairs: Pairs, most: float | None) -> Row:
    ratios = pairs.ratios
    tenth, third = max(1, len(ratios) // 10), max(1, len(ratios) // 3)
    middle = median(ratios)
    return Row(
        f"{subject.name}: {what}",
        f"x {middle}",
        f"bare {median(pairs.bare).value * 1e3:.1f} ms; filling x {median(ratios[:tenth]).value:.3f}, "
        f"steady x {median(ratios[-third:]).value:.3f}; {len(ratios)} pairs",
        "" if most is None else f"x {most:.2f}",
        None if most is None else middle.value <= most,
    )


def _together(subject: Subject, bench: Bench, targets: Sequence[tuple[str, Options, float]]) -> Iterator[Row]:
    for what, options, most in targets:
        yield _row(subject, what, updating(subject, options, bench.pairs(60)), most)


def small_pictures(bench: Bench) -> Iterator[Row]:
    """ResNet-18 at 64 pixels, where a forward pass is cheap for the number of neurons it has."""
    targets = (("all eight", EIGHT, 1.15), ("all eight and NLC", NINE, 1.4))
    yield from _together(resnet(18, 64, 32, bench.device), bench, targets)


def large_pictures(bench: Bench) -> Iterator[Row]:
    """ResNet-18 at 224 pixels."""
    targets = (("all eight", EIGHT, 1.15), ("all eight and NLC", NINE, 1.4))
    yield from _together(resnet(18, 224, 16, bench.device), bench, targets)


def digits_network(bench: Bench) -> Iterator[Row]:
    """The demo's network, whose forward pass takes a few milliseconds."""
    yield from _together(digits(256, bench.device), bench, (("all eight", EIGHT, 2.0),))


def one_by_one(bench: Bench) -> Iterator[Row]:
    """Every criterion alone."""
    subject = resnet(18, 64, 32, bench.device)
    for name, options in {**NINE, **SURPRISE}.items():
        yield _row(subject, f"{name} alone", updating(subject, {name: options}, bench.pairs(30)), None)


def map_sizes(bench: Bench) -> Iterator[Row]:
    """A map of ResNet-50 in memory and on disk, and the merge of a hundred."""
    from gate.coverage import store

    subject = resnet(50, 64, 32, bench.device)
    with torch.inference_mode():
        suite = fitted(subject, {"kmnc": {"sections": 1000}})
        kmnc = suite.criteria["kmnc"]
        several = [kmnc.copy() for _ in range(10)]
        for turn, x in enumerate(subject.inputs(bench.pairs(60))):
            acts, logits = subject.record(x)
            # As in a campaign, some mutants are not valid.
            earns = torch.arange(len(x)) % 5 > 0
            suite.update(acts, logits, earns=earns)
            several[turn % len(several)].update(acts, earns=earns)
    memory = sum(value.numel() * value.element_size() for value in kmnc.state_dict().values() if isinstance(value, Tensor))
    filled = f"{kmnc.total} items, {kmnc.value:.0%} covered"
    yield _limit("ResNet-50, KMNC 1,000: map in memory", memory / MIB, 8, "MiB", filled)
    maps = [several[turn % len(several)].copy() for turn in range(100)]
    joined = kmnc.empty()
    started = time.perf_counter()
    for one in maps:
        joined.merge(one)
    yield _limit("merge of 100 such maps in memory", time.perf_counter() - started, 1, "s")
    with tempfile.TemporaryDirectory(prefix="gate-bench-") as folder:
        whole = Path(folder) / "whole.map"
        store.save(whole, {"kmnc": kmnc}, model="m", profile="p")
        yield _limit("ResNet-50, KMNC 1,000: map on disk", whole.stat().st_size / MIB, 4, "MiB", filled)
        files = [Path(folder) / f"{turn}.map" for turn in range(len(maps))]
        for file, one in zip(files, maps, strict=True):
            store.save(file, {"kmnc": one}, model="m", profile="p")
        started = time.perf_counter()
        store.merge(files, model="m", profile="p")
        yield Row("merge of 100 such maps from files", f"{time.perf_counter() - started:.2f} s", "reading and checking them included")


def _limit(what: str, found: float, most: float, unit: str, remark: str = "") -> Row:
    return Row(what, f"{found:.2f} {unit}", remark, f"{most} {unit}", found <= most)


def recording_peaks(subject: Subject, options: Options) -> tuple[int, int, int]:
    """Most bytes alive at once beyond what was there before: bare forward pass, with recording, with recording and an update."""
    x = subject.inputs(1)[0]
    with torch.inference_mode():
        suite = fitted(subject, options)
        suite.update(*subject.record(x))
        found = []
        for run in (lambda: subject.bare(x), lambda: subject.record(x), lambda: suite.update(*subject.record(x))):
            subject.recorder.forget()  # or letting go of the last batch would look as if memory came free
            found.append(_peak(run, x.device))
        return found[0], found[1], found[2]


def _peak(run: Callable[[], object], device: torch.device) -> int:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        run()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    with torch.autograd.profiler.profile(use_kineto=True, profile_memory=True) as seen:
        run()
    assert seen.kineto_results is not None
    changes = [(event.start_ns(), event.nbytes()) for event in seen.kineto_results.events() if event.name() == "[memory]"]
    alive = most = 0
    for _, size in sorted(changes, key=lambda change: change[0]):
        alive += size
        most = max(most, alive)
    return most


def memory(bench: Bench) -> Iterator[Row]:
    """What recording adds to the memory that a forward pass needs at its peak."""
    for subject in (resnet(18, 64, 32, bench.device), resnet(18, 224, 16, bench.device), digits(256, bench.device)):
        bare, recorded, updated = recording_peaks(subject, EIGHT)
        share = recorded / bare - 1
        yield Row(
            f"{subject.name}: peak memory of recording",
            f"{share:+.1%}",
            f"bare {bare / MIB:.1f} MiB, recorded {recorded / MIB:.1f} MiB, with the update of all eight {updated / MIB:.1f} MiB",
            "+10%",
            share <= 0.1,
        )


def batch_sizes(bench: Bench) -> Iterator[Row]:
    """How many items differ when the same pictures go through a model in other batches: rounding moves outputs across section edges."""
    subject = resnet(18, 64, 32, bench.device)
    for number in sorted({1, bench.threads}):
        with threads(number), torch.inference_mode():
            fresh = fitted(subject, {"kmnc": {"sections": 1000}}).criteria["kmnc"]
            pictures = torch.cat(subject.inputs(2 if bench.quick else 4))
            found: dict[int, Criterion] = {}
            for size in (32, 8, 1):
                found[size] = fresh.copy()
                for start in range(0, len(pictures), size):
                    found[size].update(subject.record(pictures[start : start + size])[0])
        for size in (8, 1):
            both = found[32].copy().merge(found[size]).covered
            differ = 2 * both - found[32].covered - found[size].covered
            yield Row(
                f"{subject.name.rpartition(',')[0]}: KMNC 1,000 items that batch {size} instead of 32 changes, {_threads(number)}",
                f"{differ}",
                f"{differ / both:.4%} of the {both} covered by {len(pictures)} pictures, {differ / (found[32].total or 1):.5%} of all",
            )


def _threads(number: int) -> str:
    return f"{number} thread" if number == 1 else f"{number} threads"


PARTS: dict[str, Callable[[Bench], Iterator[Row]]] = {
    "small": small_pictures,
    "large": large_pictures,
    "digits": digits_network,
    "alone": one_by_one,
    "map": map_sizes,
    "memory": memory,
    "batch-sizes": batch_sizes,
}


def main() -> int:
    """Measures, prints the table, and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer pairs; judges nothing")
    parser.add_argument("--only", action="append", choices=tuple(PARTS), help="this part alone; may be given several times")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (2, which the targets are meant for)")
    given = parser.parse_args()
    bench = Bench(given.device, given.threads, given.quick)
    table = Table("what", "found", "target", "result", "more", title=f"coverage on {given.device}, {_threads(given.threads)}")
    missed = 0
    before = os.getloadavg()[0]
    with threads(bench.threads):
        for name in given.only or PARTS:
            for row in PARTS[name](bench):
                judged = None if bench.quick else row.met
                missed += judged is False
                result = {None: "", True: "[green]met[/]", False: "[bold red]MISSED[/]"}[judged]
                table.add_row(row.what, row.found, row.target, result, row.remark)
                print(f"{row.what}: {row.found}", file=sys.stderr, flush=True)
            table.add_section()
    Console(width=None if sys.stdout.isatty() else 200).print(table)
    print("Medians, with 95 % intervals in brackets.")
    print(f"Threads wait by {'sleeping' if os.environ.get('OMP_WAIT_POLICY', '').upper() == 'PASSIVE' else 'spinning'}.")
    print(f"Load average {before:.1f} before and {os.getloadavg()[0]:.1f} after, on {os.cpu_count()} CPUs.")
    if missed:
        print(f"{missed} {'target is' if missed == 1 else 'targets are'} missed", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
