"""What a policy's ``domain`` allows, on a few seed inputs: the pictures for ``gate policy preview``. Needs no model."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gate.campaign.donors import Donors
from gate.domains.chains import Chains
from gate.domains.image.domain import ImageDomain
from gate.domains.image.image_set import ImageSet
from gate.domains.image.limits import Domain, Marks
from gate.domains.image.marks import KINDS, starts
from gate.domains.image.operators import OPERATORS
from gate.domains.image.splicing import FAMILY, SPLICING
from gate.domains.mark import lay
from gate.domains.model_operators import MODEL_OPERATORS
from gate.errors import UsageError
from gate.randomness import generator, integer
from gate.strict_yaml import nearest

__all__ = ["SEVERITIES", "Row", "Sheet", "Shown", "preview"]

SEVERITIES = (0.25, 0.5, 0.75, 1.0)

_MARKS = {
    "patch": "An opaque square",
    "border": "An opaque frame",
    "blend": "A faint pattern over the whole picture",
}

_OF_A_MODEL = {
    "linf": "Moves every value by at most the limit's share of the value range. Shown: a random change of that size.",
    "l2": "Changes values by the limit's share of the value range, root mean square. Shown: a random change of that size.",
}


@dataclass(frozen=True, eq=False)
class Shown:
    """One mutant."""

    severity: float  # share of the limit
    mutant: npt.NDArray[Any]  # [H, W, C] in the file dtype
    reason: str | None  # why it would be invalid


@dataclass(frozen=True)
class Row:
    """One operator, or one kind of universal mark, on every sample."""

    operator: str
    family: str
    limit: Any  # as the policy has it
    words: str  # what the limit means
    samples: tuple[tuple[Shown, ...], ...]  # for each sample one mutant at each of SEVERITIES


@dataclass(frozen=True, eq=False)
class Sheet:
    """Everything the contact sheet shows."""

    originals: tuple[npt.NDArray[Any], ...]  # [H, W, C] each
    names: tuple[str, ...]  # class and identity of each
    value_range: tuple[float, float]
    rows: tuple[Row, ...]  # grouped by family, in the policy's order
    off: tuple[str, ...]  # keys of the operators and marks that the policy switches off

    @property
    def operators(self) -> int:
        """How many of the rows are operators."""
        return sum(row.family != "marks" for row in self.rows)


def preview(limits: Domain, seeds: ImageSet, *, operators: Sequence[str] = (), samples: int = 2, seed: int = 0) -> Sheet:
    """Mutates a few seed inputs, of different classes as far as there are some, by each operator at four severities.

    Universal marks are shown likewise: plain ones, at four shares of their limits.

    Args:
        limits: the policy's domain.
        seeds: where the samples are taken from.
        operators: which ones, kinds of marks among them; all that are switched on where empty.
        samples: how many seed inputs.
        seed: decides which, and the direction, place and grain of every change; all four severities of one sample share these.

    Raises:
        UsageError: an operator is unknown or switched off.
    """
    domain = ImageDomain(limits, (seeds.x.shape[1], seeds.x.shape[2], seeds.x.shape[3]), seeds.x.dtype, seeds.value_range)
    switched_on = (*domain.natural, *domain.splicing, *domain.model_bounds)
    marks = tuple(kind for kind in KINDS if getattr(limits.marks, kind))
    _check_names(operators, (*switched_on, *marks))
    chosen = _samples(seeds, samples, seed)
    families = list(type(limits).model_fields)
    wanted = [name for name in switched_on if not operators or name in operators]
    companions = Donors(seeds.y).draw(np.asarray(chosen), generator(seed, "preview", "donors"))
    rows = [_row(domain, limits, name, seeds.x[chosen], seeds.x[companions], seed) for name in wanted]
    rows += [_marked(limits, kind, seeds.x[chosen], seeds.value_range, seed) for kind in marks if not operators or kind in operators]
    return Sheet(
        originals=tuple(seeds.x[chosen]),
        names=tuple(f"{seeds.classes[label]}" if 0 <= label < len(seeds.classes) else str(label) for label in seeds.y[chosen].tolist()),
        value_range=seeds.value_range,
        rows=tuple(sorted(rows, key=lambda row: families.index(row.family))),
        off=(
            *(f"{family_of(name)}.{name}" for name in (*OPERATORS, *SPLICING, *MODEL_OPERATORS) if name not in switched_on),
            *(f"marks.{kind}" for kind in KINDS if kind not in marks),
        ),
    )


def family_of(name: str) -> str:
    """The family of an operator, switched on or not."""
    if name in SPLICING:
        return FAMILY
    return MODEL_OPERATORS[name].family if name in MODEL_OPERATORS else OPERATORS[name].family


_ONLY_MARKS = tuple(kind for kind in KINDS if kind not in OPERATORS)


def _check_names(operators: Sequence[str], switched_on: Sequence[str]) -> None:
    known = (*OPERATORS, *SPLICING, *MODEL_OPERATORS, *KINDS)
    for name in operators:
        if name not in known:
            close = nearest(name, known)
            hint = f"Did you mean {close}?" if close else f"Known ones: {', '.join(known)}."
            raise UsageError(f"There is no operator {name!r}.", where="--operators", hint=hint)
        if name not in switched_on:
            raise UsageError(
                f"The operator {name!r} can't be shown: it is switched off, or not for pictures of this shape.",
                where=f"domain.{'marks' if name in _ONLY_MARKS else family_of(name)}.{name}",
                hint="Give it a limit in the policy; operators on colours need pictures with three channels.",
            )


def _samples(seeds: ImageSet, count: int, seed: int) -> npt.NDArray[np.int64]:
    """Positions, in a random order in which every class comes once before one comes twice."""
    order = generator(seed, "preview").permutation(len(seeds.x))
    labels = seeds.y[order]
    turn = np.zeros(len(order), dtype=np.int64)
    for label in np.unique(labels):
        turn[labels == label] = np.arange(int((labels == label).sum()))
    picked: npt.NDArray[np.int64] = order[np.argsort(turn, kind="stable")][:count]
    return picked


def _row(domain: ImageDomain, limits: Domain, name: str, x: npt.NDArray[Any], companions: npt.NDArray[Any], seed: int) -> Row:
    """An operator on samples [n, H, W, C]; ``companions`` are others of their classes, or the samples themselves where there are none."""
    count = len(SEVERITIES)
    origins = np.repeat(x, count, axis=0)
    severities = np.tile(np.array(SEVERITIES), len(x))
    draws = np.repeat(np.array([integer(seed, "preview", name, sample) for sample in range(len(x))], dtype=np.int64), count)
    rows = np.arange(len(origins))
    family = family_of(name)
    if name in MODEL_OPERATORS:
        mutants = _of_that_size(domain, name, origins, severities, draws)
        chains = Chains.none(len(origins)).then(rows, domain.model_steps(name, draws), None)
        words = _OF_A_MODEL[MODEL_OPERATORS[name].norm]
    elif name in SPLICING:
        donors = np.repeat(companions, count, axis=0) if domain.takes_donors(name) else None
        spliced = domain.splice_steps(name, severities, draws, None if donors is None else ["shown"] * len(draws))
        mutants = domain.splice(origins, spliced, donors)
        chains = Chains.none(len(origins)).then(rows, spliced, None)
        words = SPLICING[name]
        if donors is not None:
            words += " What is alone in its class stays as it is."
    else:
        which = np.full(len(origins), domain.natural.index(name), dtype=np.int64)
        steps = domain.steps(which, severities, draws)
        mutants = domain.apply(origins, steps)
        chains = Chains.none(len(origins)).then(rows, steps, severities)
        words = " ".join((inspect.getdoc(OPERATORS[name]) or "").partition("\n\n")[0].split())
    faults = domain.check(mutants, origins, chains)
    shown = [
        Shown(float(severity), mutant, None if fault < 0 else domain.reasons[fault])
        for severity, mutant, fault in zip(severities, mutants, faults.tolist(), strict=True)
    ]
    samples = tuple(tuple(shown[start : start + count]) for start in range(0, len(shown), count))
    return Row(name, family, getattr(getattr(limits, family), name), words, samples)


def _marked(limits: Domain, kind: str, x: npt.NDArray[Any], value_range: tuple[float, float], seed: int) -> Row:
    """Plain marks, another one for each sample, at shares of a kind's limit; one of less than a pixel leaves the picture as it is."""
    limit = getattr(limits.marks, kind)
    shape = (x.shape[1], x.shape[2], x.shape[3])
    samples: list[list[Shown]] = [[] for _ in x]
    for severity in SEVERITIES:
        only = Marks.model_validate({one: limit * severity if one == kind else None for one in KINDS})
        found = starts(only, shape, value_range, seed)
        # A black mark on black would show nothing, so patterns come first.
        plain = [mark for mark in found if np.ptp(mark.picture[mark.weight[..., 0] > 0])] or found
        for sample, original in enumerate(x):
            mark = plain[integer(seed, "preview", "mark", kind, sample) % len(plain)] if plain else None
            marked = original.copy() if mark is None else lay(original, mark.weight, mark.picture)
            samples[sample].append(Shown(severity, marked, None))
    words = f"{_MARKS[kind]}, the same on every input: what the search for universal marks may use. Shown: some that it begins with."
    return Row(kind, "marks", limit, words, tuple(tuple(shown) for shown in samples))


def _of_that_size(domain: ImageDomain, name: str, origins: npt.NDArray[Any], severities: Any, draws: Any) -> npt.NDArray[Any]:
    """Random changes that use the severities' share of an operator's bound: what a model would do is not known without one."""
    low, high = domain.value_range
    size = domain.model_bounds[name] * (high - low) * severities.reshape(-1, 1, 1, 1)
    noise = np.stack([generator(int(draw), "preview").standard_normal(origins.shape[1:]) for draw in draws])
    change = np.sign(noise) if MODEL_OPERATORS[name].norm == "linf" else noise
    wished = np.clip(origins + change * size, low, high)
    return domain.bound(np.rint(wished) if origins.dtype == np.uint8 else wished, origins, name)
