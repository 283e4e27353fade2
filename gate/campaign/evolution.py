"""Search without gradients: differential evolution over the severities of operator chains.

Lives in the supervisor. A population holds natural recipes of one seed input and one chain of operators; every trial is one execution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gate.campaign.batch import Batch, Outcome
from gate.campaign.payoff import Objective
from gate.corpus.corpus import Corpus
from gate.domains.chains import Chains
from gate.domains.domain import InputDomain
from gate.randomness import generator

__all__ = ["FEW", "GENERATIONS", "MEMBERS", "Evolution"]

MEMBERS = 16  # of a population; half as many where the first step has no room for so many
FEW = MEMBERS // 2  # a step with room for fewer mutants is none for evolution
WEIGHT = 0.5  # F, how much of the difference of two members is added to a third
CROSSING = 0.9  # CR, the chance that a trial takes a number from that sum and not from its parent
GENERATIONS = 16  # of a population, the first one, which is drawn, included
PATIENCE = 3  # generations without a better member after which a population makes way
STANDING = 3  # generations for which it counts what a member covered: every time half as much as before
LINKS = 2  # operators of a chain that begins at a seed input
LEAST = 0.05  # a smaller severity leaves its operator out

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
Choose = Callable[[int, np.random.Generator], Ints]


@dataclass(eq=False)
class _Trials:
    """What is on its way through the model, for n populations of a group."""

    islands: Ints  # [n], positions in the group
    severities: Numbers  # [n, P, L]
    draws: Ints  # [n, P, L]
    objective: Objective


@dataclass(eq=False)
class _Group:
    """K populations of P members, whose trials run in one batch. L is the longest chain there can be."""

    seeds: Ints  # [K]
    operators: Ints  # [K, L], positions in the domain's natural operators; -1 beyond the end of a chain
    severities: Numbers  # [K, P, L]; 0 leaves the operator out
    draws: Ints  # [K, P, L]
    covered: Numbers  # [K, P]: what a member covered first
    nearness: Numbers  # [K, P]: how near to another class, see ``_nearness``; -inf for what is not valid
    ages: Ints  # [K, P]: generations since the member ran
    generations: Ints  # [K]
    stale: Ints  # [K]: generations without a better member
    over: npt.NDArray[np.bool_]  # [K]: its place is free
    trials: _Trials | None = None

    @classmethod
    def of(cls, count: int, members: int, links: int) -> _Group:
        """``count`` free places."""
        return cls(
            seeds=np.zeros(count, dtype=np.int64),
            operators=np.full((count, links), -1, dtype=np.int64),
            severities=np.zeros((count, members, links)),
            draws=np.zeros((count, members, links), dtype=np.int64),
            covered=np.zeros((count, members)),
            nearness=np.full((count, members), -np.inf),
            ages=np.zeros((count, members), dtype=np.int64),
            generations=np.zeros(count, dtype=np.int64),
            stale=np.zeros(count, dtype=np.int64),
            over=np.ones(count, dtype=np.bool_),
        )


class Evolution:
    """Makes batches of trials and selects among them.

    DE/rand/1/bin (R. Storn and K. Price, "Differential evolution: a simple and efficient heuristic for global optimization over continuous
    spaces", Journal of Global Optimization 11, 1997). For each member of a population, the target, three others a, b, c are drawn; the
    trial takes each number with the chance ``CROSSING``, and one of them in any case, from a + ``WEIGHT`` (b - c), the rest from the
    target; it takes the target's place unless it is worse. The numbers are the severities of a chain's operators. The draws, which decide
    direction, place and grain, are not numbers that can be added: where a trial takes a severity from the sum, it takes the draw of a. So
    each trial is an ordinary natural recipe, made from (operator, severity, draw). Severities are brought back into the limits of one step,
    and all of a chain shrunk alike where their sum is beyond the chain's. One below ``LEAST`` leaves the operator out.

    What is better: while coverage is wanted, to cover more that is new; what a member covered is covered now, so its standing falls by
    half with each generation, and to zero after ``STANDING``. Between equals, and alone where defects are wanted, to be nearer to
    another class, until one is reached: how far beyond a mutant is makes no difference. What is not valid is worse than all that is.

    A step is proposed before the one before it is known. So whole groups of populations take turns: a group whose trials are in
    flight waits, and another goes on.

    A population begins at an entry of the corpus: at its seed input, with its chain (continued to ``LINKS`` operators where it is shorter)
    and with the entry's own recipe as the first member. It ends after ``GENERATIONS``, or ``PATIENCE`` of them without a better member, or
    with a finding where defects are wanted.

    Args:
        domain: operators and validity.
        corpus: where populations begin.
        labels: int64 [S], of the seed inputs.
        campaign_seed: every draw depends on it and the step alone.
    """

    def __init__(self, domain: InputDomain, corpus: Corpus, labels: np.ndarray, *, campaign_seed: int) -> None:
        self._domain = domain
        self._corpus = corpus
        self._labels = labels
        self._campaign_seed = campaign_seed
        self._positions = {name: place for place, name in enumerate(domain.natural)}
        self._members = 0  # known once the first step says how much room there is
        self._groups: list[_Group] = []  # those that wait longest first
        self._in_flight: dict[int, _Group] = {}  # by step

    def propose(self, step: int, count: int, *, objective: Objective, choose: Choose, weights: np.ndarray) -> Batch | None:
        """Trials, at most ``count``; None where there is no room for a population.

        Args:
            step: of the campaign.
            count: mutants wanted.
            objective: what is wanted.
            choose: (n, where draws come from) -> int64 [n], the entries at which populations begin.
            weights: float [natural operators], the chance of each to continue a chain.
        """
        self._members = self._members or (MEMBERS if count >= MEMBERS else FEW)
        islands = count // self._members
        if not islands:
            return None
        random = generator(self._campaign_seed, "evolution", step)
        group = next((one for one in self._groups if one.trials is None), None)
        if group is None:
            group = _Group.of(islands, self._members, self._domain.chain_length)
        else:
            self._groups.remove(group)
        group = _with_room(group, islands)
        self._groups.append(group)
        chosen = np.arange(islands)
        free = np.flatnonzero(group.over[:islands])
        if len(free):
            self._begin(group, free, choose(len(free), random), weights, random)
        severities, draws = group.severities[:islands].copy(), group.draws[:islands].copy()
        going = np.flatnonzero(group.generations[:islands] > 0)
        if len(going):
            severities[going], draws[going] = self._crossed(group, going, random)
        group.trials = _Trials(chosen, severities, draws, objective)
        self._in_flight[step] = group
        return self._batch(step, group, group.trials)

    def take(self, batch: Batch, outcome: Outcome) -> bool:
        """Selects among members and trials; answers whether the batch was of evolution at all."""
        group = self._in_flight.pop(batch.step, None)
        if group is None:
            return False
        trials, group.trials = group.trials, None
        assert trials is not None
        shape, own = trials.severities.shape[:2], trials.islands
        labels = self._labels[batch.seeds]
        nearness = np.where(batch.valid, _nearness(outcome, labels), -np.inf).reshape(shape)
        covered = np.where(batch.valid, outcome.new_items, 0.0).reshape(shape)
        ages = group.ages[own] + 1
        standing = np.where(ages <= STANDING, group.covered[own] * 0.5 ** np.minimum(ages, STANDING), 0.0)
        wanted = trials.objective == "coverage"
        more = (covered > standing) & wanted
        equal = (covered == standing) | (not wanted)
        better = more | (equal & (nearness > group.nearness[own]))
        wins = better | (equal & (nearness == group.nearness[own]))
        group.severities[own] = np.where(wins[..., None], trials.severities, group.severities[own])
        group.draws[own] = np.where(wins[..., None], trials.draws, group.draws[own])
        group.covered[own] = np.where(wins, covered, group.covered[own])
        group.nearness[own] = np.where(wins, nearness, group.nearness[own])
        group.ages[own] = np.where(wins, 0, ages)
        group.generations[own] += 1
        group.stale[own] = np.where(better.any(axis=1), 0, group.stale[own] + 1)
        found = ((outcome.complaint >= 0) & batch.valid).reshape(shape).any(axis=1) & (not wanted)
        group.over[own] = found | (group.stale[own] >= PATIENCE) | (group.generations[own] >= GENERATIONS)
        return True

    def _begin(self, group: _Group, places: Ints, entries: Ints, weights: np.ndarray, random: np.random.Generator) -> None:
        """Populations at entries of the corpus, [n] each, in free places of a group."""
        members, links = group.severities.shape[1:]
        operators = np.full((len(places), links), -1, dtype=np.int64)
        severities = random.random((len(places), members, links))
        draws = random.integers(2**31, size=severities.shape)
        keep = random.random(severities.shape) < 0.5  # those that take the entry's own draw over
        for row, recipe in enumerate(self._corpus.recipes_of(entries)):
            known = [step for step in recipe if step.operator in self._positions][:links]
            for link, one in enumerate(known):
                operators[row, link] = self._positions[one.operator]
                severities[row, 0, link] = one.severity
                draws[row, :, link] = np.where(keep[row, :, link], one.draw, draws[row, :, link])
                draws[row, 0, link] = one.draw
            missing = min(LINKS, links, len(self._positions)) - len(known)
            if missing > 0:
                left = np.where(np.isin(np.arange(len(weights)), operators[row]), 0.0, weights)
                operators[row, len(known) : len(known) + missing] = random.choice(len(left), missing, replace=False, p=left / left.sum())
                severities[row, 0, len(known) :] = 0.0 if known else severities[row, 0, len(known) :]
        active = (operators >= 0)[:, None, :]
        group.seeds[places] = self._corpus.seeds_of(entries)
        group.operators[places] = operators
        group.severities[places] = self._within(severities, active)
        group.draws[places] = draws
        group.covered[places], group.nearness[places] = 0.0, -np.inf
        group.ages[places] = 0
        group.generations[places], group.stale[places], group.over[places] = 0, 0, False

    def _crossed(self, group: _Group, own: Ints, random: np.random.Generator) -> tuple[Numbers, Ints]:
        """Severities and draws [n, P, L] of the trials of n populations."""
        severities, draws = group.severities[own], group.draws[own]
        count, members, links = severities.shape
        # Three others of each member: the first of a random order, from which it is left out.
        order = random.random((count, members, members))
        order[:, np.arange(members), np.arange(members)] = np.inf
        others = np.argsort(order, axis=2)[:, :, :3]
        across = np.arange(count)[:, None]
        first, second, third = (severities[across, others[:, :, one]] for one in range(3))
        active = np.broadcast_to((group.operators[own] >= 0)[:, None, :], severities.shape)
        crossing = random.random(severities.shape) < CROSSING
        certain = np.argmax(np.where(active, random.random(severities.shape), -1.0), axis=2)
        crossing |= np.arange(links) == certain[:, :, None]
        tried = np.where(crossing, first + WEIGHT * (second - third), severities)
        return self._within(tried, active), np.where(crossing, draws[across, others[:, :, 0]], draws)

    def _within(self, severities: Numbers, active: npt.NDArray[np.bool_]) -> Numbers:
        """[n, P, L], brought into the limits of a step and of a chain; at least one operator of each recipe stays."""
        strongest = np.argmax(np.where(active, severities, -np.inf), axis=2)[:, :, None]
        found = np.where(active, np.clip(severities, 0.0, 1.0), 0.0)
        found[found < LEAST] = 0.0
        kept = np.take_along_axis(found, strongest, axis=2)
        np.put_along_axis(found, strongest, np.maximum(kept, LEAST), axis=2)
        total = found.sum(axis=2, keepdims=True)
        within: Numbers = found * np.minimum(1.0, self._domain.chain_severity / total)
        return within

    def _batch(self, step: int, group: _Group, trials: _Trials) -> Batch:
        count, members, links = trials.severities.shape
        severities, draws = trials.severities.reshape(-1, links), trials.draws.reshape(-1, links)
        operators = np.repeat(group.operators[trials.islands], members, axis=0)
        seeds = np.repeat(group.seeds[trials.islands], members)
        origins = self._corpus.seeds[seeds]
        mutants, chains = origins.copy(), Chains.none(count * members)
        last = np.zeros(count * members, dtype=np.int64)
        for link in range(links):
            rows = np.flatnonzero(severities[:, link] > 0)
            if len(rows):
                steps = self._domain.steps(operators[rows, link], severities[rows, link], draws[rows, link])
                mutants[rows] = self._domain.apply(mutants[rows], steps)
                chains = chains.then(rows, steps, severities[rows, link])
                last[rows] = operators[rows, link]
        faults = self._domain.check(mutants, origins, chains)
        return Batch("search", step, mutants, seeds, chains, faults < 0, 0, last, faults=faults)


def _with_room(group: _Group, islands: int) -> _Group:
    """The group, or a larger one with the same populations where it has fewer places than ``islands``."""
    count, members, links = group.severities.shape
    if count >= islands:
        return group
    wider = _Group.of(islands, members, links)
    for name in ("seeds", "operators", "severities", "draws", "covered", "nearness", "ages", "generations", "stale", "over"):
        getattr(wider, name)[:count] = getattr(group, name)
    return wider


def _nearness(outcome: Outcome, labels: Ints) -> Numbers:
    """[N]: logarithm of the best other class's probability over the label's, at most 0; 0 where the answer is not finite."""
    finite = outcome.predicted >= 0
    chance = np.where(finite[:, None], outcome.probabilities, 1.0)
    rows = np.arange(len(labels))
    own = chance[rows, labels]
    others = chance.copy()
    others[rows, labels] = 0.0
    least = np.finfo(np.float64).tiny
    apart: Numbers = np.log(np.maximum(others.max(axis=1), least)) - np.log(np.maximum(own, least))
    return np.minimum(apart, 0.0)
