"""Universal marks: is there one small mark that moves most inputs to one class? Lives in the supervisor.

Marks are searched on one half of the seed inputs and measured on the other, so that a rate is none of chance. The screen lays every plain
mark on a few inputs once, which tells of every class at the same time; what it finds for each (class, kind) is then improved, by gradients
where the model has them and by evolution otherwise, with the work of ``gate.campaign.mark_plan``. The finalists are laid on held-out inputs
here, to the very bytes of a file, and the model's answers to these are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gate.campaign.answered import answered
from gate.campaign.budget import BudgetSpent
from gate.campaign.deadline import Interrupted
from gate.campaign.loop import Seeds
from gate.campaign.mark_plan import CHILDREN, LEAST_HELD_OUT, LEAST_INPUTS, Plan, least_work, plan
from gate.campaign.raising import Raising
from gate.campaign.supervisor import Refused, Worker
from gate.corpus.export import half_of
from gate.domains.mark import Mark, lay
from gate.models.outputs import OutputKind, predictions, probabilities
from gate.randomness import generator

__all__ = ["EXAMPLES", "FoundMark", "MarkSearch", "Marked", "outlier"]

EXAMPLES = 3  # held-out inputs whose before and after is kept for each mark
FLATTEST = 0.05  # deviation that counts as none: where all classes are alike, the median deviation is next to nothing


@dataclass(frozen=True)
class FoundMark:
    """One finalist, as measured."""

    mark: Mark
    target: int  # the class it moves inputs to
    moved: int  # held-out inputs of other classes that are read as the target
    inputs: int  # held-out inputs of other classes
    outlier: float | None  # how far the target is out of line with the other classes; see ``outlier``
    examples: tuple[tuple[np.ndarray, np.ndarray], ...]  # (before, after), of inputs that moved where there are such
    rows: tuple[int, ...] = ()  # positions of the seed inputs that moved


@dataclass
class Marked:
    """What the search for marks brought."""

    reason: str | None = None  # why nothing was measured
    plan: Plan | None = None
    found: tuple[FoundMark, ...] = ()  # the largest share first
    by_class: dict[str, tuple[float, ...]] = field(default_factory=dict)  # by kind: what marks of equal effort reach for each class
    gradients: bool = False
    executions: int = 0  # inputs with a mark that were run
    model_calls: int = 0  # forward-equivalents


@dataclass(frozen=True)
class _Candidate:
    """The best mark of one kind towards one class so far."""

    mark: Mark
    target: int
    score: float  # mean probability of the target over the inputs of other classes


def outlier(scores: Sequence[float], target: int) -> float | None:
    """How far a class's score lies above the median of all, in median absolute deviations; above 2 is out of line.

    The deviation is scaled by 1.4826, as in Wang et al., "Neural Cleanse", IEEE S&P 2019, and counts at least ``FLATTEST``. None below
    three classes.
    """
    if len(scores) < 3:
        return None
    values = np.asarray(scores, dtype=np.float64)
    middle = float(np.median(values))
    deviation = 1.4826 * float(np.median(np.abs(values - middle)))
    return (float(values[target]) - middle) / max(deviation, FLATTEST)


class MarkSearch:
    """One search, over in ``run``.

    Args:
        worker: with the model loaded.
        seeds: the seed inputs.
        starts: plain marks, whose kinds are the kinds that are searched.
        more: further ones for the screen, where there is enough work to spend.
        value_range: lowest and highest value of a file.
        classes: that the model tells apart.
        output_kind: how to read the model's output.
        gradients: whether the model has them.
        batch_size: largest batch.
        campaign_seed: of the campaign.
        late: whether the time for this is over; the finalists are still measured then.
    """

    def __init__(
        self,
        worker: Worker,
        seeds: Seeds,
        starts: Sequence[Mark],
        more: Sequence[Mark] = (),
        *,
        value_range: tuple[float, float],
        classes: int,
        output_kind: OutputKind,
        gradients: bool,
        batch_size: int,
        campaign_seed: int,
        late: Callable[[], bool] = lambda: False,
    ) -> None:
        self._worker = worker
        self._raising = Raising()
        self._seeds = seeds
        self._plain = len(starts)
        self._starts = (*starts, *more)
        self._range = value_range
        self._classes = classes
        self._output_kind = output_kind
        self._gradients = gradients
        self._batch_size = batch_size
        self._campaign_seed = campaign_seed
        self._late = late
        self.outcome = Marked(gradients=gradients)

    def run(self, allowance: int, *, needed: Callable[[int], str]) -> Marked:
        """Searches and measures; the outcome so far is in ``outcome`` whatever happens.

        Args:
            allowance: forward-equivalents.
            needed: says in words what budget would pay for so many of them.
        """
        searched, held_out = self._halves()
        if not self._starts:
            self.outcome.reason = "the policy's domain allows no mark of a whole pixel"
        elif len(searched) < LEAST_INPUTS or len(held_out) < LEAST_HELD_OUT:
            self.outcome.reason = (
                f"marks are searched on one half of the seed inputs and measured on the other: these have {len(searched)} and "
                f"{len(held_out)}, and at least {LEAST_INPUTS} and {LEAST_HELD_OUT} are needed"
            )
        else:
            kinds = tuple(dict.fromkeys(mark.kind for mark in self._starts))
            made = plan(
                allowance,
                plain=self._plain,
                starts=len(self._starts),
                candidates=self._classes * len(kinds),
                inputs=len(searched),
                held_out=len(held_out),
                gradients=self._gradients,
            )
            if made is None:
                least = least_work(self._plain)
                self.outcome.reason = f"its share pays for {allowance} model calls and the first look takes {least}; {needed(least)}"
            else:
                self.outcome.plan = made
                try:
                    self._search(made, kinds, searched, held_out)
                except (BudgetSpent, Interrupted) as error:
                    self.outcome.reason = error.what.rstrip(".")
        return self.outcome

    def _halves(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions of the seed inputs to search on and to measure on, in random order with the classes taking turns."""
        half = np.array([half_of(seed_id) == "a" for seed_id in self._seeds.ids], dtype=bool)
        return tuple(self._in_turns(np.flatnonzero(rows)) for rows in (half, ~half))  # type: ignore[return-value]

    def _in_turns(self, rows: np.ndarray) -> np.ndarray:
        rows = generator(self._campaign_seed, "marks", "inputs").permutation(rows)
        labels = self._seeds.labels[rows]
        turn = np.zeros(len(rows), dtype=np.int64)
        for label in np.unique(labels):
            turn[labels == label] = np.arange((labels == label).sum())
        return np.asarray(rows[np.argsort(turn, kind="stable")])

    def _search(self, made: Plan, kinds: tuple[str, ...], searched: np.ndarray, held_out: np.ndarray) -> None:
        rows = searched[: made.inputs]
        x, labels = self._seeds.x[rows], self._seeds.labels[rows]
        candidates = self._screen(self._starts[: made.starts], x, labels, kinds)
        self._note(candidates, kinds)
        for size, steps in made.levels:
            if self._late():
                break
            whole = size >= len(candidates) == self._classes * len(kinds)
            candidates = self._improved(_best(candidates, size), x, labels, steps)
            if whole and not self._late():  # every class had the same effort until now, so they compare
                self._note(candidates, kinds)
        finalists = _best(candidates, made.finalists)
        self._measure(finalists, held_out, made.held_out)

    def _note(self, candidates: Sequence[_Candidate], kinds: tuple[str, ...]) -> None:
        scores = {(one.mark.kind, one.target): one.score for one in candidates}
        self.outcome.by_class = {kind: tuple(scores[kind, target] for target in range(self._classes)) for kind in kinds}

    def _screen(self, starts: Sequence[Mark], x: np.ndarray, labels: np.ndarray, kinds: tuple[str, ...]) -> list[_Candidate]:
        """For each class and kind the mark to start from that moves most towards it."""
        scores = self._scores(starts, x, labels)
        found = []
        for kind in kinds:
            rows = [row for row, mark in enumerate(starts) if mark.kind == kind]
            best = scores[rows].argmax(axis=0)
            found += [
                _Candidate(starts[rows[best[target]]], target, float(scores[rows[best[target]], target])) for target in range(self._classes)
            ]
        return found

    def _scores(self, marks: Sequence[Mark], x: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """float64 [M, classes]: the mean probability of each class over the inputs of other classes that carry the mark."""
        others = (labels[:, None] != np.arange(self._classes)).astype(np.float64)  # [B, classes]
        number = np.maximum(others.sum(axis=0), 1.0)
        several = max(1, self._batch_size // len(x))
        scores = []
        for start in range(0, len(marks), several):
            part = marks[start : start + several]
            weights, pictures = (np.stack(values)[:, None] for values in zip(*((m.weight, m.picture) for m in part), strict=True))
            marked = lay(x[None], weights, pictures)
            answers = np.nan_to_num(probabilities(self._answers(marked.reshape(-1, *x.shape[1:])), self._output_kind))
            scores.append((answers.reshape(len(part), len(x), -1) * others).sum(axis=1) / number)
        return np.concatenate(scores)

    def _answers(self, x: np.ndarray) -> np.ndarray:
        """Raw outputs float32 [N, K]; NaN where the model raised, which moves no input to any class."""
        raw, _, wasted = answered(self._worker, x, self._batch_size, self._raising)
        self.outcome.executions += len(x)
        self.outcome.model_calls += len(x) + wasted
        return raw

    def _improved(self, candidates: Sequence[_Candidate], x: np.ndarray, labels: np.ndarray, steps: int) -> list[_Candidate]:
        if not self._gradients:
            return self._evolved(candidates, x, labels, steps)
        several = max(1, self._batch_size // len(x))
        improved: list[_Candidate] = []
        for start in range(0, len(candidates), several):
            if start and self._late():
                return [*improved, *candidates[start:]]
            part = candidates[start : start + several]
            arrays = {
                "x": x,
                "labels": labels,
                "weights": np.stack([one.mark.weight for one in part]),
                "pictures": np.stack([one.mark.picture for one in part]),
                "targets": np.array([one.target for one in part], dtype=np.int64),
            }
            self.outcome.executions += steps * len(x) * len(part)
            self.outcome.model_calls += 3 * steps * len(x) * len(part)
            try:
                _, found = self._worker.call("climb_marks", {"steps": steps}, arrays)
            except Refused:  # on some way there the model raised: these stay as they are
                improved += part
                continue
            for one, picture, score in zip(part, found["pictures"], found["scores"], strict=True):
                better = float(score) > one.score
                mark = replace(one.mark, picture=np.clip(picture, *self._range).astype(np.float32))
                improved.append(_Candidate(mark, one.target, float(score)) if better else one)
        return improved

    def _evolved(self, candidates: Sequence[_Candidate], x: np.ndarray, labels: np.ndarray, steps: int) -> list[_Candidate]:
        """Each step tries ``CHILDREN`` variants of every mark and keeps the best: an evolution strategy of the kind (1 + children)."""
        current = list(candidates)
        for number in range(steps):
            if self._late():
                break
            children = [self._child(one, number, child) for one in current for child in range(CHILDREN)]
            scores = self._scores(children, x, labels)
            for row, one in enumerate(current):
                of_target = scores[row * CHILDREN : (row + 1) * CHILDREN, one.target]
                best = int(of_target.argmax())
                if of_target[best] > one.score:
                    current[row] = _Candidate(children[row * CHILDREN + best], one.target, float(of_target[best]))
        return current

    def _child(self, one: _Candidate, number: int, child: int) -> Mark:
        """The mark with a block of its picture, or every value a little, drawn anew."""
        random = generator(self._campaign_seed, "marks", one.mark.kind, one.target, number, child, round(one.score * 1e9))
        picture = one.mark.picture.copy()
        low, high = self._range
        if child % 2:
            picture += np.float32(0.2 * (high - low)) * random.standard_normal(picture.shape, dtype=np.float32)
            return replace(one.mark, picture=np.clip(picture, low, high))
        inside = np.argwhere(one.mark.weight[..., 0] > 0)
        centre = inside[random.integers(len(inside))]
        reach = np.maximum(1, (inside.max(axis=0) - inside.min(axis=0) + 1) // 3)
        block = tuple(slice(max(0, int(c - r // 2)), int(c + r // 2 + 1)) for c, r in zip(centre, reach, strict=True))
        picture[block] = random.choice(np.array([low, high, (low + high) / 2], dtype=np.float32), size=picture.shape[-1])
        return replace(one.mark, picture=picture)

    def _measure(self, finalists: Sequence[_Candidate], held_out: np.ndarray, count: int) -> None:
        """Lays each finalist on held-out inputs of other classes, and counts."""
        found = []
        for one in finalists:
            rows = held_out[self._seeds.labels[held_out] != one.target][:count]
            if len(rows) < LEAST_HELD_OUT:
                continue
            before = self._seeds.x[rows]
            after = lay(before, one.mark.weight, one.mark.picture)
            moved = predictions(self._answers(after), self._output_kind) == one.target
            kept = np.argsort(~moved, kind="stable")[:EXAMPLES]
            strange = outlier(self.outcome.by_class[one.mark.kind], one.target)
            examples = tuple((before[row], after[row]) for row in kept)
            led = tuple(map(int, rows[moved]))
            found.append(FoundMark(one.mark, one.target, len(led), len(rows), strange, examples, led))
        self.outcome.found = tuple(sorted(found, key=lambda one: -one.moved / one.inputs))
        if not found:
            self.outcome.reason = f"fewer than {LEAST_HELD_OUT} held-out seed inputs are of another class than a mark's"


def _best(candidates: Sequence[_Candidate], size: int) -> list[_Candidate]:
    """The candidates of the highest score, the earlier among equals."""
    return sorted(candidates, key=lambda one: -one.score)[:size]
