"""Which defects a report shows, and what it says about each.

A report shows at most ``MOST`` defects. They are taken in turn from the root causes, gravest first, so that each root cause is seen
before any is seen twice; within a root cause the record's own order holds. The first ``PAGE`` of them are part of the page as it is read
without scripts; the rest lies in the page, unopened, until somebody turns to it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from gate.report.cause_words import STATUS_WORD, type_name
from gate.report.numbers import confidence, count
from gate.report.pictures import Picture, PictureReader, figure
from gate.report.text import NAME, visible
from gate.report.words import fault_in_words, label_in_words, recipe_in_words
from gate.result import Defect, Result
from gate.triage.gravity import groups_by_gravity

__all__ = ["DIFFERENCE", "MOST", "PAGE", "Gallery", "choose", "gallery", "left_out_words"]

MOST = 500
PAGE = 24
DIFFERENCE = "Difference × 100"
_MOST_CHARACTERS = 9 << 20  # of all pictures of the gallery
_MOST_OPTIONS = 150  # of one filter
_PARTS = (("original", "Seed input"), ("mutant", "Mutant"), ("diff", DIFFERENCE))
_MORE_PARTS = (("cam_before", "Heat before"), ("cam", "Heat after"), ("long_tail", "Real sample"))
_OF_CLASSES = ("changed_prediction", "universal_mark")  # which say that another class came out, and nothing beside it
_BESIDE = {None: "", True: " The baseline fails on it, too.", False: " The baseline does not fail on it."}
_ORDINARY_ID = re.compile(r"d-[0-9a-f]{1,32}", re.ASCII)


@dataclass(frozen=True)
class Gallery:
    """What the page shows of the defects."""

    cards: tuple[dict[str, Any], ...]  # in the order of the page
    pictures: Markup  # JSON list of data URIs, those of the cards after the first page
    filters: tuple[dict[str, Any], ...]
    anchors: dict[str, str]  # by defect id: where its card is on the page
    total: int

    @property
    def left_out(self) -> int:
        return self.total - len(self.cards)


def gallery(result: Result, folder: Path) -> Gallery:
    """Cards for the chosen defects, with pictures from the run folder."""
    chosen = choose(result)
    paths = {defect.files.get(part) for defect in chosen for part, _ in _parts_of(defect)}
    originals = len({defect.seed_id for defect in chosen})  # the same picture under as many names as it has defects
    expected = originals + len(paths - {defect.files.get("original") for defect in chosen})
    reader = PictureReader(folder, most=_MOST_CHARACTERS, expected=expected)
    numbered = _Numbered()
    shown: list[tuple[Defect, list[tuple[str, dict[str, Any] | None]]]] = []
    for defect in chosen:
        if reader.full:
            break
        read = [(caption, reader.read(defect.files.get(part))) for part, caption in _parts_of(defect)]
        inline = len(shown) < PAGE
        shown.append((defect, [(caption, figure(found) if inline else numbered.figure(found)) for caption, found in read]))
    filters, values = _filters([defect for defect, _ in shown], result)
    anchors = {
        defect.id: defect.id if _ORDINARY_ID.fullmatch(defect.id) else f"d-number-{place}" for place, (defect, _) in enumerate(shown)
    }
    cards = tuple(
        {**_card(defect, parts, result), "anchor": anchors[defect.id], "values": values[place]}
        for place, (defect, parts) in enumerate(shown)
    )
    return Gallery(cards, numbered.as_json(), filters, anchors, len(result.defects))


def choose(result: Result, most: int = MOST) -> list[Defect]:
    """At most ``most`` defects: one of each root cause in turn, gravest root cause first."""
    ordered = [group for _, group in groups_by_gravity(result.defects)]
    chosen: list[Defect] = []
    turn = 0
    while len(chosen) < min(most, len(result.defects)):
        chosen.extend(group[turn] for group in ordered if turn < len(group))
        turn += 1
    return chosen[:most]


class _Numbered:
    """Pictures that stand in the page once each, however many cards show them."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def figure(self, picture: Picture | None) -> dict[str, Any] | None:
        made = figure(picture)
        if made is not None and picture is not None:
            made["number"] = self._numbers.setdefault(picture.uri, len(self._numbers))
            made["uri"] = None
        return made

    def as_json(self) -> Markup:
        return Markup(json.dumps(list(self._numbers), separators=(",", ":")))  # data URIs: base64 alone


