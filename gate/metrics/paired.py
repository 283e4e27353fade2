"""Every metric that can be beside the baseline's, on the same inputs: how much it rises, how sure that is, and what of it is new.

One observation is a seed input with its mutants (of those that both models read rightly), or a clean or long-tail sample. A failure is
*known* where the baseline has it too, on the same input: for a rate, the same mutant fails by the metric's own measure, with whatever wrong
answer; for an accuracy, both misread the sample. ``new`` is the metric with the known failures left out, over all inputs that were paired.

Of a count no input is drawn at random, so there is no interval: what rises is what the baseline does not share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gate.metrics.costly_errors import surely_wrong
from gate.metrics.evidence import Evidence
from gate.metrics.judged_sample import Mutant, SeedInput
from gate.metrics.judging import weak_margin
from gate.metrics.measured import class_names
from gate.metrics.paired_intervals import paired_mean, relative_rise
from gate.metrics.paired_sample import Pair, groups_of, pairs_of
from gate.metrics.reweighting import Interval, reweighted_mean
from gate.metrics.sequences import mean_sequence
from gate.result import Metric, Paired

__all__ = ["COMPARED", "beside_baseline"]

Floats = NDArray[np.float64]


def beside_baseline(name: str, metric: Metric, evidence: Evidence, confidence: float) -> Metric:
    """The metric, and each of its slices, with ``paired``; or with ``paired_reason`` where a baseline was given and there is none.

    Args:
        name: of the metric; one that is not compared comes back as it is.
        metric: of the candidate.
        evidence: of both.
        confidence: of the intervals.
    """
    if name not in _COMPARED:
        return metric
    if evidence.baseline is None:
        return metric if evidence.baseline_reason is None else _without(metric, evidence.baseline_reason)
    if metric.value is None:
        return metric.model_copy(update={"paired_reason": "the candidate's own value is missing"})
    return _COMPARED[name](name, metric, evidence, confidence)


# ---------------------------------------------------------------------------------------------------------------------------------
# Rates and margins of the judging arm


@dataclass(frozen=True)
class _Judged:
    """How a metric of the judging arm comes from its mutants."""

    fails: Callable[[Evidence, SeedInput, Mutant], bool]
    of_seed: Callable[[Sequence[bool], Sequence[Mutant]], float]  # of whether each mutant fails
    counts: Callable[[Evidence, SeedInput], bool]  # which seed inputs it looks at


def _every(evidence: Evidence, seed: SeedInput) -> bool:
    return True


def _positive(evidence: Evidence, seed: SeedInput) -> bool:
    return seed.label in evidence.positive


def _fails(evidence: Evidence, seed: SeedInput, mutant: Mutant) -> bool:
    return mutant.failed


def _surely_wrong(evidence: Evidence, seed: SeedInput, mutant: Mutant) -> bool:
    return surely_wrong(seed, mutant)


def _missed(evidence: Evidence, seed: SeedInput, mutant: Mutant) -> bool:
    return mutant.predicted not in evidence.positive


def _any(fails: Sequence[bool], mutants: Sequence[Mutant]) -> float:
    return float(any(fails))


def _share(fails: Sequence[bool], mutants: Sequence[Mutant]) -> float:
    return sum(fails) / len(mutants)


def _margin(fails: Sequence[bool], mutants: Sequence[Mutant]) -> float:
    return min((mutant.severity for mutant, failed in zip(mutants, fails, strict=True) if failed), default=1.0)


_JUDGED: dict[str, _Judged] = {
    "defect_rate": _Judged(_fails, _any, _every),
    "mutant_failure_rate": _Judged(_fails, _share, _every),
    "confident_error_rate": _Judged(_surely_wrong, _any, _every),
    "missed_positive_rate": _Judged(_missed, _any, _positive),
    "robust_margin_p05": _Judged(_fails, _margin, _every),
}


def _judged(name: str, metric: Metric, evidence: Evidence, confidence: float) -> Metric:
    rule, anytime = _JUDGED[name], evidence.decide == "early"
    pairs = [pair for pair in pairs_of(evidence) if rule.counts(evidence, pair.candidate)]
    compare = _margins if name == "robust_margin_p05" else _means

    def of(some: Sequence[Pair]) -> Paired | None:
        rows = []
        for pair in some:
            mutants = pair.candidate.mutants
            ours, theirs = pair.failures(lambda seed, mutant: rule.fails(evidence, seed, mutant))
            new = [mine and not known for mine, known in zip(ours, theirs, strict=True)]
            rows.append([rule.of_seed(fails, mutants) for fails in (ours, theirs, new)])
        if not rows:
            return None
        ours_by_seed, theirs_by_seed, new_by_seed = np.array(rows, dtype=np.float64).T
        return compare(ours_by_seed, theirs_by_seed, new_by_seed, confidence, anytime)

    assert evidence.baseline is not None
    paired, reason = of(pairs), evidence.baseline.reason
    if paired is None:
        return _without(metric, reason or "no judged seed input that both models read rightly was run on the baseline")
    slices = {by: {part: of(some) for part, some in groups_of(evidence, pairs, by).items()} for by in metric.slices}
    return _with(metric, paired, slices, reason)


def _means(candidate: Floats, baseline: Floats, new: Floats, confidence: float, anytime: bool) -> Paired:
    """Of values by seed input, [n] each, 0 to 1."""
    rise = float((candidate - baseline).mean())
    was = float(baseline.mean())
    return _paired(
        candidate=float(candidate.mean()),
        baseline=was,
        rise=rise,
        interval=paired_mean(candidate - baseline, confidence, anytime=anytime),
        relative=rise / was if was > 0 else None,
        relative_interval=relative_rise(candidate, baseline, confidence, anytime=anytime) if was > 0 else None,
        confidence=confidence,
        n=len(candidate),
        new=float(new.mean()),
        new_interval=(mean_sequence if anytime else reweighted_mean)(new, confidence),
    )


def _margins(candidate: Floats, baseline: Floats, new: Floats, confidence: float, anytime: bool) -> Paired:
    """Of margins by seed input, [n] each, 0 to 1.

    A percentile's difference is no mean of differences. Each model's percentile gets an exact interval that errs half as often, so that
    both hold together (Bonferroni), however much the models resemble each other; the rise then lies between their ends. That is wide.
    """

    (now, ours), (was, theirs) = (weak_margin(values, (1 + confidence) / 2, anytime=anytime) for values in (candidate, baseline))
    without, its_interval = weak_margin(new, confidence, anytime=anytime)
    shares = None
    if was > 0:
        shares = (ours[0] / theirs[1] - 1, ours[1] / theirs[0] - 1 if theirs[0] > 0 else math.inf)
    return _paired(
        candidate=now,
        baseline=was,
        rise=now - was,
        interval=(ours[0] - theirs[1], ours[1] - theirs[0]),
        relative=now / was - 1 if was > 0 else None,
        relative_interval=shares,
        confidence=confidence,
        n=len(candidate),
        new=without,
        new_interval=its_interval,
    )


# ---------------------------------------------------------------------------------------------------------------------------------
# Accuracies


def _clean_accuracy(name: str, metric: Metric, evidence: Evidence, confidence: float) -> Metric:
    assert evidence.baseline is not None
    assert evidence.clean is not None
    groups = {"class": _names(evidence, evidence.clean.labels)}
    return _accuracy(metric, evidence.clean.correct, evidence.baseline.correct, groups, evidence, confidence)


def _long_tail_accuracy(name: str, metric: Metric, evidence: Evidence, confidence: float) -> Metric:
    assert evidence.baseline is not None
    assert evidence.long_tail is not None
    tail = evidence.long_tail
    right = [label == answer for label, answer in zip(tail.labels, tail.predicted, strict=True)]
    theirs = [label == answer for label, answer in zip(tail.labels, evidence.baseline.long_tail, strict=False)]
    groups = {"class": _names(evidence, tail.labels), "long_tail_kind": tail.kinds}
    return _accuracy(metric, right, theirs, groups, evidence, confidence)


def _accuracy(
    metric: Metric,
    right: Sequence[bool],
    theirs: Sequence[bool],
    groups: Mapping[str, Sequence[str]],
    evidence: Evidence,
    confidence: float,
) -> Metric:
    assert evidence.baseline is not None
    if len(theirs) != len(right):
        return _without(metric, evidence.baseline.reason or "the baseline was not run on these samples")
    ours, them = np.array(right, dtype=np.float64), np.array(theirs, dtype=np.float64)

    def of(rows: NDArray[np.bool_]) -> Paired:
        candidate, baseline = ours[rows], them[rows]
        # What both misread counts as right; these samples were all run before anything was decided, so nothing is looked at early.
        return _means(candidate, baseline, np.maximum(candidate, 1 - baseline), confidence, anytime=False)

    slices: dict[str, dict[str, Paired | None]] = {}
    for by, parts in metric.slices.items():
        names = np.array(groups[by], dtype=object)
        slices[by] = {part: of(names == part) for part in parts}
    return _with(metric, of(np.ones(len(ours), dtype=np.bool_)), slices)


def _names(evidence: Evidence, labels: Iterable[int]) -> list[str]:
    names = class_names(evidence)
    return [names.get(label, str(label)) for label in labels]


# ---------------------------------------------------------------------------------------------------------------------------------
# Counts


def _crashes(name: str, metric: Metric, evidence: Evidence, confidence: float) -> Metric:
    assert evidence.baseline is not None
    return _count(metric, evidence.baseline.crash_defects, evidence.baseline.known_crashes, 0, 0)


def _nonfinite_outputs(name: str, metric: Metric, evidence: Evidence, confidence: float) -> Metric:
    assert evidence.baseline is not None
    beside = evidence.baseline
    tail = () if evidence.long_tail is None else evidence.long_tail.predicted
    both = beside.nonfinite + sum(ours < 0 and theirs < 0 for ours, theirs in zip(tail, beside.long_tail, strict=False))
    clean = 0 if evidence.clean is None else evidence.clean.nonfinite
    samples = clean + sum(answer < 0 for answer in tail)
    return _count(metric, beside.nonfinite_defects, beside.known_nonfinite, both, samples)


def _count(metric: Metric, defects: int, known: int, both: int, samples: int) -> Metric:
    """Inputs that fail one by one.

    Args:
        metric: how many inputs.
        defects: that they come down to, beside the ``samples``.
        known: of these, which the baseline has too. Where it has all of them, the other inputs, which are more of the same, are known, too.
        both: of the samples, how many both fail on.
        samples: clean and long-tail samples among the inputs; of each the baseline's answer is known.
    """
    assert metric.value is not None
    hunted = metric.value - samples
    if hunted and not defects:
        return _without(metric, "the baseline was not asked about each of them")
    # Several defects may come of one input (it is simplified, and tried in other ways): a new one is new however few inputs there are.
    new = samples - both + (0.0 if known == defects else max(hunted - known, min(hunted, defects - known)))
    paired = Paired(
        candidate=metric.value,
        baseline=metric.value - new,
        rise=new,
        relative=new / (metric.value - new) if metric.value > new else None,
        n=int(metric.value),
        new=new,
    )
    return metric.model_copy(update={"paired": paired})


_COMPARED: dict[str, Callable[[str, Metric, Evidence, float], Metric]] = {
    **dict.fromkeys(_JUDGED, _judged),
    "clean_accuracy": _clean_accuracy,
    "long_tail_accuracy": _long_tail_accuracy,
    "crashes": _crashes,
    "nonfinite_outputs": _nonfinite_outputs,
}

COMPARED = tuple(_COMPARED)  # the metrics that can be


def _paired(
    *,
    candidate: float,
    baseline: float,
    rise: float,
    interval: Interval,
    relative: float | None,
    relative_interval: Interval | None,
    confidence: float,
    n: int,
    new: float,
    new_interval: Interval,
) -> Paired:
    """Intervals are widened to contain their value, which rounding may miss by a hair; an end that nothing bounds is None."""
    shares = (None, None) if relative is None or relative_interval is None else relative_interval
    return Paired(
        candidate=candidate,
        baseline=baseline,
        rise=rise,
        lower=min(interval[0], rise),
        upper=max(interval[1], rise),
        relative=relative,
        relative_lower=None if shares[0] is None or relative is None else min(shares[0], relative),
        relative_upper=None if shares[1] is None or relative is None or math.isinf(shares[1]) else max(shares[1], relative),
        confidence=confidence,
        n=n,
        new=new,
        new_lower=min(new_interval[0], new),
        new_upper=max(new_interval[1], new),
    )


def _with(metric: Metric, paired: Paired, slices: Mapping[str, Mapping[str, Paired | None]], reason: str | None = None) -> Metric:
    """The metric with the comparison, and why some pairs are missing; slices in which there is no pair say so."""

    def beside(one: Metric, found: Paired | None) -> Metric:
        return one.model_copy(update={"paired": found, "paired_reason": reason if found else reason or "it has no pair of inputs"})

    parts = {by: {part: beside(one, slices[by].get(part)) for part, one in of.items()} for by, of in metric.slices.items()}
    return metric.model_copy(update={"paired": paired, "paired_reason": reason, "slices": parts})


def _without(metric: Metric, reason: str) -> Metric:
    slices = {
        by: {part: one.model_copy(update={"paired_reason": reason}) for part, one in parts.items()} for by, parts in metric.slices.items()
    }
    return metric.model_copy(update={"paired_reason": reason, "slices": slices})
