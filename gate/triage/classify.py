"""The kind of failure that a defect is, so that a repair can be tied to it. Rules are tried in the order of ``TYPES``; the first counts.

A rule needs facts: which oracle complained, how much of the input changed and how, where the answer comes from, and what the features lie
near. A fact may be missing, because the budget ended before it was found. Then a rule goes by what is known, and where no rule fits that
might have fitted with the fact, the type is left open. "unclear" is said only where everything was looked at and nothing fits.

One exception to the order: where a mark leads to a defect's class, but its change is not like that mark, later rules are asked first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gate.result import Defect, Heat

__all__ = [
    "EVERYWHERE",
    "FOCUSED",
    "LOCAL",
    "TONE",
    "TONE_FAMILIES",
    "TYPES",
    "Facts",
    "Kinship",
    "classified",
    "classify",
    "most_common_type",
    "type_of_oracle",
    "types_of_causes",
]

# In the order in which they are tried, and in which ties between the defects of a root cause are decided.
TYPES = ("flaky", "crash", "numeric", "backend", "shortcut", "local-sensitive", "global-drift", "concept-confusion", "unclear")

LOCAL = 0.05  # a change of less than this share of the input is local
EVERYWHERE = 0.5  # a change of at least this share is nearly everywhere
FOCUSED = 0.25  # heat is focused where this share of the input, or less, holds half of it
TONE = 0.75  # share of a change that one linear change of every value explains, from which on it is one of tone or contrast

TONE_FAMILIES = frozenset({"photometry"})
# Their changes are everywhere for another reason than drift: they move the content, replace it, or follow the model's own gradient.
_NO_DRIFT = frozenset({"geometry", "splicing", "adversarial", "coverage_gradient"})
_OF_ORACLE = {
    "crash": "crash",
    "timeout": "crash",
    "non_finite": "numeric",
    "saturated": "numeric",
    "numeric_path": "backend",
    "batch_dependence": "backend",
    "universal_mark": "shortcut",
    "flaky": "flaky",
}


@dataclass(frozen=True)
class Kinship:
    """What a mutant's features lie near, in cosine similarity; see gate.triage.facts."""

    own: float  # to the middle of its true class's clean seed inputs
    other: float  # to that of the predicted class
    third: float  # to the nearest of all other classes
    neighbours: bool  # whether each of the two classes is among the nearest of the other


@dataclass(frozen=True)
class Facts:
    """What is known of one defect beside its record. None: not looked at."""

    area: float | None = None  # share of the positions that changed, 0 to 1
    tone: float | None = None  # share of the change that one linear change of every value explains, 0 to 1
    shortcut: str | None = None  # why it is one mark that moves everything to one class; None where it is not
    leads_there: str | None = None  # a mark that is a shortcut to its predicted class, in words, whatever this change looks like
    kinship: Kinship | None = None


def type_of_oracle(oracle: str) -> str | None:
    """The type that follows from the oracle alone: of faults and marks; None for answers that are merely wrong."""
    return _OF_ORACLE.get(oracle.partition(":")[0])


def classify(defect: Defect, facts: Facts) -> tuple[str | None, str]:
    """The type and a sentence that says why; None where too little is known.

    Findings that did not come back every time are ``flaky``: they are in quarantine, and never reach this function.
    """
    fault = type_of_oracle(defect.oracle)
    if fault is not None:
        return fault, f"The oracle {defect.oracle} complains: {_FAULTS[fault]}."
    if facts.shortcut is not None:
        return "shortcut", facts.shortcut
    heat = defect.attribution.heat if defect.attribution is not None else None
    focus = None if heat is None else heat.focus_after
    families = frozenset(defect.families)
    if facts.area is not None and facts.area < LOCAL and _hit(heat):
        where = "where the answer comes from was not looked at"
        if heat is not None:
            where = f"half of the heat lies in {heat.focus_after:.1%} of it, {heat.overlap:.0%} on the change"
        return "local-sensitive", f"Only {facts.area:.1%} of the picture changed, and {where}."
    if families and families <= TONE_FAMILIES:
        return "global-drift", "Only light, contrast and colour changed."
    if facts.tone is not None and facts.tone >= TONE and not families & _NO_DRIFT:
        return "global-drift", f"One change of tone or contrast explains {facts.tone:.0%} of what changed."
    spread = facts.area is not None and facts.area >= EVERYWHERE and not families & _NO_DRIFT
    if spread and focus is not None and focus > FOCUSED:
        return (
            "global-drift",
            f"{facts.area:.0%} of the picture changed, and the heat is diffuse: half of it lies in {focus:.0%}.",
        )
    kin = facts.kinship
    drifted = heat is not None and heat.where == "elsewhere"
    if kin is not None and kin.neighbours and not drifted and _confused(kin):
        return "concept-confusion", (
            f"The two classes are neighbours in feature space, and the mutant lies with them (cosine {kin.own:.2f} to its own, "
            f"{kin.other:.2f} to the predicted one) and not with a third ({kin.third:.2f})."
        )
    if facts.leads_there is not None:
        return "shortcut", f"No other rule fits, and {facts.leads_there}."
    missing = _missing(defect, facts, heat_known=heat is not None)
    if missing:
        return None, f"Not told, for this was not looked at: {'; '.join(missing)}."
    return (
        "unclear",
        "Its change is neither local nor a drift of the whole, and its features do not lie with two classes that are neighbours.",
    )


