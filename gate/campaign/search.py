"""The search arm: promising entries, operators that pay, whole batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from gate.campaign.batch import Batch, Outcome
from gate.campaign.operator_choice import OperatorChoice
from gate.campaign.supervisor import Worker
from gate.corpus.corpus import Corpus
from gate.domains.domain import InputDomain
from gate.errors import WorkerError
from gate.randomness import generator, integer

__all__ = ["MODEL_OPERATOR_COSTS", "SearchArm"]

# Forward-equivalents of one mutant, its execution included; one backward counts two. See gate/campaign/session.py for the steps.
ATTACK_STEPS = {"fgsm": 1, "pgd": 10, "coverage_gradient": 5}
MODEL_OPERATOR_COSTS = {name: 3 * steps + 1 for name, steps in ATTACK_STEPS.items()}

_LEAST_SEVERITY = 0.1  # an entry whose chain has less than this left starts again from its seed input


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
    ) -> None:
        self._domain = domain
        self.corpus = corpus
        self._labels = labels
        self._worker = worker
        self._campaign_seed = campaign_seed
        assisted = [name for name in domain.model_bounds if gradients and (steerable or name != "coverage_gradient")]
        names = (*domain.natural, *assisted)
        self.choice = OperatorChoice(names, [float(MODEL_OPERATOR_COSTS.get(name, 1)) for name in names])
        self._last: np.ndarray = np.empty(0, dtype=np.int64)

    def propose(self, step: int, count: int) -> Batch:
        """``count`` mutants of promising entries."""
        random = generator(self._campaign_seed, "search", step)
        operators = self.choice.draw(count, random)
        severities = random.random(count)
        draws = random.integers(2**31, size=count)
        entries = [self._with_room(int(entry)) for entry in self.corpus.pick(count, random)]
        seeds = np.array([self.corpus.seed_of(entry) for entry in entries], dtype=np.int64)
        parents = self.corpus.inputs(entries)
        mutants = parents.copy()
        made: list[Any] = [None] * count
        natural = operators < len(self._domain.natural)
        rows = np.flatnonzero(natural)
        for row in rows:
            left = self._domain.chain_severity - sum(done.severity for done in self.corpus.recipes[entries[row]])
            least = min(_LEAST_SEVERITY, left)
            severity = least + float(severities[row]) * (min(1.0, left) - least)
            made[row] = self._domain.step(self.choice.names[operators[row]], severity, int(draws[row]))
        if len(rows):
            mutants[rows] = self._domain.apply(parents[rows], [made[row] for row in rows])
        calls = 0
        for name in self._domain.model_bounds:
            rows = np.flatnonzero([self.choice.names[o] == name for o in operators])
            if len(rows):
                mutants[rows] = self._by_model(name, parents[rows], self._labels[seeds[rows]], step)
                calls += (MODEL_OPERATOR_COSTS[name] - 1) * len(rows)
                for row in rows:
                    made[row] = self._domain.model_step(name, int(draws[row]))
        recipes = tuple((*self.corpus.recipes[entry], done) for entry, done in zip(entries, made, strict=True))
        valid = self._domain.valid(mutants, self.corpus.seeds[seeds], recipes)
        self._last = operators
        return Batch("search", step, mutants, seeds, recipes, valid, calls)

    def take(self, batch: Batch, outcome: Outcome, found: np.ndarray) -> None:
        """Keeps the valid mutants which added coverage and learns from the step; ``found`` is bool [N]: new distinct findings."""
        gained = (outcome.new_items > 0) & batch.valid
        labels = self._labels[batch.seeds]
        for row in np.flatnonzero(gained):
            own = outcome.probabilities[row]
            margin = float(own[labels[row]] - np.delete(own, labels[row]).max()) if outcome.predicted[row] >= 0 else 0.0
            self.corpus.add(
                batch.x[row],
                int(batch.seeds[row]),
                batch.recipes[int(row)],
                new_items=float(outcome.new_items[row]),
                margin=margin,
                open_=not any(step.operator in self._domain.model_bounds for step in batch.recipes[int(row)]),
            )
        self.choice.learn(self._last, gained, found)

    def _with_room(self, entry: int) -> int:
        """The entry, or its seed input where its chain has no room for another operator."""
        recipe = self.corpus.recipes[entry]
        used = sum(step.severity for step in recipe)
        if len(recipe) >= self._domain.chain_length or self._domain.chain_severity - used < _LEAST_SEVERITY:
            return self.corpus.seed_of(entry)
        return entry

    def _by_model(self, operator: str, parents: np.ndarray, labels: np.ndarray, step: int) -> np.ndarray:
        bound = self._domain.model_bounds[operator]
        parameters = {
            "operator": operator,
            "bound": bound,
            "steps": ATTACK_STEPS[operator],
            "seed": integer(self._campaign_seed, operator, step),
        }
        _, arrays = self._worker.call("mutate", parameters, {"x": parents, "labels": labels})
        made = arrays.get("x")
        if made is None or made.shape != parents.shape:
            raise WorkerError(f"The worker answered {operator!r} with something else than {len(parents)} mutants.", where="worker process")
        # What comes back was made by untrusted code: it is held to the bound here, where the model can't reach.
        return self._domain.bound(made, parents, operator)