def _parts_of(defect: Defect) -> list[tuple[str, str]]:
    """A probe was made from nothing, so there is nothing to set beside it."""
    if defect.label is None:
        return [("mutant", "Probe")]
    return [*_PARTS, *(part for part in _MORE_PARTS if part[0] in defect.files)]


def _filters(defects: Sequence[Defect], result: Result) -> tuple[tuple[dict[str, Any], ...], list[dict[str, str]]]:
    """The filters with their options, and for each defect which options it belongs to.

    Options are numbers that stand for what comes from outside. A filter has only what occurs among the defects shown, the most frequent
    where that is too much to choose from, and is left out where there is nothing to choose.
    """
    causes = {cause.id: cause for cause in result.root_causes}

    def status(defect: Defect) -> Sequence[Hashable]:
        cause = causes.get(defect.root_cause)
        return [cause.status] if cause and cause.status else []

    def cause_title(key: Any) -> str:
        return causes[key].title if key in causes else str(key)

    kinds: tuple[tuple[str, str, Callable[[Defect], Sequence[Hashable]], Callable[[Any], str]], ...] = (
        ("label", "True class", lambda d: [] if d.label is None else [d.label], result.class_name),
        ("predicted", "Predicted", lambda d: [] if d.predicted is None else [d.predicted], result.class_name),
        ("operator", "Mutation", lambda d: sorted(_operators_of(d)), lambda key: str(key).replace("_", " ")),
        ("type", "Type", lambda d: [d.type] if d.type else [], lambda key: type_name(str(key))),
        ("status", "Status", status, lambda key: STATUS_WORD.get(key, str(key))),
        ("known", "Baseline", lambda d: [] if d.known is None else [d.known], lambda key: "fails too" if key else "does not fail"),
        ("cause", "Root cause", lambda d: [d.root_cause], cause_title),
    )
    filters: list[dict[str, Any]] = []
    values: list[dict[str, str]] = [{} for _ in defects]
    for name, label, keys_of, text in kinds:
        seen = Counter(key for defect in defects for key in keys_of(defect))
        kept = [key for key, _ in seen.most_common(_MOST_OPTIONS)]
        numbers = {key: str(number) for number, key in enumerate(kept)}
        for place, defect in enumerate(defects):
            values[place][name] = " ".join(numbers[key] for key in keys_of(defect) if key in numbers)
        if len(kept) > 1:
            order = kept if name == "cause" else sorted(kept, key=lambda key: (str(type(key)), key))
            options = [(numbers[key], visible(text(key), NAME)) for key in order]
            filters.append({"name": name, "label": label, "options": options, "left_out": len(seen) - len(kept)})
    return tuple(filters), values


def _operators_of(defect: Defect) -> set[str]:
    return {str(step.get("operator", defect.operator)) for step in defect.recipe} or {defect.operator}


def _card(defect: Defect, parts: list[tuple[str, dict[str, Any] | None]], result: Result) -> dict[str, Any]:
    label = label_in_words(defect, result)
    fault = None if defect.oracle in _OF_CLASSES else fault_in_words(defect)
    before = "unknown" if defect.confidence_before is None else confidence(defect.confidence_before)
    after = "unknown" if defect.confidence_after is None else confidence(defect.confidence_after)
    if defect.label is None:
        sure = f"A probe shows no class, so any finite answer would do. After: {fault}."
    elif fault:
        sure = f"Before: {visible(label, NAME)} with {before} confidence. After: {fault}."
    else:
        sure = f"Confidence {before} before, {after} in the wrong class after."
    return {
        "id": defect.id,
        "label": label,
        "predicted": result.class_name(defect.predicted),
        "fault": fault,
        "detail": defect.detail,
        "parts": parts,
        "type": type_name(defect.type) if defect.type else None,
        "real": defect.long_tail_kind,
        "confidence": sure,
        "recipe_sentence": f"Recipe: {recipe_in_words(defect)}.",
        "small": f"Found by the {visible(defect.arm, NAME)} arm on {visible(defect.seed_id, 40)}; "
        f"family {visible(defect.family.replace('_', ' '), NAME)}, total severity {defect.severity:.2f}; "
        f"root cause {visible(defect.root_cause, 40)}.{_BESIDE[defect.known]}",
    }


def left_out_words(shown: Gallery) -> str:
    """What the page says where it does not show all defects."""
    return (
        f"{count(len(shown.cards))} of {count(shown.total)} defects are shown here (a report embeds at most {MOST}), taken in turn from "
        f"the root causes. The other {count(shown.left_out)} are in the folder defects/ beside this report, and all are in result.json."
    )
