"""What has never been reached, place by place and in words: where a person would look next.

A place is a layer; of output coverage it is a class. Patterns and statistics have no items that could be named before they occur, and
the buckets of surprise say little one by one, so these have nothing here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from gate.coverage.base import Criterion
from gate.coverage.items import NeuronCriterion
from gate.coverage.kmnc import KMultisection
from gate.coverage.listing import listed
from gate.coverage.nc import NeuronCoverage
from gate.coverage.output import OutputCoverage
from gate.coverage.ranges import BoundedCriterion
from gate.result import UNREACHED_EXAMPLES, UNREACHED_PLACES

__all__ = ["unreached"]

_STRETCHES = 3  # of neighbouring sections, named in one example


def unreached(criterion: Criterion) -> list[dict[str, Any]]:
    """The places where most items are left, most first, those with nothing left not among them. Waits for the device.

    Returns:
        At most ``UNREACHED_PLACES`` times plain values:

        * ``place``: the layer's name, or the number of the class.
        * ``items``: how many no sample that earns has covered; ``total``: how many there are.
        * ``untouched``: neurons that have items and none covered; of a class 0.
        * ``examples``: at most ``UNREACHED_EXAMPLES`` in words, those with most left first.
    """
    if isinstance(criterion, OutputCoverage):
        return _of_classes(criterion)
    return _of_layers(criterion) if isinstance(criterion, NeuronCriterion) else []


def _of_layers(criterion: NeuronCriterion) -> list[dict[str, Any]]:
    per, possible = criterion.items_per_neuron, criterion._possible()
    left = []
    for name, (start, stop) in criterion._spans.items():
        total = int(possible[start:stop].sum()) * per
        left.append((total - criterion._hit.count(start * per, stop * per), total, name, start, stop))
    left.sort(key=lambda one: -one[0])  # stable: among equals in the order of the layers
    words, found = _words_of(criterion), []
    for items, total, name, start, stop in left[:UNREACHED_PLACES]:
        if items:
            free = criterion._open(start, stop)
            number = free.sum(1)
            most = number.sort(descending=True, stable=True).indices[:UNREACHED_EXAMPLES]
            most = most[number[most] > 0]
            rows = zip(most.tolist(), free[most].tolist(), strict=True)
            found.append(
                {
                    "place": name,
                    "items": items,
                    "total": total,
                    "untouched": int((number == per).sum()),
                    "examples": [f"neuron {neuron}: {words(row)}" for neuron, row in rows],
                }
            )
    return found


def _words_of(criterion: NeuronCriterion) -> Callable[[Sequence[bool]], str]:
    """Says in words what a neuron has left, of which of its items are open."""
    options = criterion.options
    if isinstance(criterion, KMultisection):
        return _sections
    if isinstance(criterion, BoundedCriterion):
        if options["bounds"]:
            below, above = (f"{limit:g}" for limit in options["bounds"])
        else:
            below = above = "its widened range" if options["margin"] else "its range"

        def sides(free: Sequence[bool]) -> str:
            if len(free) == 2 and all(free):
                return f"below and above {above}" if below == above else f"below {below} and above {above}"
            return f"above {above}" if free[-1] else f"below {below}"

        return sides
    if isinstance(criterion, NeuronCoverage):
        of = " of its layer's range" if options["scale"] == "layer" else ""
        return lambda free: f"above {options['threshold']:g}{of}"
    k = options["k"]
    return lambda free: f"among the {k} most active of its layer" if k > 1 else "the most active of its layer"


def _sections(free: Sequence[bool]) -> str:
    """Sections are numbered from 0."""
    if all(free):
        return f"all of its {len(free)} sections"
    runs = _runs(free)
    named = sorted(sorted(runs, key=lambda run: run[0] - run[1])[:_STRETCHES])  # the longest, then in their order
    told = [f"{first}" if last == first else f"{first}-{last}" for first, last in named]
    if len(runs) > len(named):
        told.append(f"{len(runs) - len(named)} more {'stretch' if len(runs) == len(named) + 1 else 'stretches'}")
    noun = "section" if sum(free) == 1 else "sections"
    return f"{noun} {listed(told)} of {len(free)}"


def _of_classes(criterion: OutputCoverage) -> list[dict[str, Any]]:
    if not criterion.classes:
        return []
    sections, lowest = criterion.options["sections"], 1 / criterion.classes
    width = (1 - lowest) / sections
    digits = max(2, math.ceil(-math.log10(width)))
    free = ~criterion._hit.unfolded().view(-1, sections)
    number = free.sum(1)
    most = number.sort(descending=True, stable=True).indices[:UNREACHED_PLACES]
    most = most[number[most] > 0]
    found = []
    for label, row in zip(most.tolist(), free[most].tolist(), strict=True):
        runs = sorted(_runs(row), key=lambda run: run[0] - run[1])[:UNREACHED_EXAMPLES]
        told = [f"confidence {lowest + first * width:.{digits}f} to {lowest + (last + 1) * width:.{digits}f}" for first, last in runs]
        items = sum(row)
        found.append(
            {
                "place": str(label),
                "items": items,
                "total": sections,
                "untouched": 0,
                "examples": ["never answered"] if items == sections else told,
            }
        )
    return found


def _runs(free: Sequence[bool]) -> list[tuple[int, int]]:
    """First and last place of each stretch of True."""
    runs: list[tuple[int, int]] = []
    for place, open_one in enumerate(free):
        if open_one and runs and runs[-1][1] == place - 1:
            runs[-1] = (runs[-1][0], place)
        elif open_one:
            runs.append((place, place))
    return runs
