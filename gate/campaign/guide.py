"""The coverage gradient as the search takes part in it: whether to climb, from which inputs, and what becomes of the mutants.

Lives in the supervisor. The worker, which knows the activations, says which inputs lie nearest to what is not covered yet; the bytes of
these inputs are kept here, and the mutants that come back are held to the bound here, where the model's code can't reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from gate.campaign.ascent_options import REMEMBERED, Ascent
from gate.campaign.batch import Batch
from gate.campaign.kept_batch import kept_batch
from gate.campaign.paths import SHARES, Paths
from gate.campaign.supervisor import Refused, Request, Worker
from gate.corpus.corpus import Corpus
from gate.domains.chains import Chains, Steps
from gate.domains.domain import InputDomain
from gate.errors import WorkerError
from gate.randomness import generator, integer

__all__ = ["OPERATOR", "Guide", "Ways"]

OPERATOR = "coverage_gradient"
# Natural mutants that a climb can start from, beside the seed inputs; the oldest make way.
FINDERS = 2_048  # that covered something first
OTHERS = 1_024
CURIOUS = 0.1  # share of the steps that go a way which pays less, so that it is noticed when that changes
TRIED_WITH = 0.25  # of a step's mutants: what such a step is given, and one that goes a way for the first time
STRETCHES = 4_096  # that are screened at a time, drawn at random where there are more
NATURAL, CLIMB = range(2)  # ways; from the last on one for each ascent
# Far targets need many steps, near ones many lengths.
ASCENTS = (Ascent(together=3), Ascent(num_steps=6, multiples=(1.0, 3.0), targets=0))
_TOLD_AFTER = REMEMBERED // 2  # batches; the worker may have run some more by then, and forgets what it is not told of
FADES_IN = 256.0  # forward-equivalents of a way after which what it found before counts half
FEW = 0.125  # of a step's mutants: where fewer can be told from others, a step is given to mutants that show more


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
        if not pays.any() and random.random() < 0.5:
            return 0  # only what is new shows other places to climb from
        best = np.flatnonzero(pays == pays.max())
        others = np.flatnonzero(pays < pays.max())
        return int(random.choice(others if curious and len(others) else best))

    def share(self, way: int, untried: float) -> float:
        """What share of a step's mutants a way is given: all if it pays best, else ``TRIED_WITH``; what is given, before its first step."""
        pays = self.pays()
        if np.isinf(pays[way]):
            return untried
        return 1.0 if pays[way] == pays[np.isfinite(pays)].max() else TRIED_WITH

    def learn(self, way: int, found: float, work: float) -> None:
        """Takes in a step."""
        fades = 0.5 ** (work / FADES_IN)
        self._found[way] = self._found[way] * fades + found
        self._work[way] = self._work[way] * fades + work


