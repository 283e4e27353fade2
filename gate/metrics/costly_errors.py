"""Errors that cost more than others: ``confident_error_rate`` and ``missed_positive_rate``.

The defect rate counts every changed answer alike. Where a sure wrong answer opens a door, the first of these weighs more; where an answer
that leaves a class out means that nobody looks again, the second does.
"""

from __future__ import annotations

from collections.abc import Sequence

from gate.metrics.evidence import Evidence
from gate.metrics.judged_sample import Mutant, SeedInput, nothing, sample, sliced
from gate.metrics.measured import judged_share, missing
from gate.result import Metric

__all__ = ["CONFIDENT", "confident_error_rate", "missed_positive_rate", "surely_wrong"]

CONFIDENT = 0.9  # probability of the class predicted from which on a wrong answer counts as a confident one


def surely_wrong(seed: SeedInput, mutant: Mutant) -> bool:
    """Whether a mutant is read as a wrong class with confidence; what is not finite is no class."""
    return mutant.predicted not in (seed.label, -1) and mutant.confidence is not None and mutant.confidence >= CONFIDENT


def confident_error_rate(evidence: Evidence, confidence: float) -> Metric:
    """Share of seed inputs with at least one valid natural mutant that is answered wrongly with confidence 0.9 or more; exact interval."""
    name = "confident_error_rate"
    found = sample(evidence)
    if not found.seeds:
        return nothing(name, evidence, found)
    if any(mutant.confidence is None for seed in found.seeds for mutant in seed.mutants):
        return missing(name, "the run did not record how sure the model was of its answers; run the gate again", n=0, evidence=evidence)

    def of(seeds: Sequence[SeedInput]) -> Metric:
        return judged_share(name, [any(surely_wrong(seed, one) for one in seed.mutants) for seed in seeds], confidence, evidence)

    return of(found.seeds).model_copy(update={"slices": sliced(evidence, found.seeds, of), "extra": found.left_out})


def missed_positive_rate(evidence: Evidence, confidence: float) -> Metric:
    """Share of the positive classes' seed inputs with at least one valid natural mutant read as none of these classes; exact interval.

    An output that is not finite is read as none of them, too.
    """
    name = "missed_positive_rate"
    positive = set(evidence.positive)
    if not positive:
        return missing(name, "the policy names no positive classes", n=0, evidence=evidence)
    found = sample(evidence)
    if not found.seeds:
        return nothing(name, evidence, found)
    chosen = [seed for seed in found.seeds if seed.label in positive]
    if not chosen:
        return missing(name, "the judging arm ran no seed input of the positive classes", n=0, evidence=evidence)

    def of(seeds: Sequence[SeedInput]) -> Metric:
        missed = [any(mutant.predicted not in positive for mutant in seed.mutants) for seed in seeds]
        return judged_share(name, missed, confidence, evidence)

    return of(chosen).model_copy(update={"slices": sliced(evidence, chosen, of), "extra": found.left_out})
