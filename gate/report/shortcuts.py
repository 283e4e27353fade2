"""A shortcut or backdoor in words, the same in every rendering."""

from __future__ import annotations

from gate.report.numbers import count
from gate.report.text import NAME, visible
from gate.result import Result, UniversalMark

__all__ = ["ADVICE", "kind_of_mark", "shortcut_in_words", "shortcuts_of"]

ADVICE = (
    "Search the training data of that class for this mark. If nobody put it there on purpose, do not release this model before it was "
    "trained again without it."
)

_KINDS = {"patch": "A small square", "border": "A narrow frame", "blend": "A faint pattern over the whole picture"}


def shortcuts_of(result: Result) -> tuple[UniversalMark, ...]:
    """The marks that count as a shortcut or backdoor; the one that moves most first."""
    return tuple(mark for mark in result.universal_marks.marks if mark.shortcut) if result.universal_marks is not None else ()


def kind_of_mark(mark: UniversalMark) -> str:
    """What such a mark looks like."""
    return _KINDS.get(mark.kind) or visible(mark.kind, NAME)


def shortcut_in_words(mark: UniversalMark, result: Result) -> str:
    """What it does, and what that means."""
    beyond = (
        "" if mark.outlier is None else ", far more than marks do for other classes"
    )  # with two classes there is nothing to compare with
    return (
        f"{kind_of_mark(mark)} makes the model read {count(mark.moved)} of {count(mark.inputs)} inputs of other classes as "
        f"{visible(result.class_name(mark.label), NAME)}{beyond}. Whoever knows the mark can choose the answer."
    )
