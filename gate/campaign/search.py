"""The search arm: promising entries, operators that pay, whole batches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gate.campaign.batch import Batch, Outcome
from gate.campaign.boundary import Boundary
from gate.campaign.donors import Donors
from gate.campaign.entry_choice import EntryChoice
from gate.campaign.evolution import MEMBERS, Evolution
from gate.campaign.gradient_settings import ascents_of, descent_of
from gate.campaign.guide import ASCENTS, OPERATOR, Guide
from gate.campaign.operator_choice import OperatorChoice
from gate.campaign.payoff import Objective, Payoff
from gate.campaign.raising import Raising
from gate.campaign.reuse import Reuse
from gate.campaign.simplify import simplify
from gate.campaign.starting_points import starting_points
from gate.campaign.supervisor import Refused, Worker
from gate.config import SearchSettings
from gate.corpus.corpus import Corpus
from gate.domains.chains import Chains, Steps
from gate.domains.domain import InputDomain
from gate.domains.model_operators import MODEL_OPERATORS
from gate.errors import WorkerError
from gate.randomness import generator, integer

__all__ = ["SearchArm"]

_PRESUMED = 3.0  # how many times the work of the others evolution takes for the same, where they climb; until it is known
_LEAST_SEVERITY = 0.1  # an entry whose chain has less than this left is not mutated further


class SearchArm:
    """Owns the corpus and what has been learnt about operators. Lives in the supervisor.

    Args:
        domain: operators and validity.
        corpus: starts with the seed inputs.
        labels: int64 [S], of the seed inputs.
        worker: makes the mutants that need the model's gradients.
        gradients: whether the model has any.
        steerable: whether the guiding criteria can say which way a neuron has to move, as the coverage gradient needs it.
        campaign_seed: every draw depends on it and the step alone.
        settings: how entries and operators are chosen.
        probabilities: float [S, C], the model's answers to the seed inputs.
        deterministic: whether the model answers the same every time.
        batch_size: the most samples in one request.
    """

    def __init__(
        self,
        domain: InputDomain,
        corpus: Corpus,
        labels: np.ndarray,
        worker: Worker,
        *,
        gradients: bool,
        steerable: bool,
        campaign_seed: int,
        settings: SearchSettings,
        probabilities: np.ndarray,
        deterministic: bool,
        batch_size: int,
    ) -> None:
        self._domain = domain
        self.corpus = corpus
        self._labels = labels
        self._worker = worker
        self._campaign_seed = campaign_seed
        self.reuse: Reuse | None = None  # an earlier corpus, whose entries run first
        assisted = [name for name in domain.model_bounds if MODEL_OPERATORS[name].usable(gradients=gradients, steerable=steerable)]
        # The coverage gradient has batches of its own: each of its steps is an execution.
        climbs = OPERATOR in assisted
        assisted = [name for name in assisted if name != OPERATOR]
        self._donors = Donors(labels)
        self._raising = Raising()
        splicing = [name for name in domain.splicing if not (domain.takes_donors(name) and self._donors.alone.all())]
        names = (*domain.natural, *assisted, *splicing)
        costs = [float(MODEL_OPERATORS[name].cost) if name in assisted else 1.0 for name in names]
        self.choice = OperatorChoice(names, costs, adaptive=settings.operators == "adaptive")
        self._costs = np.array(costs)
        self._needs_donor = np.array([name in domain.splicing and domain.takes_donors(name) for name in names])
        self.operators = (*names, *((OPERATOR,) if climbs else ()))  # what the batches' operators count into
        self._guide: Guide | None = None
        if climbs:
            ascents = ascents_of(settings, ASCENTS)
            self._guide = Guide(domain, corpus, worker, campaign_seed=campaign_seed, position=len(names), ascents=ascents)
        self._boundary = Boundary(
            domain,
            corpus.seeds,
            labels,
            probabilities,
            worker,
            operators=self.operators,
            campaign_seed=campaign_seed,
            descent=descent_of(settings),
        )
        self._evolution = Evolution(domain, corpus, labels, campaign_seed=campaign_seed)
        # Until one of them has paid, what is thought to cost less for what it finds comes first.
        self._ways = Payoff(("others", "evolution"), (1.0, _PRESUMED if climbs else 1.0))
        self.objective: Objective = "coverage"  # defects once coverage has saturated
        self.entries = EntryChoice(
            corpus,
            worker,
            strategy=settings.strategy,
            probabilities=probabilities,
            campaign_seed=campaign_seed,
            steerable=gradients and steerable,
            deterministic=deterministic,
            room=self._room,
            batch_size=batch_size,
        )

    def propose(self, step: int, count: int) -> Batch:
        """``count`` mutants of promising entries; or, as long as there are some, entries of an earlier corpus."""
        if self.reuse is not None and (again := self.reuse.propose(step, count)) is not None:
            return again
        if (evolved := self._evolved(step, count)) is not None:
            if self._guide is not None:
                self._guide.tell(due=True)
            return evolved
        if self._guide is not None:
            if self.objective == "coverage" and (climbed := self._guide.propose(step, count)) is not None:
                return climbed
            if self.objective == "coverage":
                count = self._guide.granted
            self._guide.tell(due=True)
        if self.objective == "defects" and (sought := self._boundary.propose(step, count)) is not None:
            return sought
        random = generator(self._campaign_seed, "search", step)
        operators = self.choice.draw(count, random, self.objective)
        severities = random.random(count)
        draws = random.integers(2**31, size=count)
        entries, strategies = self.entries.pick(step, count, random, self.objective)
        seeds = self.corpus.seeds_of(entries)
        lone = np.flatnonzero(self._needs_donor[operators] & self._donors.alone[seeds])
        # What is alone in its class gets a natural operator instead.
        operators[lone] = random.integers(len(self._domain.natural), size=len(lone))
        parents = self.corpus.inputs(entries)
        mutants = parents.copy()
        lengths = self.corpus.lengths(entries)
        used = self.corpus.severities(entries)
        # What is mutated further was made by natural steps alone.
        chains = Chains(self.corpus.recipes_of(entries), (), lengths, used, np.zeros(count, dtype=np.int64))
        rows = np.flatnonzero(operators < len(self._domain.natural))
        if len(rows):
            steps, drawn = self._natural_steps(operators[rows], severities[rows], used[rows], draws[rows])
            mutants[rows] = self._domain.apply(parents[rows], steps)
            chains = chains.then(rows, steps, drawn)
        calls = self.entries.spent()
        spoilt: list[int] = []
        for name in self._domain.model_bounds:
            if name not in self.choice.names:
                continue
            rows = np.flatnonzero(operators == self.choice.names.index(name))
            if len(rows):
                made, raised, wasted = self._by_model(name, parents[rows], self._labels[seeds[rows]], step)
                calls += MODEL_OPERATORS[name].calls * (len(rows) + wasted)
                # Where the model raised on the way, there is no such mutant: the input gets a natural operator instead.
                spoilt += rows[raised].tolist()
                rows = np.delete(rows, raised)
                mutants[rows] = np.delete(made, raised, axis=0)
                chains = chains.then(rows, self._domain.model_steps(name, draws[rows]), None)
        if spoilt:
            rows = np.array(sorted(spoilt))
            operators[rows] = generator(self._campaign_seed, "instead", step).integers(len(self._domain.natural), size=len(rows))
            steps, drawn = self._natural_steps(operators[rows], severities[rows], used[rows], draws[rows])
            mutants[rows] = self._domain.apply(parents[rows], steps)
            chains = chains.then(rows, steps, drawn)
        for name in self._domain.splicing:
            rows = np.flatnonzero(operators == self.choice.names.index(name)) if name in self.choice.names else np.array([], dtype=np.int64)
            if len(rows):
                mutants[rows], steps = self._spliced(name, parents[rows], seeds[rows], 1.0 - severities[rows], draws[rows], step)
                chains = chains.then(rows, steps, None)
        faults = self._domain.check(mutants, self.corpus.seeds[seeds], chains)
        valid = faults < 0
        return Batch("search", step, mutants, seeds, chains, valid, calls, operators, entries, strategies, faults)

    def take(self, batch: Batch, outcome: Outcome, found: np.ndarray) -> None:
        """Keeps the valid mutants which added coverage and learns from the step; ``found`` is bool [N]: new distinct findings."""
        assert isinstance(batch.recipes, Chains)
        gained = (outcome.new_items > 0) & batch.valid
        rows = np.flatnonzero(gained)
        labels = self._labels[batch.seeds[rows]]
        own = outcome.probabilities[rows]
        others = own.copy()
        others[np.arange(len(rows)), labels] = -np.inf
        margins = np.where(outcome.predicted[rows] >= 0, own[np.arange(len(rows)), labels] - others.max(axis=1), 0.0)
        first = len(self.corpus)
        self.corpus.add_all(
            batch.x[rows],
            batch.seeds[rows],
            [batch.recipes[row] for row in rows.tolist()],
            lengths=batch.recipes.lengths[rows],
            severities=batch.recipes.severities[rows],
            new_items=outcome.new_items[rows],
            margins=margins,
            open_=batch.recipes.assisted[rows] == 0,
            step=batch.step,
            stabilities=self.entries.stabilities(batch.x[rows]),
            signatures=None if outcome.signatures is None else outcome.signatures[rows],
        )
        self.entries.kept(first, own)
        simplify(self.corpus, batch, outcome, self._labels)
        worth = np.where(gained, outcome.new_items, 0.0)
        sought = self._boundary.take(batch, outcome, found)
        guided = False
        if self._guide is not None:
            # A descent is no climb, nor are its mutants natural ones; the guide only has to know that there was a batch.
            shown = replace(batch, kept=None) if sought and batch.kept is not None else batch
            guided = self._guide.take(shown, worth, first, known=not outcome.in_parts)
        evolved = self._evolution.take(batch, outcome)
        if evolved or sought or guided or batch.entries is not None:  # an earlier corpus is neither way
            each = np.full(len(batch.x), 1.0 + batch.model_calls / len(batch.x))
            self._ways.learn(np.full(len(batch.x), int(evolved)), worth, found, each)
        if evolved:
            # Its chains begin with what pays, and what they find must not make that look as if it paid no more.
            assert batch.operators is not None
            self.choice.learn(batch.operators, worth, found, objective=self.objective)
        if evolved or sought or guided:
            self.entries.worked(len(batch.x) + batch.model_calls)
            return  # the strategies have had no part in it
        if batch.entries is None:
            return  # of an earlier corpus: there is nothing to learn about what was chosen
        assert batch.operators is not None
        assert batch.strategies is not None
        self.choice.learn(batch.operators, worth, found, objective=self.objective)
        self.entries.learn(batch.strategies, worth, found, float(self._costs[batch.operators].sum()))

    @property
    def wasted(self) -> int:
        """Forward-equivalents of climbs and descents that came to no mutant, so that no batch accounts for them."""
        return self._boundary.wasted + (0 if self._guide is None else self._guide.wasted)

    @property
    def failed_at(self) -> np.ndarray:
        """float64 [S]: the least severity of a single natural operator at which each seed input changed class; infinite where none did."""
        return self._boundary.lines.failed

    def _natural_steps(
        self, operators: np.ndarray, severities: np.ndarray, used: np.ndarray, draws: np.ndarray
    ) -> tuple[Steps, np.ndarray]:
        """Steps of natural operators and their severities, as far as the chain so far leaves room for them; ``severities`` in [0, 1)."""
        left = self._domain.chain_severity - used
        least = np.minimum(_LEAST_SEVERITY, left)
        drawn = least + severities * (np.minimum(1.0, left) - least)
        return self._domain.steps(operators, drawn, draws), drawn

    def _spliced(
        self, name: str, parents: np.ndarray, seeds: np.ndarray, severities: np.ndarray, draws: np.ndarray, step: int
    ) -> tuple[np.ndarray, Steps]:
        """Mutants and steps of a splicing operator."""
        if not self._domain.takes_donors(name):
            steps = self._domain.splice_steps(name, severities, draws, None)
            return self._domain.splice(parents, steps, None), steps
        donors = self._donors.draw(seeds, generator(self._campaign_seed, "donors", step))
        steps = self._domain.splice_steps(name, severities, draws, [self.corpus.seed_ids[donor] for donor in donors.tolist()])
        return self._domain.splice(parents, steps, self.corpus.seeds[donors]), steps

    def _evolved(self, step: int, count: int) -> Batch | None:
        """Trials of evolution, where it is its turn."""
        share = self._ways.weights(self.objective)[1]
        if generator(self._campaign_seed, "way", "evolution", step).random() >= share:
            return None

        def choose(places: int, random: np.random.Generator) -> np.ndarray:
            return self.entries.pick(step, places, random, self.objective)[0]

        weights = self.choice.weights(self.objective)[: len(self._domain.natural)]
        count = max(min(count, MEMBERS), int(count * share))  # a few of those that pay little show as well whether that has changed
        batch = self._evolution.propose(step, count, objective=self.objective, choose=choose, weights=weights)
        return None if batch is None else replace(batch, model_calls=self.entries.spent())

    def _room(self, entries: np.ndarray) -> np.ndarray:
        """float64 [N]: how much of its bound the chain of an entry leaves for another operator, 0 to 1."""
        left = self._domain.chain_severity - self.corpus.severities(entries)
        room = (self.corpus.lengths(entries) < self._domain.chain_length) & (left >= _LEAST_SEVERITY)
        share: np.ndarray = np.where(room, left / self._domain.chain_severity, 0.0)
        return share

    def _by_model(self, operator: str, parents: np.ndarray, labels: np.ndarray, step: int) -> tuple[np.ndarray, list[int], int]:
        """Mutants; the rows for which there is none because the model raised on the way; and the samples that were run in vain."""
        bound = self._domain.model_bounds[operator]
        parameters = {
            "operator": operator,
            "bound": bound,
            "steps": MODEL_OPERATORS[operator].steps,
            "seed": integer(self._campaign_seed, operator, step),
        }
        sent = {"x": parents, "labels": labels}
        if MODEL_OPERATORS[operator].needs == "answers":
            random = generator(self._campaign_seed, "starting points", step)
            sent["starts"] = starting_points(parents, labels, self.corpus.seeds, self._labels, random)

        def ask(rows: slice) -> np.ndarray:
            _, arrays = self._worker.call("mutate", parameters, {name: given[rows] for name, given in sent.items()})
            made, own = arrays.get("x"), parents[rows]
            if made is None or made.shape != own.shape:
                raise WorkerError(f"The worker answered {operator!r} with something else than {len(own)} mutants.", where="worker process")
            # What comes back was made by untrusted code: it is held to the bound here, where the model can't reach.
            return self._domain.bound(made, own, operator)

        try:
            made = ask(slice(0, len(parents)))
        except Refused as error:
            pieces, raised, wasted = self._raising.halved(len(parents), ask, error)
            made = parents.copy()
            for piece in pieces:
                made[piece.rows] = piece.answer
            return made, sorted(raised), wasted
        self._raising.answered()
        return made, [], 0
