"""The judging arm's seed inputs that both models read rightly, each with what either makes of the same mutants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gate.metrics.evidence import BaselineSeed, Evidence
from gate.metrics.judged_sample import Mutant, SeedInput, by_class, by_family, by_half, sample

__all__ = ["Pair", "groups_of", "pairs_of"]


@dataclass(frozen=True)
class Pair:
    """One seed input: the candidate's answers to its valid mutants, and the baseline's to the same, in the same order."""

    candidate: SeedInput
    baseline: SeedInput

    def failures(self, fails: Callable[[SeedInput, Mutant], bool]) -> tuple[list[bool], list[bool]]:
        """By mutant whether the candidate fails and whether the baseline does."""
        seed = self.candidate
        return [fails(seed, one) for one in seed.mutants], [fails(seed, one) for one in self.baseline.mutants]


def pairs_of(evidence: Evidence) -> list[Pair]:
    """In the blind order. Empty where there is no baseline, or where it was not asked about judged seed inputs."""
    beside = {} if evidence.baseline is None else evidence.baseline.judged
    valid = {judged.seed_id: judged.valid for judged in evidence.judged}
    return [
        Pair(seed, SeedInput(seed.seed_id, seed.label, _baselines(seed, beside[seed.seed_id], valid[seed.seed_id])))
        for seed in sample(evidence).seeds
        if seed.seed_id in beside
    ]


def groups_of(evidence: Evidence, pairs: Sequence[Pair], by: str) -> dict[str, list[Pair]]:
    """The pairs of each slice by class, family or half; in one of a family, seed inputs are reduced to its mutants."""
    grouping: dict[str, Callable[[Sequence[SeedInput]], list[tuple[str, list[SeedInput]]]]] = {
        "class": lambda seeds: by_class(evidence, seeds),
        "family": by_family,
        "half": by_half,
    }
    candidates, baselines = (grouping[by]([getattr(pair, side) for pair in pairs]) for side in ("candidate", "baseline"))
    return {
        name: [Pair(*both) for both in zip(ours, theirs, strict=True)]
        for (name, ours), (_, theirs) in zip(candidates, baselines, strict=True)
    }


def _baselines(seed: SeedInput, said: BaselineSeed, valid: Sequence[bool]) -> tuple[Mutant, ...]:
    # A policy may judge by fewer mutants than were made; slots do not depend on their number, so the first are what it would have had.
    slots = [slot for slot, one in enumerate(valid) if one]
    return tuple(
        Mutant(mutant.families, mutant.severity, said.failed[slot], said.predicted[slot], said.confidence[slot])
        for mutant, slot in zip(seed.mutants, slots, strict=True)
    )
