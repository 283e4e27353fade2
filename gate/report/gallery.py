"""Which defects a report shows, and what it says about each.

A report shows at most ``MOST`` defects. They are taken in turn from the root causes, largest first, so that each root cause is seen
before any is seen twice; within a root cause the record's own order holds.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from gate.report.pictures import Picture, PictureReader
from gate.report.words import fault_in_words, label_in_words, recipe_in_words
from gate.result import Defect, Result

__all__ = ["MOST", "Card", "Gallery", "choose", "gallery"]

MOST = 200
_PARTS = (("original", "Seed input"), ("mutant", "Mutant"), ("diff", "Difference"))


@dataclass(frozen=True)
class Card:
    """One defect with its pictures; a part is (caption, picture or None where the file can't be read)."""

    defect: Defect
    parts: tuple[tuple[str, Picture | None], ...]
    label: str
    predicted: str
    recipe: str
    fault: str | None  # in words, for a defect that is no wrong class


@dataclass(frozen=True)
class Gallery:
    """The cards in the order of the page, and how many defects are not among them."""

    cards: tuple[Card, ...]
    total: int

    @property
    def left_out(self) -> int:
        return self.total - len(self.cards)


def gallery(result: Result, folder: Path) -> Gallery:
    """Cards for the chosen defects, with pictures from the run folder."""
    reader = PictureReader(folder)
    cards: list[Card] = []
    for defect in choose(result):
        if reader.full:
            break
        cards.append(
            Card(
                defect=defect,
                parts=tuple((caption, reader.read(defect.files.get(part))) for part, caption in _parts_of(defect)),
                label=label_in_words(defect, result),
                predicted=result.class_name(defect.predicted),
                recipe=recipe_in_words(defect),
                fault=None if defect.oracle == "changed_prediction" else fault_in_words(defect),
            )
        )
    return Gallery(tuple(cards), len(result.defects))


def _parts_of(defect: Defect) -> tuple[tuple[str, str], ...]:
    """A probe was made from nothing, so there is nothing to set beside it."""
    return _PARTS if defect.label is not None else (("mutant", "Probe"),)


def choose(result: Result, most: int = MOST) -> list[Defect]:
    """At most ``most`` defects: one of each root cause in turn, largest root cause first."""
    groups: dict[str, list[Defect]] = defaultdict(list)
    for defect in result.defects:
        groups[defect.root_cause].append(defect)
    ordered = sorted(groups.values(), key=len, reverse=True)
    chosen: list[Defect] = []
    turn = 0
    while len(chosen) < min(most, len(result.defects)):
        chosen.extend(group[turn] for group in ordered if turn < len(group))
        turn += 1
    return chosen[:most]
