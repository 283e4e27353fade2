"""The map of features: seed inputs as dots, mutants as rings, drawn so that two classes at a time stand out.

Two classes are told apart by shape and colour, all others are small grey dots. Which two is chosen on the page; without scripts it is the
pair of the gravest root cause that has one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from gate.report.numbers import count, share
from gate.report.text import NAME, visible
from gate.result import MapPoint, Result
from gate.triage.gravity import gravest_first

__all__ = ["map_page"]

_WIDTH, _HEIGHT, _EDGE = 760, 520, 16
_MOST_SEEDS, _MOST_MUTANTS = 1500, 400
_MOST_CLASSES = 150
_MOST_ROWS = 24
_METHODS = {"tsne": "t-SNE", "t-sne": "t-SNE"}


def map_page(result: Result, anchors: Mapping[str, str]) -> dict[str, Any] | None:
    """The section with the map; None where the run has none, and a reason in its place where there is one.

    Args:
        result: the finished run.
        anchors: by defect id, where the page shows it.
    """
    found = result.feature_map
    if found is None:
        return None
    if not found.points:
        reason = found.reason or "No map was made"
        return {"reason": reason[:1].upper() + reason[1:].rstrip(".") + ".", "seeds": []}
    seeds = [point for point in found.points if point.defect is None]
    mutants = sorted((point for point in found.points if point.defect is not None), key=lambda point: point.defect not in anchors)
    drawn_seeds, drawn_mutants = _thinned(seeds, _MOST_SEEDS), mutants[:_MOST_MUTANTS]
    pair = _pair(result, seeds, mutants)
    by_id = {defect.id: defect for defect in result.defects}
    labels = [label for label, _ in Counter(point.label for point in found.points).most_common(_MOST_CLASSES)]
    return {
        "reason": "",
        "method": _METHODS.get(found.method.lower()) or visible(found.method, NAME),
        "frame": {"width": _WIDTH, "height": _HEIGHT},
        "classes": [(label, visible(result.class_name(label), NAME)) for label in sorted(labels)],
        "pair": pair,
        "seeds": [(*_place(point), point.label, _group(point.label, pair)) for point in drawn_seeds],
        "mutants": [_mutant(point, by_id, result, anchors, pair) for point in drawn_mutants],
        "left_out": len(seeds) - len(drawn_seeds) + len(mutants) - len(drawn_mutants),
        "rows": _rows(result, seeds, mutants),
        "words": f"Map of features: {count(len(drawn_seeds))} seed inputs and {count(len(drawn_mutants))} mutants.",
    }


def _place(point: MapPoint) -> tuple[float, float]:
    x, y = (min(1.0, max(0.0, value)) for value in (point.x, point.y))
    return round(_EDGE + x * (_WIDTH - 2 * _EDGE), 1), round(_EDGE + (1 - y) * (_HEIGHT - 2 * _EDGE), 1)


def _thinned(points: list[MapPoint], most: int) -> list[MapPoint]:
    """At most ``most`` points, from all over the list."""
    if len(points) <= most:
        return points
    return [points[i * len(points) // most] for i in range(most)]


def _group(label: int, pair: tuple[int, int]) -> str:
    return "a" if label == pair[0] else "b" if label == pair[1] else "rest"


def _pair(result: Result, seeds: list[MapPoint], mutants: list[MapPoint]) -> tuple[int, int]:
    drawn = {point.label for point in (*seeds, *mutants)}
    for cause in gravest_first(result.root_causes):
        if cause.label in drawn and cause.predicted in drawn and cause.label != cause.predicted:
            assert cause.label is not None
            assert cause.predicted is not None
            return cause.label, cause.predicted
    frequent = [label for label, _ in Counter(point.label for point in (*mutants, *seeds)).most_common(2)]
    return frequent[0], frequent[-1]


def _mutant(point: MapPoint, by_id: Mapping[str, Any], result: Result, anchors: Mapping[str, str], pair: tuple[int, int]) -> dict[str, Any]:
    x, y = _place(point)
    defect = by_id.get(point.defect or "")
    became = "no longer known" if defect is None else "a fault" if defect.predicted is None else result.class_name(defect.predicted)
    label = visible(result.class_name(point.label), NAME)
    return {
        "x": x,
        "y": y,
        "label": point.label,
        "group": _group(point.label, pair),
        "anchor": anchors.get(point.defect or ""),
        "words": f"{label} read as {visible(became, NAME)}" if defect is not None else f"a mutant of {label}",
    }


def _rows(result: Result, seeds: list[MapPoint], mutants: list[MapPoint]) -> list[dict[str, str]]:
    """The map in words: near which class the mutants of each class lie."""
    if not seeds or not mutants:
        return []
    import numpy as np

    places = np.array([(point.x, point.y) for point in seeds])
    labels = np.array([point.label for point in seeds])
    nearest: dict[int, Counter[int]] = defaultdict(Counter)
    for point in mutants:
        distance = ((places - (point.x, point.y)) ** 2).sum(axis=1)
        nearest[point.label][int(labels[int(distance.argmin())])] += 1
    rows = []
    for label, near in sorted(nearest.items(), key=lambda item: -sum(item[1].values()))[:_MOST_ROWS]:
        total = sum(near.values())
        others = Counter({other: number for other, number in near.items() if other != label})
        most = others.most_common(1)
        rows.append(
            {
                "name": visible(result.class_name(label), NAME),
                "mutants": count(total),
                "own": f"{count(near[label])} ({share(near[label] / total)})",
                "other": f"{visible(result.class_name(most[0][0]), NAME)} ({count(most[0][1])})" if most else "none",
            }
        )
    return rows