class Guide:
    """Makes the batches of the coverage gradient, and of natural mutants that are told from others.

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
        self._ways = Ways(CLIMB + len(self._ascents))
        self.granted = 1  # natural mutants that are due when there is nothing to propose
        self._shown = False  # whether the last natural mutants were such that nothing had been told of
        self._paths = Paths(self._seeds + FINDERS + OTHERS)
        self._screened: dict[int, npt.NDArray[np.int64]] = {}  # entries that the mutants of screens were made of, by step until it is taken
        # What can be climbed from beside the seed inputs. No batch is held whole: of many, one row each may be left.
        self._entries = np.full(FINDERS, -1, dtype=np.int64)  # finders, by place: where the corpus has them
        self._near = np.empty((OTHERS, *corpus.seeds.shape[1:]), dtype=corpus.seeds.dtype)  # others, by place
        self._near_of: dict[int, tuple[int, Chains, int]] = {}  # their seed inputs, and where their recipes stand
        self._fresh: list[tuple[int, int, int]] = []  # what the worker does not know yet: run, row, place
        self._told: Request | None = None
        self._finders = self._others = 0  # how many there have been
        self._runs = 0  # batches of the search that have run
        self._climbs = 0
        self.wasted = 0  # forward-equivalents of climbs that came to no mutant
        self._way_of: dict[int, int] = {}  # by token of the climbs that have not been taken yet

    def propose(self, step: int, count: int) -> Batch | None:
        """Mutants of a climb or told from others, at most ``count``; None where ``granted`` drawn natural mutants are due."""
        way = self._ways.next(generator(self._campaign_seed, "way", step))
        self.granted = max(1, int(count * self._ways.share(way, untried=1.0 if way == NATURAL else TRIED_WITH)))
        if way == NATURAL:
            return self._screen(step, self.granted)
        ascent = self._ascents[way - CLIMB]
        if count < ascent.executions():
            return None
        starts = max(1, self.granted // ascent.executions())
        self.tell()
        asked = {"count": starts, "seed": integer(self._campaign_seed, "aim", step), "together": bool(ascent.together)}
        _, aim = self._worker.call("aim", asked)
        if not len(aim["places"]):
            self._ways.learn(way, 0.0, 1.0)
            return None
        parents, seeds, recipes = self._started(aim["places"])
        bound = self._domain.model_bounds[OPERATOR]
        self._climbs += 1
        parameters = {
            "token": self._climbs,
            "bound": bound,
            "seed": integer(self._campaign_seed, "climb", step),
            "ascent": asdict(ascent),
        }
        try:
            said, made = self._worker.call("climb", parameters, {"x": parents, "targets": aim["targets"]})
        except Refused:  # somewhere on the way the model raised, and nobody knows where
            work = ascent.work() * len(parents)
            self._ways.learn(way, 0.0, float(work))
            self.wasted += work
            return None
        if made["x"].shape != (len(made["rows"]), *parents.shape[1:]):
            raise WorkerError("The worker answered a climb with something else than mutants of its inputs.", where="worker process")
        if not len(made["rows"]):
            self._ways.learn(way, 0.0, float(said["work"]))
            self.wasted += int(said["work"])
            return None
        self._way_of[self._climbs] = way
        return kept_batch(
            self._domain,
            OPERATOR,
            self._position,
            step,
            self._climbs,
            parents=parents,
            recipes=recipes,
            seeds=self._corpus.seeds,
            origins=seeds,
            made=made["x"],
            rows=made["rows"],
            work=said["work"],
            random=generator(self._campaign_seed, "climbed", step),
        )

    def tell(self, *, due: bool = False) -> None:
        """Tells the worker which inputs it may climb from from now on; with ``due`` only where it would soon forget them."""
        if not self._fresh or (due and self._runs - self._fresh[0][0] < _TOLD_AFTER):
            return
        if self._told is not None:
            self._worker.answer(self._told)
        self._told = self._worker.ask("join", {}, {"fresh": np.array(self._fresh, dtype=np.int64)})
        self._fresh = []

    def take(self, batch: Batch, worth: np.ndarray, first: int, *, known: bool = True) -> bool:
        """Learns from a batch of the search that has run, and may climb from its natural mutants later.

        Args:
            batch: natural, told from others or of a climb.
            worth: float [N], what each mutant was worth.
            first: where the corpus has the first mutant that was worth something; it has the others behind it, in their order.
            known: whether the worker remembers the batch: not one that was answered in parts, so that none of it is climbed from.

        Returns:
            Whether it was proposed here: a climb, or mutants told from others.
        """
        entries = self._screened.pop(batch.step, None)
        way = NATURAL if batch.kept is None else self._way_of.pop(batch.kept)
        # What an earlier corpus brings says nothing of the ways there are now.
        if way != NATURAL or batch.entries is not None or entries is not None:
            self._ways.learn(way, float(worth.sum()), float(len(batch.x) + batch.model_calls))
        assert isinstance(batch.recipes, Chains)
        # Where a step with the model's help is in it already, bounds would add up.
        rows = np.flatnonzero(batch.valid & (batch.recipes.assisted == 0) & known)
        # What covered something may have to be climbed from for long, what only came near for as long as it is among the last.
        found = worth[rows] > 0
        finders, others = rows[found], rows[~found]
        slots = (self._finders + np.arange(len(finders))) % FINDERS
        self._entries[slots] = first + np.cumsum(worth > 0)[finders] - 1
        near = (self._others + np.arange(len(others))) % OTHERS
        self._near[near] = batch.x[others]
        self._near_of.update(
            (slot, (int(batch.seeds[row]), batch.recipes, row)) for slot, row in zip(near.tolist(), others.tolist(), strict=True)
        )
        self._finders, self._others = self._finders + len(finders), self._others + len(others)
        places = np.empty(len(rows), dtype=np.int64)
        places[found], places[~found] = self._seeds + slots, self._seeds + FINDERS + near
        self._put(places, rows, batch.recipes, batch.entries if entries is None else entries)
        self._fresh.extend((self._runs, row, place) for row, place in zip(rows.tolist(), places.tolist(), strict=True))
        self._runs += 1
        return batch.kept is not None or entries is not None

    def _put(self, places: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], chains: Chains, entries: np.ndarray | None) -> None:
        """Notes where the mutants in ``rows`` lie on paths, if they were made of entries int64 [N] by one natural operator each."""
        if entries is None or not len(rows):
            none = np.full(len(places), -1, dtype=np.int64)
            self._paths.put(places, none, none, none, np.zeros(len(places)))
            return
        of, steps = chains.links[0]
        assert isinstance(steps, Steps)
        at = np.searchsorted(of, rows)
        self._paths.put(places, entries[rows], steps.operators[at], steps.draws[at], steps.severities[at])

    def _screen(self, step: int, count: int) -> Batch | None:
        """Natural mutants of which the worker expects, without running any, that they cover something."""
        total = len(self._corpus)
        place_of = np.full(total, -1, dtype=np.int64)
        place_of[: self._seeds] = np.arange(self._seeds)
        slots = np.flatnonzero(self._entries >= 0)
        place_of[self._entries[slots]] = self._seeds + slots
        used = self._corpus.severities(np.arange(total))
        stretches = self._paths.stretches(place_of, np.minimum(1.0, self._domain.chain_severity - used))
        random = generator(self._campaign_seed, "screen", step)
        stretches = stretches.take(random.permutation(len(stretches))[:STRETCHES])
        self.tell()
        ends = np.stack([stretches.low, stretches.high], axis=1)
        _, best = self._worker.call("screen", {"count": count, "shares": list(SHARES)}, {"ends": ends, "most": stretches.most})
        chosen = stretches.take(best["stretches"])
        if not len(chosen) or (len(chosen) < FEW * count and not self._shown):
            self._shown = True
            return None
        self._shown = False
        severities = np.minimum(chosen.severities(np.array(SHARES)[best["shares"]]), 1.0)
        parents, seeds = self._corpus.inputs(chosen.entries), self._corpus.seeds_of(chosen.entries)
        steps = self._domain.steps(chosen.operators, severities, chosen.draws)
        mutants = self._domain.apply(parents, steps)
        recipes, lengths = self._corpus.recipes_of(chosen.entries), self._corpus.lengths(chosen.entries)
        chains = Chains(recipes, (), lengths, used[chosen.entries], np.zeros(len(chosen), dtype=np.int64))
        chains = chains.then(np.arange(len(chosen)), steps, severities)
        faults = self._domain.check(mutants, self._corpus.seeds[seeds], chains)
        self._screened[step] = chosen.entries
        return Batch("search", step, mutants, seeds, chains, faults < 0, 0, chosen.operators, faults=faults)

    def _started(self, places: npt.NDArray[np.int64]) -> tuple[np.ndarray, npt.NDArray[np.int64], list[tuple[Any, ...]]]:
        """Inputs [n, ...], their seed inputs int64 [n] and their recipes."""
        entries = np.full(len(places), -1, dtype=np.int64)
        seed, finder = places < self._seeds, (places >= self._seeds) & (places < self._seeds + FINDERS)
        entries[seed], entries[finder] = places[seed], self._entries[places[finder] - self._seeds]
        kept = entries >= 0
        slots = [int(place) - self._seeds - FINDERS for place in places[~kept]]
        if any(slot not in self._near_of for slot in slots):
            raise WorkerError("The worker climbs from an input that there is not.", where="worker process")
        inputs = np.empty((len(places), *self._near.shape[1:]), dtype=self._near.dtype)
        inputs[kept], inputs[~kept] = self._corpus.inputs(entries[kept]), self._near[slots]
        near = iter([self._near_of[slot] for slot in slots])
        known = zip(self._corpus.seeds_of(entries[kept]).tolist(), self._corpus.recipes_of(entries[kept]), strict=True)
        seeds, recipes = [], []
        for has in kept.tolist():
            if has:
                origin, recipe = next(known)
            else:
                origin, chains, row = next(near)
                recipe = chains[row]
            seeds.append(origin)
            recipes.append(tuple(recipe))
        return inputs, np.array(seeds, dtype=np.int64), recipes