def most_common_type(types: Iterable[str | None]) -> str | None:
    """Of those that are known the most frequent one; of several the one that comes first in ``TYPES``. None where none is known."""
    counts = Counter(one for one in types if one is not None)
    return min(counts, key=lambda one: (-counts[one], TYPES.index(one)), default=None)


def classified(defects: Sequence[Defect], facts: Mapping[str, Facts]) -> list[Defect]:
    """The same defects with ``type`` and ``type_reason``.

    One that is not in ``facts``, or of which too little is known, is taken to be of the same type as most of its root cause, and says so.

    Args:
        defects: all.
        facts: by defect id, of those that were looked at.
    """
    said = []
    for defect in defects:
        looked_at = defect.id in facts or type_of_oracle(defect.oracle) is not None
        kind, reason = classify(defect, facts.get(defect.id, Facts())) if looked_at else (None, "It was not looked at.")
        said.append(defect.model_copy(update={"type": kind, "type_reason": reason}))
    of_cause = {cause: kind for cause, (kind, _) in types_of_causes(said).items()}
    return [
        defect.model_copy(update={"type": of_cause[defect.root_cause], "type_reason": _LIKE_MOST})
        if defect.type is None and of_cause[defect.root_cause] is not None
        else defect
        for defect in said
    ]


def types_of_causes(defects: Sequence[Defect]) -> dict[str, tuple[str | None, str | None]]:
    """(type, reason) by root cause: the most common type of its classified defects, and the reason that its mildest defect of it gives."""
    groups: dict[str, list[Defect]] = defaultdict(list)
    for defect in defects:
        if defect.type_reason != _LIKE_MOST:
            groups[defect.root_cause].append(defect)
    found: dict[str, tuple[str | None, str | None]] = {}
    for cause, members in groups.items():
        kind = most_common_type(defect.type for defect in members)
        example = min((defect for defect in members if defect.type == kind), key=lambda defect: (defect.severity, defect.id))
        told = [defect for defect in members if defect.type is not None]
        of_it = sum(defect.type == kind for defect in told)
        which = f"All {len(told)}" if of_it == len(told) else f"{of_it} of the {len(told)}"
        share = f"{which} defects whose type could be told are of this type. " if len(told) > 1 else ""
        found[cause] = (kind, share + (example.type_reason or ""))
    return found


_LIKE_MOST = "Taken to be like most of its root cause; too little is known of this one."
_FAULTS = {
    "crash": "the model gave no answer at all",
    "numeric": "the output is no usable number",
    "backend": "how the model is run changes the answer",
    "shortcut": "one mark, laid on inputs of any class, leads to this class",
    "flaky": "the same input is not answered the same every time",
}


def _hit(heat: Heat | None) -> bool:
    """Whether the heat, where it is known, is focused or lies on the change."""
    return heat is None or heat.focus_after <= FOCUSED or heat.where == "on_the_change"


def _confused(kin: Kinship) -> bool:
    """Whether the mutant lies between the two classes, as a minimised one does, or in the predicted one, as others may."""
    return min(kin.own, kin.other) > kin.third or (kin.other > kin.own and kin.other > kin.third)


def _missing(defect: Defect, facts: Facts, *, heat_known: bool) -> list[str]:
    """What might have let a rule fit, had it been looked at."""
    missing = []
    if facts.area is None:
        missing.append("how much of it changed")
    if not heat_known:
        missing.append("where the answer comes from")
    if facts.kinship is None and defect.predicted is not None and defect.predicted != defect.label:
        missing.append("what its features lie near")
    return missing
