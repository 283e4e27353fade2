"""What the judging arm's metrics are computed from: seed inputs with their valid mutants, one seed input being one observation.

Only valid mutants count. A seed input without a valid mutant says nothing and is left out (and counted), and so is one whose mutants did
not all run before the budget ended: its effort would not be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gate.corpus.export import half_of
from gate.metrics.evidence import Evidence, JudgedSeed
from gate.metrics.measured import class_names, missing
from gate.result import Metric

__all__ = ["Mutant", "Sample", "SeedInput", "by_class", "by_family", "by_half", "nothing", "sample", "sliced"]


@dataclass(frozen=True)
class Mutant:
    """One valid mutant."""

    families: tuple[str, ...]
    severity: float
    failed: bool
    predicted: int  # -1 where the output was not finite
    confidence: float | None  # of the class predicted; None where the run did not record it


@dataclass(frozen=True)
class SeedInput:
    """One seed input whose mutants have all been run."""

    seed_id: str
    label: int
    mutants: tuple[Mutant, ...]  # the valid ones, at least one

    @property
    def failing(self) -> int:
        """How many of its mutants fail."""
        return sum(mutant.failed for mutant in self.mutants)


@dataclass(frozen=True)
class Sample:
    """The seed inputs that count, and how many do not."""

    seeds: tuple[SeedInput, ...]
    without_valid: int
    incomplete: int

    @property
    def left_out(self) -> dict[str, float]:
        """For a metric's ``extra``."""
        return {"seeds_without_valid_mutants": float(self.without_valid), "seeds_incomplete": float(self.incomplete)}


def sample(evidence: Evidence) -> Sample:
    """The judging arm as observations."""
    seeds: list[SeedInput] = []
    incomplete = without_valid = 0
    for judged in evidence.judged:
        if len(judged.valid) < evidence.judging_mutants_per_seed:
            incomplete += 1
            continue
        mutants = tuple(_valid_mutants(judged))
        if mutants:
            seeds.append(SeedInput(judged.seed_id, judged.label, mutants))
        else:
            without_valid += 1
    return Sample(tuple(seeds), without_valid, incomplete)


def nothing(name: str, evidence: Evidence, found: Sample) -> Metric:
    """A metric of the judging arm where no seed input counts, with the reason."""
    if evidence.judged_reason is not None:
        reason = evidence.judged_reason
    elif found.without_valid:
        reason = f"none of the mutants of {found.without_valid} judged seed inputs was valid"
    elif found.incomplete:
        reason = f"the budget ended before any seed input had its {evidence.judging_mutants_per_seed} mutants"
    else:
        reason = "the judging arm ran no seed input"
    return missing(name, reason, n=0, evidence=evidence)


def by_class(evidence: Evidence, seeds: Sequence[SeedInput]) -> list[tuple[str, list[SeedInput]]]:
    """Seed inputs of each class, by its name, in the order of the classes."""
    names = class_names(evidence)
    groups: dict[int, list[SeedInput]] = {}
    for seed in seeds:
        groups.setdefault(seed.label, []).append(seed)
    return [(names.get(label, str(label)), groups[label]) for label in sorted(groups)]


def by_half(seeds: Sequence[SeedInput]) -> list[tuple[str, list[SeedInput]]]:
    """The halves of the seed inputs, of which one may have been exported for training."""
    groups: dict[str, list[SeedInput]] = {}
    for seed in seeds:
        groups.setdefault(half_of(seed.seed_id), []).append(seed)
    return sorted(groups.items())


def by_family(seeds: Sequence[SeedInput]) -> list[tuple[str, list[SeedInput]]]:
    """Seed inputs reduced to their mutants of one family; a recipe of several families belongs to each of them."""
    groups: dict[str, list[SeedInput]] = {}
    for seed in seeds:
        parts: dict[str, list[Mutant]] = {}
        for mutant in seed.mutants:
            for family in mutant.families:
                parts.setdefault(family, []).append(mutant)
        for family, mutants in parts.items():
            groups.setdefault(family, []).append(SeedInput(seed.seed_id, seed.label, tuple(mutants)))
    return sorted(groups.items())


def sliced(evidence: Evidence, seeds: Sequence[SeedInput], of: Callable[[Sequence[SeedInput]], Metric]) -> Mapping[str, dict[str, Metric]]:
    """A metric of the judging arm by class, family and half; the seed inputs of each slice stand in the blind order, as all do."""
    return {
        "class": {part: of(members) for part, members in by_class(evidence, seeds)},
        "family": {part: of(members) for part, members in by_family(seeds)},
        "half": {part: of(members) for part, members in by_half(seeds)},
    }


def _valid_mutants(judged: JudgedSeed) -> Iterator[Mutant]:
    confidences: Iterable[float | None] = judged.confidence or (None,) * len(judged.valid)
    columns = (judged.families, judged.severities, judged.valid, judged.failed, judged.predicted, confidences)
    for family, severity, valid, failed, predicted, confidence in zip(*columns, strict=True):
        if valid:
            yield Mutant(tuple(sorted(set(family.split("+")))), severity, failed, predicted, confidence)
