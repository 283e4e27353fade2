"""What the report says of universal marks and of probes: pictures first, and words that need no knowledge of the method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gate.oracles.unjustified_confidence import UnjustifiedConfidence
from gate.report.numbers import count, interval, share
from gate.report.pictures import PictureReader, figure
from gate.report.shortcuts import ADVICE, kind_of_mark, shortcut_in_words, shortcuts_of
from gate.report.text import NAME, visible
from gate.result import MarksSummary, ProbeOracle, ProbesSummary, Result, UniversalMark

__all__ = ["marks_page", "probes_page"]

_MOST_CLASSES = 12
_ORACLES = {
    "crash": ("Answers without an exception", "an exception instead of an answer"),
    "non_finite": ("Answers with numbers", "an answer that is not a number"),
    "batch_dependence": ("Same answer in any batch", "another answer beside other inputs"),
    "numeric_path:channels_last": ("Same answer in another memory layout", "another answer with channels last"),
    "numeric_path:float64": ("Same answer in double precision", "another answer in double precision"),
    "numeric_path:bfloat16": ("Same answer in half precision, bfloat16", "another answer in bfloat16"),
    "numeric_path:float16": ("Same answer in half precision, float16", "another answer in float16"),
    "numeric_path:int8": ("Same class with 8-bit integers", "another class once linear layers compute with 8-bit integers"),
    "unjustified_confidence": ("Unsure where nothing is shown", "sure of a class although nothing is to be seen"),
}


def marks_page(result: Result, folder: Path) -> dict[str, Any] | None:
    """The section on universal marks; None where the run has none."""
    summary = result.universal_marks
    if summary is None:
        return None
    reader = PictureReader(folder)
    return {
        "reason": "" if summary.reason is None else summary.reason[0].upper() + summary.reason[1:].rstrip(".") + ".",
        "shortcuts": [shortcut_in_words(mark, result) for mark in shortcuts_of(result)],
        "advice": ADVICE,
        "marks": [_mark(mark, result, reader) for mark in summary.marks],
        "classes": _by_class(summary, result),
        "effort": _effort(summary),
    }


def _mark(mark: UniversalMark, result: Result, reader: PictureReader) -> dict[str, Any]:
    name = visible(result.class_name(mark.label), NAME)
    pairs = []
    number = 1
    while f"after_{number}" in mark.files:
        pairs.append([figure(reader.read(mark.files.get(f"{part}_{number}"))) for part in ("before", "after")])
        number += 1
    line = "" if mark.outlier is None else f"{mark.outlier:.1f} deviations above the median class; more than 2 is out of line."
    return {
        "title": f"{kind_of_mark(mark)} that says",
        "label": name,
        "shortcut": mark.shortcut,
        "picture": figure(reader.read(mark.files.get("mark"))),
        "pairs": pairs,
        "rate": mark.rate,
        "rate_words": share(mark.rate),
        "sentence": f"{count(mark.moved)} of {count(mark.inputs)} inputs of other classes are read as {name} once they carry the mark. The "
        "search for it had seen none of them.",
        "interval": interval(mark.lower, mark.upper, "share", mark.confidence),
        "outlier": line,
    }


def _by_class(summary: MarksSummary, result: Result) -> dict[str, Any] | None:
    """The classes that marks reach most easily; None where nothing is known of them."""
    if not summary.by_class:
        return None
    best = [max(scores) for scores in zip(*summary.by_class.values(), strict=True)]
    rows = sorted(range(len(best)), key=lambda label: -best[label])
    return {
        "rows": [(visible(result.class_name(label), NAME), best[label], f"{best[label] * 100:.1f} %") for label in rows[:_MOST_CLASSES]],
        "left_out": max(0, len(rows) - _MOST_CLASSES),
    }


def _effort(summary: MarksSummary) -> str:
    if not summary.searched:
        return ""
    how = "along the model's gradients" if summary.gradients else "by evolution, for the model has no gradients"
    improved = f", the most promising improved {how}" if summary.improved else ", and there was no work left to improve any"
    return (
        f"{count(summary.starts)} plain marks tried on {count(summary.searched)} seed inputs{improved}; measured on up to "
        f"{count(summary.held_out)} others. {count(summary.model_calls)} model calls in all. A mark that was not found may do more."
    )


def probes_page(result: Result, folder: Path) -> dict[str, Any] | None:
    """The section on probes; None where the run has none."""
    summary = result.probes
    if summary is None:
        return None
    reader = PictureReader(folder)
    rows = [_oracle(name, oracle, reader) for name, oracle in summary.oracles.items()]
    return {
        "lead": _lead(summary),
        "reason": "" if summary.reason is None else summary.reason[0].upper() + summary.reason[1:] + ".",
        "rows": rows,
        "untaken": ", ".join(visible(path, NAME) for path in summary.untaken),
    }


def _lead(summary: ProbesSummary) -> str:
    return (
        f"{count(summary.run)} of {count(summary.offered)} probes were shown to the model: blank and constant pictures, single pixels, "
        "stripes, noise, and changes far beyond what a person would still recognise. No answer to them is right or wrong, but it must be a "
        "number, and the same one wherever it is computed."
    )


def _oracle(name: str, oracle: ProbeOracle, reader: PictureReader) -> dict[str, Any]:
    title, complaint = _ORACLES.get(name, (visible(name.replace("_", " ").capitalize(), NAME), "findings"))
    noted = name == UnjustifiedConfidence.name
    found = f"{count(oracle.findings)} of {count(oracle.tried)}: {complaint}" if oracle.findings else f"none of {count(oracle.tried)}"
    if noted:
        worst = (
            ""
            if oracle.worst is None
            else f"Highest confidence {share(oracle.worst)}; above {share(UnjustifiedConfidence.LIMIT)} is noted."
        )
    else:
        worst = "" if oracle.worst is None else f"Largest difference of a probability: {oracle.worst:.2g}."
    return {
        "title": title,
        "status": ("note" if noted else "fail") if oracle.findings else "pass",
        "found": found,
        "worst": worst,
        "example": None if oracle.example is None else visible(oracle.example.replace("-", " "), NAME),
        "picture": figure(reader.read(oracle.picture)),
    }
