"""Which entry next: asks a strategy, or learns which of them pays, and fetches from the worker what they have to know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gate.campaign.budget import BudgetSpent
from gate.campaign.deadline import Interrupted
from gate.campaign.payoff import Objective, Payoff
from gate.campaign.supervisor import Worker
from gate.corpus.corpus import Corpus
from gate.corpus.quality import quality_of
from gate.corpus.selection import draw
from gate.corpus.strategies import STRATEGIES, Margin, Pool, Strategy, Uncertainty, entropies, novelty
from gate.errors import ConfigError
from gate.randomness import generator, integer

__all__ = ["REPLAYS", "SCORED", "EntryChoice", "StrategyCount"]

SCORED = 64  # entries that are scored at a time: a random subset of those that may be mutated
SCORING_SHARE = 0.1  # of the search's forward-equivalents may go to scoring; so often are scores refreshed
PASSES = 8  # with dropout
REPLAYS = 10  # of an entry whose model does not answer the same every time
CONSIDERED = 2_048  # entries that are ranked in one step, drawn at random where there are more

# What a strategy needs of the worker, and the forward-equivalents that it costs for one entry; one backward counts two.
_COSTS = {"coverage": 3, "diversity": 1, "uncertainty": PASSES}
_HINT = "Set search.strategy to mixture, which leaves out what a model does not allow, or to another strategy."
_MARGIN = -1  # in a batch's column of strategies: chosen by margin, because defects are wanted


@dataclass
class StrategyCount:
    """What came of one strategy's choices."""

    executions: int = 0
    findings: int = 0
    new_items: float = 0.0
    model_calls: int = 0  # that scoring cost


