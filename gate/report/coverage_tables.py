"""The coverage section of the page: what its cards and tables show. Every table is bounded and says what it leaves out."""

from __future__ import annotations

from typing import Any

from gate.report.coverage import (
    FALSE_MEANING,
    about,
    amount_of,
    change_of,
    criterion_name,
    earned_in_words,
    explained,
    false_criteria,
    false_step,
    guidance,
    noise_in_words,
    nonfinite_note,
    remark,
    reported,
    saturation,
    stalled,
)
from gate.report.curve import BOTTOM, HEIGHT, LEFT, RIGHT, WIDTH, panels
from gate.report.numbers import amount, count, roughly, share
from gate.report.text import NAME, visible
from gate.result import ControlComparison, CoverageSummary, Result, Unreached

__all__ = ["coverage_page"]

_MOST_CRITERIA, _MOST_LAYERS, _MOST_CLASSES, _MOST_PLACES, _MOST_EXAMPLES = 24, 60, 30, 12, 3
_MOST_WITH_BARS = 4  # criteria beside each other, beyond which a bar in every cell leaves no room for the numbers


def coverage_page(result: Result) -> dict[str, Any]:
    """Everything the template of the section prints; ``rows`` is empty where no coverage was measured."""
    shown = dict(list(result.coverage.items())[:_MOST_CRITERIA])
    name = reported(result)
    layers, layer_criteria, layers_left_out = _by_layer(result)
    watched = result.layers[:_MOST_LAYERS]
    classes = sorted(result.coverage_by_class, key=lambda row: (row.new_items, row.label))
    return {
        "rows": [_row(name, summary) for name, summary in shown.items()],
        "rows_left_out": len(result.coverage) - len(shown),
        "false": [_false(name, result.coverage[name]) for name in false_criteria(result)[:_MOST_CRITERIA]],
        "false_meaning": FALSE_MEANING,
        "false_step": false_step(result),
        "cards": _cards(result, name, result.coverage[name]) if name is not None and result.campaign is not None else [],
        "about": criterion_name(name) if name is not None else "",
        "panels": panels(result.curve, {name: summary.kind for name, summary in result.coverage.items()}),
        "frame": {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - RIGHT, "bottom": HEIGHT - BOTTOM},
        "has_random": any(point.random for point in result.curve),
        "has_noise": any(point.noise for point in result.curve),
        "controls": [_controlled(name, summary) for name, summary in shown.items() if summary.random or summary.noise or summary.discovery],
        "nonfinite": nonfinite_note(result.coverage),
        "watched": [_watched(layer) for layer in watched],
        "watched_left_out": len(result.layers) - len(watched),
        "layers": layers,
        "layer_criteria": layer_criteria,
        "layers_left_out": layers_left_out,
        "classes": [_of_class(row, result) for row in classes[:_MOST_CLASSES]],
        "classes_left_out": max(0, len(classes) - _MOST_CLASSES),
        "guides": [criterion_name(name) for name, summary in result.coverage.items() if summary.guides],
        "classes_have_output": any(row.output is not None for row in classes),
        "unreached": [_unreached(name, summary) for name, summary in shown.items() if summary.unreached],
    }


def _row(name: str, summary: CoverageSummary) -> dict[str, str]:
    if summary.kind == "statistic":
        items = f"no items; {count(summary.covered)} samples"
    else:
        items = f"{count(summary.covered)} of {count(summary.total)}" if summary.total else f"{count(summary.covered)}, no fixed number"
    per_iteration = summary.gain_per_iteration
    return {
        "name": criterion_name(name),
        "meaning": explained(name),
        "remark": remark(name, summary),
        "guides": "" if summary.guides else "measured only: the search did not follow it",
        "false": "yes" if summary.false_coverage else "",
        "initial": amount_of(summary, summary.initial),
        "final": amount_of(summary, summary.final),
        "raw": amount_of(summary, summary.raw_final),
        "gain": change_of(summary, summary.gain),
        "per_iteration": "not measured"
        if per_iteration is None
        else share(per_iteration)
        if summary.kind == "share"
        else amount(per_iteration, ""),
        "item_count": items,
    }


def _false(name: str, summary: CoverageSummary) -> tuple[str, str]:
    return criterion_name(name), noise_in_words(summary) or "Uniform noise gained as much as the search."


