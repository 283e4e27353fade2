"""What the verdicts of the power benchmark add up to: shares with exact intervals, beside common practice, and why anything was missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.common_practice import CHECKS, Practice, blocked
from benchmarks.power_models import CHAMPION, HEALTHY, Case, Facts
from gate.metrics.intervals import exact_share

__all__ = ["CONFIDENCE", "Line", "Row", "Spread", "differing", "rows", "separation", "share", "why"]

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Line:
    """One finished verdict, as a line of the results file."""

    kind: str
    seed: int
    campaign_seed: int
    executions: int  # asked for
    verdict: str
    rules: dict[str, list[object]]  # by id: status, value, lower, upper, slice; where it was compared, rise, lower, upper
    metrics: dict[str, float | None]
    ran: int  # executions
    model_calls: int
    seconds: float
    reasons: tuple[str, ...]
    code: str  # digest of the gate's source

    @property
    def case(self) -> Case:
        """Whose verdict it is."""
        return Case(self.kind, self.seed)


@dataclass(frozen=True)
class Row:
    """One kind: how many of ``n`` the gate failed, left open or let pass, and how many each other check blocked."""

    kind: str
    n: int
    accuracy: float  # clean, mean
    failed: int
    open: int
    others: dict[str, int]


@dataclass(frozen=True)
class Spread:
    """One metric of one kind: 5th, 50th and 95th percentile over its networks; how many had it."""

    n: int
    low: float
    middle: float
    high: float


def rows(lines: Sequence[Line], facts: Mapping[Case, Facts]) -> list[Row]:
    """One row for each kind, in the order in which the lines name them.

    Args:
        lines: verdicts of one campaign seed; each network once.
        facts: of every network in them, of the champion, and of the healthy ones of the tuning half.
    """
    tuning = healthy_of(facts)
    champion = facts[Case(HEALTHY, CHAMPION)].practice
    table = []
    for kind in dict.fromkeys(line.kind for line in lines):
        own = [line for line in lines if line.kind == kind]
        practice = [facts[line.case].practice for line in own]
        verdicts = Counter(line.verdict for line in own)
        table.append(
            Row(
                kind=kind,
                n=len(own),
                accuracy=float(np.mean([one.accuracy for one in practice])),
                failed=verdicts["fail"],
                open=len(own) - verdicts["fail"] - verdicts["pass"],
                others={check: sum(blocked(check, one, champion, tuning) for one in practice) for check in CHECKS},
            )
        )
    return table


def healthy_of(facts: Mapping[Case, Facts]) -> list[Practice]:
    """Of the healthy networks that limits are chosen on."""
    return [one.practice for case, one in facts.items() if case.kind == HEALTHY and case.half == "tune" and case.seed != CHAMPION]


def share(count: int, n: int) -> str:
    """``9 of 10 (55 to 100 %)``, with the interval of Clopper and Pearson."""
    lower, upper = exact_share(count, n, CONFIDENCE)
    return f"{count} of {n} ({lower * 100:.0f} to {upper * 100:.0f} %)"


def why(line: Line) -> str:
    """What the rules that could have caught a network say of it: value, interval and slice."""
    said = []
    for name, (status, value, lower, upper, part, *paired) in line.rules.items():
        if value is None:
            continue
        where = "" if part is None else f" ({part})"
        rise = f", rise {paired[0]:+.4g}{_interval(*paired[1:])}" if paired else ""
        said.append(f"{name} {status} {value:.4g}{_interval(lower, upper)}{rise}{where}")
    return f"{line.kind}, seed {line.seed}, campaign seed {line.campaign_seed}: {line.verdict}; " + "; ".join(said)


def _interval(lower: object, upper: object) -> str:
    return f" [{lower:.3f}, {upper:.3f}]" if isinstance(lower, float) and isinstance(upper, float) else ""


def differing(lines: Iterable[Line]) -> tuple[int, int, int]:
    """(verdicts that are pass where most of the same network's are fail, or the other way round; inconclusive ones; all)."""
    by_case: dict[Case, list[str]] = {}
    for line in lines:
        by_case.setdefault(line.case, []).append(line.verdict)
    flipped, undecided, total = 0, 0, 0
    for verdicts in by_case.values():
        passed, failed = verdicts.count("pass"), verdicts.count("fail")
        flipped += min(passed, failed)
        undecided += len(verdicts) - passed - failed
        total += len(verdicts)
    return flipped, undecided, total


def separation(lines: Sequence[Line]) -> dict[str, dict[str, Spread]]:
    """By metric, then kind: how its values are spread. What was never measured is left out."""
    names = sorted({name for line in lines for name in line.metrics})
    found: dict[str, dict[str, Spread]] = {}
    for name in names:
        for kind in dict.fromkeys(line.kind for line in lines):
            values = [value for line in lines if line.kind == kind and (value := line.metrics.get(name)) is not None]
            if values:
                low, middle, high = np.percentile(values, [5, 50, 95])
                found.setdefault(name, {})[kind] = Spread(len(values), float(low), float(middle), float(high))
    return found
