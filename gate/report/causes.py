"""Root causes as cards: what it is, how it looks, where in the network it sits, what to do, and how to see it again."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gate.report.cause_words import (
    STATUS_WORD,
    enough,
    heat_in_words,
    heat_method,
    neurons_note,
    size_in_words,
    type_meaning,
    type_name,
)
from gate.report.gallery import DIFFERENCE
from gate.report.numbers import confidence, count, share
from gate.report.pictures import PictureReader, figure
from gate.report.releases import releases_in_words
from gate.report.text import NAME, visible
from gate.report.words import fault_in_words, label_in_words, recipe_in_words, sentence
from gate.result import Attribution, Defect, Result, RootCause, TriageSummary
from gate.triage.backends import way_in_words
from gate.triage.gravity import gravest_first

__all__ = ["causes_page"]

_CARDS = 12
_OPEN = 3  # cards whose evidence is open from the start
_MOST_CAUSES = 200
_MOST_EARLIER = 60
_MOST_NEURONS = 6
_MOST_SUBGROUPS = 4
_MOST_UNEXPLAINED = 8
_MOST_CHARACTERS = 5 << 19  # of all pictures of the cards: 2.5 MiB
_PARTS = (
    ("original", "Seed input"),
    ("mutant", "Mutant"),
    ("diff", DIFFERENCE),
    ("cam_before", "Heat before"),
    ("cam", "Heat after"),
    ("long_tail", "Real sample"),
)
_ALWAYS = 3  # of the parts are shown even where there is no picture
_TONES = {"new": "new", "known": "note", "back": "fail", "fixed": "pass"}
_PLAIN_ID = re.compile(r"[\w-]{1,64}", re.ASCII)


def causes_page(result: Result, folder: Path, anchors: Mapping[str, str]) -> dict[str, Any]:
    """The section on root causes.

    Args:
        result: the finished run.
        folder: its run folder, for the pictures.
        anchors: by defect id, where the page shows it.
    """
    causes = gravest_first(result.root_causes)
    by_id = {defect.id: defect for defect in result.defects}
    members: dict[str, list[Defect]] = defaultdict(list)
    wanted = {cause.id for cause in causes[:_MOST_CAUSES]}
    for defect in result.defects:
        if defect.root_cause in wanted:
            members[defect.root_cause].append(defect)
    cards = min(_CARDS, len(causes))
    reader = PictureReader(folder, most=_MOST_CHARACTERS, expected=cards * (len(_PARTS) + 2))
    made = [
        _Card(cause, _example(cause, members[cause.id], by_id), by_id, result, folder, reader, anchors).as_dict(number < _OPEN)
        for number, cause in enumerate(causes[:_CARDS])
    ]
    rows = [_row(cause, members[cause.id], anchors) for cause in causes[_CARDS:_MOST_CAUSES]]
    return {
        "cards": made,
        "more": rows,
        "left_out": max(0, len(causes) - _MOST_CAUSES),
        "lead": _lead(result),
        "earlier": _earlier(result),
        "triage": _triage(result.triage, result.root_causes) if result.triage else None,
    }


def _lead(result: Result) -> str:
    words = "A root cause joins all defects with the same kind of fault, true class, predicted class and family of mutations."
    return f"{words} Fixing one removes all of its defects. In the commands, RUN is the folder that this report lies in."


def _example(cause: RootCause, members: Sequence[Defect], by_id: Mapping[str, Defect]) -> Defect | None:
    """The defect to show: the record's example, or one that has been explained where that one has not."""
    chosen = by_id.get(cause.example)
    if chosen is not None and chosen.attribution is not None:
        return chosen
    explained = next((defect for defect in members if defect.attribution is not None), None)
    return explained or chosen or (members[0] if members else None)


