"""The judging arm: recipes drawn blindly, so that its failures are a sample and not a hunt.

For each seed input, in an order that only the campaign seed decides, an equal number of single natural operators. Operator, severity and
parameters depend on (campaign seed, seed input, slot) alone, so that any model gets the same mutants of the same seed input. Where a policy
asks for it, each mutant is answered several times; see ``gate.campaign.repeated``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gate.campaign.batch import Batch, Outcome
from gate.campaign.repeated import Aggregate, Answers
from gate.corpus.export import half_of
from gate.domains.chains import Chains, Steps
from gate.domains.domain import InputDomain, Step
from gate.errors import PolicyError
from gate.randomness import hashed, integer, key, uniforms

__all__ = ["JudgedSeedRows", "JudgingArm", "blind_steps"]


def blind_steps(domain: InputDomain, keys: np.ndarray, slots: int) -> Steps:
    """The steps that the judging arm takes in ``slots`` slots of each seed input: any natural operator, any severity in (0, 1].

    Args:
        domain: of the operators.
        keys: uint64 [S], one for each seed input, of (campaign seed, its identity).
        slots: steps of each; S * slots steps come back, seed input by seed input.
    """
    own = _own(keys, slots)
    operators = _operators(domain, own)
    draws = (hashed(own, 2) >> np.uint64(33)).astype(np.int64)
    return domain.steps(operators, 1.0 - uniforms(own, 1), draws)


def _own(keys: np.ndarray, slots: int) -> np.ndarray:
    own: np.ndarray = hashed(keys[:, None], np.arange(slots, dtype=np.uint64)).reshape(-1)
    return own


def _distinct(seeds: np.ndarray, seed_ids: Sequence[str]) -> list[int]:
    """Positions of the seed inputs, of those with the same content the one of the least identity.

    One seed input is one observation: a picture that stands ten times in the data would count as ten, and narrow every interval.
    """
    least: dict[bytes, int] = {}
    for seed, x in enumerate(seeds):
        content = hashlib.blake2b(x.tobytes(), digest_size=16).digest()
        known = least.setdefault(content, seed)
        if seed_ids[seed] < seed_ids[known]:
            least[content] = seed
    return list(least.values())


def _operators(domain: InputDomain, own: np.ndarray) -> np.ndarray:
    return (uniforms(own, 0) * len(domain.natural)).astype(np.int64)


@dataclass(frozen=True)
class JudgedSeedRows:
    """All mutants of one seed input, slot by slot."""

    seed: int
    operators: tuple[str, ...]
    severities: tuple[float, ...]
    valid: tuple[bool, ...]
    failed: tuple[bool, ...]
    predicted: tuple[int, ...]
    confidence: tuple[float, ...]  # probability of the class predicted; 0 where the output was not finite
    # Where each mutant is asked more than once, else empty:
    failures: tuple[int, ...] = ()  # failing answers
    failing_predicted: tuple[int, ...] = ()  # of the first failing answer; of the first where none fails
    failing_confidence: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class _Taken:
    """One step's seed inputs [n], and their mutants by slot [n, slots]."""

    seeds: np.ndarray  # int64
    operators: np.ndarray  # int64, positions in the domain's natural operators
    severities: np.ndarray  # float64
    valid: np.ndarray  # bool
    failed: np.ndarray  # bool
    predicted: np.ndarray  # int64
    confidence: np.ndarray  # float64
    failures: np.ndarray  # int64
    failing_predicted: np.ndarray  # int64
    failing_confidence: np.ndarray  # float64


