"""What the report says of other ways of running the model (precision, layout, company), and of the baseline beside it."""

from __future__ import annotations

from typing import Any

from gate.oracles.batch_dependence import BatchDependence
from gate.oracles.numeric_path import NumericPath
from gate.report.numbers import count
from gate.report.text import NAME, visible
from gate.result import BaselineSummary, PathsSummary, PathTally, Result

__all__ = ["ways_page"]


def ways_page(result: Result) -> dict[str, Any] | None:
    """The section; None where the run has neither."""
    paths, baseline = result.paths, result.against_baseline
    if paths is None and baseline is None:
        return None
    return {
        "lead": "" if paths is None or not paths.ways else _lead(paths),
        "reason": "" if paths is None or paths.reason is None else _sentence(paths.reason),
        "rows": [] if paths is None else [_row(name, tally) for name, tally in paths.ways.items()],
        "untaken": [] if paths is None else [f"{_title(name)}: {visible(why)}" for name, why in paths.untaken.items()],
        "baseline": "" if baseline is None else _beside(baseline),
    }


def _lead(paths: PathsSummary) -> str:
    return (
        f"{count(paths.seeds)} seed inputs and {count(paths.mutants)} mutants, all read rightly by the model as it was tested, were "
        "answered once more in the ways in which models are served, the costlier ones by a part of them. Where another class comes out, "
        "whoever serves the model so gets it."
    )


def _row(name: str, tally: PathTally) -> dict[str, Any]:
    another = "another class, or no finite output"
    return {
        "title": _title(name),
        "status": "fail" if tally.findings else "pass",
        "found": f"{count(tally.findings)} of {count(tally.tried)}: {another}" if tally.findings else f"none of {count(tally.tried)}",
        "worst": f"{tally.worst:.2g}",
    }


def _title(name: str) -> str:
    path = name.removeprefix(f"{NumericPath.name}:")
    if path in NumericPath.PATHS:
        served = NumericPath.PATHS[path].served
        return served[0].upper() + served[1:]
    return "Alone and beside other inputs" if name == BatchDependence.name else visible(name.replace("_", " "), NAME)


def _beside(baseline: BaselineSummary) -> str:
    said = []
    if baseline.asked:
        defects = "one defect" if baseline.asked == 1 else f"{count(baseline.asked)} defects"
        said.append(
            f"The baseline was asked about {defects}. What it reads rightly is new with this candidate: {count(baseline.brought_in)}. "
            f"What it reads as the same wrong class it has already: {count(baseline.same)}."
        )
    if baseline.sure_of_nothing is not None:
        said.append(f"Of the probes that show nothing, the baseline is sure of a class on {count(baseline.sure_of_nothing)}.")
    if baseline.reason is not None:
        what = "Not all was asked of the baseline" if baseline.asked else "The baseline was not asked"
        said.append(f"{what}: {visible(baseline.reason)}.")
    return " ".join(said)


def _sentence(reason: str) -> str:
    text = visible(reason)
    return text[:1].upper() + text[1:].rstrip(".") + "."