class _Card:
    """One root cause, told by one of its defects."""

    def __init__(
        self,
        cause: RootCause,
        example: Defect | None,
        by_id: Mapping[str, Defect],
        result: Result,
        folder: Path,
        reader: PictureReader,
        anchors: Mapping[str, str],
    ) -> None:
        self._cause, self._example, self._by_id, self._result = cause, example, by_id, result
        self._folder, self._reader, self._anchors = folder, reader, anchors

    def as_dict(self, is_open: bool) -> dict[str, Any]:
        cause, example = self._cause, self._example
        name = example.id if example else cause.example
        return {
            "id": cause.id,
            "title": cause.title,
            "open": is_open,
            "badges": [(_TONES[cause.status], STATUS_WORD[cause.status])] if cause.status else [],
            "type": _type(cause),
            "size_words": size_in_words(cause, len(self._result.defects)),
            "known": "all of them in the baseline, too"
            if cause.known >= cause.size
            else f"{count(cause.known)} of them in the baseline, too"
            if cause.known
            else "",
            "severity": _severity(cause),
            "repair": cause.repair,
            "example": name,
            "anchor": self._anchors.get(name),
            "pictures": self._pictures(),
            "subgroups": self._subgroups(),
            "facts": self._facts(example) if example else [],
            "confidence": self._confidence(example) if example else [],
            "heat": self._heat(example) if example else None,
            "neurons": self._neurons(example.attribution) if example and example.attribution else None,
            "commands": self._commands(name, example),
        }

    def _pictures(self) -> list[tuple[str, dict[str, Any] | None]]:
        if self._example is None:
            return []
        files, made = self._example.files, []
        parts = _PARTS if self._example.label is not None else (("mutant", "Probe"),)
        for number, (part, caption) in enumerate(parts):
            if number >= _ALWAYS and part not in files:
                continue
            if part == "long_tail" and self._example.long_tail_kind:
                caption = f"Real: {visible(self._example.long_tail_kind.replace('_', ' '), 40)}"
            made.append((caption, figure(self._reader.read(files.get(part)))))
        return made

    def _subgroups(self) -> dict[str, Any] | None:
        groups = self._cause.subgroups
        if not groups:
            reason = self._cause.subgroups_reason
            return {"shown": [], "rest": f"No subgroups: {visible(reason).rstrip('.')}."} if reason else None
        shown = []
        for group in groups[:_MOST_SUBGROUPS]:
            defect = self._by_id.get(group.example)
            picture = figure(self._reader.read(defect.files.get("mutant"))) if defect else None
            shown.append({"size": count(group.size), "picture": picture, "id": group.example, "anchor": self._anchors.get(group.example)})
        rest = [f"{count(len(groups) - len(shown))} smaller groups are in result.json"] if len(groups) > len(shown) else []
        if self._cause.outside:
            outside = self._cause.outside
            rest.append(f"{count(outside)} {'defect lies' if outside == 1 else 'defects lie'} outside of all groups")
        return {"shown": shown, "rest": f"{'; '.join(rest)}." if rest else ""}

    def _facts(self, defect: Defect) -> list[tuple[str, str]]:
        pairs = [("How", f"{recipe_in_words(defect)}.")]
        if defect.detail:
            pairs.append(("What was seen", visible(way_in_words(defect.oracle, defect.detail) or defect.detail)))
        if defect.minimal:
            pairs.append(("What is enough", enough(defect, defect.minimal)))
        if self._result.baseline is not None and defect.baseline is not None and defect.label is not None:
            name = visible(self._result.class_name(defect.baseline), NAME)
            if defect.baseline == defect.label:
                words = f"It reads the same file as {name}, which is right: this weakness is the candidate's own. "
                words += "Look at what changed since, labels of such pictures included."
            elif defect.baseline == defect.predicted:
                words = f"It reads the same file as {name}, too: the model in production has this weakness already."
            else:
                words = f"It reads the same file as {name}, which is wrong as well."
            pairs.append(("The baseline's answer", words))
        if defect.also:
            pairs.append(("Other complaints", ", ".join(visible(name.replace("_", " "), NAME) for name in defect.also[:6])))
        return pairs

    def _confidence(self, defect: Defect) -> list[tuple[str, float, str]]:
        rows = []
        if defect.confidence_before is not None and defect.label is not None:
            rows.append((f"Before, in {visible(label_in_words(defect, self._result), NAME)}", defect.confidence_before))
        if defect.confidence_after is not None:
            what = visible(self._result.class_name(defect.predicted), NAME) if defect.predicted is not None else fault_in_words(defect)
            rows.append((f"After, in {what}", defect.confidence_after))
        return [(words, value, confidence(value)) for words, value in rows]

    def _heat(self, defect: Defect) -> dict[str, str] | None:
        found = defect.attribution
        if found is None:
            return None
        if found.heat is None:
            return {"words": visible(found.heat_reason), "method": ""} if found.heat_reason else None
        return {"words": heat_in_words(found.heat), "method": heat_method(found.heat)}

    def _neurons(self, attribution: Attribution) -> dict[str, Any]:
        rows = [
            {
                "layer": visible(one.layer, NAME),
                "neuron": count(one.neuron),
                "effect": min(1.0, max(0.0, one.effect)),
                "words": share(one.effect).replace("-", "\u2212"),
                "restores": one.restores,
            }
            for one in attribution.neurons[:_MOST_NEURONS]
        ]
        return {"rows": rows, "note": neurons_note(attribution)}

    def _commands(self, name: str, example: Defect | None) -> list[tuple[str, str]]:
        if not _PLAIN_ID.fullmatch(name):
            return []
        commands = [("See it again", f"gate replay RUN {name}")]
        if example is not None and example.attribution is None:
            commands.append(("Explain it", f"gate replay RUN {name} --explain"))
        if (self._folder / "defects" / name / "test_defect.py").is_file():
            commands.append(("As a test", f"pytest RUN/defects/{name}/test_defect.py"))
        return commands


