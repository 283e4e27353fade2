"""Which mutants a person would still label the same, as far as the policy's ``domain`` says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gate.domains.image.limits import Domain
from gate.domains.image.operators import OPERATORS
from gate.domains.image.recipe import Step

__all__ = ["MODEL_OPERATORS", "REASONS", "Validity", "check", "valid"]

MODEL_OPERATORS = {"fgsm": "adversarial", "pgd": "adversarial", "coverage_gradient": "coverage_gradient"}  # operator -> family

REASONS = (
    "unknown_operator",  # a name that the domain does not have
    "operator_off",  # the domain switches it off
    "severity",  # one step beyond its operator's limit
    "chain_length",  # too many natural operators in a row, or more than one step with the model's help
    "chain_severity",  # together too severe
    "value_range",  # not finite, or values that no file may hold
    "contrast",  # too little of the seed input's contrast is left
    "distance",  # made by the model's help alone, and further away than its bound
)

# Sums of shares such as 1/3 + 1/3 + 1/3 may end a rounding error above their limit.
_ROUNDING = 1e-9
_VALUES_AT_ONCE = 1 << 22


@dataclass(frozen=True, eq=False)
class Validity:
    """The answer for N mutants."""

    valid: npt.NDArray[np.bool_]  # [N]
    reasons: tuple[str | None, ...]  # [N]: one of REASONS, the first that applies; None where valid

    @property
    def counts(self) -> dict[str, int]:
        """How many mutants each reason made invalid."""
        return dict(Counter(reason for reason in self.reasons if reason is not None))


def valid(
    mutants: npt.NDArray[Any],
    seeds: npt.NDArray[Any],
    recipes: Sequence[Sequence[Step]],
    domain: Domain,
    value_range: tuple[float, float],
) -> npt.NDArray[np.bool_]:
    """bool [N]; see ``check``."""
    return check(mutants, seeds, recipes, domain, value_range).valid


def check(
    mutants: npt.NDArray[Any],
    seeds: npt.NDArray[Any],
    recipes: Sequence[Sequence[Step]],
    domain: Domain,
    value_range: tuple[float, float],
) -> Validity:
    """Holds every mutant against the domain.

    The recipe: each operator known and switched on, each severity at most 1, the number and the summed severity of the natural steps
    within ``domain.chain``; at most one step made with the model's help, since bounds add up. The picture: values within the range,
    contrast (standard deviation over all values) at least ``domain.chain.contrast_kept`` of the seed input's; for recipes without
    natural steps, the greatest difference from the seed input within the bound. In mixed recipes that bound is kept where the step is
    made, since only the parent, not the seed input, shows what the step added.

    Args:
        mutants: [N, H, W, C] in the file's dtype.
        seeds: [N, H, W, C], the seed input of each.
        recipes: N recipes.
        domain: the policy's limits.
        value_range: lowest and highest value a file may hold.
    """
    count = len(mutants)
    if mutants.shape != seeds.shape or len(recipes) != count:
        raise ValueError(f"{count} mutants {mutants.shape}, seeds {seeds.shape} and {len(recipes)} recipes do not belong together")
    reasons: list[str | None] = [_recipe_fault(recipe, domain) for recipe in recipes]
    bounds = np.array([_bound(recipe, domain) for recipe in recipes], dtype=np.float64)
    low, high = value_range
    if mutants.dtype.kind == "f":
        # 0.1 in single precision is more than 0.1: what a file can hold decides.
        low, high = float(mutants.dtype.type(low)), float(mutants.dtype.type(high))
    sample = max(1, mutants[0].size) if count else 1
    rows = max(1, _VALUES_AT_ONCE // sample)
    for start in range(0, count, rows):
        part = slice(start, min(start + rows, count))
        new = mutants[part].reshape(-1, sample).astype(np.float64)
        old = seeds[part].reshape(-1, sample).astype(np.float64)
        with np.errstate(invalid="ignore"):
            in_range = np.asarray(((new >= low) & (new <= high)).all(axis=1))
            contrast = np.asarray(new.std(axis=1) >= domain.chain.contrast_kept * old.std(axis=1))
            # Float files hold the bound in single precision.
            near = np.abs(new - old).max(axis=1) <= bounds[part] * (high - low) * (1 + 1e-6) + 1e-6 * (high - low)
        for offset in np.flatnonzero(np.logical_not(in_range & contrast & near)):
            row = start + int(offset)
            fault = "value_range" if not in_range[offset] else "contrast" if not contrast[offset] else "distance"
            reasons[row] = reasons[row] or fault
    return Validity(np.array([reason is None for reason in reasons], dtype=np.bool_), tuple(reasons))


def _limit(operator: str, domain: Domain) -> Any:
    family = MODEL_OPERATORS.get(operator) or OPERATORS[operator].family
    return getattr(getattr(domain, family), operator)


def _recipe_fault(recipe: Sequence[Step], domain: Domain) -> str | None:
    natural = [step for step in recipe if step.operator in OPERATORS]
    assisted = [step for step in recipe if step.operator in MODEL_OPERATORS]
    if len(natural) + len(assisted) != len(recipe):
        return "unknown_operator"
    if any(OPERATORS[step.operator].off(_limit(step.operator, domain)) for step in natural):
        return "operator_off"
    if any(not _limit(step.operator, domain) for step in assisted):
        return "operator_off"
    if not all(0 <= step.severity <= 1 + _ROUNDING for step in recipe):
        return "severity"
    if len(natural) > domain.chain.length or len(assisted) > 1:
        return "chain_length"
    if sum(step.severity for step in natural) > domain.chain.severity + _ROUNDING:
        return "chain_severity"
    return None


def _bound(recipe: Sequence[Step], domain: Domain) -> float:
    """The greatest difference allowed, as a share of the value range; infinite where natural steps take part."""
    if not all(step.operator in MODEL_OPERATORS for step in recipe):
        return np.inf
    return float(sum(_limit(step.operator, domain) or 0.0 for step in recipe))