class EntryChoice:
    """Owns what is known of the entries beyond the corpus. Lives in the supervisor.

    A strategy that needs the model scores a random subset of ``SCORED`` entries and chooses among them, until scoring has cost less than
    ``SCORING_SHARE`` of the search's work again; then it scores another. In a mixture such a strategy takes part from its first scores on.
    What a model's answer to an entry says (margin, entropy) never changes and was seen when the entry ran: it costs nothing.

    Everything depends on the campaign seed, the step, and what was learnt before: counts of model calls, no times.

    Args:
        corpus: starts with the seed inputs.
        worker: scores entries.
        strategy: ``search.strategy``.
        probabilities: float [S, C], the model's answers to the seed inputs.
        campaign_seed: every draw depends on it and the step alone.
        steerable: whether there is a gradient towards uncovered items.
        deterministic: whether the model was found to answer the same every time; then every entry is stable without replays.
        room: how much of a chain's bound is left for further operators, for positions int64 [n] of entries: float64 [n], 0 to 1. Where
            nothing is left an entry is not mutated further; a seed input always is.
        batch_size: the most samples in one request.

    Raises:
        ConfigError: the strategy alone was asked for, and the model does not allow it.
    """

    def __init__(
        self,
        corpus: Corpus,
        worker: Worker,
        *,
        strategy: str,
        probabilities: np.ndarray,
        campaign_seed: int,
        steerable: bool,
        deterministic: bool,
        room: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.float64]],
        batch_size: int,
    ) -> None:
        self._corpus = corpus
        self._worker = worker
        self._campaign_seed = campaign_seed
        self._deterministic = deterministic
        self._room = room
        self._unbilled = 0
        self._batch_size = batch_size
        wanted = {one.name for one in STRATEGIES} if strategy == "mixture" else {strategy}
        self.left_out: dict[str, str] = {}  # strategies that the model does not allow, and why
        self._needs: dict[str, bool] = {}
        self._strategies = self._allowed(wanted, steerable=steerable)
        if not self._strategies:
            raise ConfigError(
                f"The model does not allow the strategy {strategy}: {self.left_out[strategy]}.", where="search.strategy", hint=_HINT
            )
        self.names = tuple(one.name for one in self._strategies)
        self._payoff = Payoff(self.names, [1.0] * len(self.names))
        self.counts = {name: StrategyCount() for name in self.names}
        self._margin = Margin()
        self._rated = np.empty(0)
        self._entropies = entropies(probabilities)
        self._scores: dict[str, npt.NDArray[np.float64]] = {name: np.empty(0) for name, needs in self._needs.items() if needs}
        self._scored = False
        self._work = 0.0  # forward-equivalents of the search, as far as they were learnt
        self._scoring = 0.0  # and those of scoring

    def pick(
        self, step: int, count: int, random: np.random.Generator, objective: Objective = "coverage"
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Entries to mutate next and the strategies that chose them, both int64 [count]; counts the picks.

        The strategies are positions in ``names``, and -1 where the smallest margin decided because ``objective`` is defects.
        """
        positions = self._open()
        if objective == "defects":
            rows = self._considered(positions, random)
            entries = rows[draw(self._margin.weights(self._pool(rows)), count, random)]
            strategies = np.full(count, _MARGIN, dtype=np.int64)
        else:
            self._refresh(step, positions)
            entries = np.empty(count, dtype=np.int64)
            weights = self.weights()
            strategies = draw(weights, count, random) if len(weights) > 1 else np.zeros(count, dtype=np.int64)
            for number, strategy in enumerate(self._strategies):
                chosen = np.flatnonzero(strategies == number)
                if len(chosen):
                    entries[chosen] = self._by(strategy, positions, len(chosen), random)
        self._corpus.count_picks(entries)
        return entries, strategies

    def weights(self) -> npt.NDArray[np.float64]:
        """float64 [K]: the chance of each strategy in the next draw."""
        ready = np.array([self._scored or not self._needs[name] for name in self.names])
        return self._payoff.weights("coverage", ready)

    def learn(self, strategies: np.ndarray, new_items: np.ndarray, found: np.ndarray, work: float) -> None:
        """Takes in a step.

        Args:
            strategies: int64 [N], as ``pick`` gave them.
            new_items: [N], what each valid mutant covered first; zero for the others.
            found: bool [N], which were new distinct findings.
            work: forward-equivalents of the whole step, making the mutants included.
        """
        self._work += work
        rows = np.flatnonzero(strategies != _MARGIN)
        for number, name in enumerate(self.names):
            own = strategies == number
            count = self.counts[name]
            count.executions += int(np.count_nonzero(own))
            count.findings += int(np.count_nonzero(found & own))
            count.new_items += float(new_items[own].sum())
        if len(rows):
            # Which operator a mutant got was no strategy's choice, so all mutants of a step bear its work alike.
            each = np.full(len(rows), work / len(strategies))
            self._payoff.learn(strategies[rows], new_items[rows], found[rows], each)

    def worked(self, work: float) -> None:
        """Notes forward-equivalents of the search for which no entry was chosen here: a share of them may go to scoring, too."""
        self._work += work

    def stabilities(self, x: np.ndarray) -> npt.NDArray[np.float64] | None:
        """float64 [n]: how stable the model's answers to mutants that are about to be kept are, x [n, ...]; None: all of them entirely.

        Each is replayed ``REPLAYS`` times, unless the model was found deterministic: then it is stable without. 0 where the time was up
        before that; they are kept all the same, for what they cover has been counted.
        """
        if self._deterministic or not len(x):
            return None
        try:
            found = self._ask("replays", x, REPLAYS, 0)
        except (BudgetSpent, Interrupted):
            return np.zeros(len(x))
        self._unbilled += REPLAYS * len(x)
        return found

    def kept(self, first: int, probabilities: np.ndarray) -> None:
        """Notes the model's answers float [n, C] to the entries from position ``first`` on that were just kept."""
        known = self._known(self._entropies)
        known[first : first + len(probabilities)] = entropies(probabilities)
        self._entropies = known

    def spent(self) -> int:
        """Forward-equivalents of scoring and replays since this was last asked."""
        spent, self._unbilled = self._unbilled, 0
        return spent

    # Which strategies there are.

    def _allowed(self, wanted: set[str], *, steerable: bool) -> list[Strategy]:
        features, dropout = True, False
        if wanted & {"diversity", "uncertainty"}:
            x = self._corpus.seeds[: min(3, self._batch_size)]
            said, _ = self._worker.call("scorable", {}, {"x": x})
            self._unbilled += 2 * len(x)
            features, dropout = bool(said["features"]), bool(said["dropout"])
        if not steerable:
            self.left_out["coverage"] = "the model has no gradient towards what is not covered"
        if not features:
            self.left_out["diversity"] = "the model has no classifier head whose input could be compared"
        self.left_out = {name: reason for name, reason in self.left_out.items() if name in wanted}
        strategies: list[Strategy] = []
        for one in STRATEGIES:
            if one.name in wanted and one.name not in self.left_out:
                strategies.append(Uncertainty(dropout=dropout) if one.name == "uncertainty" else one)
                self._needs[one.name] = one.name in _COSTS and (one.name != "uncertainty" or dropout)
        return strategies

    # Which entries there are.

    def _open(self) -> npt.NDArray[np.int64]:
        """Positions of the entries that may be mutated further, ascending; all seed inputs are among them."""
        positions = np.flatnonzero(self._corpus.open)
        roomy: npt.NDArray[np.bool_] = (positions < len(self._corpus.seeds)) | (self._room(positions) > 0)
        found: npt.NDArray[np.int64] = positions[roomy]
        return found

    def _by(self, strategy: Strategy, positions: npt.NDArray[np.int64], count: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
        if self._needs[strategy.name]:
            scored = self._known(self._scores[strategy.name])[positions]
            rows = positions[~np.isnan(scored)]
        elif isinstance(strategy, Uncertainty):
            rows = self._considered(positions, random)
        else:
            rows = positions
        if not len(rows):  # those that were scored have been closed since
            rows = positions
        weights = strategy.weights(self._pool(rows))
        found: npt.NDArray[np.int64] = rows[draw(weights if weights.any() else np.ones(len(rows)), count, random)]
        return found

    def _considered(self, positions: npt.NDArray[np.int64], random: np.random.Generator) -> npt.NDArray[np.int64]:
        """At most ``CONSIDERED`` of the positions, ascending."""
        if len(positions) <= CONSIDERED:
            return positions
        found: npt.NDArray[np.int64] = positions[np.unique(random.integers(len(positions), size=CONSIDERED))]
        return found

    def _pool(self, positions: npt.NDArray[np.int64]) -> Pool:
        def known(name: str) -> npt.NDArray[np.float64]:
            return self._known(self._scores.get(name, np.empty(0)))[positions]

        return Pool(
            quality=self._quality()[positions],
            room=self._room(positions),
            picks=self._corpus.picks[positions],
            margins=self._corpus.margins[positions],
            entropies=self._known(self._entropies)[positions],
            gradients=known("coverage"),
            novelties=known("diversity"),
            variances=known("uncertainty"),
        )

    def _quality(self) -> npt.NDArray[np.float64]:
        if len(self._rated) != len(self._corpus):  # nothing else changes it
            self._rated = quality_of(self._corpus)
        return self._rated

    def _known(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """[N]: values of the first entries, and NaN for those that were added since."""
        missing = len(self._corpus) - len(values)
        return values if missing <= 0 else np.concatenate([values, np.full(missing, np.nan)])

    # Scoring.

    def _refresh(self, step: int, positions: npt.NDArray[np.int64]) -> None:
        """Scores another subset, where there is work to spare for it, or where nothing else can choose."""
        if not self._scores:
            return
        random = generator(self._campaign_seed, "score", step)
        count = min(SCORED, len(positions))
        necessary = not self._scored and all(self._needs.values())
        most = count * sum(_COSTS[name] for name in self._scores)
        if not necessary and self._scoring + most > SCORING_SHARE * self._work:
            return
        rows = np.sort(random.choice(positions, size=count, replace=False))
        x = self._corpus.inputs(rows)
        for name in self._scores:
            self._score(name, rows, x, integer(self._campaign_seed, "dropout", step))
        self._scored = True

    def _score(self, name: str, rows: npt.NDArray[np.int64], x: np.ndarray, seed: int) -> None:
        scores = np.full(len(self._corpus), np.nan)
        if name == "coverage":
            scores[rows] = self._ask("gradient", x, 1, 0)
        elif name == "diversity":
            size = self._batch_size
            found = [self._worker.call("features", {}, {"x": x[i : i + size]})[1]["features"] for i in range(0, len(x), size)]
            scores[rows] = novelty(np.concatenate(found))
        else:
            # The model does not change, so what was measured stays true.
            scores = self._known(self._scores[name]).copy()
            rows, x = rows[np.isnan(scores[rows])], x[np.isnan(scores[rows])]
            if len(rows):
                scores[rows] = self._ask("variance", x, PASSES, seed)
        self._scores[name] = scores
        work = _COSTS[name] * len(rows)
        self._scoring += work
        self._unbilled += work
        self.counts[name].model_calls += work
        self._payoff.charge(np.array([one == name for one in self.names]), work)

    def _ask(self, score: str, x: np.ndarray, passes: int, seed: int) -> npt.NDArray[np.float64]:
        size = self._batch_size
        parts = []
        for start in range(0, len(x), size):
            parameters = {"score": score, "passes": passes, "seed": seed + start}
            parts.append(self._worker.call("score", parameters, {"x": x[start : start + size]})[1]["score"])
        return np.concatenate(parts)
