"""What the renderings say of a root cause and of a defect's evidence: status, type, place in the picture, what is enough to fail."""

from __future__ import annotations

from gate.report.numbers import count, roughly, share
from gate.report.text import NAME, visible
from gate.result import Attribution, Defect, Heat, Minimal, RootCause
from gate.triage.heat import EVERYWHERE

__all__ = [
    "STATUS_WORD",
    "cause_line",
    "enough",
    "heat_in_words",
    "heat_method",
    "kind_words",
    "neurons_note",
    "size_in_words",
    "type_meaning",
    "type_name",
]

STATUS_WORD = {"new": "new", "known": "known", "back": "back again", "fixed": "fixed"}
_HALF = 0.5  # of the way back, below which it surprises that the answer is right again
_METHODS = {
    "grad_cam_pp": "Grad-CAM++",
    "rollout": "attention rollout",
    "occlusion": "occlusion: hiding one part after the other",
}
_TYPES = {
    "local-sensitive": ("Local sensitivity", "A change of a small part of the picture is enough to move the answer."),
    "global-drift": ("Global drift", "A change of tone or contrast everywhere moves the answer; no single part of the picture does."),
    "concept-confusion": ("Confused classes", "The network takes the two classes for much alike, and the mutant lies between them."),
    "shortcut": ("Shortcut", "One mark moves inputs of every kind to one class."),
    "numeric": ("Numeric fault", "The model computes something that is no number, or its answer hangs on rounding."),
    "backend": ("Way of running", "The same model answers differently when it is run in another way."),
    "flaky": ("Flaky", "The answer does not come back every time."),
    "crash": ("Crash", "The model stops with an error where it should answer."),
    "unclear": ("No clear type", "What was seen fits none of the types."),
}


def type_name(kind: str) -> str:
    """The type of a defect for a heading, e.g. ``Local sensitivity``."""
    known = _TYPES.get(kind)
    return known[0] if known else visible(kind.replace("_", " ").replace("-", " ").capitalize(), NAME)


def type_meaning(kind: str) -> str:
    """What a type says of the model, one sentence; empty for one that is not known."""
    known = _TYPES.get(kind)
    return known[1] if known else ""


def size_in_words(cause: RootCause, defects: int) -> str:
    """How many defects a root cause has, and of how many."""
    words = f"{count(cause.size)} {'defect' if cause.size == 1 else 'defects'}"
    return f"{words}, {share(cause.size / defects)} of all" if defects else words


def cause_line(cause: RootCause) -> str:
    """Status, type and size of a root cause on one line, e.g. ``new, local sensitivity, 12 defects``."""
    return ", ".join([*kind_words(cause), size_in_words(cause, 0)])


def kind_words(cause: RootCause) -> list[str]:
    """Status and type of a root cause inside a sentence, those that are known, e.g. ``["new", "local sensitivity"]``."""
    words = [STATUS_WORD[cause.status]] if cause.status else []
    if cause.type:
        name = type_name(cause.type)
        words.append(name[:1].lower() + name[1:])
    return words


def heat_in_words(heat: Heat) -> str:
    """Whether the change lies where the model looks, with the numbers behind it."""
    where = {
        "on_the_change": "The change hit what the model looks at",
        "elsewhere": "The decision drifted elsewhere: the model does not look at the change",
        "unclear": "Whether the change hit what the model looks at is unclear",
    }[heat.where]
    if heat.where == "unclear" and heat.chance is not None and heat.chance > EVERYWHERE:
        where = "The change is nearly everywhere, so heat can't tell whether it hit what the model looks at"
    even = "" if heat.chance is None else f", and {share(heat.chance)} would if it were spread evenly"
    return (
        f"{where}. {share(heat.overlap)} of the heat lies on the change{even}; half of the heat takes {share(heat.focus_before)} "
        f"of the picture before and {share(heat.focus_after)} after."
    )


def heat_method(heat: Heat) -> str:
    """How a heat map was made, and where."""
    method = _METHODS.get(heat.method) or visible(heat.method.replace("_", " "), NAME)
    return f"Heat by {method}{f', at {visible(heat.layer, NAME)}' if heat.layer else ''}."


def neurons_note(attribution: Attribution) -> str:
    """How many neurons were tried, or why none were."""
    if attribution.neurons_reason:
        text = attribution.neurons_reason
        return text[:1].upper() + text[1:].rstrip(".") + "."
    said = f"{count(attribution.patched)} of {count(attribution.of)} neurons were set back to their clean value, one at a time."
    if any(one.restores and one.effect < _HALF for one in attribution.neurons):
        said += " The mutant is only just wrong, so a small part of the way back restores the answer."
    return said


def enough(defect: Defect, minimal: Minimal) -> str:
    """How much simpler the defect is than what was found."""
    found, left = len(minimal.found_recipe), len(defect.recipe)
    steps = f"{found} {'operator' if found == 1 else 'operators'}"
    words = f"Found with {steps} at severity {minimal.found_severity:.2f} in all, changing {roughly(minimal.found_area)} of the picture"
    less = f"{left} {'operator' if left == 1 else 'operators'} at {defect.severity:.2f}, changing {roughly(minimal.area)}"
    end = "Nothing simpler is known to fail." if minimal.complete else "There was no budget left to look for less."
    return f"{words}. Enough to fail: {less}. {end}"
