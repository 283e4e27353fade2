"""What the search does once coverage has saturated: it goes for findings and small margins, by whichever way pays. Lives in the supervisor.

The ways: mutants of entries with small margins, as the search draws them anyway; single natural operators along lines that lead to the
boundary; and descents along the gradient of the margin, where the model has gradients.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gate.campaign.bandit import Bandit
from gate.campaign.batch import Batch, Outcome
from gate.campaign.descent_options import Descent
from gate.campaign.descents import OPERATOR, Descents
from gate.campaign.margin_lines import Lines, Proposal
from gate.campaign.payoff import FINDING_WORTH
from gate.campaign.supervisor import Worker
from gate.domains.chains import Chains
from gate.domains.domain import InputDomain
from gate.domains.model_operators import MODEL_OPERATORS
from gate.randomness import generator

__all__ = ["WAYS", "Boundary"]

WAYS = ("entries", "lines", "descents")
_ENTRIES, _LINES, _DESCENTS = range(len(WAYS))


class Boundary:
    """Chooses the way of each step and learns what ways pay.

    A new distinct finding is worth as much as it is everywhere in the search, a lowered failing severity of a seed input one. Work counts
    in forward-equivalents. No way starves and none takes more than four fifths of the steps, see ``Bandit``.

    Args:
        domain: operators and validity.
        seeds: [S, ...] in the file dtype.
        labels: int64 [S].
        probabilities: float64 [S, C], the model's answers to the seed inputs.
        worker: descends.
        operators: names of the search's operators, the natural ones first.
        campaign_seed: every draw depends on it and the step alone.
        descent: how to descend.
    """

    def __init__(
        self,
        domain: InputDomain,
        seeds: np.ndarray,
        labels: npt.NDArray[np.int64],
        probabilities: npt.NDArray[np.float64],
        worker: Worker,
        *,
        operators: Sequence[str],
        campaign_seed: int,
        descent: Descent,
    ) -> None:
        self._domain = domain
        self._seeds = seeds
        self._campaign_seed = campaign_seed
        names = [domain.family(name) for name in domain.natural]
        known = sorted(set(names))
        families = np.array([known.index(name) for name in names], dtype=np.int64)
        self.lines = Lines(domain.natural, families, labels, probabilities, min(1.0, domain.chain_severity))
        adversarial = [name in MODEL_OPERATORS and MODEL_OPERATORS[name].family == "adversarial" for name in operators]
        self._adversarial = np.array(adversarial, dtype=bool)
        self._descents: Descents | None = None
        if OPERATOR in operators and probabilities.shape[1] > 1:
            self._descents = Descents(
                domain,
                seeds,
                labels,
                probabilities,
                self.lines,
                worker,
                campaign_seed=campaign_seed,
                position=list(operators).index(OPERATOR),
                descent=descent,
            )
        self._ways = Bandit(np.array([1.0, 1.0, descent.work() / descent.num_steps]))
        self._way_of: dict[int, int] = {}  # by step of those that have not been taken yet
        self.wasted = 0  # forward-equivalents of descents that came to no mutant

    @property
    def weights(self) -> npt.NDArray[np.float64]:
        """float64 [ways]: the chance of each way in the next step."""
        weights: npt.NDArray[np.float64] = self._ways.weights(np.array([True, bool(self._domain.natural), self._descents is not None]))
        return weights

    def propose(self, step: int, count: int) -> Batch | None:
        """A step of at most ``count`` mutants; None where entries are to be mutated as usual."""
        random = generator(self._campaign_seed, "boundary", step)
        way = int(random.choice(len(WAYS), p=self.weights))
        batch: Batch | None = None
        if way == _DESCENTS and self._descents is not None:
            batch, work = self._descents.propose(step, count)
            if batch is None and work:
                self._ways.charge(np.arange(len(WAYS)) == _DESCENTS, float(work))
                self.wasted += work
        elif way == _LINES:
            proposal = self.lines.propose(count, random)
            batch = None if proposal is None else self._along(step, proposal)
        self._way_of[step] = _ENTRIES if batch is None else way
        return batch

    def take(self, batch: Batch, outcome: Outcome, found: np.ndarray) -> bool:
        """Learns from any batch of the search; ``found`` is bool [N]: new distinct findings. Says whether it has made that batch."""
        lowered = self.lines.take(batch, outcome)
        assert batch.operators is not None
        if self._descents is not None:
            rows = np.flatnonzero(batch.valid & (outcome.complaint >= 0) & (outcome.predicted >= 0) & self._adversarial[batch.operators])
            self._descents.take(batch.seeds[rows], outcome.predicted[rows])
        way = self._way_of.pop(batch.step, None)
        if way is not None:
            each = np.full(len(batch.x), (len(batch.x) + batch.model_calls) / len(batch.x))
            self._ways.learn(np.full(len(batch.x), way), FINDING_WORTH * found + (lowered & ~found), each)
        return way in (_LINES, _DESCENTS)

    def _along(self, step: int, proposal: Proposal) -> Batch:
        seeds = proposal.seeds
        origins = self._seeds[seeds]
        steps = self._domain.steps(proposal.operators, proposal.severities, proposal.draws)
        mutants = self._domain.apply(origins, steps)
        chains = Chains.none(len(seeds)).then(np.arange(len(seeds)), steps, proposal.severities)
        faults = self._domain.check(mutants, origins, chains)
        return Batch("search", step, mutants, seeds, chains, faults < 0, 0, proposal.operators, faults=faults)
