"""The campaign: arms take turns until the budget ends, the search stalls, or somebody says stop.

Each turn: an arm proposes a batch of mutants, the worker runs it in one pass which also updates coverage, the oracles look at the
outputs, findings go to whoever confirms them, and the arm learns. The worker runs one step while the next is proposed: step t is proposed
from what the steps up to t - ``IN_FLIGHT`` taught, however fast anybody is and however many processes run the model, so that a campaign
repeats. What steers counts executions and model calls, never seconds; time only ends the loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gate.campaign.arms import ArmCount, Turns
from gate.campaign.batch import Batch, Finding, Outcome, families_of
from gate.campaign.budget import Budget, BudgetSpent, executions_of
from gate.campaign.controls import noise_batch, random_batch
from gate.campaign.deadline import Interrupted
from gate.campaign.evenly_spaced import EvenlySpaced
from gate.campaign.events import EventLog
from gate.campaign.gain_curve import GainCurve
from gate.campaign.invalid import add_reasons, add_to_arm
from gate.campaign.judging import JudgingArm
from gate.campaign.lifecycle import Lifecycle, Pause, State, StateChange
from gate.campaign.payoff import Objective
from gate.campaign.raising_steps import Answered, RaisingSteps, no_answers
from gate.campaign.search import SearchArm
from gate.campaign.supervisor import Request, Worker
from gate.campaign.suspects import Suspects
from gate.config import CoverageSettings
from gate.domains.chains import Chains
from gate.domains.domain import InputDomain
from gate.models.outputs import OutputKind
from gate.oracles import ORACLES, Oracle, complaints, observe
from gate.oracles.crash import Crash
from gate.oracles.non_finite import NonFinite

__all__ = ["Campaign", "CampaignOutcome", "ClassCount", "Confirm", "Point", "Seeds"]

IN_FLIGHT = 2  # steps that have been proposed and not yet taken; the same for any number of workers, for the corpus depends on it
FIRST_EXECUTIONS = 1000  # coverage_gain_per_iteration looks at this many of the search's executions
ESTIMATED_FROM = 100  # executions that an estimated chance must rest on before it stops anything, however large coverage.stall_chance
CONFIRMATIONS_PER_KEY = 3  # a finding that did not reproduce is tried again with another mutant, this often
CURVE_POINTS = 400  # the curve is thinned out beyond this many points

Confirm = Callable[[Finding], bool]


@dataclass(frozen=True)
class Seeds:
    """The seed inputs: correctly classified clean samples. S rows each."""

    x: np.ndarray  # [S, H, W, C] in the file dtype
    labels: np.ndarray  # int64 [S]
    ids: tuple[str, ...]
    probabilities: np.ndarray  # [S, C] float64
    raw: np.ndarray | None = None  # [S, K] float32: what the model answered; None: not known


@dataclass(frozen=True)
class Point:
    """One point of the coverage curve: valid coverage by criterion, of the search and of the control arms."""

    executions: int
    coverage: dict[str, float]
    random: dict[str, float]
    noise: dict[str, float]
    findings: int
    defects: int


@dataclass
class OperatorCount:
    """What one operator did in the search arm, as the last of its recipes."""

    executions: int = 0
    valid: int = 0
    findings: int = 0
    new_items: float = 0.0


@dataclass
class ClassCount:
    """What the search arm's mutants of one class's seed inputs did."""

    executions: int = 0
    valid: int = 0
    new_items: float = 0.0


@dataclass
class ObjectiveCount:
    """What the search arm spent while it was after one thing, and what came of it."""

    executions: int = 0
    model_calls: int = 0
    findings: int = 0
    defects: int = 0


@dataclass
class CampaignOutcome:
    """Everything a campaign leaves behind. Lives in the supervisor."""

    counts: dict[str, ArmCount]
    initial: dict[str, float]
    final: dict[str, float]
    raw: dict[str, float]
    after_first: dict[str, float]
    first: int = 0
    stop_reason: str = "error"  # until the loop has ended for a reason of its own
    curve: list[Point] = field(default_factory=list)
    gains: dict[str, GainCurve] = field(default_factory=dict)  # of search, random and noise
    operators: dict[str, OperatorCount] = field(default_factory=dict)
    invalid: dict[str, dict[str, int]] = field(default_factory=dict)  # the search's invalid mutants by operator and reason
    objectives: dict[Objective, ObjectiveCount] = field(default_factory=dict)  # of the search, by what it was after
    classes: dict[int, ClassCount] = field(default_factory=dict)  # by true class of the seed input
    stalled_for: int = 0  # search executions since one covered something new
    discovery: dict[str, dict[str, Any] | None] = field(default_factory=dict)  # by criterion; see gate.coverage.discovery.Estimate
    nonfinite: int = 0  # valid mutants answered with what is not finite
    crashes: int = 0  # valid mutants that made the model raise
    vanished: int = 0  # batches that made the model raise, although none of their inputs did alone
    unconfirmed: int = 0  # findings that there was no time left to confirm
    steps: int = 0
    states: list[StateChange] = field(default_factory=list)

    @property
    def executions(self) -> int:
        """Of all arms."""
        return sum(count.executions for count in self.counts.values())


class Campaign:
    """Owns the arms and the loop.

    Args:
        worker: with the model loaded, the criteria fitted and the seeds' coverage taken; or several of them.
        domain: operators and validity.
        seeds: where every mutant starts.
        search: the search arm.
        judging: the judging arm.
        shares: of the executions, for judging, random and noise.
        budget: when to stop.
        batch_size: largest batch.
        output_kind: how to read the model's output.
        initial: coverage of the seeds by criterion.
        coverage: which criteria guide, when the search counts as stalled, and what happens then.
        events: where steps are recorded.
        confirm: called with the first finding of each distinct key; says whether it became a defect.
        stop: asked between steps; True ends the campaign as interrupted.
        campaign_seed: every draw depends on it.
        mixed: whether search and control arms run in mixed precision, so that what they find may be of its making.
        pause: asked between steps whether somebody wants the campaign to wait.
        oracles: who looks at every mutant, the lowest rank first.
        suspects: keeps inputs on disk that are tried alone because they may make the model raise.
    """

    def __init__(
        self,
        *,
        worker: Worker,
        domain: InputDomain,
        seeds: Seeds,
        search: SearchArm,
        judging: JudgingArm,
        shares: dict[str, float],
        budget: Budget,
        batch_size: int,
        output_kind: OutputKind,
        initial: dict[str, float],
        coverage: CoverageSettings,
        events: EventLog,
        confirm: Confirm,
        stop: Callable[[], bool],
        campaign_seed: int,
        mixed: bool = False,
        pause: Pause | None = None,
        oracles: Sequence[Oracle] = ORACLES,
        suspects: Suspects | None = None,
    ) -> None:
        self._worker = worker
        self._oracles = tuple(oracles)
        self._raising = RaisingSteps(worker, suspects)
        self._mixed = mixed
        self.domain = domain
        self._seeds = seeds
        self.search = search
        self._judging = judging
        self._turns = Turns(shares)
        self._budget = budget
        self._output_kind = output_kind
        self._coverage = coverage
        self._events = events
        self._confirm = confirm
        self._stop = stop
        self._campaign_seed = campaign_seed
        executions = budget.settings.executions
        # A small budget is cut into smaller steps, so that there is something to learn from before it ends.
        self.step_size = batch_size if executions is None else max(1, min(batch_size, max(8, executions // 24)))
        self._tries: dict[tuple[Any, ...], int] = {}
        self._pause = pause
        self._in_flight: deque[tuple[Batch, Request, Objective]] = deque()  # with what the search was after when it was proposed
        self._proposed: dict[str, int] = {}  # executions by arm, those in flight included
        self._steps = 0  # proposed
        self._wasted = 0  # of the search's wasted work, how much has been counted
        self._ending: str | None = None  # why no step is proposed any more, once that can't change
        self._said: dict[str, tuple[int, dict[str, Any]]] = {}  # by arm what was said last of its map, and to which request
        self._noted_seconds = 0.0  # up to when the device's time has been noted for an arm
        self._curve: EvenlySpaced[Point] = EvenlySpaced(CURVE_POINTS)
        self.outcome = CampaignOutcome(
            counts={arm: ArmCount(coverage=dict(initial)) for arm in ("search", "judging", "random", "noise")},
            initial=dict(initial),
            final=dict(initial),
            raw=dict(initial),
            after_first=dict(initial),
            curve=self._curve.points,
            gains={arm: GainCurve(initial) for arm in ("search", "random", "noise")},
            operators={name: OperatorCount() for name in search.operators},
        )
        self._lifecycle = Lifecycle(self.outcome.states, events)
        # Asked before a step is proposed, once the steps until then have been taken: why the campaign should end already; None: it goes on.
        self.ending: Callable[[], str | None] | None = None

    def run(self) -> CampaignOutcome:
        """Runs until there is a reason to stop; the outcome so far is in ``outcome`` also while it runs.

        Steps in flight are finished and taken. One for which the worker has no time left is dropped, as if it had never been made.
        """
        self._note_point()
        self._proposed = {arm: count.executions for arm, count in self.outcome.counts.items()}
        self._noted_seconds = self._budget.device_seconds
        self._lifecycle.enter(State.ACTIVE, self.outcome.executions, "the campaign began")
        while True:
            reason = self._fill()
            if not self._in_flight:
                break
            self._take(*self._in_flight.popleft())
        self._note_wasted(self.search.objective, self.search.entries.spent())  # since the last batch that accounts for it
        self.outcome.stop_reason = reason or ("saturated" if self._saturated else "executions")
        self._lifecycle.enter(State.SHUT_DOWN, self.outcome.executions, self.outcome.stop_reason)
        return self.outcome

    def _fill(self) -> str | None:
        """Proposes steps until enough are in flight; answers why there are fewer, None where the arms have nothing to propose."""
        while len(self._in_flight) < IN_FLIGHT:
            reason = self._reason_to_stop()
            if reason is not None:
                return reason
            if self._pause is not None and self._pause.asked:
                self._wait(self._pause)
                continue
            self._steer()
            batch: Batch | None = None
            try:
                batch = self._next_batch()
                if batch is None:
                    return None
                self._in_flight.append((batch, self._send(batch), self.search.objective))
                self._raising.asked(batch)
            except (BudgetSpent, Interrupted) as error:
                self._drop("search" if batch is None else batch.arm, error)  # only the search makes mutants on the device
                return self._ending
            self._steps += 1
            self._proposed[batch.arm] += len(batch.x)
        return None

    def _drop(self, arm: str, error: BudgetSpent | Interrupted) -> None:
        """Notes why a step was dropped, and that the device was held for it all the same."""
        self._ending = self._ending or ("wall" if isinstance(error, BudgetSpent) else "interrupted")
        self._note_seconds(arm)

    def _note_seconds(self, arm: str) -> None:
        """Gives an arm the device's time since an arm was given some last: it is held while mutants are made, too."""
        now = self._budget.device_seconds
        self.outcome.counts[arm].seconds += now - self._noted_seconds
        self._noted_seconds = now

    def _note_wasted(self, objective: Objective, more: int = 0) -> None:
        """Counts the search's forward-equivalents that no batch accounts for."""
        work = self.search.wasted - self._wasted + more
        self._wasted = self.search.wasted
        self.outcome.counts["search"].model_calls += work
        if work:
            self.outcome.objectives.setdefault(objective, ObjectiveCount()).model_calls += work

    def _wait(self, pause: Pause) -> None:
        """Proposes and takes nothing for as long as somebody wants the campaign to wait: what is in flight stays there.

        Were it taken, the next step would be proposed from more than without the pause.
        """
        self._lifecycle.enter(State.PAUSED, self.outcome.executions, "until the file campaign/pause in the output folder is gone")
        with self._budget.device_released():
            pause.wait(lambda: self._stop() or self._budget.ended(0) == "wall")
        over = "the time is up or somebody said stop" if pause.asked else "the file campaign/pause is gone"
        self._lifecycle.enter(State.RESUMED, self.outcome.executions, over)

    def _steer(self) -> None:
        """Freezes the hunt for coverage once it has stalled: the search then looks for defects and small margins; or takes it up again."""
        if self._coverage.on_stall != "freeze":
            return
        if self._stalled:
            nothing = f"nothing new was covered for {self.outcome.stalled_for:,} executions of the search"
            unlikely = "anything new has become unlikely"
            self._lifecycle.enter(State.FROZEN, self.outcome.executions, unlikely if self._hopeless else nothing)
        elif self._lifecycle.frozen:
            self._lifecycle.enter(State.RESUMED, self.outcome.executions, "something new was covered")
        self.search.objective = "defects" if self._lifecycle.frozen else "coverage"

    @property
    def _stalled(self) -> bool:
        """Whether the search has found nothing new for long enough, or is estimated not to."""
        return self.outcome.stalled_for >= self._coverage.stall or self._hopeless

    @property
    def _hopeless(self) -> bool:
        """Whether the estimated chance that the next execution covers something new lies below what the settings ask for.

        Something new by any of the guiding criteria is never more likely than the sum of their chances. And where n executions show
        nothing at all, a chance of 3/n is still within the 95 % interval, so the estimate must rest on at least 3 / limit of them.
        """
        limit = self._coverage.stall_chance
        if limit is None:
            return False
        estimates = [self.outcome.discovery.get(name) for name in self._coverage.guides]
        known = [estimate for estimate in estimates if estimate is not None]
        # A statistic has no such chance; what it may still gain is not known.
        if len(known) < len(estimates) or min(estimate["executions"] for estimate in known) < max(ESTIMATED_FROM, 3 / limit):
            return False
        return sum(float(estimate["chance"]) for estimate in known) < limit

    @property
    def _saturated(self) -> bool:
        """Whether the search is over because it has stalled."""
        return self._coverage.on_stall == "end" and self._stalled

    def _reason_to_stop(self) -> str | None:
        if self._ending is None and self._stop():
            self._ending = "interrupted"
        self._ending = self._ending or self._budget.ended(sum(self._proposed.values()))
        if self._ending is None and self.ending is not None:
            self._ending = self.ending()
        # Unlike the others, this one may pass: a step in flight may cover something new.
        return self._ending or ("saturated" if self._saturated else None)

    def _next_batch(self) -> Batch | None:
        step = self._steps
        proposed = sum(self._proposed.values())
        limit = self._budget.executions
        left = self.step_size if limit is None else min(self.step_size, limit - proposed)
        closed = {"random", "noise"} if self._lifecycle.frozen else set()
        while True:
            # What is kept for the canaries takes nothing from the judging arm's share.
            shared = {**self._proposed, "canaries": self._budget.kept_executions}
            arm = self._turns.next(shared, frozenset({"search", "judging", "random", "noise"} - closed), left)
            if arm is None and "judging" in closed:
                arm = "search"  # the judging arm has no seed input left, and nothing but it had a share
            if arm is None:
                return None
            if arm == "search":
                until_first = FIRST_EXECUTIONS - self._proposed["search"]
                return self.search.propose(step, min(left, until_first) if until_first > 0 else left)
            if arm == "random":
                return random_batch(self.domain, self._seeds.x, self._campaign_seed, step, self._control_size(arm, left))
            if arm == "noise":
                return noise_batch(self.domain, self._campaign_seed, step, self._control_size(arm, left))
            batch = self._judging.propose(step, self._judging_room(left))
            if batch is not None:
                return batch
            closed.add("judging")

    def _control_size(self, arm: str, left: int) -> int:
        """A control arm's step: no larger than its share of a small budget."""
        limit = self._budget.settings.executions
        share = self._turns.shares[arm]
        return left if limit is None else max(1, min(left, round(share * limit) - self._proposed[arm]))

    def _judging_room(self, left: int) -> int:
        """Executions the judging arm may take now: whole seed inputs within its share of an executions budget."""
        limit = self._budget.settings.executions
        room = max(left, self._judging.executions_per_seed)
        if limit is None:
            return room
        share = executions_of(self._turns.shares["judging"], limit) - self._proposed["judging"]
        return min(room, share, limit - self._budget.kept_executions - sum(self._proposed.values()))

    def _take(self, batch: Batch, request: Request, objective: Objective) -> None:
        """Waits for a step's answer and learns from it."""
        count = self.outcome.counts[batch.arm]
        try:
            answer = self._raising.answer(batch, request, self._send)
        except (BudgetSpent, Interrupted) as error:
            self._drop(batch.arm, error)
            return
        if answer.wasted or answer.raised:
            batch = replace(batch, model_calls=batch.model_calls + answer.wasted)
            self._events.emit("raised", step=batch.step, arm=batch.arm, inputs=len(answer.raised), of=len(batch.x))
            self.outcome.vanished += int(not answer.raised)
        outcome, said, added = self._outcome(batch, answer)
        count.executions += len(batch.x)
        count.valid += int(batch.valid.sum())
        if batch.faults is not None:
            add_to_arm(count.invalid, batch.faults, self.domain.reasons)
        count.model_calls += len(batch.x) + batch.model_calls
        self.outcome.steps += 1
        if batch.arm in self.outcome.gains:
            count.coverage = dict(said["valid"])
            self.outcome.gains[batch.arm].note(count.coverage, added)
        found = self._findings(*(self._judging.once(batch, outcome) if batch.arm == "judging" else (batch, outcome)))
        if batch.arm == "search":
            self._after_search(batch, outcome, found, said)
            self._note_wasted(objective)
            self._note_objective(objective, batch, outcome, found)
        elif batch.arm == "judging":
            self._judging.take(batch, outcome)
        self._note_seconds(batch.arm)
        self._note_point()
        self._events.emit(
            "step",
            step=batch.step,
            arm=batch.arm,
            objective=objective if batch.arm == "search" else None,
            executions=self.outcome.executions,
            valid=int(batch.valid.sum()),
            of=len(batch.x),
            search={name: getattr(self.outcome.counts["search"], name) for name in ("executions", "model_calls", "findings", "defects")},
            coverage={name: round(value, 6) for name, value in self.outcome.final.items()},
            findings=sum(c.findings for c in self.outcome.counts.values()),
            defects=sum(c.defects for c in self.outcome.counts.values()),
            unconfirmed=self.outcome.unconfirmed,
            stalled_for=self.outcome.stalled_for,
            stalled=self._stalled,
            discovery={name: estimate for name, estimate in self.outcome.discovery.items() if estimate is not None},
            seconds=round(self._budget.seconds, 3),
        )

    def _send(self, batch: Batch, rows: slice = slice(None)) -> Request:
        """Asks for the answers to some rows of a batch."""
        earns = np.ones(len(batch.x), dtype=bool) if batch.arm == "noise" else batch.valid
        arm = batch.arm if batch.arm != "judging" else None
        if batch.kept is not None:
            return self._worker.ask("run_kept", {"arm": arm, "token": batch.kept}, {"earns": earns})
        part = {"part": True} if rows != slice(None) and arm is not None else {}
        return self._worker.ask("run", {"arm": arm, **part}, {"x": batch.x[rows], "earns": earns[rows]})

    def _outcome(self, batch: Batch, answer: Answered) -> tuple[Outcome, dict[str, Any], np.ndarray]:
        """What the oracles say of a step; also what the worker says of the arm's map, and what each mutant added, by criterion."""
        covers = batch.arm != "judging"
        arrays, seeds = answer.arrays, np.maximum(batch.seeds, 0)
        labels = np.where(batch.seeds >= 0, self._seeds.labels[seeds], -1)
        raw = arrays["raw"] if "raw" in arrays else no_answers(len(batch.x), self._seeds.probabilities.shape[1], self._output_kind)
        before, raw_before = (None if clean is None else clean[seeds] for clean in (self._seeds.probabilities, self._seeds.raw))
        seen = observe(raw, self._output_kind, labels, before=before, raw_before=raw_before, raised=answer.raised)
        complaint = np.full(len(batch.x), -1, dtype=np.int64) if batch.arm == "noise" else complaints(seen, self._oracles)
        new_items = arrays["new_items"] if covers and arrays else np.zeros(len(batch.x))
        added = arrays["added"] if covers and arrays else np.zeros((len(batch.x), len(self.outcome.initial) if covers else 0))
        outcome = Outcome(
            seen.probabilities,
            seen.predicted,
            complaint,
            new_items,
            arrays.get("signature"),
            failed=seen.predicted != labels,
            raised=answer.raised,
            in_parts=bool(answer.raised) or answer.wasted > 0,
        )
        return outcome, self._map_said(batch.arm, answer), added

    def _map_said(self, arm: str, answer: Answered) -> dict[str, Any]:
        """What is known of an arm's map by now.

        A step that was answered in parts was counted into it after the step behind it, so that what that step heard is not the latest.
        """
        known = self._said.get(arm)
        if answer.fields and (known is None or answer.number > known[0]):
            self._said[arm] = known = (answer.number, answer.fields)
        nothing = {"valid": self.outcome.initial, "raw": self.outcome.initial, "discovery": {}}
        return nothing if known is None else known[1]

    def _findings(self, batch: Batch, outcome: Outcome) -> np.ndarray:
        """bool [N]: which mutants are new distinct findings; confirms them on the way."""
        count = self.outcome.counts[batch.arm]
        new = np.zeros(len(batch.x), dtype=bool)
        doubtful = self._mixed and batch.arm != "judging"  # an overflow counts only once full precision has seen it, too
        complaining = (outcome.complaint >= 0) & batch.valid
        count.findings += int(complaining.sum())
        if batch.arm != "noise" and not doubtful:
            raised = np.isin(np.arange(len(batch.x)), list(outcome.raised))
            self.outcome.nonfinite += int((batch.valid & ~raised & (outcome.predicted < 0)).sum())
            self.outcome.crashes += int((batch.valid & raised).sum())
        if batch.arm == "random":
            return new  # the control arm is there to be counted, its findings belong to nobody
        for slot in np.flatnonzero(complaining).tolist():
            oracle = self._oracles[int(outcome.complaint[slot])].name
            key = self._key(batch, outcome, slot, oracle)
            tries = self._tries.get(key, 0)
            if tries >= CONFIRMATIONS_PER_KEY:
                continue
            finding = self._finding(batch, outcome, slot, oracle)
            confirmed = self._confirmed(finding)
            if confirmed is None:
                self.outcome.unconfirmed += 1
            elif confirmed:
                self._tries[key] = CONFIRMATIONS_PER_KEY
                count.defects += 1
                self.outcome.nonfinite += int(oracle == NonFinite.name and doubtful)
                self.outcome.crashes += int(oracle == Crash.name and doubtful)
                new[slot] = True
            else:
                self._tries[key] = tries + 1
        return new

    def _key(self, batch: Batch, outcome: Outcome, slot: int, oracle: str) -> tuple[Any, ...]:
        """As distinct as ``Finding.key``, for less: most findings are of a kind that is known, and then no recipe is made."""
        recipes = batch.recipes
        names = recipes.names(slot) if isinstance(recipes, Chains) else tuple(step.operator for step in recipes[slot])
        families = frozenset(map(self.domain.family, names))
        return (batch.arm, int(batch.seeds[slot]), oracle, int(outcome.predicted[slot]), families)

    def _confirmed(self, finding: Finding) -> bool | None:
        """Whether the finding is a defect; None where there is no time left to find out."""
        # Executions are not asked about: those that have run are confirmed, also where they were the last.
        if self._budget.ended(0) is not None:
            return None
        try:
            return self._confirm(finding)
        except (BudgetSpent, Interrupted):
            return None

    def _finding(self, batch: Batch, outcome: Outcome, slot: int, oracle: str) -> Finding:
        seed = int(batch.seeds[slot])
        label = int(self._seeds.labels[seed])
        predicted = int(outcome.predicted[slot])
        recipe = batch.recipes[slot]
        return Finding(
            arm=batch.arm,
            step=batch.step,
            slot=slot,
            seed=seed,
            seed_id=self._seeds.ids[seed],
            mutant=batch.x[slot],
            recipe=recipe,
            families=families_of(recipe, self.domain.family),
            natural=all(step.operator in self.domain.natural for step in recipe),
            oracle=oracle,
            label=label,
            predicted=None if predicted < 0 else predicted,
            confidence_before=float(self._seeds.probabilities[seed, label]),
            confidence_after=None if predicted < 0 else float(outcome.probabilities[slot, predicted]),
            detail=outcome.raised.get(slot),
        )

    def _after_search(self, batch: Batch, outcome: Outcome, found: np.ndarray, said: dict[str, Any]) -> None:
        executions = self.outcome.counts["search"].executions
        self.outcome.final = dict(said["valid"])
        self.outcome.raw = dict(said["raw"])
        self.outcome.discovery = dict(said["discovery"])
        if executions <= FIRST_EXECUTIONS:
            self.outcome.after_first, self.outcome.first = dict(self.outcome.final), executions
        assert batch.operators is not None
        finds = (outcome.complaint >= 0) & batch.valid
        names = self.search.operators
        for position, done in _tally(batch.operators, len(names), batch.valid, finds, outcome.new_items).items():
            operator = self.outcome.operators[names[position]]
            operator.executions += int(done[0])
            operator.valid += int(done[1])
            operator.findings += int(done[2])
            operator.new_items += float(done[3])
        labels = self._seeds.labels[batch.seeds]
        for label, done in _tally(labels, int(labels.max()) + 1, batch.valid, outcome.new_items).items():
            of_class = self.outcome.classes.setdefault(label, ClassCount())
            of_class.executions += int(done[0])
            of_class.valid += int(done[1])
            of_class.new_items += float(done[2])
        if batch.faults is not None:
            add_reasons(self.outcome.invalid, batch.operators, batch.faults, names, self.domain.reasons)
        self.search.take(batch, outcome, found)
        gained = np.flatnonzero(outcome.new_items > 0)
        self.outcome.stalled_for = len(batch.x) - 1 - int(gained[-1]) if len(gained) else self.outcome.stalled_for + len(batch.x)

    def _note_objective(self, objective: Objective, batch: Batch, outcome: Outcome, found: np.ndarray) -> None:
        count = self.outcome.objectives.setdefault(objective, ObjectiveCount())
        count.executions += len(batch.x)
        count.model_calls += len(batch.x) + batch.model_calls
        count.findings += int(((outcome.complaint >= 0) & batch.valid).sum())
        count.defects += int(found.sum())

    def _note_point(self) -> None:
        """Adds the point of now to the curve."""
        counts = self.outcome.counts
        self._curve.add(
            Point(
                self.outcome.executions,
                dict(self.outcome.final),
                dict(counts["random"].coverage),
                dict(counts["noise"].coverage),
                sum(c.findings for c in counts.values()),
                sum(c.defects for c in counts.values()),
            )
        )


def _tally(groups: np.ndarray, size: int, *columns: np.ndarray) -> dict[int, np.ndarray]:
    """By group that occurs (int64 [N], below ``size``): float64 [1 + columns]: its rows, and its sum of each column [N]."""
    rows = np.bincount(groups, minlength=size)
    sums = np.stack([rows, *(np.bincount(groups, weights=column, minlength=size) for column in columns)], axis=1)
    return {group: sums[group] for group in np.flatnonzero(rows).tolist()}
