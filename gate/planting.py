"""Faults planted in the candidate on purpose: whether the search finds them says what its silence is worth.

Each gets a fresh search of the kind that the candidate had, with the same number of executions, on the candidate with that one fault in it.
With a budget in executions all that is done here follows from it; where there is only time, the executions that a share of it should allow
are estimated from the campaign, and a clock ends each search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gate.campaign.arms import ArmCount
from gate.campaign.budget import BudgetSpent, executions_of
from gate.campaign.canary_kinds import (
    COLUMNS,
    FEWEST,
    KINDS,
    LEAST_EACH,
    ROWS,
    SAMPLE,
    Blind,
    Canary,
    Neurons,
    blind_mutants,
    calibrated,
    scores_of,
    title_of,
)
from gate.campaign.canary_search import Searched, search_for
from gate.campaign.deadline import Interrupted, Stage
from gate.campaign.fresh_search import fresh_search
from gate.campaign.preflight import Preflight
from gate.campaign.supervisor import Worker
from gate.domains.domain import InputDomain
from gate.errors import ModelError
from gate.oracles import panel
from gate.randomness import integer
from gate.result import CanaryResult, CanarySummary
from gate.work import Work

__all__ = ["plant_canaries", "reserve_for_canaries"]

WATCHED_MUTANTS = 1024  # blind mutants that are run to see what a deep neuron does
LOOKING = 0.5  # of their time, where that is limited, at most: until it is known what can be planted
DEEPEST = 2  # layers that are looked at for one
_DOING = "planted faults were searched for"
_MORE = "a larger budget, or a larger share (arms.canaries), would pay for more"


def reserve_for_canaries(work: Work) -> None:
    """Keeps the canaries' share of the budget from the campaign. To be called before that runs."""
    share, limits = work.policy.policy.arms.canaries, work.budget.settings
    if limits.executions is not None:
        work.budget.kept_executions = executions_of(share, limits.executions)
    times = [limit for limit in (limits.wall, limits.device) if limit is not None]
    work.budget.kept_seconds = share * min(times) if times else 0.0


def plant_canaries(work: Work, worker: Worker, domain: InputDomain, preflight: Preflight) -> None:
    """Plants each fault, searches for it, and notes what came of it in ``work``, counts included. To be called after the campaign.

    Where the time is up or somebody said stop, those that were not searched for say so.

    Raises:
        WorkerError: the worker failed.
    """
    assert work.campaign is not None
    seconds, work.budget.kept_seconds = work.budget.kept_seconds, 0.0
    each, wanted, reason = _plan(work, seconds)
    if wanted and work.campaign.outcome.stop_reason == "abort":
        wanted, reason = 0, "a defect ended the campaign (abort_on), and nothing was searched for after it"
    if wanted and worker.given_up:
        wanted, reason = 0, "the worker that runs the model had been given up by then"
    if not wanted:
        work.canaries = CanarySummary(reason=reason)
        return
    count = work.campaign.outcome.counts["canaries"] = ArmCount()
    started, device = work.budget.seconds, work.budget.device_seconds
    work.deadline.begin(_DOING, Stage.AFTER)
    planting = _Planting(work, worker, domain, preflight, each, count)
    try:
        planting.run(wanted, seconds)
    except BudgetSpent:
        planting.ended = "the time was up before all were searched for"
    except Interrupted:
        work.interrupted = True
        planting.ended = "the run was interrupted before all were searched for"
    finally:
        count.seconds = work.budget.device_seconds - device
        results = planting.results
        work.canaries = CanarySummary(
            reason=planting.ended or reason,
            executions_each=each,
            executions=count.executions,
            model_calls=count.model_calls,
            canaries=tuple(results),
        )
        said = {"found": sum(bool(one.found) for one in results), "of": sum(one.found is not None for one in results)}
        work.events.emit("canaries", **said, executions=count.executions, seconds=round(work.budget.seconds - started, 3))


