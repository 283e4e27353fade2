"""Ways to search beside each other on the user's own model and seeds: what ``gate compare-strategies`` does."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np

from gate.config import BudgetSettings, SearchSettings, Settings
from gate.errors import ConfigError, EvidenceError, GateError, OutputError, UsageError
from gate.metrics.comparison import Trace
from gate.pipeline import run
from gate.policy.load import load_policy
from gate.report.atomic import make_folder, write_text
from gate.report.comparison import DEFECTS, Measured, as_json, page
from gate.result import Verdict

__all__ = ["FILES", "LARGEST", "Way", "compare", "ways_of"]

FILES = ("comparison.json", "comparison.html")
LARGEST = 8  # ways in one comparison: more can't be told apart in a drawing


@dataclass(frozen=True)
class Way:
    """One way to search."""

    strategy: str
    operators: str
    name: str


@dataclass
class _Trail:
    """Collects a campaign's trace from its events."""

    work: list[float] = field(default_factory=lambda: [0.0])
    defects: list[float] = field(default_factory=lambda: [0.0])
    coverage: dict[str, list[float]] = field(default_factory=dict)

    def observe(self, event: dict[str, Any]) -> None:
        if event.get("event") != "step" or event["arm"] != "search":
            return
        self.work.append(float(event["search"]["model_calls"]))
        self.defects.append(float(event["search"]["defects"]))
        for name, value in event["coverage"].items():
            self.coverage.setdefault(name, []).append(float(value))


def ways_of(settings: Settings, strategies: Sequence[str], operators: Sequence[str]) -> tuple[Way, ...]:
    """Every strategy with every way to choose operators; what is not varied is as the settings have it.

    Raises:
        ConfigError: fewer than two ways, too many, a name that there is not, or one that stands twice.
    """
    known = {name: get_args(SearchSettings.model_fields[name].annotation) for name in ("strategy", "operators")}
    for option, given, names in (("--strategies", strategies, known["strategy"]), ("--operators", operators, known["operators"])):
        for name in given:
            if name not in names:
                raise ConfigError(f"{name!r} is not among {', '.join(names)}.", where=option, hint="Write names joined by commas.")
        if len(set(given)) != len(given):
            raise ConfigError("A name stands twice.", where=option, hint="Name each once; --repeats says how often each is run.")
    chosen = [
        (strategy, one) for strategy in strategies or (settings.search.strategy,) for one in operators or (settings.search.operators,)
    ]
    if not 2 <= len(chosen) <= LARGEST:
        raise ConfigError(
            f"A comparison needs 2 to {LARGEST} ways to search, these are {len(chosen)}.",
            where="--strategies, --operators",
            hint="Name two strategies, such as --strategies uniform,mixture, or --operators even,adaptive.",
        )
    both = bool(strategies) and bool(operators)
    return tuple(
        Way(strategy, operator, f"{strategy}, {operator}" if both else operator if operators else strategy) for strategy, operator in chosen
    )


