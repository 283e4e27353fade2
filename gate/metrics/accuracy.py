"""``clean_accuracy`` and ``long_tail_accuracy``: shares of labelled samples that the model gets right; exact intervals."""

from __future__ import annotations

from collections.abc import Iterable

from gate.metrics.evidence import Evidence
from gate.metrics.measured import class_names, missing, share
from gate.result import Metric

__all__ = ["clean_accuracy", "long_tail_accuracy"]


def clean_accuracy(evidence: Evidence, confidence: float) -> Metric:
    """Accuracy on the seed pool before any filtering."""
    name = "clean_accuracy"
    if evidence.clean is None or not evidence.clean.labels:
        return missing(name, "no labelled clean sample was run", n=0, evidence=evidence)
    correct = evidence.clean.correct
    by_class = _sliced(name, _named(evidence, evidence.clean.labels), correct, confidence)
    return share(name, sum(correct), len(correct), confidence, slices={"class": by_class})


def long_tail_accuracy(evidence: Evidence, confidence: float) -> Metric:
    """Accuracy on the long-tail set; an output that is not finite is wrong."""
    name = "long_tail_accuracy"
    if evidence.long_tail is None:
        return missing(name, evidence.long_tail_reason or "no long-tail set was given", evidence=evidence)
    labels, predicted, kinds = evidence.long_tail.labels, evidence.long_tail.predicted, evidence.long_tail.kinds
    if not labels:
        return missing(name, "the long-tail set has no sample", n=0, evidence=evidence)
    correct = [label == answer for label, answer in zip(labels, predicted, strict=True)]
    slices = {
        "class": _sliced(name, _named(evidence, labels), correct, confidence),
        "long_tail_kind": _sliced(name, kinds, correct, confidence) if kinds else {},
    }
    return share(name, sum(correct), len(correct), confidence, slices=slices)


def _named(evidence: Evidence, labels: Iterable[int]) -> list[str]:
    names = class_names(evidence)
    return [names.get(label, str(label)) for label in labels]


def _sliced(name: str, groups: Iterable[str], correct: Iterable[bool], confidence: float) -> dict[str, Metric]:
    counts: dict[str, list[int]] = {}
    for group, right in zip(groups, correct, strict=True):
        count = counts.setdefault(group, [0, 0])
        count[0] += right
        count[1] += 1
    return {group: share(name, right, n, confidence) for group, (right, n) in sorted(counts.items())}
