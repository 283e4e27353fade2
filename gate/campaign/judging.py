"""The judging arm: recipes drawn blindly, so that its failures are a sample and not a hunt.

For each seed input, in an order that only the campaign seed decides, an equal number of single natural operators. Operator, severity and
parameters depend on (campaign seed, seed input, slot) alone, so that any model gets the same mutants of the same seed input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gate.campaign.batch import Batch, Outcome
from gate.corpus.export import half_of
from gate.domains.domain import InputDomain
from gate.errors import PolicyError
from gate.randomness import generator, integer

__all__ = ["JudgedSeedRows", "JudgingArm", "blind_step"]


def blind_step(domain: InputDomain, campaign_seed: int, seed_id: str, slot: int) -> object:
    """The step that the judging arm takes in one slot of one seed input: any natural operator, any severity in (0, 1]."""
    random = generator(campaign_seed, "judging", seed_id, slot)
    operator = domain.natural[int(random.integers(len(domain.natural)))]
    return domain.step(operator, 1.0 - float(random.random()), int(random.integers(2**31)))


@dataclass(frozen=True)
class JudgedSeedRows:
    """All mutants of one seed input, slot by slot."""

    seed: int
    operators: tuple[str, ...]
    severities: tuple[float, ...]
    valid: tuple[bool, ...]
    failed: tuple[bool, ...]
    predicted: tuple[int, ...]


class JudgingArm:
    """Hands out whole seed inputs until none is left.

    Args:
        domain: operators and validity.
        seeds: [S, H, W, C] seed inputs.
        seed_ids: their identities.
        mutants_per_seed: slots of each seed input.
        campaign_seed: decides order and recipes.
        half: judge seed inputs of this half only (see gate.corpus.export.half_of), for a model trained with the other's defects.

    Raises:
        PolicyError: no natural operator is switched on.
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
    ) -> None:
        self._domain = domain
        self._seeds = seeds
        self._seed_ids = seed_ids
        self._slots = mutants_per_seed
        self._campaign_seed = campaign_seed
        if not domain.natural:
            raise PolicyError(
                "The policy switches every natural operator off, so there is nothing to judge by.",
                where="domain",
                hint="Leave at least one natural operator a limit above 0.",
            )
        # Each seed input has a place of its own, whatever the others are: two models that start from different seed inputs, because
        # they classify others correctly, are judged on those they share in the same order.
        places = [(integer(campaign_seed, "judging", "order", identity), identity) for identity in seed_ids]
        eligible = [seed for seed in range(len(seeds)) if half == "all" or half_of(seed_ids[seed]) == half]
        self._order = np.array(sorted(eligible, key=lambda seed: places[seed]), dtype=np.int64)
        self._next = 0
        self.rows: list[JudgedSeedRows] = []

    @property
    def mutants_per_seed(self) -> int:
        """Executions that one seed input takes."""
        return self._slots

    @property
    def exhausted(self) -> bool:
        """Whether every seed input has had its turn."""
        return self._next >= len(self._order)

    def propose(self, step: int, at_most: int) -> Batch | None:
        """Whole seed inputs in up to ``at_most`` executions; None where not even one fits or none is left."""
        count = min(at_most // self._slots, len(self._order) - self._next)
        if count <= 0:
            return None
        chosen = self._order[self._next : self._next + count]
        self._next += count
        seeds = np.repeat(chosen, self._slots)
        steps = [
            blind_step(self._domain, self._campaign_seed, self._seed_ids[seed], slot) for seed in chosen for slot in range(self._slots)
        ]
        origins = self._seeds[seeds]
        mutants = self._domain.apply(origins, steps)
        recipes = tuple((made,) for made in steps)
        valid = self._domain.valid(mutants, origins, recipes)
        return Batch("judging", step, mutants, seeds.astype(np.int64), recipes, valid, 0)

    def take(self, batch: Batch, outcome: Outcome) -> None:
        """Notes what became of a proposed batch."""
        failed = (outcome.complaint >= 0) & batch.valid
        for start in range(0, len(batch.x), self._slots):
            rows = slice(start, start + self._slots)
            steps = [recipe[0] for recipe in batch.recipes[rows]]
            self.rows.append(
                JudgedSeedRows(
                    seed=int(batch.seeds[start]),
                    operators=tuple(step.operator for step in steps),
                    severities=tuple(float(step.severity) for step in steps),
                    valid=tuple(bool(v) for v in batch.valid[rows]),
                    failed=tuple(bool(f) for f in failed[rows]),
                    predicted=tuple(int(p) for p in outcome.predicted[rows]),
                )
            )