def _plan(work: Work, seconds: float) -> tuple[int, int, str | None]:
    """Executions for each fault, how many are planted, and why not all kinds are."""
    share = work.policy.policy.arms.canaries
    if not share:
        return 0, 0, "the policy of the run gave canaries no share (arms.canaries)"
    assert work.campaign is not None
    limited, counts = work.budget.settings.executions is not None, work.campaign.outcome.counts
    # A campaign that was decided early may have ended before its search had a turn; a clock ends what takes longer than this allows.
    pace = counts["search"] if counts["search"].executions else counts["judging"]
    room = work.budget.kept_executions if limited else int(seconds * pace.executions / max(pace.seconds, 1e-9))
    count = min(len(KINDS), room // LEAST_EACH)
    what = f"{room:,} executions" if limited else f"about {room:,} executions in the time"
    if count == 0:
        return 0, 0, f"their share ({share:.1%}) pays for {what}, and each takes {LEAST_EACH} at least; {_MORE}"
    reason = f"their share ({share:.1%}) pays for {count} of {len(KINDS)} kinds; {_MORE}" if count < len(KINDS) else None
    return room // count, count, reason


class _Planting:
    """Takes one fault after the other."""

    def __init__(self, work: Work, worker: Worker, domain: InputDomain, preflight: Preflight, each: int, count: ArmCount) -> None:
        assert work.seeds is not None
        assert work.judging is not None
        self._work = work
        self._worker = worker
        self._domain = domain
        self._preflight = preflight
        self._each = each
        self._count = count
        self._seeds = work.seeds
        self._judging = work.judging
        self._no_neurons: str | None = None  # why
        self.results: list[CanaryResult] = []
        self.ended: str | None = None  # why not all were searched for

    def run(self, wanted: int, seconds: float) -> None:
        """Searches for so many faults, in the order of ``KINDS``; one that can't be planted makes way for the next.

        Args:
            seconds: for all of them together; 0: no clock.

        Raises:
            BudgetSpent, Interrupted, WorkerError: as the worker does.
        """
        started = self._work.budget.seconds
        ends = started + seconds
        blind, left = self._look(started + LOOKING * seconds if seconds else math.inf), wanted
        if blind is None:
            self.ended = "their share of the time was up before it was known what can be planted"
            return
        for name in KINDS:
            if not left:
                return
            self._work.deadline.check()
            if seconds and self._work.budget.seconds >= ends:
                self.ended = "their share of the time was up before all were searched for"
                return
            canary = calibrated(name, blind, self._work.settings.seed, self._work.classes)
            if name == "neuron" and self._no_neurons is not None:
                canary = self._no_neurons
            if isinstance(canary, str):
                self.results.append(CanaryResult(name=name, title=title_of(name), found=None, reason=canary))
                continue
            until = self._work.budget.seconds + (ends - self._work.budget.seconds) / left if seconds else None
            left -= self._searched(canary, until)

    def _searched(self, canary: Canary, until: float | None) -> bool:
        """Searches for one fault; whether it could be planted."""
        work = self._work

        def stop() -> bool:
            return work.deadline.stopped or (until is not None and work.budget.seconds >= until)

        blank = CanaryResult(name=canary.name, title=canary.title, found=None)
        seed = integer(work.settings.seed, "canary", canary.name)
        try:
            with self._planted(canary):
                found = self._search(seed, stop)
        except ModelError as error:
            self.results.append(blank.model_copy(update={"reason": f"it could not be searched for: {error.what.splitlines()[0]}"}))
            return False
        self._count.executions += found.executions
        self._count.valid += found.valid
        self._count.model_calls += found.model_calls
        update: dict[str, Any] = {"executions": found.executions, "found": found.found_after is not None, "found_after": found.found_after}
        if found.found_after is None and work.deadline.stopped:
            update |= {"found": None, "reason": "the run was interrupted"}
        elif not found.executions:
            update |= {"found": None, "reason": "the time was up before it was searched for"}
        self.results.append(blank.model_copy(update=update))
        work.events.emit("canary", name=canary.name, found=update["found"], executions=found.executions, rate=round(canary.rate, 6))
        return True

    @contextmanager
    def _planted(self, canary: Canary) -> Iterator[None]:
        """Inside, the fault is in the model. It is taken out whether or not there is time left for anything else."""
        self._worker.call("plant", {"canary": canary.to_json()})
        try:
            yield
        finally:
            if not self._worker.given_up:
                self._work.deadline.begin(_DOING, Stage.CLOSE)
                self._worker.call("unplant")
            self._work.deadline.begin(_DOING, Stage.AFTER)

    def _search(self, seed: int, stop: Callable[[], bool]) -> Searched:
        work, settings = self._work, self._work.settings
        assert work.campaign is not None
        search = fresh_search(
            self._worker,
            self._domain,
            self._seeds,
            settings=settings.search,
            campaign_seed=seed,
            gradients=work.gradients,
            steerable=work.steerable,
            deterministic=self._preflight.deterministic,
            batch_size=settings.batch_size,
            memory=settings.corpus_memory << 20,
        )
        return search_for(
            worker=self._worker,
            domain=self._domain,
            seeds=self._seeds,
            search=search,
            judging=self._judging,
            executions=self._each,
            batch_size=settings.batch_size,
            output_kind=self._preflight.output_kind,
            initial=work.campaign.outcome.initial,
            coverage=settings.coverage,
            oracles=panel(work.policy.policy.oracles),
            campaign_seed=seed,
            mixed=settings.search.amp != "off",
            stop=stop,
        )

    def _look(self, until: float) -> Blind | None:
        """What the seed inputs and the blind mutants show; None where the time ends before enough of them were made."""
        seeds, low_high, budget = self._seeds, self._domain.value_range, self._work.budget
        clean: list[np.ndarray] = []
        for at in range(0, len(seeds.x), ROWS):
            self._work.deadline.check()
            if budget.seconds >= until:
                return None
            clean.append(scores_of(seeds.x[at : at + ROWS], low_high))
        scores: list[np.ndarray] = []
        labels: list[np.ndarray] = []
        shown: list[np.ndarray] = []  # those that are run
        blind = self._domain.by_limits_alone()  # where a fault begins is no question of validity that is worth thousands of passes
        for mutants, classes in blind_mutants(blind, seeds.x, seeds.labels, seeds.ids, self._work.settings.seed):
            self._work.deadline.check()
            if budget.seconds >= until:
                break
            scores.append(scores_of(mutants, low_high))
            labels.append(classes)
            # Of every batch an equal part, so that all seed inputs have theirs among those that are run.
            shown.append(mutants[:: max(1, SAMPLE // WATCHED_MUTANTS)][: WATCHED_MUTANTS - sum(map(len, shown))])
        if sum(map(len, labels)) < FEWEST // 2:
            return None
        neurons: tuple[Neurons, ...] = ()
        try:
            if budget.seconds + (len(seeds.x) + WATCHED_MUTANTS) * self._work.seconds_per_sample < until:
                neurons = self._neurons(np.concatenate(shown))
            else:
                self._no_neurons = "their share of the time is too short to look at neurons"
        except ModelError as error:
            self._no_neurons = f"its neurons can't be watched on blind mutants: {error.what.splitlines()[0]}"
        return Blind(
            len(self._work.classes), seeds.labels, np.concatenate(labels), COLUMNS, np.concatenate(clean), np.concatenate(scores), neurons
        )

    def _neurons(self, mutants: np.ndarray) -> tuple[Neurons, ...]:
        """Of the deepest layers that do not give the answer themselves."""
        layers, begin = [], 0
        for layer in self._work.layers:
            if not layer.head:
                layers.append((layer.name, slice(begin, begin + layer.neurons)))
            begin += layer.neurons
        deep = layers[len(layers) // 2 :][-DEEPEST:][::-1]
        if not deep:
            self._no_neurons = "the model has no layer before its answer that could be watched"
            return ()
        clean, shown = (self._recorded(x, [columns for _, columns in deep]) for x in (self._seeds.x, mutants))
        return tuple(Neurons(name, one, other) for (name, _), one, other in zip(deep, clean, shown, strict=True))

    def _recorded(self, x: np.ndarray, columns: list[slice]) -> list[np.ndarray]:
        size, parts = self._work.settings.batch_size, []
        for start in range(0, len(x), size):
            acts = self._worker.call("record", {}, {"x": x[start : start + size]})[1]["acts"]
            parts.append([acts[:, some].copy() for some in columns])
        self._count.model_calls += len(x)
        return [np.concatenate(of_layer) for of_layer in zip(*parts, strict=True)]
