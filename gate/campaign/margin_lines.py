"""What single natural operators do to the margin of each seed input, and where on the way its decision boundary lies.

A line is a seed input, an operator and a draw, which fixes the operator's parameters; its severity goes from 0, the seed input itself, to
what the policy allows. Of each seed input and operator the line is kept that has come nearest to the boundary; from it a straight line in
logits says how hard the operator has to be used. Of each seed input the least severity is kept that failed, and bisected between that and
the greatest one that held on the same line.

Everything stands in columns. Lives in the supervisor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gate.campaign.batch import Batch, Outcome
from gate.domains.chains import Chains, Steps

__all__ = ["Lines", "Proposal", "gaps"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

CONSIDERED = 2_048  # seed inputs that are looked at in one step, drawn at random where there are more
BISECTED = 0.25  # share of a step that may go to bisecting
RESOLUTION = 1 / 32  # of severity: a boundary known better than that is not bisected further
_PAST = 1.1  # times the severity that a straight line says: just beyond it lies a failure, at it nothing yet
_AT_LIMIT = 0.95  # share of the limit from which on more severity is no way on, but other parameters are
_LEAST = 1e-300  # a probability of 0 has no logarithm
_NEW = 3  # lines are tried with new parameters after so many tries, too: a straight line may be wrong


def gaps(probabilities: Floats, labels: Integers) -> Floats:
    """float64 [N]: the label's logit minus that of the best other class; negative where the model says something else."""
    rows = np.arange(len(labels))
    others = probabilities.copy()
    others[rows, labels] = 0.0
    own, best = (np.log(np.maximum(each, _LEAST)) for each in (probabilities[rows, labels], others.max(axis=1)))
    return np.asarray(own - best, dtype=np.float64)


@dataclass(frozen=True)
class Proposal:
    """n single natural steps to run on seed inputs."""

    seeds: Integers
    operators: Integers  # positions in the domain's natural operators
    severities: Floats
    draws: Integers


