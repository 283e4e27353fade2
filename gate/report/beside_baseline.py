"""The candidate beside the baseline, on the same inputs: each metric, the slices that moved most, and what flipped."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from gate.metrics.catalogue import CATALOGUE
from gate.report.numbers import amount, count, difference, difference_interval, interval, is_share, share
from gate.report.rise import reach, rise
from gate.report.text import NAME, visible
from gate.report.words import metric_reason, sentence, title
from gate.result import BaselineSummary, Paired, Result

__all__ = ["BY", "beside_baseline_page", "compared_rows", "flips_in_words", "worse_metrics"]

BY = {
    "class": "class",
    "family": "family of mutations",
    "half": "half of the seed inputs",
    "long_tail_kind": "kind of long-tail sample",
}
_MOST_METRICS, _MOST_SLICES, _MOST_TABLES = 30, 30, 12
_PARTS = {"clean": "the clean samples", "long_tail": "the long-tail samples", "judging": "the mutants of judged seed inputs"}
_SIDE = {"worse": "worse", "better": "better", "open": "no difference shown"}
_BADGE = {"worse": "fail", "better": "pass", "open": "note"}


def worse_metrics(result: Result) -> list[str]:
    """The metrics by which the candidate is worse than the baseline beyond doubt: the whole interval lies on the bad side of zero."""
    return [name for name, metric in sorted(result.metrics.items()) if metric.paired and _side(name, metric.paired) == "worse"]


def flips_in_words(result: Result) -> str | None:
    """How often the baseline reads rightly what the candidate does not; None where that was not measured."""
    metric = result.metrics.get("negative_flip_rate")
    if metric is None or metric.value is None:
        return None
    within = interval(metric.lower, metric.upper, metric.unit, metric.confidence)
    shares = [f"{share(metric.extra[key])} of {words}" for key, words in _PARTS.items() if key in metric.extra]
    of = f": {', '.join(shares[:-1])}{' and ' if shares[1:] else ''}{shares[-1]}" if shares else ""
    said = f"{share(metric.value)}{' in the mean' if len(shares) > 1 else ' in all'}{f', {within}' if within else ''}"
    return f"What the baseline reads rightly and the candidate wrongly{of}; {said}."


def compared_rows(result: Result) -> list[tuple[str, ...]]:
    """Metric, candidate, baseline, difference, its interval, inputs and how that reads; what became worse first."""
    rows = [_row(name, title(name), CATALOGUE[name].unit, paired, 1.0) for name, paired in _compared(result)]
    return [tuple(row[key] for key in ("name", "candidate", "baseline", "rise", "interval", "n", "side")) for row in rows]


def _compared(result: Result) -> list[tuple[str, Paired]]:
    """What became worse first, then what shows no difference, then what became better."""
    rows = [(name, metric.paired) for name, metric in sorted(result.metrics.items()) if metric.paired is not None and name in CATALOGUE]
    return sorted(rows, key=lambda row: ("worse", "open", "better").index(_side(*row)))


def beside_baseline_page(result: Result) -> dict[str, Any] | None:
    """The section; None where nothing was compared and nothing says why."""
    rows = _compared(result)
    missing = [
        f"{title(name)}: {sentence(visible(metric.paired_reason))}"
        for name, metric in sorted(result.metrics.items())
        if metric.paired_reason
    ]
    flips = flips_in_words(result)
    if not rows and not missing and flips is None:
        return None
    flip = result.metrics.get("negative_flip_rate")
    return {
        "lead": _lead(rows),
        "rows": [_row(name, title(name), CATALOGUE[name].unit, paired, _to([paired])) for name, paired in rows[:_MOST_METRICS]],
        "tables": _tables(result, [name for name, _ in rows]),
        "flips": flips,
        "run": _run(result.against_baseline),
        "flips_missing": metric_reason(flip) if flip is not None and flip.value is None and rows else "",
        "missing": missing[:_MOST_METRICS],
    }


def _run(summary: BaselineSummary | None) -> list[str]:
    """What the baseline was run on, and how many of the candidate's defects it has."""
    if summary is None:
        return []
    said = []
    ran = (
        (summary.clean, "clean samples"),
        (summary.long_tail, "long-tail samples"),
        (summary.judged, "judged seed inputs with their mutants"),
    )
    on = [f"{count(number)} {words}" for number, words in ran if number]
    if on:
        what = on[0] if len(on) == 1 else f"{', '.join(on[:-1])} and {on[-1]}"
        said.append(
            f"The baseline was run on {what}, {count(summary.executions)} executions in all, none of which counts as the candidate's."
        )
    if summary.asked:
        said.append(
            f"Of {count(summary.asked)} defects it was asked about, {count(summary.brought_in)} are new with this candidate and "
            f"{count(summary.known)} are in the baseline, too."
        )
    if summary.paired_reason:
        said.append(sentence(visible(summary.paired_reason)))
    return said


