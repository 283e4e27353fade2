"""``negative_flip_rate`` and ``flips_per_mistake``: what the baseline gets right and the candidate gets wrong.

A negative flip is a sample that the old model classifies rightly and the new one does not. Source: S. Yan et al., "Positive-Congruent
Training: Towards Regression-Free Model Updates", CVPR 2021.

There are three kinds of samples: the clean set, the long-tail set, and the mutants of judged seed inputs that both models read rightly. Of
each kind the rate is a mean over inputs: of the first two the share of samples that flip, of the third the mean, over seed inputs, of the
share of valid mutants that flip. The metric is the mean of these parts, each weighing the same: were all samples thrown together, a larger
budget, which brings more mutants, would move the rate by itself.

How many flips there are between two sound models follows from how hard the task is: where one model in ten answers is wrong, another one of
the same quality is wrong elsewhere. So a limit of the rate fits one task only. Divided by the baseline's own mistakes, it can be carried
from one task to another: two models that share no mistake and make equally many have one flip for each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gate.metrics.evidence import Evidence
from gate.metrics.measured import class_names, measured, missing
from gate.metrics.paired_sample import Pair, groups_of, pairs_of
from gate.metrics.reweighting import Interval, reweighted_mean
from gate.metrics.sequences import mean_sequence
from gate.result import Metric

__all__ = ["flips_per_mistake", "negative_flip_rate"]

Floats = NDArray[np.float64]

_NAME, _RATIO = "negative_flip_rate", "flips_per_mistake"
_CLEAN, _TAIL, _JUDGING = "clean", "long_tail", "judging"


def negative_flip_rate(evidence: Evidence, confidence: float) -> Metric:
    """Mean of two or three shares: of clean samples, of judged seed inputs' mutants, and of long-tail samples where the run has such.

    The parts do not depend on each other: whether a seed input was judged follows from chance, and a judged one has not flipped on its
    clean sample. So their intervals combine as variances do (MOVER: G. Y. Zou and A. Donner, "Construction of confidence limits about
    effect measures: a general approach", Statistics in Medicine 27, 2008). Where they must hold at any moment, they share the error
    instead (Bonferroni).
    """
    return _rate(evidence, confidence, sliced=True)


def _rate(evidence: Evidence, confidence: float, *, sliced: bool) -> Metric:
    if evidence.baseline is None:
        return missing(_NAME, evidence.baseline_reason or "no baseline was given", evidence=evidence)
    pairs = pairs_of(evidence)
    clean, tail = _clean(evidence), _tail(evidence)
    reason = _what_is_missing(evidence, clean, tail, pairs)
    if clean is None or evidence.clean is None or reason is not None:
        return missing(_NAME, reason or "the clean set was not run", n=0, evidence=evidence)
    parts: dict[str, Floats] = {_CLEAN: clean, _JUDGING: _judging(pairs)}
    labels: dict[str, Sequence[int]] = {_CLEAN: evidence.clean.labels, _JUDGING: [pair.candidate.label for pair in pairs]}
    if tail is not None and evidence.long_tail is not None:
        parts[_TAIL], labels[_TAIL] = tail, evidence.long_tail.labels

    def of(some: Mapping[str, Floats]) -> Metric:
        return _mean_of_parts(some, confidence, anytime=evidence.decide == "early")

    extra = {name: float(values.mean()) for name, values in parts.items()}
    whole = of(parts).model_copy(update={"extra": extra})
    if not sliced:
        return whole
    slices = {
        "class": {name: of(some) for name, some in _by_class(evidence, parts, labels).items()},
        "family": {name: of({_JUDGING: _judging(some)}) for name, some in groups_of(evidence, pairs, "family").items()},
        "long_tail_kind": {} if tail is None else {name: of({_TAIL: some}) for name, some in _by_kind(evidence, tail).items()},
    }
    return whole.model_copy(update={"slices": {by: some for by, some in slices.items() if some}})


def flips_per_mistake(evidence: Evidence, confidence: float) -> Metric:
    """``negative_flip_rate`` over the baseline's own rate of mistakes, which is the mean of the same parts. It has no interval.

    Args:
        confidence: of the rate's interval, which decides nothing here.
    """
    rate = _rate(evidence, confidence, sliced=False)
    if rate.value is None:
        return missing(_RATIO, rate.reason or "negative_flip_rate could not be computed", n=rate.n)
    mistakes = _mistakes(evidence)
    if mistakes == 0:
        return missing(_RATIO, "the baseline makes no mistake on the samples that both were run on", n=rate.n)
    return measured(_RATIO, rate.value / mistakes, n=rate.n or 0, extra={"baseline_mistakes": mistakes})


def _mistakes(evidence: Evidence) -> float:
    """The mean, over the parts of the rate, of the share of samples on which the baseline is wrong."""
    assert evidence.baseline is not None
    wrong = [1 - float(np.mean(evidence.baseline.correct)), float(_judging(pairs_of(evidence), flipped=False).mean())]
    if evidence.long_tail is not None and evidence.long_tail.labels:
        wrong.append(float(np.mean(np.array(evidence.baseline.long_tail) != np.array(evidence.long_tail.labels))))
    return sum(wrong) / len(wrong)


def _what_is_missing(evidence: Evidence, clean: Floats | None, tail: Floats | None, pairs: Sequence[Pair]) -> str | None:
    """Why a part that the run should have is not there: a rate of fewer parts would be another rate."""
    assert evidence.baseline is not None
    if clean is None:
        return evidence.baseline.reason or "the baseline was not run on the clean set"
    if not pairs:
        unread = "no judged seed input that both models read rightly was run on the baseline"
        return evidence.judged_reason or evidence.baseline.reason or unread
    if evidence.long_tail is None:
        return evidence.long_tail_reason
    if tail is None and evidence.long_tail.labels:
        return evidence.baseline.reason or "the baseline was not run on the long-tail set"
    return None


def _clean(evidence: Evidence) -> Floats | None:
    """[N] 1 where the sample flips; None where the baseline was not run on the set."""
    assert evidence.baseline is not None
    if evidence.clean is None or not evidence.clean.labels or len(evidence.baseline.correct) != len(evidence.clean.labels):
        return None
    return np.array(evidence.baseline.correct, dtype=np.float64) * ~np.array(evidence.clean.correct, dtype=np.bool_)


def _tail(evidence: Evidence) -> Floats | None:
    assert evidence.baseline is not None
    if evidence.long_tail is None or not evidence.long_tail.labels:
        return None
    labels, theirs = np.array(evidence.long_tail.labels), np.array(evidence.baseline.long_tail)
    if len(theirs) != len(labels):
        return None
    return np.asarray((theirs == labels) & (np.array(evidence.long_tail.predicted) != labels), dtype=np.float64)


def _judging(pairs: Sequence[Pair], *, flipped: bool = True) -> Floats:
    """[n] the share of each seed input's mutants that flip, or on which the baseline fails."""
    shares = []
    for pair in pairs:
        ours, theirs = pair.failures(lambda seed, mutant: mutant.failed)
        counted = [mine and not known for mine, known in zip(ours, theirs, strict=True)] if flipped else theirs
        shares.append(sum(counted) / len(counted))
    return np.array(shares, dtype=np.float64)


def _by_class(evidence: Evidence, parts: Mapping[str, Floats], labels: Mapping[str, Sequence[int]]) -> dict[str, dict[str, Floats]]:
    names = class_names(evidence)
    found: dict[str, dict[str, Floats]] = {}
    for label in sorted({label for some in labels.values() for label in some}):
        of_class = {part: values[np.array(labels[part]) == label] for part, values in parts.items()}
        found[names.get(label, str(label))] = {part: values for part, values in of_class.items() if len(values)}
    return found


def _by_kind(evidence: Evidence, tail: Floats) -> dict[str, Floats]:
    assert evidence.long_tail is not None
    kinds = np.array(evidence.long_tail.kinds, dtype=object)
    return {kind: tail[kinds == kind] for kind in sorted(set(evidence.long_tail.kinds))}


def _mean_of_parts(parts: Mapping[str, Floats], confidence: float, *, anytime: bool) -> Metric:
    """``n`` counts inputs: a judged seed input is a clean sample, too."""
    level = 1 - (1 - confidence) / len(parts) if anytime else confidence
    values, below, above = [], [], []
    for part, flips in parts.items():
        value = float(flips.mean())
        lower, upper = _interval(flips, level, anytime=anytime and part == _JUDGING)
        values.append(value)
        below.append(max(0.0, value - lower))
        above.append(max(0.0, upper - value))
    together = sum if anytime else _root_of_squares
    rate = sum(values) / len(values)
    interval = (max(0.0, rate - together(below) / len(parts)), min(1.0, rate + together(above) / len(parts)))
    inputs = sum(len(flips) for part, flips in parts.items() if part != _JUDGING or _CLEAN not in parts)
    return measured(_NAME, rate, n=inputs, interval=interval, confidence=confidence)


def _interval(flips: Floats, confidence: float, *, anytime: bool) -> Interval:
    return (mean_sequence if anytime else reweighted_mean)(flips, confidence)


def _root_of_squares(distances: Sequence[float]) -> float:
    return math.sqrt(sum(distance * distance for distance in distances))