def _cards(result: Result, name: str, summary: CoverageSummary) -> list[dict[str, Any]]:
    """How far the search got, what guidance earned and what noise reaches as well: a big number and a sentence each."""
    found, control, noise = summary.discovery, summary.random, summary.noise
    standstill = stalled(result.campaign)
    unknown = (
        f"{criterion_name(name)} has no items to estimate from." if summary.kind == "statistic" else "Too little was run to estimate it."
    )
    earned, _ = earned_in_words(summary)
    return [
        {
            "title": "How far the search got",
            "value": ("unknown" if found.seen is None else roughly(found.seen), "" if found.seen is None else "of what it will reach")
            if found
            else None,
            "badge": None,
            "text": saturation(name, summary) or unknown,
            "more": standstill or "",
        },
        {
            "title": "What guidance earned",
            "value": (earned, "" if earned == "nothing" else "over drawing at random") if control else None,
            "badge": None,
            "text": guidance(summary) or "No mutant was drawn at random to compare with.",
            "more": "One search beside one control: a small difference is luck." if control else "",
        },
        {
            "title": "What noise gained",
            "value": (change_of(summary, noise.gain), f"the search {change_of(summary, noise.search_gain)}") if noise else None,
            "badge": None if noise is None else ("warn", "false coverage") if summary.false_coverage else ("pass", "less than the search"),
            "text": noise_in_words(summary) or "No noise was run to compare with, so nothing says what this coverage is worth.",
            "more": "What that means stands above." if summary.false_coverage else "",
        },
    ]


def _controlled(name: str, summary: CoverageSummary) -> dict[str, Any]:
    found = summary.discovery
    return {
        "name": criterion_name(name),
        "false": "yes" if summary.false_coverage else "",
        "seen": "–" if found is None or found.seen is None else about(found.seen),
        "chance": "–" if found is None else about(found.chance),
        "remark": remark(name, summary),
        "random": _compared(summary, summary.random),
        "earned": earned_in_words(summary) if summary.random else ("–", ""),
        "noise": _compared(summary, summary.noise),
    }


def _compared(summary: CoverageSummary, control: ControlComparison | None) -> tuple[str, str]:
    if control is None:
        return "–", ""
    return change_of(summary, control.gain), f"search {change_of(summary, control.search_gain)}, {count(control.executions)} each"


def _watched(layer: Any) -> dict[str, str]:
    known = layer.low is not None and layer.high is not None
    return {
        "name": layer.name,
        "type": layer.type.rpartition(".")[2] or layer.type,
        "neurons": count(layer.neurons),
        "range": f"{amount(layer.low, '')} to {amount(layer.high, '')}" if known else "not measured",
        "constant": f"{count(layer.constant)} ({share(layer.constant / layer.neurons)})" if layer.constant and layer.neurons else "none",
        "head": "the classifier head: it says what the model answers, not how it got there" if layer.head else "",
    }


def _by_layer(result: Result) -> tuple[list[dict[str, Any]], list[tuple[str, str]], int]:
    criteria = [name for name, summary in list(result.coverage.items())[:_MOST_CRITERIA] if summary.by_layer]
    names = list(dict.fromkeys(layer for criterion in criteria for layer in result.coverage[criterion].by_layer))
    bars = len(criteria) <= _MOST_WITH_BARS
    rows = []
    for layer in names[:_MOST_LAYERS]:
        cells = []
        for summary in (result.coverage[criterion] for criterion in criteria):
            value = summary.by_layer.get(layer)
            width = value if bars and summary.kind == "share" else None
            cells.append(None if value is None else (width, amount_of(summary, value)))
        rows.append({"name": layer, "cells": cells})
    heads = [(criterion_name(name), "can fall" if result.coverage[name].kind == "statistic" else "") for name in criteria]
    return rows, heads, max(0, len(names) - _MOST_LAYERS)


def _of_class(row: Any, result: Result) -> dict[str, str]:
    return {
        "name": result.class_name(row.label),
        "executions": count(row.executions),
        "valid": share(row.valid / row.executions) if row.executions else "–",
        "new_items": amount(row.new_items, "count"),
        "output": "–" if row.output is None else share(row.output),
    }


def _unreached(name: str, summary: CoverageSummary) -> dict[str, Any]:
    left = summary.total - summary.covered if summary.total else sum(place.items for place in summary.unreached)
    return {
        "name": criterion_name(name),
        "title": f"{criterion_name(name)}: {count(left)} {'item' if left == 1 else 'items'} never reached"
        + (f", {share(left / summary.total)} of all" if summary.total else ""),
        "meaning": explained(name),
        "rows": [_place(place, place.place in summary.by_layer) for place in summary.unreached[:_MOST_PLACES]],
        "left_out": max(0, len(summary.unreached) - _MOST_PLACES),
        "untouched": any(place.untouched for place in summary.unreached[:_MOST_PLACES]),
    }


def _place(place: Unreached, is_layer: bool) -> dict[str, Any]:
    shown = [visible(example, 2 * NAME) for example in place.examples[:_MOST_EXAMPLES]]
    return {
        "name": place.place,
        "is_layer": is_layer,
        "left": f"{count(place.items)} of {count(place.total)}",
        "share": (place.items / place.total, share(place.items / place.total)) if place.total else None,
        "untouched": count(place.untouched) if place.untouched else "–",
        "examples": "; ".join(shown) + ("; and others" if len(place.examples) > len(shown) else ""),
    }