def _lead(rows: Iterable[tuple[str, Paired]]) -> str:
    sides = [_side(*row) for row in rows]
    if not sides:
        return "Nothing could be compared."
    told = [
        f"{sides.count(side)} {words}" for side, words in (("worse", "worse"), ("better", "better"), ("open", "with no difference shown"))
    ]
    return f"{len(sides)} {'metric was' if len(sides) == 1 else 'metrics were'} compared: {', '.join(told)}."


def _side(name: str, paired: Paired) -> str:
    if paired.lower is None or paired.upper is None or name not in CATALOGUE or not (paired.lower > 0 or paired.upper < 0):
        return "open"
    return "worse" if (paired.lower > 0) == CATALOGUE[name].higher_is_worse else "better"


def _to(pairs: Iterable[Paired]) -> float:
    ends = [
        number for paired in pairs for number in (paired.rise, paired.lower, paired.upper) if number is not None and math.isfinite(number)
    ]
    return reach(ends) * 1.05


def _row(metric: str, name: str, unit: str, paired: Paired, to: float) -> dict[str, Any]:
    side = _side(metric, paired)
    new = ""
    if paired.new is not None and paired.new != paired.candidate:
        new = f"{amount(paired.new, unit)} without what the baseline fails on too"
    return {
        "name": name,
        "candidate": amount(paired.candidate, unit),
        "baseline": amount(paired.baseline, unit),
        "rise": difference(paired.rise, unit),
        "interval": difference_interval(paired.lower, paired.upper, unit, paired.confidence),
        "relative": _relative(paired, unit),
        "plot": rise(paired.rise, paired.lower, paired.upper, unit, higher_is_worse=CATALOGUE[metric].higher_is_worse, to=to),
        "n": count(paired.n) if paired.n else "–",
        "new": new,
        "badge": _BADGE[side],
        "side": _SIDE[side] if paired.lower is not None else "no interval",
    }


def _relative(paired: Paired, unit: str) -> str:
    """The difference as a share of the baseline's value, where that is no rounding error."""
    if paired.relative is None or not is_share(unit) or abs(paired.relative) < 0.005:
        return ""
    return f"{abs(paired.relative) * 100:,.0f} % {'more' if paired.relative > 0 else 'less'} than the baseline's"


def _tables(result: Result, names: Iterable[str]) -> list[dict[str, Any]]:
    """Slices by how much worse they became, the worst first; what is not compared has no row."""
    tables: list[dict[str, Any]] = []
    for name in names:
        metric = result.metrics[name]
        sign = -1 if CATALOGUE[name].higher_is_worse else 1
        for by, parts in metric.slices.items():
            rows = [(part, one.paired) for part, one in parts.items() if one.paired is not None]
            if len(rows) < 2 or by == "half":  # halves say whether a fix is learnt by heart, not where it is worse
                continue
            rows.sort(key=lambda row: (sign * row[1].rise, row[0]))
            shown = rows[:_MOST_SLICES]
            to = _to(paired for _, paired in shown)
            by_words = BY.get(by) or visible(by.replace("_", " "), NAME)
            tables.append(
                {
                    "title": f"{title(name)} by {by_words}",
                    "by": by_words[:1].upper() + by_words[1:],
                    "rows": [_row(name, visible(part, NAME), metric.unit, paired, to) for part, paired in shown],
                    "worse": sum(_side(name, paired) == "worse" for _, paired in rows),
                    "all": len(rows),
                    "left_out": len(rows) - len(shown),
                }
            )
    tables.sort(key=lambda table: -table["worse"])
    return tables[:_MOST_TABLES]
