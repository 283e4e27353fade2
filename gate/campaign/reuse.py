"""Entries of an earlier corpus on their way into this campaign: made again, checked, and run once before the search goes on from them.

Nothing that the file says of a mutant is believed further than this campaign can check it:

* The seed input is this campaign's own, found by its identity. Where it is missing, or the candidate does not classify it correctly, the
  entry does not fit.
* Natural steps are made again, from operator, severity and draw, under the present policy. With the policy, data and libraries of the
  earlier run that gives the same bytes; with others, the mutant which the same draws make now.
* A last step that a model took part in can't be made again, so there the stored bytes are taken, and held to the operator's present bound
  around what the natural steps before it made.
* A last step of splicing is made again, too. Its donor must be a seed input of this campaign, of the same class; otherwise the entry does
  not fit.
* What is not valid under the present policy is left out.

What fits runs as the first executions of the search arm, in the file's order and in whole batches. It earns coverage, is kept where it
covers something first and is a finding where an oracle complains, as any mutant of the search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from gate.campaign.batch import Batch
from gate.corpus.corpus_file import CorpusFile
from gate.domains.chains import Chains, Steps
from gate.domains.domain import InputDomain
from gate.errors import DataError

__all__ = ["Reuse", "ReuseCount"]

_AT_ONCE = 1 << 24  # bytes of mutants unpacked to see whether they can be


@dataclass
class ReuseCount:
    """What became of an earlier corpus's entries."""

    entries: int = 0  # that no later one in the file stands for
    used: int = 0  # run in this campaign
    no_seed: int = 0  # their seed input is not among this campaign's
    misclassified: int = 0  # the candidate does not classify their seed input correctly
    unknown: int = 0  # made by operators that are off, unknown, or of no use with this model
    invalid: int = 0  # not valid under the present policy
    changed: int = 0  # of those used: made again with other bytes than the stored ones


@dataclass(frozen=True)
class _Plan:
    """How one entry is made again."""

    number: int  # in the file
    seed: int
    natural: tuple[tuple[int, float, int], ...]  # position of the operator, severity, draw
    assisted: tuple[str, int] | None  # operator, draw
    spliced: tuple[str, float, int, int] | None  # operator, severity, draw, position of the donor or -1
    last: int  # position in the search arm's operators


