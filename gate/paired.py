"""The baseline on the same inputs as the candidate: the clean set, the long-tail set, and the mutants of judged seed inputs.

The judging arm's recipes depend on neither model, so both can be asked about the same bytes. Pairs are made of the seed inputs which both
models read rightly, taken in the arm's blind order: where there is no time for all of them, those that were asked about are still a sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from gate.baseline import START_SECONDS, Baseline, BaselineModel, why_left_out
from gate.baseline_reading import need_a_reader
from gate.campaign.answered import answered
from gate.campaign.batch import Outcome
from gate.campaign.budget import BudgetSpent
from gate.campaign.deadline import Interrupted
from gate.campaign.raising import Raising
from gate.campaign.repeated import Answers
from gate.domains.domain import InputDomain
from gate.domains.image.image_set import ImageSet
from gate.errors import GateError
from gate.metrics.evidence import BaselineEvidence, BaselineSeed
from gate.oracles import Observation, observe
from gate.oracles.crash import Crash
from gate.oracles.non_finite import NonFinite
from gate.result import BaselineSummary
from gate.work import Work

__all__ = ["PairedJudge", "baseline_model", "note_known"]

LEAST_SECONDS = 5.0  # with less time left no worker is started
_NOT_ASKED = "it was not asked about the defects"


@contextmanager
def baseline_model(work: Work, value_range: tuple[float, float]) -> Iterator[BaselineModel | None]:
    """Inside, the baseline can be asked, by whoever first needs it; None where the run has none. Its worker ends with the block."""
    if work.baseline_reference is None:
        yield None
        return
    with BaselineModel(work, value_range) as model:
        yield model


class PairedJudge:
    """Runs the baseline on what the candidate was run on, and notes it in ``work.baseline_evidence``. Lives in the supervisor.

    Asked at the end of the campaign, or again and again while it runs: each ``update`` only runs what is new, in the judging arm's order,
    so the evidence does not depend on when it was asked.

    Args:
        work: with seed inputs, clean predictions and the judging arm, once ``update`` is called.
        domain: as in ``work.judging``.
        model: the baseline, whose worker is started by the first ``update``.
        clean: the clean set before any filtering.
        predicted: int64 [N]: what the candidate predicts for it, -1 where its output is not finite.
        tail: the long-tail set.
    """

    def __init__(
        self, work: Work, domain: InputDomain, model: BaselineModel, clean: ImageSet, predicted: np.ndarray, tail: ImageSet | None = None
    ) -> None:
        self._work = work
        self._domain = domain
        self._model = model
        self._clean = clean
        self._predicted = predicted
        self._tail = tail
        self._over: str | None = None  # why the baseline is not asked any more, where something is wrong with it
        self._late: str | None = None  # why something is missing for the time being
        self._raising = Raising()
        self._answers: np.ndarray | None = None  # int64 [N], of the clean set
        self._tail_answers: np.ndarray | None = None
        self._done = 0  # judged seed inputs that have been dealt with, in the order of the arm
        self._judged: dict[str, BaselineSeed] = {}

    @property
    def expected_seconds(self) -> float:
        """Seconds that the next ``update`` should take, the start of the worker included."""
        if self._over is not None:
            return 0.0
        samples = 0 if self._answers is not None else len(self._clean)
        if self._tail is not None and self._tail_answers is None:
            samples += len(self._tail)
        if self._work.judging is not None:
            samples += (self._work.judging.judged - self._done) * self._work.judging.executions_per_seed
        started = 0.0 if self._model.running else START_SECONDS
        return started + self._work.seconds_per_sample * samples

    def update(self) -> None:
        """Runs what the baseline has not been run on yet. Where there is no time for all of it, the next ``update`` goes on from there.

        Raises:
            Interrupted: somebody said stop; what was done until then is in ``work``.
        """
        if self._over is not None:
            return
        self._late = None
        try:
            self._ask()
        except Interrupted:
            self._late = "the run was interrupted"
            raise
        except BudgetSpent as error:
            self._late = why_left_out(error)
        except GateError as error:
            self._over = why_left_out(error)
        finally:
            self._note()

    def leave_out(self, why: str) -> None:
        """Notes why there is no other ``update``, where it is not for the baseline itself."""
        self._late = why
        self._note()

    def _ask(self) -> None:
        self._check_time()
        if self._answers is None:
            answers = self._read(self._clean)
            need_a_reader(int((answers == self._clean.y).sum()), len(self._clean), len(self._work.classes))
            self._answers = answers
        if self._tail is not None and self._tail_answers is None:
            self._tail_answers = self._read(self._tail)
        if self._work.judging is not None:
            self._ask_of_mutants(self._answers)

    def _check_time(self) -> None:
        """Leaves alone what the budget keeps for others; what it keeps for this may be used.

        Raises:
            BudgetSpent: there is no time left.
        """
        budget = self._work.budget
        left = budget.wall_left(reserve=True)
        if left is not None and left + budget.kept_for_pairing <= (0.0 if self._model.running else LEAST_SECONDS):
            raise BudgetSpent("The budget ended before the baseline had been run on the candidate's inputs.", where="budget.wall")

    def _read(self, data: ImageSet) -> np.ndarray:
        """int64 [N]: the baseline's predictions of a labelled set, -1 where there is no finite answer."""
        size = self._work.settings.batch_size
        parts = [np.empty(0, dtype=np.int64)]
        for start in range(0, len(data), size):
            self._check_time()
            rows = slice(start, start + size)
            with self._model.asked(len(data.x[rows])) as baseline:
                self._work.deadline.begin("the baseline was run on the candidate's inputs")
                parts.append(self._seen(baseline, data.x[rows], data.y[rows]).predicted)
        return np.concatenate(parts)

    def _seen(self, baseline: Baseline, x: np.ndarray, labels: np.ndarray) -> Observation:
        raw, raised, wasted = answered(baseline.worker, x, self._work.settings.batch_size, self._raising)
        self._model.executions += wasted
        return observe(raw, baseline.output_kind, labels, raised=raised)

    def _ask_of_mutants(self, answers: np.ndarray) -> None:
        work = self._work
        assert work.seeds is not None
        assert work.judging is not None
        rows = np.flatnonzero(self._predicted == self._clean.y)  # of the clean set: the seed inputs
        right = answers[rows] == self._clean.y[rows]
        at_once = max(1, work.settings.batch_size // work.judging.mutants_per_seed)
        judged = work.judging.rows[self._done :]
        for start in range(0, len(judged), at_once):
            self._check_time()
            some = judged[start : start + at_once]
            both = [row for row in some if right[row.seed]]
            if both:
                seeds = np.array([row.seed for row in both], dtype=np.int64)
                self._ask_of_seeds(seeds, np.array([row.valid for row in both], dtype=np.bool_))
            self._done += len(some)

    def _ask_of_seeds(self, seeds: np.ndarray, valid: np.ndarray) -> None:
        """Notes what the baseline makes of the valid mutants of S seed inputs; ``valid`` is [S, slots]."""
        work = self._work
        assert work.seeds is not None
        assert work.judging is not None
        made, repeat = work.judging.remade(seeds), work.judging.repeat
        which = np.flatnonzero(valid.reshape(-1))
        failed, predicted, confidence = np.zeros(valid.size, bool), np.full(valid.size, -1), np.zeros(valid.size)
        if len(which):
            labels = np.repeat(work.seeds.labels[seeds], valid.shape[1])[which]
            with self._model.asked(repeat * len(which)) as baseline:
                work.deadline.begin("the baseline was run on the candidate's inputs")
                seen = [self._seen(baseline, made[which], labels) for _ in range(repeat)]
            answers = np.concatenate([one.predicted for one in seen])
            # Where the model raised on all of a batch nobody knows how many classes it tells apart.
            surest = np.concatenate([np.nan_to_num(one.probabilities).max(axis=1) for one in seen])
            none = np.zeros(len(answers))
            outcome = Outcome(none[:, None], answers, none.astype(np.int64) - 1, none, failed=answers != np.tile(labels, repeat))
            told = Answers.of(outcome, repeat, work.judging.aggregate)
            failed[which], predicted[which], confidence[which] = told.failed, answers[told.told], surest[told.told]
        for row, seed in enumerate(seeds.tolist()):
            own = slice(row * valid.shape[1], (row + 1) * valid.shape[1])
            self._judged[work.seeds.ids[seed]] = BaselineSeed(
                failed=failed[own].tolist(), predicted=predicted[own].tolist(), confidence=confidence[own].tolist()
            )

    def _note(self) -> None:
        work, why = self._work, self._over or self._late
        reason = None if why is None else f"the baseline was not run on all of the candidate's inputs: {why}"
        clean, tail = self._answers, self._tail_answers
        summary = work.against_baseline or BaselineSummary(reason=_NOT_ASKED)
        update = {
            "clean": 0 if clean is None else len(clean),
            "long_tail": 0 if tail is None else len(tail),
            "judged": len(self._judged),
            "paired_reason": why,
            "executions": self._model.executions,
            "seconds": round(self._model.seconds, 3),
        }
        work.against_baseline = summary.model_copy(update=update)
        if clean is None:
            work.baseline_evidence, work.baseline_reason = None, f"the baseline was not run on the candidate's inputs: {why}"
            return
        work.baseline_reason = None
        work.baseline_evidence = BaselineEvidence(
            correct=tuple((clean == self._clean.y).tolist()),
            long_tail=() if tail is None else tuple(tail.tolist()),
            judged=dict(self._judged),
            nonfinite=int(((clean < 0) & (self._predicted < 0)).sum()),
            reason=reason,
        )


def note_known(work: Work) -> None:
    """Notes in ``work.baseline_evidence`` how many of the defects that are counted one by one the baseline has too. To be called last.

    Where it was not asked about all of one kind, nothing is said of that kind; nor of any, where there were findings left that nobody had
    time to confirm, for they may be other failures than those that are defects.
    """
    if work.baseline_evidence is None or work.confirmer is None or (work.campaign is not None and work.campaign.outcome.unconfirmed):
        return
    said: dict[str, int] = {}
    for oracle, all_of_them, shared in ((Crash, "crash_defects", "known_crashes"), (NonFinite, "nonfinite_defects", "known_nonfinite")):
        known = [defect.known for defect in work.confirmer.defects if defect.oracle == oracle.name]
        if None not in known:
            said |= {all_of_them: len(known), shared: sum(map(bool, known))}
    work.baseline_evidence = work.baseline_evidence.model_copy(update=said)
