"""The coverage gradient as the search takes part in it: whether to climb, from which inputs, and what becomes of the mutants.

Lives in the supervisor. The worker, which knows the activations, says which inputs lie nearest to what is not covered yet; the bytes of
these inputs come from the corpus, and the mutants that come back are held to the bound here, where the model's code can't reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import numpy.typing as npt

from gate.campaign.ascent_options import Ascent
from gate.campaign.batch import Batch
from gate.campaign.supervisor import Worker
from gate.corpus.corpus import Corpus
from gate.domains.chains import Chains
from gate.domains.domain import InputDomain
from gate.errors import WorkerError
from gate.randomness import generator, integer

__all__ = ["OPERATOR", "Guide", "Ways"]

OPERATOR = "coverage_gradient"
POOL = 4_096  # mutants of the corpus that a climb can start from, beside the seed inputs; the oldest make way
CURIOUS = 0.1  # share of the steps that go a way which pays less, so that it is noticed when that changes
# Far targets need many steps, near ones many lengths.
ASCENTS = (Ascent(), Ascent(num_steps=6, multiples=(1.0, 3.0), targets=0))
FADES = 0.6  # what an earlier step of the same way counts beside the one after it


class Ways:
    """Which way the search goes next, natural mutants (0) or one of the ascents: mostly what has found more for its work of late.

    Costs are counted in forward-equivalents, not seconds, so that the choice repeats on every machine. Coverage can be found once only, so
    what a way pays falls, and old steps count less and less.

    Args:
        ways: how many.
    """

    def __init__(self, ways: int) -> None:
        self._found = np.zeros(ways)
        self._work = np.zeros(ways)

    def pays(self) -> npt.NDArray[np.float64]:
        """float64 [ways]: what each has found per forward-equivalent; infinite before its first step."""
        with np.errstate(invalid="ignore", divide="ignore"):
            paid: npt.NDArray[np.float64] = np.where(self._work > 0, self._found / self._work, np.inf)
        return paid

    def next(self, random: np.random.Generator) -> int:
        """The way to go. Those untried come first, natural mutants before all: they are cheap, and show where to climb from."""
        pays, curious = self.pays(), random.random() < CURIOUS
        if np.isinf(pays).any():
            return int(np.argmax(pays))
        best = np.flatnonzero(pays == pays.max())
        others = np.flatnonzero(pays < pays.max())
        return int(random.choice(others if curious and len(others) else best))

    def learn(self, way: int, found: float, work: float) -> None:
        """Takes in a step."""
        self._found[way] = self._found[way] * FADES + found
        self._work[way] = self._work[way] * FADES + work


class Guide:
    """Makes the batches of the coverage gradient.

    Args:
        domain: bound and validity.
        corpus: where climbs start.
        worker: climbs.
        campaign_seed: every draw depends on it and the step alone.
        position: of the coverage gradient among the search's operators.
        ascents: ways to climb.
    """

    def __init__(
        self,
        domain: InputDomain,
        corpus: Corpus,
        worker: Worker,
        *,
        campaign_seed: int,
        position: int,
        ascents: Sequence[Ascent] = ASCENTS,
    ) -> None:
        self._domain = domain
        self._corpus = corpus
        self._worker = worker
        self._campaign_seed = campaign_seed
        self._position = position
        self._ascents = tuple(ascents)
        self._seeds = len(corpus.seeds)
        self._ways = Ways(1 + len(self._ascents))
        self._entries: list[int] = []  # of the pool beside the seed inputs, by place
        self._fresh: list[tuple[int, int, int]] = []  # what the worker does not know yet: run, row, place
        self._joined = 0
        self._runs = 0  # batches of the search that have run
        self._climbs = 0
        self._way_of: dict[int, int] = {}  # by token of the climbs that have not been taken yet

    def propose(self, step: int, count: int) -> Batch | None:
        """Mutants of a climb, at most ``count``; None where a natural step is due, or there is nothing to climb to."""
        way = self._ways.next(generator(self._campaign_seed, "way", step))
        ascent = self._ascents[way - 1]
        starts = count // ascent.executions()
        if not way or not starts:
            return None
        fresh = np.array(self._fresh, dtype=np.int64).reshape(-1, 3)
        self._fresh = []
        _, aim = self._worker.call("aim", {"count": starts, "seed": integer(self._campaign_seed, "aim", step)}, {"fresh": fresh})
        if not len(aim["places"]):
            return None
        entries = self._entries_at(aim["places"])
        parents, bound = self._corpus.inputs(entries), self._domain.model_bounds[OPERATOR]
        self._climbs += 1
        parameters = {
            "token": self._climbs,
            "bound": bound,
            "seed": integer(self._campaign_seed, "climb", step),
            "ascent": asdict(ascent),
        }
        said, made = self._worker.call("climb", parameters, {"x": parents, "targets": aim["targets"]})
        if made["x"].shape != (len(made["rows"]), *parents.shape[1:]):
            raise WorkerError("The worker answered a climb with something else than mutants of its inputs.", where="worker process")
        if not len(made["rows"]):
            self._ways.learn(way, 0.0, float(said["work"]))
            return None
        self._way_of[self._climbs] = way
        return self._batch(step, entries, parents, made["x"], made["rows"], said["work"])

    def take(self, batch: Batch, worth: np.ndarray, first: int, kept: np.ndarray) -> None:
        """Learns from a batch of the search that has run.

        Args:
            batch: natural or of a climb.
            worth: float [N], what each mutant was worth.
            first: entry of the corpus that the first of the kept rows became.
            kept: int64 [n], rows that joined the corpus, in this order.
        """
        way = 0 if batch.kept is None else self._way_of.pop(batch.kept)
        self._ways.learn(way, float(worth.sum()), float(len(batch.x) + batch.model_calls))
        if batch.kept is None:
            for offset, row in enumerate(kept.tolist()):
                if not self._corpus.open[first + offset]:
                    continue  # a step with the model's help is in it already: bounds add up
                slot = self._joined % POOL
                self._joined += 1
                if slot < len(self._entries):
                    self._entries[slot] = first + offset
                else:
                    self._entries.append(first + offset)
                self._fresh.append((self._runs, row, self._seeds + slot))
        self._runs += 1

    def _entries_at(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        if places.max() >= self._seeds + len(self._entries):
            raise WorkerError("The worker climbs from an input that there is not.", where="worker process")
        table = np.concatenate([np.arange(self._seeds), np.array(self._entries, dtype=np.int64)])
        found: npt.NDArray[np.int64] = table[places]
        return found

    def _batch(
        self,
        step: int,
        entries: npt.NDArray[np.int64],
        parents: np.ndarray,
        made: np.ndarray,
        rows: npt.NDArray[np.int64],
        work: int,
    ) -> Batch:
        chosen = entries[rows]
        seeds = self._corpus.seeds_of(chosen)
        mutants = self._domain.bound(made, parents[rows], OPERATOR)
        # What had to be cut back is not what the worker ran.
        as_run = (mutants == made).reshape(len(made), -1).all(axis=1)
        draws = generator(self._campaign_seed, "climbed", step).integers(2**31, size=len(rows))
        lengths, severities = self._corpus.lengths(chosen), self._corpus.severities(chosen)
        chains = Chains(self._corpus.recipes_of(chosen), (), lengths, severities, np.zeros(len(rows), dtype=np.int64))
        chains = chains.then(np.arange(len(rows)), self._domain.model_steps(OPERATOR, draws), None)
        valid = as_run & self._domain.valid(mutants, self._corpus.seeds[seeds], chains)
        operators = np.full(len(rows), self._position, dtype=np.int64)
        return Batch("search", step, mutants, seeds, chains, valid, work - len(rows), operators, chosen, kept=self._climbs)
