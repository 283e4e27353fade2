"""Whether triage names a planted cause, as a table: ``python -m benchmarks.triage`` (or ``make bench-triage``). Exit 1 below 90 %.

Each repetition plants one cause in a freshly trained network (benchmarks.planted), runs the gate on it with a budget in executions, and
reads the record. It is right where the root cause that is listed first names the oracle, the family and the classes that were planted (a
class only where the plant has one). It is not merged with others where at least ``PURE`` of that root cause's defects are the plant's
doing: the same network without the plant does not give that wrong answer, or the plant is one that acts on some inputs only, as a mark, and
does act on this one. Where two causes are planted, the first root cause of each one's
family has to name it, and to be its own, by the same measure. Seeds below 100 were used while the plants were made, and count for nothing;
the table comes from seeds 100 to 119. Work is counted, not timed, so a busy machine changes nothing but the waiting. Every repetition is
written to a file as it ends, and what is there is not done again.

``--timing`` measures instead how long triage of 200 findings takes on EfficientNet-Lite0, as a share of ten minutes: on an idle machine
only.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from benchmarks.planted import MLMODEL, PLANTS, POLICY, Cause, plant, save
from gate.config import Settings
from gate.corpus.export import file_of
from gate.demo.network import tensor
from gate.domains.image import picture
from gate.metrics.intervals import exact_share
from gate.pipeline import run
from gate.result import Result, RootCause

__all__ = ["PURE", "Named", "main", "named", "planted_share", "repetition"]

EXECUTIONS = 4_000
REPETITIONS, FIRST = 20, 100
LISTED = 100  # root causes of a run that are written down, in the order of its record
TARGET = 0.9
CONFIDENCE = 0.95
PURE = 0.9  # share of the top root cause's defects that must be the plant's doing
ALIKE = 1e-3  # largest difference of a score
TIMING_FINDINGS, TIMING_SECONDS, TIMING_SHARE = 200, 600.0, 0.25


@dataclass(frozen=True)
class Named:
    """What one repetition came to."""

    plant: str
    seed: int
    executions: int
    right: bool  # the cause on top names oracle, family and classes
    share: float  # of its defects, those that are the plant's doing
    top: str  # its title
    size: int
    defects: int
    root_causes: int
    missed: str  # what it does not name; empty where it is right
    model_calls: int  # of the whole run
    triage_calls: int  # forward-equivalents that explaining took
    causes: tuple[str, ...]  # the first root causes


def named(result: Result, cause: Cause) -> tuple[str, RootCause | None]:
    """(what the root cause on top does not name, that root cause).

    Of a cause that stands beside another one, those of its families alone are looked at.
    """
    found = [one for one in result.root_causes if not cause.within or one.family in cause.families]
    if not found:
        return f"no root cause of family {' or '.join(sorted(cause.families)) or 'any'}", None
    top = found[0]
    missed = [
        f"{what} {told}"
        for what, told, wanted in (
            ("oracle", top.oracle, cause.oracles),
            ("family", top.family, cause.families),
            ("class", top.label, cause.labels),
            ("predicted", top.predicted, cause.predicted),
        )
        if wanted and told not in wanted
    ]
    return ", ".join(missed), top


def planted_share(result: Result, folder: Path, top: RootCause, healthy: nn.Module, planted: nn.Module | None = None) -> float:
    """Share of a root cause's defects that are the plant's doing, by the pictures in the run's folder.

    Args:
        result: of the run.
        folder: of the run.
        top: the root cause.
        healthy: the network without the plant.
        planted: with it, where the plant is silent on every input that both answer alike.
    """
    own = [defect for defect in result.defects if defect.root_cause == top.id]
    x = np.stack([picture.load(file_of(defect, "mutant_data", folder))[..., 0] for defect in own])
    with torch.no_grad():
        sound = healthy.eval()(tensor(x))
        acts = np.zeros(len(x), bool) if planted is None else ~((planted.eval()(tensor(x)) - sound).abs().amax(1) <= ALIKE).numpy()
    predicted = sound.argmax(1).numpy()
    wrong = np.array([-1 if defect.predicted is None else defect.predicted for defect in own])
    return float(np.mean((predicted != wrong) | acts))


def repetition(name: str, seed: int, executions: int, folder: Path) -> Named:
    """Plants, runs the gate and reads its record.

    Args:
        name: of the plant.
        seed: of the plant and of the campaign.
        executions: of the campaign.
        folder: new; model, seeds and run are written there.
    """
    planted = plant(name, seed)
    model, seeds = save(planted, folder)
    policy = folder / "policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    settings = Settings.model_validate(
        {
            "model": str(model),
            "data": {"seeds": str(seeds)},
            "budget": {"executions": executions},
            "policy": str(policy),
            "seed": seed,
            "out": str(folder / "run"),
            "publish": False,
            "device": "cpu",
        }
    )
    result = run(settings).result
    if result.campaign is None or result.partial:
        raise RuntimeError(f"the run of {name}, seed {seed} came to nothing: {result.reasons[0]}")
    missed, top = named(result, planted.cause)
    title, size = ("", 0) if top is None else (top.title, top.size)
    module = planted.module if planted.trigger else None
    share = 0.0 if top is None else planted_share(result, folder / "run", top, planted.healthy, module)
    if planted.second is not None:
        cause, healthy = planted.second
        also, other = named(result, cause)
        missed = "; ".join(filter(None, (missed, also)))
        share = 0.0 if other is None else min(share, planted_share(result, folder / "run", other, healthy))
        title = f"{title}; {'' if other is None else other.title}"
    return Named(
        plant=name,
        seed=seed,
        executions=executions,
        right=not missed,
        share=round(share, 4),
        top=title,
        size=size,
        defects=len(result.defects),
        root_causes=len(result.root_causes),
        missed=missed,
        model_calls=result.campaign.model_calls,
        triage_calls=0 if result.triage is None else result.triage.spent,
        causes=tuple(
            f"{one.size} {one.type} {one.oracle} {one.family} {one.label} {one.predicted}: {one.title}"
            for one in result.root_causes[:LISTED]
        ),
    )


def _known(path: Path) -> Iterator[Named]:
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            known = json.loads(line)
            yield Named(**{**known, "causes": tuple(known["causes"])})


def _share(rows: Sequence[bool]) -> str:
    lower, upper = exact_share(sum(rows), len(rows), CONFIDENCE)
    return f"{sum(rows)} of {len(rows)} ({lower:.0%} to {upper:.0%})"


def _table(rows: Sequence[Named]) -> Table:
    table = Table("planted cause", "top root cause right", "not merged with others", "model calls", "of triage", "missed", box=None)
    for name in dict.fromkeys(row.plant for row in rows):
        own = [row for row in rows if row.plant == name]
        wrong = ", ".join(f"seed {row.seed}: {row.missed}" for row in own if not row.right)
        calls, triage = (f"{np.median(values):,.0f}" for values in ([row.model_calls for row in own], [row.triage_calls for row in own]))
        table.add_row(name, _share([row.right for row in own]), _share([row.share >= PURE for row in own]), calls, triage, wrong or "none")
    return table


def _planted(options: argparse.Namespace, console: Console) -> int:
    done = {(row.plant, row.seed, row.executions): row for row in _known(options.results)}
    rows = []
    for seed in range(options.first, options.first + options.repetitions):
        for name in options.plants:
            row = done.get((name, seed, options.executions))
            if row is None:
                with tempfile.TemporaryDirectory(prefix="gate-planted-") as folder:
                    row = repetition(name, seed, options.executions, Path(folder))
                with options.results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
            said = "right" if row.right else f"MISSED ({row.missed})"
            console.print(f"{name}, seed {seed}: {said}; {row.top} ({row.size} of {row.defects} defects)", highlight=False, markup=False)
            rows.append(row)
    console.print(_table(rows))
    console.print(
        f"Intervals: exact, {CONFIDENCE:.0%}. Budget: {options.executions:,} executions each. Model calls: medians.", highlight=False
    )
    reached = all(
        sum(row.right for row in own) >= TARGET * len(own) and sum(row.share >= PURE for row in own) >= TARGET * len(own)
        for own in ([row for row in rows if row.plant == name] for name in options.plants)
    )
    return 0 if reached else 1


def _timed(options: argparse.Namespace, console: Console) -> int:
    """Triage of EfficientNet-Lite0's findings in a ten-minute budget: its share, and what was left unexplained."""
    from benchmarks.guidance_subjects import efficientnet

    subject = efficientnet(options.cache)
    (subject.folder / "MLmodel").write_text(MLMODEL, encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="gate-timing-") as place:
        seeds = Path(place) / "seeds.npz"
        np.savez(seeds, x=subject.x, y=subject.y)
        settings = Settings.model_validate(
            {
                "model": str(subject.folder),
                "data": {"seeds": str(seeds)},
                "input": {name: tuple(values) for name, values in subject.reading.items()},
                "batch_size": subject.batch_size,
                "budget": {"wall": f"{options.seconds:g}s"},
                "out": str(Path(place) / "run"),
                "publish": False,
                "device": "cpu",
            }
        )
        marks: dict[str, float] = {}
        findings = 0

        def observe(event: dict[str, object]) -> None:
            nonlocal findings
            if event.get("event") == "phase":
                marks[str(event["name"])] = time.monotonic()
            if event.get("event") == "defect" and "triage" not in marks:
                findings += 1

        result = run(settings, observers=(observe,)).result
    if "triage" not in marks or "report" not in marks or result.triage is None:
        raise RuntimeError(f"the run came to nothing: {result.reasons[0]}")
    seconds = marks["report"] - marks["triage"]
    share = seconds / options.seconds
    told = result.triage
    executions = 0 if result.campaign is None else result.campaign.executions
    console.print(
        f"{findings} findings confirmed in the campaign ({TIMING_FINDINGS} asked for) in {executions:,} executions, "
        f"{len(result.root_causes)} root causes; explaining took {seconds:.0f} s, {share:.1%} of {options.seconds:g} s (at most "
        f"{TIMING_SHARE:.0%}): {told.minimised} minimised, {told.attributed} attributed, {len(told.not_explained)} root causes not "
        "explained.",
        highlight=False,
    )
    return 0 if share <= TIMING_SHARE and findings >= TIMING_FINDINGS else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.triage", description="Whether triage names a planted cause.")
    parser.add_argument("--plants", type=lambda text: text.split(","), default=list(PLANTS), help=", ".join(PLANTS))
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--first", type=int, default=FIRST, help="seed of the first repetition")
    parser.add_argument("--executions", type=int, default=EXECUTIONS)
    parser.add_argument("--results", type=Path, default=Path("triage-results.jsonl"), help="grows by one line a repetition")
    parser.add_argument("--timing", action="store_true", help="time triage on EfficientNet-Lite0 instead")
    parser.add_argument("--seconds", type=float, default=TIMING_SECONDS, help="budget that is timed")
    parser.add_argument("--cache", type=Path, default=Path(".bench-cache"), help="for models that are unpacked once")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.plants if name not in PLANTS]
    if unknown:
        parser.error(f"no plant {unknown[0]!r}; there are {', '.join(PLANTS)}")
    console = Console(width=160)
    return _timed(options, console) if options.timing else _planted(options, console)


if __name__ == "__main__":
    sys.exit(main())