class JudgingArm:
    """Hands out whole seed inputs until none is left, each content once.

    Args:
        domain: operators and validity.
        seeds: [S, H, W, C] seed inputs.
        seed_ids: their identities.
        mutants_per_seed: slots of each seed input.
        campaign_seed: decides order and recipes.
        half: judge seed inputs of this half only (see gate.corpus.export.half_of), for a model trained with the other's defects.
        repeat: how often each mutant is answered; each time is an execution.
        aggregate: of these answers, how many must fail for the mutant to count as failing.

    Raises:
        PolicyError: no natural operator is switched on that these pictures can take.
    """

    def __init__(
        self,
        domain: InputDomain,
        seeds: np.ndarray,
        seed_ids: Sequence[str],
        mutants_per_seed: int,
        campaign_seed: int,
        *,
        half: Literal["all", "a", "b"] = "all",
        repeat: int = 1,
        aggregate: Aggregate = "majority",
    ) -> None:
        self._repeat = repeat
        self._aggregate: Aggregate = aggregate
        self._domain = domain
        self._seeds = seeds
        self._seed_ids = seed_ids
        self._slots = mutants_per_seed
        if not domain.natural:
            raise PolicyError(
                "The policy leaves no natural operator for these pictures, so there is nothing to judge by.",
                where="domain",
                hint="Give at least one natural operator a limit above 0; some need square pictures or three channels.",
            )
        # Each seed input has a place of its own, whatever the others are: two models that start from different seed inputs, because
        # they classify others correctly, are judged on those they share in the same order.
        places = [(integer(campaign_seed, "judging", "order", identity), identity) for identity in seed_ids]
        eligible = [seed for seed in _distinct(seeds, seed_ids) if half == "all" or half_of(seed_ids[seed]) == half]
        self._order = np.array(sorted(eligible, key=lambda seed: places[seed]), dtype=np.int64)
        self._keys = np.array([key(campaign_seed, "judging", identity) for identity in seed_ids], dtype=np.uint64)
        self._next = 0
        self._taken: list[_Taken] = []

    @property
    def rows(self) -> list[JudgedSeedRows]:
        """What became of every seed input that was judged, in the order in which they had their turns."""
        natural = self._domain.natural
        return [
            JudgedSeedRows(
                seed=int(taken.seeds[row]),
                operators=tuple(natural[operator] for operator in taken.operators[row]),
                severities=tuple(taken.severities[row].tolist()),
                valid=tuple(taken.valid[row].tolist()),
                failed=tuple(taken.failed[row].tolist()),
                predicted=tuple(taken.predicted[row].tolist()),
                confidence=tuple(taken.confidence[row].tolist()),
                **(_answers(taken, row) if self._repeat > 1 else {}),
            )
            for taken in self._taken
            for row in range(len(taken.seeds))
        ]

    def made(self, seed: int, slot: int) -> tuple[np.ndarray, Step]:
        """One mutant of a seed input once more, [H, W, C], and the step that made it."""
        steps = blind_steps(self._domain, self._keys[[seed]], self._slots)
        made: np.ndarray = self._domain.apply(self._seeds[[seed]], steps[slot : slot + 1])
        return made[0], steps[slot]

    def remade(self, seeds: np.ndarray) -> np.ndarray:
        """All mutants of S seed inputs (int64 [S]) once more, [S * slots, H, W, C], seed input by seed input, whichever were judged."""
        made: np.ndarray = self._domain.apply(
            self._seeds[np.repeat(seeds, self._slots)], blind_steps(self._domain, self._keys[seeds], self._slots)
        )
        return made

    def operators_of(self, seeds: np.ndarray) -> np.ndarray:
        """int64 [S, slots]: the operators, among the natural ones, of S seed inputs' mutants, whether or not they have been made."""
        return _operators(self._domain, _own(self._keys[seeds], self._slots)).reshape(-1, self._slots)

    @property
    def mutants_per_seed(self) -> int:
        """Mutants of one seed input."""
        return self._slots

    @property
    def repeat(self) -> int:
        """Answers to each mutant."""
        return self._repeat

    @property
    def aggregate(self) -> Aggregate:
        """Of these, how many must fail for the mutant to count as failing."""
        return self._aggregate

    @property
    def executions_per_seed(self) -> int:
        """Executions that one seed input takes."""
        return self._slots * self._repeat

    @property
    def judged(self) -> int:
        """How many seed inputs have been judged."""
        return sum(len(taken.seeds) for taken in self._taken)

    @property
    def order(self) -> np.ndarray:
        """int64: the seed inputs in the order in which they have their turns."""
        return self._order

    def propose(self, step: int, at_most: int) -> Batch | None:
        """Whole seed inputs in up to ``at_most`` executions; None where not even one fits or none is left."""
        count = min(at_most // self.executions_per_seed, len(self._order) - self._next)
        if count <= 0:
            return None
        chosen = self._order[self._next : self._next + count]
        self._next += count
        seeds = np.repeat(chosen, self._slots)
        steps = blind_steps(self._domain, self._keys[chosen], self._slots)
        origins = self._seeds[seeds]
        mutants = self._domain.apply(origins, steps)
        chains = Chains.none(len(seeds)).then(np.arange(len(seeds)), steps, steps.severities)
        faults = self._domain.check(mutants, origins, chains)
        if self._repeat > 1:
            steps = blind_steps(self._domain, np.tile(self._keys[chosen], self._repeat), self._slots)
            chains = Chains.none(len(steps)).then(np.arange(len(steps)), steps, steps.severities)
            mutants = np.tile(mutants, (self._repeat, *(1,) * (mutants.ndim - 1)))
            seeds, faults = np.tile(seeds, self._repeat), np.tile(faults, self._repeat)
        return Batch("judging", step, mutants, seeds.astype(np.int64), chains, faults < 0, 0, steps.operators, faults=faults)

    def once(self, batch: Batch, outcome: Outcome) -> tuple[Batch, Outcome]:
        """A step as if each mutant had been asked once: what findings are made of."""
        return (batch, outcome) if self._repeat == 1 else Answers.of(outcome, self._repeat, self._aggregate).once(batch, outcome)

    def take(self, batch: Batch, outcome: Outcome) -> None:
        """Notes what became of a proposed batch."""
        assert batch.operators is not None
        assert isinstance(batch.recipes, Chains)
        answers = Answers.of(outcome, self._repeat, self._aggregate)
        count, shape = len(answers.failed), (-1, self._slots)
        finite = outcome.predicted >= 0
        of_class = outcome.probabilities[np.arange(len(finite)), np.where(finite, outcome.predicted, 0)]
        confidence = np.where(finite, of_class, 0.0)
        valid = batch.valid[:count]
        self._taken.append(
            _Taken(
                batch.seeds[: count : self._slots],
                batch.operators[:count].reshape(shape),
                batch.recipes.severities[:count].reshape(shape),
                valid.reshape(shape),
                (answers.failed & valid).reshape(shape),
                outcome.predicted[answers.told].reshape(shape),
                confidence[answers.told].reshape(shape),
                (answers.failures * valid).reshape(shape),
                outcome.predicted[answers.failing].reshape(shape),
                confidence[answers.failing].reshape(shape),
            )
        )


def _answers(taken: _Taken, row: int) -> dict[str, Any]:
    """What is kept of several answers."""
    columns = ("failures", "failing_predicted", "failing_confidence")
    return {name: tuple(getattr(taken, name)[row].tolist()) for name in columns}