def _severity(cause: RootCause) -> str:
    """How strong its minimised defects are beside the policy's limit; empty where none was minimised."""
    if "severity" not in cause.range:
        return ""
    low, high = (f"{value:.2g}" for value in cause.range["severity"])
    return f"severity {low}{'' if low == high else f' to {high}'} of 1"


def _type(cause: RootCause) -> dict[str, str] | None:
    if not cause.type and not cause.type_reason:
        return None
    return {
        "name": type_name(cause.type) if cause.type else "Not classified",
        "meaning": type_meaning(cause.type) if cause.type else "",
        "reason": sentence(visible(cause.type_reason)) if cause.type_reason else "",
    }


def _row(cause: RootCause, members: Sequence[Defect], anchors: Mapping[str, str]) -> dict[str, Any]:
    shown = cause.example if cause.example in anchors else next((one.id for one in members if one.id in anchors), None)
    return {
        "id": cause.id,
        "title": cause.title,
        "badges": [(_TONES[cause.status], STATUS_WORD[cause.status])] if cause.status else [],
        "type": type_name(cause.type) if cause.type else "",
        "size": count(cause.size),
        "example": shown or cause.example,
        "anchor": anchors.get(shown) if shown else None,
    }


def _earlier(result: Result) -> dict[str, Any] | None:
    """What became of the root causes of the earlier run."""
    if not result.earlier_causes:
        return None
    order = ("back", "known", None, "fixed")
    causes = sorted(result.earlier_causes, key=lambda cause: (order.index(cause.status), -cause.size))
    rows = [
        {
            "tone": _TONES[cause.status] if cause.status else "note",
            "status": STATUS_WORD[cause.status] if cause.status else "not known",
            "title": cause.title,
            "id": cause.id,
            "size": count(cause.size),
            "when": "the earlier run" if cause.runs_ago == 1 else f"{count(cause.runs_ago)} runs ago",
        }
        for cause in causes[:_MOST_EARLIER]
    ]
    return {
        "summary": releases_in_words(result) or "Root causes of earlier runs",
        "rows": rows,
        "left_out": max(0, len(causes) - _MOST_EARLIER),
    }


def _triage(triage: TriageSummary, causes: Sequence[RootCause]) -> dict[str, Any]:
    """What explaining took, and what it did not get to."""
    titles = {cause.id: cause.title for cause in causes}
    done = [
        f"{count(number)} {'was' if number == 1 else 'were'} {word}"
        for number, word in (
            (triage.minimised, "made simpler"),
            (triage.merged, "merged with others that they turned out to be"),
            (triage.attributed, "traced to neurons and places"),
        )
        if number
    ]
    said = f"Of the defects found, {', '.join(done)}. " if done else ""
    unexplained = len(triage.not_explained)
    reason = f" {triage.reason[:1].upper()}{triage.reason[1:].rstrip('.')}." if triage.reason else ""
    return {
        "words": f"{said}Explaining took {count(triage.spent)} model calls; {count(triage.allowed)} were allowed, "
        f"{share(triage.share)} of all the work.",
        "missing": f"{count(unexplained)} {'root cause was' if unexplained == 1 else 'root causes were'} not explained.{reason}"
        if unexplained
        else reason.strip(),
        "titles": [titles.get(name, name) for name in triage.not_explained[:_MOST_UNEXPLAINED]] if unexplained else [],
        "left_out": max(0, unexplained - _MOST_UNEXPLAINED),
    }
