"""A comparison of ways to search as a page and as JSON: curves over model work, and differences at equal work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from gate.metrics.comparison import CONFIDENCE, LEAST_REPEATS, Difference, Trace, compared, equal_work
from gate.report.coverage import criterion_name
from gate.report.curve import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, ticks
from gate.report.numbers import amount, count, mark, points, share, short
from gate.report.page import inline, page_environment, source_hash

__all__ = ["DEFECTS", "Measured", "as_json", "difference_in_words", "measure_name", "page", "value_in_words"]

SCHEMA = "gate.comparison/1"
DEFECTS = "defects"
_GRID = 101  # points of a curve


@dataclass(frozen=True)
class Measured:
    """Everything a comparison has come to. The first way is the reference."""

    traces: Mapping[str, Sequence[Trace]]  # by way, one a repeat
    kinds: Mapping[str, str]  # by criterion: share, count or statistic
    work: float  # forward-equivalents at which the ways are compared
    differences: Mapping[str, Mapping[str, Difference]]  # by measure and way, without the reference
    seed: int
    executions: int
    asked: int  # repeats that were asked for
    model: str
    digest: str | None
    policy: str

    @classmethod
    def of(cls, traces: Mapping[str, Sequence[Trace]], *, kinds: Mapping[str, str], seed: int, **told: Any) -> Measured:
        """Compares every way with the first one at the most work that all campaigns have done."""
        ways = list(traces)
        work = equal_work([trace for each in traces.values() for trace in each])
        differences = {
            measure: {way: compared(traces[way], traces[ways[0]], measure, work, seed=seed) for way in ways[1:]}
            for measure in (*kinds, DEFECTS)
        }
        return cls(traces=traces, kinds=kinds, work=work, differences=differences, seed=seed, **told)

    @property
    def ways(self) -> tuple[str, ...]:
        """Names, the reference first."""
        return tuple(self.traces)

    @property
    def repeats(self) -> int:
        """That are complete."""
        return len(self.traces[self.ways[0]])

    @property
    def notes(self) -> tuple[str, ...]:
        """What has to be known to read the numbers."""
        over = f"{count(self.repeats)} {'repeat' if self.repeats == 1 else 'repeats'}"
        said = [
            f"Compared at {count(self.work)} forward-equivalents of the search, the most that every campaign did; one backward pass counts "
            "two, and what scoring entries cost is in it.",
            f"Intervals are at {CONFIDENCE:.0%}, over {over}, in each of which "
            "all ways had the same campaign seed. They allow for chance in the campaigns, not for other seed inputs or another model.",
        ]
        if self.repeats < self.asked:
            said.append(f"Stopped early: {count(self.repeats)} of {count(self.asked)} repeats are complete.")
        if self.repeats < LEAST_REPEATS:
            said.append(f"Fewer than {LEAST_REPEATS} repeats show no difference, whatever the numbers: give more --repeats.")
        if sum(len(row) for row in self.differences.values()) > 1:
            said.append("With many comparisons, about one in twenty looks like a difference by luck alone.")
        return tuple(said)


def measure_name(measure: str) -> str:
    """For a heading."""
    return "Defects" if measure == DEFECTS else f"{criterion_name(measure)} coverage"


def value_in_words(measured: Measured, measure: str, value: float) -> str:
    """A value of this measure in its unit."""
    if measured.kinds.get(measure) == "share":
        return share(value)
    return f"{value:,.1f}" if measure == DEFECTS else amount(value, "")


def difference_in_words(measured: Measured, measure: str, found: Difference) -> tuple[str, str]:
    """The difference, and its interval."""

    def said(value: float) -> str:
        is_share = measured.kinds.get(measure) == "share"
        text = points(abs(value)) if is_share else value_in_words(measured, measure, abs(value))
        return f"{'+' if value > 0 else '-' if value < 0 else ''}{text}"

    if found.interval is None:
        return said(found.difference), "the same in every repeat" if found.pairs > 1 else "none from one repeat"
    low, high = map(said, found.interval)
    return said(found.difference), f"{low.removesuffix(' points').removesuffix(' point')} to {high}"


def as_json(measured: Measured) -> dict[str, Any]:
    """The comparison as JSON values (schema ``gate.comparison/1``)."""
    return {
        "schema": SCHEMA,
        "model": measured.model,
        "digest": measured.digest,
        "policy": measured.policy,
        "seed": measured.seed,
        "executions": measured.executions,
        "repeats": measured.repeats,
        "confidence": CONFIDENCE,
        "work": measured.work,
        "reference": measured.ways[0],
        "ways": list(measured.ways),
        "notes": list(measured.notes),
        "differences": [
            {
                "measure": measure,
                "way": way,
                "mean": found.mean,
                "reference": found.reference,
                "difference": found.difference,
                "lower": None if found.interval is None else found.interval[0],
                "upper": None if found.interval is None else found.interval[1],
                "wins": found.wins,
                "losses": found.losses,
                "shown": found.words,
            }
            for measure, row in measured.differences.items()
            for way, found in row.items()
        ],
        "traces": [
            {
                "way": way,
                "repeat": repeat,
                "work": trace.work.tolist(),
                **{measure: values.tolist() for measure, values in trace.series.items()},
            }
            for way, traces in measured.traces.items()
            for repeat, trace in enumerate(traces, 1)
        ],
    }


def page(measured: Measured) -> str:
    """One file that loads nothing."""
    css = Markup("\n").join(inline(name) for name in ("report.css", "comparison.css"))
    rows = [
        {
            "measure": measure_name(measure),
            "way": way,
            "mean": value_in_words(measured, measure, found.mean),
            "reference": value_in_words(measured, measure, found.reference),
            "difference": difference_in_words(measured, measure, found)[0],
            "interval": difference_in_words(measured, measure, found)[1],
            "ahead": f"{found.wins} of {found.pairs}",
            "words": found.words,
        }
        for measure, row in measured.differences.items()
        for way, found in row.items()
    ]
    return (
        page_environment()
        .get_template("comparison.html.j2")
        .render(
            css=css,
            security=Markup(f"default-src 'none'; style-src {source_hash(css)}; base-uri 'none'; form-action 'none'"),
            model=measured.model,
            policy=measured.policy,
            executions=measured.executions,
            repeats=measured.repeats,
            seed=measured.seed,
            ways=measured.ways,
            notes=measured.notes,
            rows=rows,
            panels=[_panel(measured, measure) for measure in measured.differences],
            frame={"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - RIGHT, "bottom": HEIGHT - BOTTOM},
        )
    )


def _panel(measured: Measured, measure: str) -> dict[str, Any]:
    """One drawing: for every way the mean over its repeats, and the band from its lowest to its highest repeat."""
    grid = np.linspace(0.0, measured.work, _GRID)
    curves = {way: np.stack([trace.at(measure, grid) for trace in traces]) for way, traces in measured.traces.items()}
    is_share = measured.kinds.get(measure) == "share"
    low, high = min(float(each.min()) for each in curves.values()), max(float(each.max()) for each in curves.values())
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        high = low + (0.01 if is_share else 1.0)
    y_ticks = ticks(0.0 if 0 <= low < 0.5 * high else low, high)

    def place(x: float, y: float) -> str:
        across = LEFT + (WIDTH - LEFT - RIGHT) * x / measured.work
        up = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])
        return f"{across:.1f},{up:.1f}"

    def line(values: np.ndarray) -> list[str]:
        return [place(float(x), float(y)) for x, y in zip(grid, values, strict=True)]

    return {
        "name": measure_name(measure),
        "words": f"{measure_name(measure)} over model work; at the end "
        + ", ".join(f"{way} {value_in_words(measured, measure, float(each[:, -1].mean()))}" for way, each in curves.items()),
        "y": [
            (place(0.0, tick).split(",")[1], mark(tick, "share") if is_share else short(tick, y_ticks[1] - y_ticks[0])) for tick in y_ticks
        ],
        "x": [(place(tick, y_ticks[0]).split(",")[0], count(tick)) for tick in ticks(0.0, measured.work, most=4) if tick <= measured.work],
        "lines": [
            {
                "number": number,
                "mean": Markup(" ".join(line(each.mean(axis=0)))),  # numbers only
                "band": Markup(" ".join([*line(each.max(axis=0)), *reversed(line(each.min(axis=0)))])),
            }
            for number, each in enumerate(curves.values())
        ],
    }
