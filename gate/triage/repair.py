"""What to do about a root cause: what to check first, what to train with, and where to look, by the type of the failure.

A suggestion, not a promise: it follows from the type, the operators that the minimised defects are left with, and the neurons that bring
the answer back. ``gate regress`` is what proves a fix.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from gate.corpus.trainable import failing_operators
from gate.domains.image.augmentation import change_in_words, limit_of
from gate.domains.image.limits import Domain
from gate.result import Defect, PreflightCheck, RootCause

__all__ = ["READING_FAMILIES", "repair_of", "with_repairs"]

READING_FAMILIES = frozenset({"photometry"})  # where a wrong mean, standard deviation, value scale or channel order shows as well
_OPERATORS = 2  # told of in one suggestion
_NAME = 60  # characters of a layer's name
_ATTACKS = frozenset({"adversarial", "coverage_gradient"})

# Where no type is known, the oracle says enough.
_TYPE_OF_ORACLE = {
    "crash": "crash",
    "timeout": "crash",
    "non_finite": "numeric",
    "saturated": "numeric",
    "numeric_path": "backend",
    "batch_dependence": "backend",
    "universal_mark": "shortcut",
}


def with_repairs(
    causes: Sequence[RootCause], defects: Sequence[Defect], domain: Domain, preflight: Sequence[PreflightCheck]
) -> list[RootCause]:
    """The root causes with ``repair`` filled in where it is empty; see ``repair_of``."""
    members: dict[str, list[Defect]] = defaultdict(list)
    for defect in defects:
        members[defect.root_cause].append(defect)
    return [cause.model_copy(update={"repair": cause.repair or repair_of(cause, members[cause.id], domain, preflight)}) for cause in causes]


def repair_of(cause: RootCause, members: Sequence[Defect], domain: Domain, preflight: Sequence[PreflightCheck]) -> str:
    """Sentences for a person, without the classes' own names.

    Args:
        cause: with its type where one is known.
        members: its defects, minimised ones as they are now.
        domain: the policy's; what is trained with ends at its limits.
        preflight: the checks of the model, which may have found that the input is read wrongly.
    """
    kind = _TYPE_OF_ORACLE.get(cause.oracle) or cause.type
    if cause.oracle == "unjustified_confidence":
        return _join(
            "Give the model a way to say that it knows nothing: train it with inputs that show nothing, towards equal probabilities or a "
            "class of their own, and calibrate it afterwards (temperature scaling).",
            "Until then, turn away inputs without contrast before the model sees them.",
        )
    if kind == "crash":
        return _crash(cause)
    if kind == "numeric":
        return _numeric(members)
    if kind == "backend":
        return _backend(cause, members)
    if kind == "shortcut":
        return _join(
            "One mark decides. Look through the training pictures of the class it moves to for that mark, and remove it or mask it there "
            "(crop, blur or paint it over).",
            "Then lay it on training pictures of every class, under their own labels, so that it says nothing any more.",
        )
    training = _training(cause, members, domain)
    if kind == "global-drift" or (kind != "local-sensitive" and cause.family in READING_FAMILIES):
        return _join(_reading(preflight), training)
    if kind == "local-sensitive":
        return _join(training, "Covering random parts of the pictures in training (random erasing) keeps one place from deciding.")
    if kind == "concept-confusion":
        return _join(
            "The network takes the two classes for much alike. Check their labels in the training data first: some may be exchanged.",
            "Then try a contrastive or margin loss between these two classes, and more pictures of what tells them apart.",
            training,
        )
    return training


def _crash(cause: RootCause) -> str:
    if cause.oracle == "timeout":
        return _join(
            "Find the loop whose length follows from the input's values and bound it.",
            "Serve the model with a time limit until then; the reproducer in the defect's folder shows the input.",
        )
    return _join(
        "Run the reproducer in the defect's folder to see the trace, and check shape, dtype and range of values where inputs come in.",
        "An input that the model can't take should be refused there with a clear error; a check inside it that fails on ordinary values "
        "(an assertion, an index that is out of range) should be taken out.",
    )


def _numeric(members: Sequence[Defect]) -> str:
    where = _where(members)
    return _join(
        f"Look first at {where}."
        if where
        else "Find the first layer whose output is not finite, with the reproducer in the defect's folder.",
        "Typical causes: a division by what can be zero, a logarithm or root of what can be zero or less, an exponential that overflows. "
        "Add an epsilon to the divisor, clamp the argument, or compute that part in float32.",
        "More training does not repair it.",
    )


def _backend(cause: RootCause, members: Sequence[Defect]) -> str:
    if cause.oracle == "batch_dependence":
        return _join(
            "The answer depends on the other inputs of a batch. Look for batch statistics that are still active (call eval() before "
            "saving) and for operations across the first dimension, such as a mean or a normalisation without a dim.",
        )
    said = next((defect.detail for defect in members if defect.detail), None)
    return _join(
        "The same model answers otherwise on another numeric path"
        + (f" ({_cut(said)})." if said else ".")
        + " Check the settings of export and serving: precision, memory layout, quantisation, compilation.",
        "Serve it as it was tested, keep the sensitive layers in float32, or train for that path (quantisation-aware training).",
    )


def _reading(preflight: Sequence[PreflightCheck]) -> str:
    doubts = any(check.name == "clean_accuracy" and check.status != "ok" for check in preflight)
    return (
        "Check first that pictures are read as in training: value scale, mean, standard deviation and channel order"
        + ("; the check of the clean accuracy already points there" if doubts else "")
        + "."
    )


def _training(cause: RootCause, members: Sequence[Defect], domain: Domain) -> str:
    said = []
    for operator in failing_operators(members)[:_OPERATORS]:
        limit = limit_of(domain, operator.name)
        if limit is not None:
            said.append((change_in_words(operator.name, limit), operator.mildest))
    if said:
        begins = min(mildest for _, mildest in said)
        return (
            f"Try training with pictures {' and with pictures '.join(words for words, _ in said)}: from no change up to that, the policy's "
            f"limit; failing begins at {begins:.0%} of it. `gate corpus export RUN --out DIR --for-training` "
            "writes what albumentations has of it."
        )
    families = {family for defect in members for family in defect.families}
    if families & _ATTACKS:
        return (
            "Changes too small to see, chosen against this model, turn the answer. Try adversarial training with steps within the policy's "
            "bound, and check first that it costs no clean accuracy."
        )
    if "splicing" in families:
        return (
            "Parts copied from elsewhere turn the answer. Try training with pictures patched together within a class (CutMix), and look "
            "at what the copied parts show."
        )
    return "Look at the example first; train with more pictures like it, under their true labels."


def _where(members: Sequence[Defect]) -> str:
    """The layer whose neurons bring the answer back most often."""
    layers: Counter[str] = Counter()
    for defect in members:
        if defect.attribution is not None:
            layers.update(effect.layer for effect in defect.attribution.neurons[:3] if effect.restores)
    if not layers:
        return ""
    name = min(layers, key=lambda layer: (-layers[layer], layer))
    return f"the layer {_cut(name)}, where clean values bring a usable answer back, and at what comes before it"


def _cut(text: str) -> str:
    return text if len(text) <= _NAME else text[: _NAME - 1] + "…"


def _join(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)