class Lines:
    """Owns what is known of the lines.

    Args:
        natural: names of the natural operators.
        families: of each the number of its family, int64 [K].
        labels: int64 [S], of the seed inputs.
        probabilities: float64 [S, C], the model's answers to them.
        limit: the largest severity of one step.
    """

    def __init__(self, natural: tuple[str, ...], families: Integers, labels: Integers, probabilities: Floats, limit: float) -> None:
        self._natural = natural
        self._families = families
        self._labels = labels
        self._limit = limit
        self.clean = np.maximum(gaps(probabilities, labels), 1e-6)  # [S]: of the seed inputs, which are classified correctly
        shape = (len(labels), len(natural))
        self._gap = np.full(shape, np.inf)  # the smallest that held, and with what
        self._severity = np.zeros(shape)
        self._draw = np.zeros(shape, dtype=np.int64)
        self._tries = np.zeros(shape)
        self._found = np.zeros((len(labels), int(families.max(initial=-1)) + 1), dtype=bool)  # a failure of this family
        self._waiting = np.zeros(len(labels), dtype=bool)  # bisected in a step that has not been taken yet
        # Of each seed input the least severity that failed, with what, and the greatest on the same line that held.
        self.failed = np.full(len(labels), np.inf)
        self._held = np.zeros(len(labels))
        self._operator = np.zeros(len(labels), dtype=np.int64)
        self._line = np.zeros(len(labels), dtype=np.int64)
        # What operators do to logits per severity, over all seed inputs.
        self._lowered = np.zeros(len(natural))
        self._seen = np.zeros(len(natural))

    def take(self, batch: Batch, outcome: Outcome) -> npt.NDArray[np.bool_]:
        """Learns from the single natural steps among a batch of the search; bool [N]: whose seed input's failing severity it lowered."""
        lowered = np.zeros(len(batch.x), dtype=bool)
        rows, operators, draws = self._single(batch)
        answered = outcome.predicted[rows] >= 0  # an output that is not finite has no margin
        rows, operators, draws = rows[answered], operators[answered], draws[answered]
        if not len(rows):
            return lowered
        assert isinstance(batch.recipes, Chains)
        seeds, severities = batch.seeds[rows], batch.recipes.severities[rows]
        self._waiting[seeds] = False
        gap = gaps(outcome.probabilities[rows], self._labels[seeds])
        failed = outcome.fails[rows]
        held = ~failed & (gap > 0)
        moved = (self.clean[seeds] - gap) / severities
        self._lowered += np.bincount(operators, weights=np.maximum(moved, 0.0), minlength=len(self._natural))
        self._seen += np.bincount(operators, minlength=len(self._natural))
        self._found[seeds[failed], self._families[operators[failed]]] = True
        self._note_held(seeds[held], operators[held], draws[held], severities[held], gap[held])
        low = np.flatnonzero(failed & (severities < self.failed[seeds]))
        low = low[np.argsort(severities[low], kind="stable")]
        low = low[np.unique(seeds[low], return_index=True)[1]]  # of each seed input the least
        seed = seeds[low]
        other = (self._operator[seed] != operators[low]) | (self._line[seed] != draws[low]) | np.isinf(self.failed[seed])
        self._held[seed[other]] = 0.0
        self.failed[seed], self._operator[seed], self._line[seed] = severities[low], operators[low], draws[low]
        lowered[rows[low]] = True
        on_line = held & (self._operator[seeds] == operators) & (self._line[seeds] == draws) & (severities < self.failed[seeds])
        np.maximum.at(self._held, seeds[on_line], severities[on_line])
        return lowered

    def propose(self, count: int, random: np.random.Generator) -> Proposal | None:
        """At most ``count`` steps: bisections first, then what is nearest to a failure of a family that the seed input has none of yet."""
        parts = [self._bisections(int(count * BISECTED))]
        parts.append(self._onwards(count - len(parts[0].seeds), random))
        joined = Proposal(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in ("seeds", "operators", "severities", "draws"))
        )
        return joined if len(joined.seeds) else None

    def near(self) -> npt.NDArray[np.bool_]:
        """bool [S]: of which seed inputs ``near_misses`` knows one."""
        found: npt.NDArray[np.bool_] = np.isfinite(self._gap).any(axis=1)
        return found

    def near_misses(self, seeds: Integers) -> Proposal:
        """Of each seed input int64 [n], all of them ``near``, the natural mutant nearest to the boundary that held."""
        operators = self._gap[seeds].argmin(axis=1)
        return Proposal(seeds, operators, self._severity[seeds, operators], self._draw[seeds, operators])

    def _bisections(self, count: int) -> Proposal:
        wide = np.flatnonzero(np.isfinite(self.failed) & (self.failed - self._held > RESOLUTION) & ~self._waiting)
        seeds = wide[np.argsort(self.failed[wide], kind="stable")[:count]]
        self._waiting[seeds] = True
        return Proposal(seeds, self._operator[seeds], (self._held[seeds] + self.failed[seeds]) / 2, self._line[seeds])

    def _onwards(self, count: int, random: np.random.Generator) -> Proposal:
        seeds = np.arange(len(self._labels))
        if len(seeds) > CONSIDERED:
            seeds = np.sort(random.choice(seeds, size=CONSIDERED, replace=False))
        known = np.isfinite(self._gap[seeds])
        usual = self._lowered / np.maximum(self._seen, 1.0)
        clean = self.clean[seeds, None]
        # Share of the margin that one severity takes: as this line has shown, else as the operator does usually.
        with np.errstate(invalid="ignore", divide="ignore"):
            shown = np.where(known, (clean - self._gap[seeds]) / (self._severity[seeds] * clean), usual / clean)
        worth = np.maximum(shown, 0.0) / (1.0 + self._tries[seeds])
        worth[self._found[seeds][:, self._families]] = 0.0
        row, operator = (places.astype(np.int64) for places in np.nonzero(worth))
        order = np.argsort(-worth[row, operator], kind="stable")
        row, operator = row[order], operator[order]
        # One of each seed input and family: the first that fails makes the others worthless.
        _, first = np.unique(row * (int(self._families.max(initial=0)) + 1) + self._families[operator], return_index=True)
        first = np.sort(first)[: max(0, count)]
        row, operator = row[first], operator[first]
        chosen = seeds[row]
        far = (
            known[row, operator]
            & (self._severity[chosen, operator] < _AT_LIMIT * self._limit)
            & (self._tries[chosen, operator] % _NEW < _NEW - 1)
        )
        draws = np.where(far, self._draw[chosen, operator], random.integers(2**31, size=len(chosen)))
        severities = np.full(len(chosen), self._limit)
        reaching = _PAST / np.maximum(shown[row, operator], 1e-9)
        # A line that has held there already goes half of what is left at least.
        least = (self._severity[chosen, operator] + self._limit) / 2
        severities[far] = np.minimum(np.maximum(reaching, least), self._limit)[far]
        self._tries[chosen, operator] += 1
        return Proposal(chosen, operator, severities, draws)

    def _note_held(self, seeds: Integers, operators: Integers, draws: Integers, severities: Floats, gap: Floats) -> None:
        order = np.argsort(-gap, kind="stable")  # of several in one cell the last, smallest one stays
        order = order[gap[order] < self._gap[seeds[order], operators[order]]]
        cell = seeds[order], operators[order]
        self._gap[cell], self._severity[cell], self._draw[cell] = gap[order], severities[order], draws[order]

    def _single(self, batch: Batch) -> tuple[Integers, Integers, Integers]:
        """Rows of valid mutants by one natural step, ascending, their operators and draws."""
        none = np.zeros(0, dtype=np.int64)
        if not isinstance(batch.recipes, Chains):
            return none, none, none
        chains = batch.recipes
        natural = [(rows, steps) for rows, steps in chains.links if isinstance(steps, Steps) and steps.names == self._natural]
        if len(natural) != 1:
            return none, none, none
        ((rows, steps),) = natural
        single = batch.valid[rows] & (chains.lengths[rows] == 1) & (chains.assisted[rows] == 0) & (steps.severities > 0)
        return rows[single], steps.operators[single], steps.draws[single]
