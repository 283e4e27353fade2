"""The judging arm's metrics: ``defect_rate``, ``mutant_failure_rate``, ``robust_margin_p05``.

One seed input is one observation. Only valid mutants count. A seed input without a valid mutant says nothing and is left out (and
counted in ``extra``), and so is one whose mutants did not all run before the budget ended: its effort would not be equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from gate.corpus.export import half_of
from gate.metrics.evidence import Evidence, JudgedSeed
from gate.metrics.intervals import bounded_seed_bootstrap, exact_quantile
from gate.metrics.measured import class_names, measured, missing, share
from gate.randomness import generator
from gate.result import Metric

__all__ = ["defect_rate", "mutant_failure_rate", "robust_margin_p05"]

_PERCENT = 5


@dataclass(frozen=True)
class _Mutant:
    families: tuple[str, ...]
    severity: float
    failed: bool


@dataclass(frozen=True)
class _Seed:
    seed_id: str
    label: int
    mutants: tuple[_Mutant, ...]  # the valid ones, at least one

    @property
    def failing(self) -> int:
        return sum(mutant.failed for mutant in self.mutants)


@dataclass(frozen=True)
class _Sample:
    seeds: tuple[_Seed, ...]
    without_valid: int
    incomplete: int

    @property
    def left_out(self) -> dict[str, float]:
        return {"seeds_without_valid_mutants": float(self.without_valid), "seeds_incomplete": float(self.incomplete)}


def defect_rate(evidence: Evidence, confidence: float) -> Metric:
    """Share of seed inputs with at least one valid natural mutant that changes the prediction; Wilson interval."""
    name = "defect_rate"
    sample = _sample(evidence)
    if not sample.seeds:
        return _nothing(name, evidence, sample)

    def of(seeds: Sequence[_Seed]) -> Metric:
        return share(name, sum(seed.failing > 0 for seed in seeds), len(seeds), confidence)

    slices = {
        "class": {part: of(seeds) for part, seeds in _by_class(evidence, sample.seeds)},
        "family": {part: of(seeds) for part, seeds in _by_family(sample.seeds)},
        "half": {part: of(seeds) for part, seeds in _by_half(sample.seeds)},
    }
    return of(sample.seeds).model_copy(update={"slices": slices, "extra": sample.left_out})


def mutant_failure_rate(evidence: Evidence, confidence: float) -> Metric:
    """Mean over seed inputs of the share of valid mutants that change the prediction; seed-bootstrap interval."""
    name = "mutant_failure_rate"
    sample = _sample(evidence)
    if not sample.seeds:
        return _nothing(name, evidence, sample)

    def of(seeds: Sequence[_Seed], *address: str) -> Metric:
        shares = np.array([seed.failing / len(seed.mutants) for seed in seeds])
        rng = generator(evidence.seed, "bootstrap", name, *address)
        interval = bounded_seed_bootstrap(shares, np.ones_like(shares), confidence, rng)
        return measured(name, float(shares.mean()), n=len(seeds), interval=interval, confidence=confidence)

    slices = {
        "class": {part: of(seeds, "class", part) for part, seeds in _by_class(evidence, sample.seeds)},
        "family": {part: of(seeds, "family", part) for part, seeds in _by_family(sample.seeds)},
        "half": {part: of(seeds, "half", part) for part, seeds in _by_half(sample.seeds)},
    }
    extra = {**sample.left_out, "mutants": float(sum(len(seed.mutants) for seed in sample.seeds))}
    return of(sample.seeds).model_copy(update={"slices": slices, "extra": extra})


def robust_margin_p05(evidence: Evidence, confidence: float) -> Metric:
    """5th percentile over seed inputs of the smallest severity (0 to 1) that changes the prediction.

    A seed input that never fails counts as 1. The percentile is the least value which at least 5 % of the seed inputs do not exceed, so it
    is always the severity of a real mutant; interval from order statistics.
    """
    name = "robust_margin_p05"
    sample = _sample(evidence)
    if not sample.seeds:
        return _nothing(name, evidence, sample)
    margins = np.array([min((m.severity for m in seed.mutants if m.failed), default=1.0) for seed in sample.seeds])
    rank = -(-len(margins) * _PERCENT // 100)  # in integers: 0.05 * 140 rounds up to more than 7
    value = float(np.sort(margins)[rank - 1])
    interval = exact_quantile(margins, _PERCENT, confidence, support=(0.0, 1.0))
    return measured(name, value, n=len(margins), interval=interval, confidence=confidence, extra=sample.left_out)


def _sample(evidence: Evidence) -> _Sample:
    seeds: list[_Seed] = []
    incomplete = without_valid = 0
    for judged in evidence.judged:
        if len(judged.valid) < evidence.judging_mutants_per_seed:
            incomplete += 1
            continue
        mutants = tuple(_valid_mutants(judged))
        if mutants:
            seeds.append(_Seed(judged.seed_id, judged.label, mutants))
        else:
            without_valid += 1
    return _Sample(tuple(seeds), without_valid, incomplete)


def _valid_mutants(judged: JudgedSeed) -> Iterable[_Mutant]:
    for family, severity, valid, failed in zip(judged.families, judged.severities, judged.valid, judged.failed, strict=True):
        if valid:
            yield _Mutant(tuple(sorted(set(family.split("+")))), severity, failed)


def _nothing(name: str, evidence: Evidence, sample: _Sample) -> Metric:
    if evidence.judged_reason is not None:
        reason = evidence.judged_reason
    elif sample.without_valid:
        reason = f"none of the mutants of {sample.without_valid} judged seed inputs was valid"
    elif sample.incomplete:
        reason = f"the budget ended before any seed input had its {evidence.judging_mutants_per_seed} mutants"
    else:
        reason = "the judging arm ran no seed input"
    return missing(name, reason, n=0, evidence=evidence)


def _by_class(evidence: Evidence, seeds: Sequence[_Seed]) -> list[tuple[str, list[_Seed]]]:
    names = class_names(evidence)
    groups: dict[int, list[_Seed]] = {}
    for seed in seeds:
        groups.setdefault(seed.label, []).append(seed)
    return [(names.get(label, str(label)), groups[label]) for label in sorted(groups)]


def _by_half(seeds: Sequence[_Seed]) -> list[tuple[str, list[_Seed]]]:
    """The halves of the seed inputs, of which one may have been exported for training."""
    groups: dict[str, list[_Seed]] = {}
    for seed in seeds:
        groups.setdefault(half_of(seed.seed_id), []).append(seed)
    return sorted(groups.items())


def _by_family(seeds: Sequence[_Seed]) -> list[tuple[str, list[_Seed]]]:
    """Seed inputs reduced to their mutants of one family; a recipe of several families belongs to each of them."""
    groups: dict[str, list[_Seed]] = {}
    for seed in seeds:
        parts: dict[str, list[_Mutant]] = {}
        for mutant in seed.mutants:
            for family in mutant.families:
                parts.setdefault(family, []).append(mutant)
        for family, mutants in parts.items():
            groups.setdefault(family, []).append(_Seed(seed.seed_id, seed.label, tuple(mutants)))
    return sorted(groups.items())
