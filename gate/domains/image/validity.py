"""Which mutants a person would still label the same, as far as the policy's ``domain`` says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gate.domains.chains import Chains, Steps
from gate.domains.image import distances
from gate.domains.image.limits import Domain
from gate.domains.image.operators import OPERATORS
from gate.domains.image.recipe import Step
from gate.domains.image.similarity import structural_similarity
from gate.domains.image.splicing import FAMILY, SPLICING
from gate.domains.model_operators import MODEL_OPERATORS

__all__ = ["REASONS", "Validity", "ValidityCheck", "check", "valid"]

REASONS = (
    "unknown_operator",  # a name that the domain does not have
    "operator_off",  # the domain switches it off
    "severity",  # one step beyond its operator's limit
    "chain_length",  # too many natural operators in a row, or more than one step of another kind
    "chain_severity",  # together too severe
    "value_range",  # not finite, or values that no file may hold
    "contrast",  # too little of the seed input's contrast is left
    "distance",  # made by the model's help alone, and further away than its bound
    "area",  # made by splicing alone, and more pixels changed than its share of the area
    "pixel_distance",  # many values changed, and one of them too much
    "similarity",  # too little of the seed input's structure is left
    "validator",  # the user's validator model sees something else than in the seed input
)

_CODES = {reason: code for code, reason in enumerate(REASONS)}
_SOUND = len(REASONS)  # while reasons are collected: greater than any of them, so that the least one is the first that applies

# Sums of shares such as 1/3 + 1/3 + 1/3 may end a rounding error above their limit.
_ROUNDING = 1e-9
_VALUES_AT_ONCE = 1 << 22

Codes = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Validity:
    """The answer for N mutants."""

    codes: Codes  # [N]: position in REASONS of the first that applies; -1 where valid

    @property
    def valid(self) -> Flags:
        """bool [N]."""
        return self.codes < 0

    @property
    def reasons(self) -> tuple[str | None, ...]:
        """N names out of REASONS; None where valid."""
        return tuple(None if code < 0 else REASONS[code] for code in self.codes.tolist())

    @property
    def counts(self) -> dict[str, int]:
        """How many mutants each reason made invalid."""
        numbers = np.bincount(self.codes[self.codes >= 0], minlength=len(REASONS))
        return {reason: int(number) for reason, number in zip(REASONS, numbers, strict=True) if number}


def valid(
    mutants: npt.NDArray[Any],
    seeds: npt.NDArray[Any],
    recipes: Sequence[Sequence[Step]],
    domain: Domain,
    value_range: tuple[float, float],
) -> Flags:
    """bool [N]; see ``ValidityCheck``."""
    return check(mutants, seeds, recipes, domain, value_range).valid


def check(
    mutants: npt.NDArray[Any],
    seeds: npt.NDArray[Any],
    recipes: Sequence[Sequence[Step]],
    domain: Domain,
    value_range: tuple[float, float],
) -> Validity:
    """Holds N mutants against a domain once; see ``ValidityCheck``."""
    return ValidityCheck(domain, value_range)(mutants, seeds, recipes)


class ValidityCheck:
    """Holds mutants against one domain.

    The recipe: each operator known and switched on, each severity at most 1, the number and the summed severity of the natural steps
    within ``domain.chain``; at most one step made with the model's help or by splicing, since bounds add up. The picture: values within
    the range, contrast (standard deviation over all values) at least ``domain.chain.contrast_kept`` of the seed input's; for recipes
    without natural steps, the difference from the seed input within the bound of the operator, in that operator's norm; of a splicing
    operator, the number of pixels that differ. In mixed recipes that bound is kept where the step is made, since only the parent, not
    the seed input, shows what the step added.

    Where the policy asks for them, two more bounds over the whole chain hold recipes without a step of the family geometry:
    ``domain.chain.pixel_distance`` (either fewer than ``few_pixels`` of the values changed, or none by ``pixel_distance`` of the value
    range or more: equation 1 of Xie et al., "DeepHunter", ISSTA 2019, published with 0.02 and 0.2) and ``domain.chain.similarity`` (see
    gate/domains/image/similarity.py). A geometric step moves every pixel, and what the others added to the moved picture is not known
    any more.

    Args:
        domain: the policy's limits.
        value_range: lowest and highest value a file may hold.
    """

    def __init__(self, domain: Domain, value_range: tuple[float, float]) -> None:
        self._chain = domain.chain
        self._domain = domain
        self._range = value_range
        self._operators: dict[str, _OfOperator] = {}
        self._tables: dict[tuple[str, ...], _Table] = {}

    def __call__(self, mutants: npt.NDArray[Any], seeds: npt.NDArray[Any], recipes: Sequence[Sequence[Any]]) -> Validity:
        """The answer for N mutants.

        Args:
            mutants: [N, H, W, C] in the file's dtype.
            seeds: [N, H, W, C], the seed input of each.
            recipes: N recipes. Of ``Chains`` the steps that were added are looked at, and the sums over the whole recipes; the steps of
                the parents themselves were looked at when the parents were checked.
        """
        count = len(mutants)
        if mutants.shape != seeds.shape or len(recipes) != count:
            raise ValueError(f"{count} mutants {mutants.shape}, seeds {seeds.shape} and {len(recipes)} recipes do not belong together")
        held = self._of_chains(recipes) if isinstance(recipes, Chains) else self._of_recipes(recipes)
        sample = max(1, mutants[0].size) if count else 1
        rows = max(1, _VALUES_AT_ONCE // sample)
        for start in range(0, count, rows):
            self._pictures(mutants, seeds, held, slice(start, min(start + rows, count)))
        return Validity(np.where(held.codes == _SOUND, -1, held.codes))

    # Recipes.

    def _of_chains(self, chains: Chains) -> _Held:
        held = _Held.of(len(chains))
        natural = chains.lengths > 0
        held.linf[natural] = np.inf  # the other two are infinite as it is
        helped = np.zeros(len(chains), dtype=np.int64)  # steps with the model's help that were added
        for rows, steps in chains.links:
            if isinstance(steps, Steps):
                table = self._table(steps.names)
                which, severities = steps.operators, steps.severities
            else:
                table = _Table.of([self._operator(step.operator) for step in steps])
                which, severities = np.arange(len(steps)), np.array([step.severity for step in steps], dtype=np.float64)
            _lower(held.codes, rows, table.codes[which])
            _lower(held.codes, rows[~((severities >= 0) & (severities <= 1 + _ROUNDING))], _CODES["severity"])
            helped[rows] += table.assisted[which]
            alone = table.assisted[which] & ~natural[rows]
            held.linf[rows[alone]] = table.linf[which[alone]]
            held.rms[rows[alone]] = table.rms[which[alone]]
            held.area[rows[alone]] = table.area[which[alone]]
            held.moved[rows] |= table.geometry[which]
        for row in np.flatnonzero(~natural & (chains.assisted > helped)).tolist():
            held.linf[row], held.rms[row], held.area[row] = self._bounds(chains[row])
        if self._whole_chain:
            for row, parent in enumerate(chains.parents):
                held.moved[row] |= any(self._operator(step.operator).geometry for step in parent)
        _lower(held.codes, np.flatnonzero((chains.lengths > self._chain.length) | (chains.assisted > 1)), _CODES["chain_length"])
        _lower(held.codes, np.flatnonzero(~(chains.severities <= self._chain.severity + _ROUNDING)), _CODES["chain_severity"])
        return held

    def _of_recipes(self, recipes: Sequence[Sequence[Any]]) -> _Held:
        held = _Held.of(len(recipes))
        for row, recipe in enumerate(recipes):
            known = [self._operator(step.operator) for step in recipe]
            faults = [one.code for one in known]
            if not all(0 <= step.severity <= 1 + _ROUNDING for step in recipe):
                faults.append(_CODES["severity"])
            natural = [step.severity for step, one in zip(recipe, known, strict=True) if not one.assisted]
            if len(natural) > self._chain.length or len(recipe) - len(natural) > 1:
                faults.append(_CODES["chain_length"])
            if not sum(natural) <= self._chain.severity + _ROUNDING:
                faults.append(_CODES["chain_severity"])
            held.codes[row] = min(faults, default=_SOUND)
            held.linf[row], held.rms[row], held.area[row] = self._bounds(recipe)
            held.moved[row] = any(one.geometry for one in known)
        return held

    def _bounds(self, recipe: Sequence[Any]) -> tuple[float, float, float]:
        """L-infinity and root of the mean square, shares of the value range, and changed pixels, share of the area; infinite where natural
        steps take part."""
        known = [self._operator(step.operator) for step in recipe]
        if not all(one.assisted for one in known):
            return np.inf, np.inf, np.inf
        if not known:
            return 0.0, np.inf, np.inf
        return sum(one.linf for one in known), sum(one.rms for one in known), sum(one.area for one in known)

    def _operator(self, name: str) -> _OfOperator:
        found = self._operators.get(name)
        if found is None:
            found = self._operators[name] = _of_operator(name, self._domain)
        return found

    def _table(self, names: tuple[str, ...]) -> _Table:
        table = self._tables.get(names)
        if table is None:
            table = _Table.of([self._operator(name) for name in names])
            self._tables[names] = table  # the operators of a campaign are always the same
        return table

    # Pictures.

    @property
    def _whole_chain(self) -> bool:
        return self._chain.pixel_distance is not None or self._chain.similarity is not None

    def _pictures(self, mutants: npt.NDArray[Any], seeds: npt.NDArray[Any], held: _Held, part: slice) -> None:
        new, old, codes = mutants[part], seeds[part], held.codes[part]
        low, high = self._range
        with np.errstate(invalid="ignore"):
            _lower(codes, np.flatnonzero(~_in_range(new, low, high)), _CODES["value_range"])
            lost = ~(distances.deviation(new) >= self._chain.contrast_kept * distances.deviation(old))
            _lower(codes, np.flatnonzero(lost), _CODES["contrast"])
            for bounds, distance in ((held.linf[part], distances.farthest), (held.rms[part], distances.root_mean_square)):
                rows = np.flatnonzero(bounds < np.inf)
                if len(rows):
                    # Float files hold the bound in single precision.
                    most = bounds[rows] * (high - low) * (1 + 1e-6) + 1e-6 * (high - low)
                    _lower(codes, rows[~(distance(new[rows], old[rows]) <= most)], _CODES["distance"])
            rows = np.flatnonzero(held.area[part] < np.inf)
            if len(rows):
                pixels = (new[rows] != old[rows]).any(axis=3).sum(axis=(1, 2))
                most = held.area[part][rows] * new[0, :, :, 0].size + _ROUNDING
                _lower(codes, rows[~(pixels <= most)], _CODES["area"])
            if not self._whole_chain:
                return
            rows = np.flatnonzero(~held.moved[part])
            if self._chain.pixel_distance is not None and len(rows):
                few = distances.changed(new[rows], old[rows]) < self._chain.few_pixels * new[0].size
                near = distances.farthest(new[rows], old[rows]) < self._chain.pixel_distance * (high - low)
                _lower(codes, rows[~(few | near)], _CODES["pixel_distance"])
            if self._chain.similarity is not None and len(rows):
                alike = structural_similarity(new[rows], old[rows], high - low) >= self._chain.similarity
                _lower(codes, rows[~alike], _CODES["similarity"])


def _lower(codes: Codes, rows: npt.NDArray[np.intp] | Codes, found: Codes | int) -> None:
    """Notes reasons in rows that each stand once; the first in the order of REASONS stays."""
    codes[rows] = np.minimum(codes[rows], found)


def _in_range(x: npt.NDArray[Any], low: float, high: float) -> Flags:
    """bool [N]: every value finite and within the range."""
    if x.dtype.kind == "f":
        # 0.1 in single precision is more than 0.1: what a file can hold decides.
        low, high = float(x.dtype.type(low)), float(x.dtype.type(high))
    elif np.iinfo(x.dtype).min >= low and np.iinfo(x.dtype).max <= high:
        return np.ones(len(x), dtype=np.bool_)
    flat = x.reshape(len(x), -1)
    inside: Flags = (flat.min(axis=1, initial=high) >= low) & (flat.max(axis=1, initial=low) <= high)  # not a number stays not a number
    return inside


@dataclass(frozen=True, eq=False)
class _Held:
    """What the recipes of N mutants say of them."""

    codes: Codes
    linf: Numbers  # shares of the value range; infinite where there is no such bound
    rms: Numbers
    area: Numbers  # share of the pixels; likewise
    moved: Flags  # by a step of the family geometry

    @classmethod
    def of(cls, count: int) -> _Held:
        """N recipes without any step: the seed inputs themselves."""
        codes = np.full(count, _SOUND, dtype=np.int64)
        return cls(codes, np.zeros(count), np.full(count, np.inf), np.full(count, np.inf), np.zeros(count, dtype=np.bool_))


@dataclass(frozen=True)
class _OfOperator:
    """What a domain says of one operator."""

    code: int  # what is wrong with it; _SOUND where nothing is
    assisted: bool  # made with the model's help or by splicing
    geometry: bool
    linf: float
    rms: float
    area: float = np.inf


def _of_operator(name: str, domain: Domain) -> _OfOperator:
    model = MODEL_OPERATORS.get(name)
    if model is not None:
        bound = getattr(getattr(domain, model.family), name)
        code = _SOUND if bound else _CODES["operator_off"]
        norms = (bound or 0.0, np.inf) if model.norm == "linf" else (np.inf, bound or 0.0)
        return _OfOperator(code, True, False, *norms)
    if name in SPLICING:
        share = getattr(getattr(domain, FAMILY), name)
        return _OfOperator(_SOUND if share else _CODES["operator_off"], True, False, np.inf, np.inf, share or 0.0)
    natural = OPERATORS.get(name)
    if natural is None:
        return _OfOperator(_CODES["unknown_operator"], False, False, np.inf, np.inf)
    off = natural.off(getattr(getattr(domain, natural.family), name))
    return _OfOperator(_CODES["operator_off"] if off else _SOUND, False, natural.family == "geometry", np.inf, np.inf)


@dataclass(frozen=True, eq=False)
class _Table:
    """The same of several, by column."""

    codes: Codes
    assisted: Flags
    geometry: Flags
    linf: Numbers
    rms: Numbers
    area: Numbers

    @classmethod
    def of(cls, operators: Sequence[_OfOperator]) -> _Table:
        return cls(
            np.array([one.code for one in operators], dtype=np.int64),
            np.array([one.assisted for one in operators], dtype=np.bool_),
            np.array([one.geometry for one in operators], dtype=np.bool_),
            np.array([one.linf for one in operators], dtype=np.float64),
            np.array([one.rms for one in operators], dtype=np.float64),
            np.array([one.area for one in operators], dtype=np.float64),
        )
