"""Which seed input is to be moved to which class by gradients, and what becomes of the mutants. Lives in the supervisor.

Pairs of a seed input and another class, those with the nearest logits first. A pair that the model was brought to once is done with, since
another mutant of its kind would be no other defect; one that was tried in vain from the seed input is tried once more from the natural
mutant that comes nearest to the boundary, and then given up.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from gate.campaign.batch import Batch
from gate.campaign.descent_options import Descent
from gate.campaign.kept_batch import kept_batch
from gate.campaign.margin_lines import Lines
from gate.campaign.supervisor import Refused, Worker
from gate.domains.domain import InputDomain
from gate.errors import WorkerError
from gate.randomness import generator

__all__ = ["OPERATOR", "Descents"]

OPERATOR = "pgd"  # what a descent is: it has its bound, and is recorded as it
CLASSES = 9  # the nearest other classes of a seed input that are gone for
_TRIES = 2
_LEAST = 1e-300  # a probability of 0 has no logarithm
_AT_ONCE = 4_096  # seed inputs whose classes are ranked at a time


class Descents:
    """Makes the batches of the margin's gradient.

    Args:
        domain: bound and validity.
        seeds: [S, ...] in the file dtype.
        labels: int64 [S].
        probabilities: float64 [S, C], the model's answers to the seed inputs.
        lines: know which natural mutants come near the boundary.
        worker: descends.
        campaign_seed: every draw depends on it and the step alone.
        position: of ``OPERATOR`` among the search's operators.
        descent: how.
    """

    def __init__(
        self,
        domain: InputDomain,
        seeds: np.ndarray,
        labels: npt.NDArray[np.int64],
        probabilities: npt.NDArray[np.float64],
        lines: Lines,
        worker: Worker,
        *,
        campaign_seed: int,
        position: int,
        descent: Descent,
    ) -> None:
        self._domain = domain
        self._seeds = seeds
        self._labels = labels
        self._lines = lines
        self._worker = worker
        self._campaign_seed = campaign_seed
        self._position = position
        self._descent = descent
        parts = [
            _nearest(probabilities[start : start + _AT_ONCE], labels[start : start + _AT_ONCE]) for start in range(0, len(labels), _AT_ONCE)
        ]
        classes, gap = (np.concatenate(found) for found in zip(*parts, strict=True))
        order = np.argsort(gap, axis=None, kind="stable")
        # Pairs, the nearest first.
        self._seed = order // classes.shape[1]
        self._class = classes.ravel()[order]
        self._classes = probabilities.shape[1]
        codes = self._seed * self._classes + self._class
        self._by_code = np.argsort(codes, kind="stable")
        self._codes = codes[self._by_code]  # ascending
        self._tries = np.zeros(len(self._seed), dtype=np.int64)
        self._done = np.zeros(len(self._seed), dtype=bool)
        self._begun = 0

    def take(self, seeds: npt.NDArray[np.int64], predicted: npt.NDArray[np.int64]) -> None:
        """Notes which classes the model was brought to by adversarial mutants, both int64 [n]."""
        codes = seeds * self._classes + predicted
        places = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        self._done[self._by_code[places[self._codes[places] == codes]]] = True

    def propose(self, step: int, count: int) -> tuple[Batch | None, int]:
        """Mutants of a descent, at most ``count``, and the work of one that came to none; None where no pair is left."""
        chosen = self._next(count // self._descent.num_steps)
        if not len(chosen):
            return None, 0
        seeds, targets = self._seed[chosen], self._class[chosen]
        parents, recipes = self._started(seeds, self._tries[chosen] > 0)
        self._tries[chosen] += 1
        self._begun += 1
        token = -self._begun  # climbs have positive ones
        parameters = {"token": token, "bound": self._domain.model_bounds[OPERATOR], "descent": asdict(self._descent)}
        try:
            said, made = self._worker.call("descend", parameters, {"x": parents, "labels": self._labels[seeds], "targets": targets})
        except Refused:  # somewhere on the way the model raised, and nobody knows where
            return None, self._descent.work() * len(parents)
        if made["x"].shape != (len(made["rows"]), *parents.shape[1:]):
            raise WorkerError("The worker answered a descent with something else than mutants of its inputs.", where="worker process")
        work = int(said["work"])
        if not len(made["rows"]):
            return None, work
        batch = kept_batch(
            self._domain,
            OPERATOR,
            self._position,
            step,
            token,
            parents=parents,
            recipes=recipes,
            seeds=self._seeds,
            origins=seeds,
            made=made["x"],
            rows=made["rows"],
            work=work,
            random=generator(self._campaign_seed, "descended", step),
        )
        return batch, work

    def _next(self, count: int) -> npt.NDArray[np.int64]:
        """Pairs int64 [n], not yet done: those never tried before those tried once, of either the nearest first."""
        fresh = np.flatnonzero(~self._done & (self._tries == 0))[:count]
        if len(fresh) == count:
            return fresh
        again = np.flatnonzero(~self._done & (self._tries > 0) & (self._tries < _TRIES))
        return np.concatenate([fresh, again[self._lines.near()[self._seed[again]]][: count - len(fresh)]])

    def _started(self, seeds: npt.NDArray[np.int64], again: npt.NDArray[np.bool_]) -> tuple[np.ndarray, list[tuple[Any, ...]]]:
        """Where each descent starts, [n, ...]: the seed input, or its natural mutant nearest to the boundary; and their recipes."""
        parents: np.ndarray = self._seeds[seeds]
        recipes: list[tuple[Any, ...]] = [()] * len(seeds)
        rows = np.flatnonzero(again)
        if len(rows):
            steps = self._lines.near_misses(seeds[rows])
            made = self._domain.steps(steps.operators, steps.severities, steps.draws)
            parents[rows] = self._domain.apply(parents[rows], made)
            for place, row in enumerate(rows.tolist()):
                recipes[row] = (made[place],)
        return parents, recipes


def _nearest(
    probabilities: npt.NDArray[np.float64], labels: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Of n samples the nearest other classes and how far their logits lie below the label's, both [n, at most ``CLASSES``]."""
    rows, count = np.arange(len(labels)), min(CLASSES, probabilities.shape[1] - 1)
    others = probabilities.copy()
    others[rows, labels] = -1.0
    nearest = np.argpartition(-others, count - 1, axis=1)[:, :count].astype(np.int64)
    found = np.take_along_axis(others, nearest, axis=1)
    order = np.argsort(-found, axis=1, kind="stable")
    nearest, found = np.take_along_axis(nearest, order, axis=1), np.take_along_axis(found, order, axis=1)
    own = np.log(np.maximum(probabilities[rows, labels], _LEAST))
    return nearest, own[:, None] - np.log(np.maximum(found, _LEAST))