class Reuse:
    """Hands out an earlier corpus, batch by batch. Lives in the supervisor.

    Args:
        file: the corpus.
        domain: operators and validity of this campaign.
        seeds: [S, ...], the seed inputs of this campaign, all of which the candidate classifies correctly.
        seed_ids: S identities.
        known_ids: identities of all samples that were given as seeds.
        operators: names of the operators that the search arm uses.
        labels: int64 [S], classes of the seed inputs.

    Raises:
        DataError: the file is of inputs of another shape, dtype or value range, or holds what is no mutant.
    """

    def __init__(
        self,
        file: CorpusFile,
        domain: InputDomain,
        seeds: np.ndarray,
        seed_ids: Sequence[str],
        *,
        known_ids: Sequence[str],
        operators: Sequence[str],
        labels: npt.NDArray[np.int64],
    ) -> None:
        head = file.head
        mine = (tuple(seeds.shape[1:]), str(seeds.dtype), tuple(map(float, domain.value_range)))
        theirs = (head.shape, head.dtype, head.value_range)
        if mine != theirs:
            raise DataError(
                f"The corpus is of inputs {_said(theirs)}, this campaign's are {_said(mine)}.",
                where=str(file.path),
                hint="Give the corpus of a run with the same kind of seed inputs.",
            )
        rows = max(1, _AT_ONCE // head.sample)
        current = file.current
        for start in range(0, len(current), rows):
            file.mutants(current[start : start + rows])
        # Of the entries only the plans stay: a campaign may be long, and recipes as they are read take much memory.
        self._file, self._domain, self._seeds = replace(file, entries=file.entries.rows(current[:0])), domain, seeds
        self._seed_ids = tuple(seed_ids)
        self.count = ReuseCount(entries=len(current))
        self._plans: list[_Plan] = []
        places = {identity: place for place, identity in enumerate(seed_ids)}
        known = set(known_ids)
        natural = {name: place for place, name in enumerate(domain.natural)}
        names = {name: place for place, name in enumerate(operators)}
        usable = set(operators) & set(domain.model_bounds)
        splicing = {name: domain.takes_donors(name) for name in domain.splicing if name in names}
        for number in current.tolist():
            identity = file.entries.seed_ids[number]
            if identity not in places:
                if identity in known:
                    self.count.misclassified += 1
                else:
                    self.count.no_seed += 1
                continue
            made = _plan(file.entries.recipes[number], natural, usable, splicing, partial(_donor, places, labels, identity))
            if made is None:
                self.count.unknown += 1
            else:
                stored = made[1] or made[2]
                last = names[stored[0] if stored is not None else domain.natural[made[0][-1][0]]]
                self._plans.append(_Plan(number, places[identity], *made, last))
        self._next = 0

    @property
    def left(self) -> int:
        """Entries that have not had their turn."""
        return len(self._plans) - self._next

    def summary(self) -> dict[str, int]:
        """What became of the entries so far, by the names of ``ReuseCount``; and ``left``."""
        return {**asdict(self.count), "left": self.left}

    def propose(self, step: int, at_most: int) -> Batch | None:
        """The next valid mutants, at most so many; None once there are no more.

        Raises:
            DataError: the file is not what it was when the campaign began.
        """
        while self.left:
            plans = self._plans[self._next : self._next + at_most]
            self._next += len(plans)
            mutants, recipes = self._made(plans)
            seeds = np.array([plan.seed for plan in plans], dtype=np.int64)
            valid = self._domain.valid(mutants, self._seeds[seeds], recipes)
            rows = np.flatnonzero(valid)
            self.count.invalid += len(plans) - len(rows)
            if not len(rows):
                continue
            if len(rows) < len(plans):
                plans = [plans[row] for row in rows.tolist()]
                mutants, recipes, seeds = mutants[rows], self._chains(plans), seeds[rows]
            stored = self._file.mutants(np.array([plan.number for plan in plans], dtype=np.int64))
            self.count.changed += int((stored != mutants).reshape(len(plans), -1).any(axis=1).sum())
            self.count.used += len(plans)
            last = np.array([plan.last for plan in plans], dtype=np.int64)
            return Batch("search", step, mutants, seeds, recipes, np.ones(len(plans), dtype=bool), 0, last)
        return None

    def _made(self, plans: Sequence[_Plan]) -> tuple[np.ndarray, Chains]:
        """Mutants and recipes."""
        mutants = self._seeds[[plan.seed for plan in plans]]
        for rows, operators, severities, draws in _links(plans):
            mutants[rows] = self._domain.apply(mutants[rows], self._domain.steps(operators, severities, draws))
        for name, rows, _ in _assisted(plans):
            stored = self._file.mutants(np.array([plans[row].number for row in rows.tolist()], dtype=np.int64))
            mutants[rows] = self._domain.bound(stored, mutants[rows], name)
        for rows, steps, donors in self._splices(plans):
            mutants[rows] = self._domain.splice(mutants[rows], steps, donors)
        return mutants, self._chains(plans)

    def _chains(self, plans: Sequence[_Plan]) -> Chains:
        chains = Chains.none(len(plans))
        for rows, operators, severities, draws in _links(plans):
            chains = chains.then(rows, self._domain.steps(operators, severities, draws), severities)
        for name, rows, draws in _assisted(plans):
            chains = chains.then(rows, self._domain.model_steps(name, draws), None)
        for rows, steps, _ in self._splices(plans):
            chains = chains.then(rows, steps, None)
        return chains

    def _splices(self, plans: Sequence[_Plan]) -> list[tuple[Ints, Steps, np.ndarray | None]]:
        """The last steps of splicing, operator by operator: rows, steps, donors."""
        found: list[tuple[Ints, Steps, np.ndarray | None]] = []
        for name in self._domain.splicing:
            chosen = [(row, plan.spliced) for row, plan in enumerate(plans) if plan.spliced is not None and plan.spliced[0] == name]
            if not chosen:
                continue
            donors = [one[3] for _, one in chosen]
            taken = self._domain.takes_donors(name)
            steps = self._domain.splice_steps(
                name,
                np.array([one[1] for _, one in chosen], dtype=np.float64),
                np.array([one[2] for _, one in chosen], dtype=np.int64),
                [self._seed_ids[donor] for donor in donors] if taken else None,
            )
            found.append((np.array([row for row, _ in chosen], dtype=np.int64), steps, self._seeds[donors] if taken else None))
        return found


Ints = npt.NDArray[np.int64]


def _links(plans: Sequence[_Plan]) -> list[tuple[Ints, Ints, npt.NDArray[np.float64], Ints]]:
    """Of the natural steps, one link of all chains after the other: rows, operators, severities, draws."""
    found = []
    for link in range(max((len(plan.natural) for plan in plans), default=0)):
        rows = [row for row, plan in enumerate(plans) if len(plan.natural) > link]
        operators, severities, draws = zip(*(plans[row].natural[link] for row in rows), strict=True)
        found.append(
            (
                np.array(rows, dtype=np.int64),
                np.array(operators, dtype=np.int64),
                np.array(severities, dtype=np.float64),
                np.array(draws, dtype=np.int64),
            )
        )
    return found


def _assisted(plans: Sequence[_Plan]) -> list[tuple[str, Ints, Ints]]:
    """The last steps that a model took part in, operator by operator: name, rows, draws."""
    names = sorted({plan.assisted[0] for plan in plans if plan.assisted is not None})
    found = []
    for name in names:
        chosen = [(row, plan.assisted[1]) for row, plan in enumerate(plans) if plan.assisted is not None and plan.assisted[0] == name]
        rows, draws = zip(*chosen, strict=True)
        found.append((name, np.array(rows, dtype=np.int64), np.array(draws, dtype=np.int64)))
    return found


def _plan(
    recipe: Sequence[Any], natural: Mapping[str, int], usable: set[str], splicing: Mapping[str, bool], donor_of: Callable[[Any], int | None]
) -> tuple[tuple[tuple[int, float, int], ...], tuple[str, int] | None, tuple[str, float, int, int] | None] | None:
    """What a recipe of JSON values asks for; None where this campaign can't make it.

    ``splicing`` says of each splicing operator whether it takes donors, ``donor_of`` where the donor of an identity is; None: it is
    none.
    """
    steps: list[tuple[int, float, int]] = []
    if not recipe:
        return None
    for place, said in enumerate(recipe):
        if not isinstance(said, Mapping):
            return None
        operator, severity, draw = said.get("operator"), said.get("severity"), said.get("draw")
        if not isinstance(operator, str) or not isinstance(draw, int) or isinstance(draw, bool) or not 0 <= draw < 1 << 63:
            return None
        if operator in usable and place == len(recipe) - 1:
            return tuple(steps), (operator, draw), None
        if not isinstance(severity, int | float) or isinstance(severity, bool) or not 0 <= severity <= 1:
            return None
        if operator in splicing and place == len(recipe) - 1:
            parameters = said.get("parameters")
            named = parameters.get("donor") if isinstance(parameters, Mapping) else None
            donor = donor_of(named) if splicing[operator] else -1
            return None if donor is None else (tuple(steps), None, (operator, float(severity), draw, donor))
        if operator not in natural:
            return None
        steps.append((natural[operator], float(severity), draw))
    return tuple(steps), None, None


def _donor(places: Mapping[str, int], labels: npt.NDArray[np.int64], identity: str, named: Any) -> int | None:
    """Position of a seed input that can be a donor to the one of this identity: another one of its class."""
    place = places.get(named) if isinstance(named, str) and named != identity else None
    return place if place is not None and labels[place] == labels[places[identity]] else None


def _said(inputs: tuple[tuple[int, ...], str, tuple[float, ...]]) -> str:
    shape, dtype, (low, high) = inputs
    return f"{list(shape)} of {dtype} from {low:g} to {high:g}"