def compare(
    settings: Settings,
    ways: Sequence[Way],
    *,
    executions: int,
    repeats: int,
    out: Path,
    say: Callable[[str], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Measured:
    """Runs a campaign for every way and repeat and writes ``comparison.json`` and ``comparison.html``.

    In one repeat all ways have the same campaign seed; their order turns with the repeats, so that nothing that changes over time (a warm
    cache, another load) always hits the same one. All executions are the search arm's; nothing is published and nothing is judged.

    Args:
        settings: as for ``gate run``.
        ways: the first is the reference.
        executions: of every campaign.
        repeats: campaigns of every way.
        out: a new or empty folder.
        say: told of every campaign.
        stop: asked all the time; True ends with the repeats that are complete.

    Raises:
        ConfigError: the settings don't do.
        OutputError: the folder can't be written, or holds something else.
        UsageError, GateError: a campaign could not be run, for a reason that exits with 2 or 3.
        EvidenceError: one found too little to begin with, or none is complete.
    """
    _claim(out)
    policy = _searching_only(settings, out)
    traces: dict[str, list[Trace]] = {way.name: [] for way in ways}
    digests: set[str | None] = set()
    kinds: dict[str, str] = {}
    for repeat in range(repeats):
        complete: dict[str, Trace] = {}
        for number in range(len(ways)):
            way = ways[(number + repeat) % len(ways)]
            if stop():
                break
            trail = _Trail()
            folder = out / "runs" / f"{way.name.replace(', ', '-')}-{repeat + 1}"
            outcome = run(_settings(settings, way, policy, executions, repeat, folder), observers=(trail.observe,), stop=stop)
            result = outcome.result
            if result.partial or stop():
                break
            if result.campaign is None or result.verdict is Verdict.ERROR or not result.campaign.executions:
                kind = {2: UsageError, 3: GateError}.get(result.exit_code, EvidenceError)  # which exit with these
                raise kind(
                    f"The campaign of {way.name} could not be run: {(result.reasons or ('no reason is given',))[0]}",
                    where=str(folder),
                    hint=(*result.next_steps, "Run `gate run` with these settings first.")[0],
                )
            digests.add(result.candidate.digest)
            kinds.update({name: summary.kind for name, summary in result.coverage.items()})
            started = {name: summary.initial for name, summary in result.coverage.items()}
            complete[way.name] = _trace(trail, started)
            say(f"{way.name}, repeat {repeat + 1} of {repeats}: {_summary(complete[way.name], started)}")
        if len(complete) < len(ways):
            break
        for name, trace in complete.items():
            traces[name].append(trace)
    if len(digests) > 1:
        raise EvidenceError(
            "The model changed while it was compared.", where=str(settings.model), hint="Name a version, not an alias that may move."
        )
    done = len(traces[ways[0].name])
    if not done:
        raise EvidenceError("No repeat is complete, so there is nothing to compare.", where=str(out), hint="Give it more time.")
    measured = Measured.of(
        traces,
        kinds=kinds,
        seed=settings.seed,
        executions=executions,
        asked=repeats,
        model=str(settings.model),
        digest=next(iter(digests)),
        policy=settings.policy,
    )
    write_text(out / FILES[0], json.dumps(as_json(measured), indent=2, ensure_ascii=True, allow_nan=False) + "\n")
    write_text(out / FILES[1], page(measured))
    return measured


def _claim(out: Path) -> None:
    make_folder(out)
    if any(out.iterdir()):
        raise OutputError("The output folder is not empty.", where=str(out), hint="Give a new folder with --out.")


def _searching_only(settings: Settings, out: Path) -> str:
    """A policy that extends the user's, with its domain, and gives every execution to the search."""
    load_policy(settings.policy)  # says at once where it can't be used
    base = Path(settings.policy)
    path = out / "policy.yaml"
    lines = (
        "version: 1",
        "name: search-only",
        f"extends: [{json.dumps(str(base.resolve()) if base.exists() else settings.policy)}]",
        "arms: {judging: 0, random: 0, noise: 0, probes: 0, marks: 0, canaries: 0}",
    )
    write_text(path, "\n".join(lines) + "\n")
    return str(path)


def _settings(settings: Settings, way: Way, policy: str, executions: int, repeat: int, folder: Path) -> Settings:
    return settings.model_copy(
        update={
            "baseline": None,
            "previous": "none",
            "publish": False,
            "policy": policy,
            "budget": BudgetSettings(executions=executions),
            "seed": settings.seed + repeat,
            "out": str(folder),
            "data": settings.data.model_copy(update={"long_tail": None}),
            "search": settings.search.model_copy(update={"strategy": way.strategy, "operators": way.operators}),
        }
    )


def _trace(trail: _Trail, initial: dict[str, float]) -> Trace:
    series = {name: np.array([initial[name], *trail.coverage.get(name, [])]) for name in initial}
    series[DEFECTS] = np.array(trail.defects)
    return Trace(np.array(trail.work), series)


def _summary(trace: Trace, initial: dict[str, float]) -> str:
    reached = ", ".join(f"{name} {trace.series[name][-1]:.4g}" for name in initial)
    return f"{trace.work[-1]:,.0f} forward-equivalents, {reached}, {trace.series[DEFECTS][-1]:.0f} defects"
