"""The campaign: arms take turns until the budget ends, the search stalls, or somebody says stop.

Each turn: an arm proposes a batch of mutants, the worker runs it in one pass which also updates coverage, the oracles look at the
outputs, findings go to whoever confirms them, and the arm learns. What steers counts executions and model calls, never seconds; time
only ends the loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gate.campaign.arms import ArmCount, Turns
from gate.campaign.batch import Batch, Finding, Outcome, families_of
from gate.campaign.budget import Budget, BudgetSpent
from gate.campaign.controls import noise_batch, random_batch
from gate.campaign.deadline import Interrupted
from gate.campaign.evenly_spaced import EvenlySpaced
from gate.campaign.events import EventLog
from gate.campaign.gain_curve import GainCurve
from gate.campaign.invalid import add_reasons
from gate.campaign.judging import JudgingArm
from gate.campaign.search import SearchArm
from gate.campaign.supervisor import Worker
from gate.config import CoverageSettings
from gate.domains.domain import InputDomain
from gate.models.outputs import OutputKind, predictions, probabilities
from gate.oracles import ORACLES, Observation, complaints

__all__ = ["Campaign", "CampaignOutcome", "ClassCount", "Confirm", "Point", "Seeds"]

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
    classes: dict[int, ClassCount] = field(default_factory=dict)  # by true class of the seed input
    stalled_for: int = 0  # search executions since one covered something new
    discovery: dict[str, dict[str, Any] | None] = field(default_factory=dict)  # by criterion; see gate.coverage.discovery.Estimate
    nonfinite: int = 0
    unconfirmed: int = 0  # findings that there was no time left to confirm
    steps: int = 0

    @property
    def executions(self) -> int:
        """Of all arms."""
        return sum(count.executions for count in self.counts.values())


class Campaign:
    """Owns the arms and the loop.

    Args:
        worker: with the model loaded, the criteria fitted and the seeds' coverage taken.
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
    ) -> None:
        self._worker = worker
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
        self._curve: EvenlySpaced[Point] = EvenlySpaced(CURVE_POINTS)
        self.outcome = CampaignOutcome(
            counts={arm: ArmCount(coverage=dict(initial)) for arm in ("search", "judging", "random", "noise")},
            initial=dict(initial),
            final=dict(initial),
            raw=dict(initial),
            after_first=dict(initial),
            curve=self._curve.points,
            gains={arm: GainCurve(initial) for arm in ("search", "random", "noise")},
            operators={name: OperatorCount() for name in search.choice.names},
        )

    def run(self) -> CampaignOutcome:
        """Runs until there is a reason to stop; the outcome so far is in ``outcome`` also while it runs.

        A batch for which the worker has no time left is dropped, as if it had never been made.
        """
        self._note_point()
        while True:
            started = self._budget.seconds
            reason = self._reason_to_stop()
            batch: Batch | None = None
            try:
                batch = None if reason else self._next_batch()
                if batch is not None:
                    self._turn(batch, started)
                    continue
            except (BudgetSpent, Interrupted) as error:
                reason = "wall" if isinstance(error, BudgetSpent) else "interrupted"
                # The device was held for it all the same; only the search makes mutants on the device.
                self.outcome.counts["search" if batch is None else batch.arm].seconds += self._budget.seconds - started
            self.outcome.stop_reason = reason or ("saturated" if self._closed else "executions")
            return self.outcome

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
    def _closed(self) -> bool:
        """Whether search and control arms are over because the search has stalled."""
        return self._coverage.on_stall != "continue" and self._stalled

    def _reason_to_stop(self) -> str | None:
        if self._stop():
            return "interrupted"
        return self._budget.ended(self.outcome.executions) or ("saturated" if self._coverage.on_stall == "end" and self._stalled else None)

    def _next_batch(self) -> Batch | None:
        step = self.outcome.steps
        limit = self._budget.settings.executions
        left = self.step_size if limit is None else min(self.step_size, limit - self.outcome.executions)
        closed = {"search", "random", "noise"} if self._closed else set()
        while True:
            arm = self._turns.next(self.outcome.counts, frozenset({"search", "judging", "random", "noise"} - closed), left)
            if arm is None and not self._closed and "judging" in closed:
                arm = "search"  # the judging arm has no seed input left, and nothing but it had a share
            if arm is None:
                return None
            if arm == "search":
                until_first = FIRST_EXECUTIONS - self.outcome.counts["search"].executions
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
        return left if limit is None else max(1, min(left, round(share * limit) - self.outcome.counts[arm].executions))

    def _judging_room(self, left: int) -> int:
        """Executions the judging arm may take now: whole seed inputs within its share of an executions budget."""
        limit = self._budget.settings.executions
        room = max(left, self._judging.mutants_per_seed)
        if limit is None:
            return room
        # 0.57 * 100 is a little less than 57 in floating point, and means 57.
        share = math.floor(self._turns.shares["judging"] * limit + 1e-6) - self.outcome.counts["judging"].executions
        return min(room, share, limit - self.outcome.executions)

    def _turn(self, batch: Batch, started: float) -> None:
        """Runs a batch; ``started`` is when its making began: the device is held while mutants are made, too."""
        count = self.outcome.counts[batch.arm]
        outcome, said, added = self._execute(batch)
        count.executions += len(batch.x)
        count.valid += int(batch.valid.sum())
        count.model_calls += len(batch.x) + batch.model_calls
        self.outcome.steps += 1
        if batch.arm in self.outcome.gains:
            count.coverage = dict(said["valid"])
            self.outcome.gains[batch.arm].note(count.coverage, added)
        found = self._findings(batch, outcome)
        if batch.arm == "search":
            self._after_search(batch, outcome, found, said)
        elif batch.arm == "judging":
            self._judging.take(batch, outcome)
        count.seconds += self._budget.seconds - started
        self._note_point()
        self._events.emit(
            "step",
            step=batch.step,
            arm=batch.arm,
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

    def _execute(self, batch: Batch) -> tuple[Outcome, dict[str, Any], np.ndarray]:
        """Runs a batch in the worker; also gives what the worker says of the arm's map, and what each mutant added, by criterion."""
        covers = batch.arm != "judging"
        earns = np.ones(len(batch.x), dtype=bool) if batch.arm == "noise" else batch.valid
        parameters = {"arm": batch.arm if covers else None}
        fields, arrays = self._worker.call("run", parameters, {"x": batch.x, "earns": earns})
        raw = arrays["raw"]
        probability = probabilities(raw, self._output_kind)
        predicted = predictions(raw, self._output_kind)
        labels = np.where(batch.seeds >= 0, self._seeds.labels[np.maximum(batch.seeds, 0)], -1)
        if batch.arm == "noise":
            complaint = np.full(len(batch.x), -1, dtype=np.int64)
        else:
            complaint = complaints(Observation(raw, probability, predicted, labels))
        new_items = arrays["new_items"] if covers else np.zeros(len(batch.x))
        added = arrays["added"] if covers else np.zeros((len(batch.x), 0))
        return Outcome(probability, predicted, complaint, new_items), fields, added

    def _findings(self, batch: Batch, outcome: Outcome) -> np.ndarray:
        """bool [N]: which mutants are new distinct findings; confirms them on the way."""
        count = self.outcome.counts[batch.arm]
        new = np.zeros(len(batch.x), dtype=bool)
        doubtful = self._mixed and batch.arm != "judging"  # an overflow counts only once full precision has seen it, too
        for slot in np.flatnonzero((outcome.complaint >= 0) & batch.valid):
            count.findings += 1
            oracle = ORACLES[int(outcome.complaint[slot])].name
            if oracle == "non_finite" and not doubtful:
                self.outcome.nonfinite += 1
            if batch.arm == "random":
                continue  # the control arm is there to be counted, its findings belong to nobody
            finding = self._finding(batch, outcome, int(slot), oracle)
            tries = self._tries.get(finding.key, 0)
            if tries >= CONFIRMATIONS_PER_KEY:
                continue
            confirmed = self._confirmed(finding)
            if confirmed is None:
                self.outcome.unconfirmed += 1
            elif confirmed:
                self._tries[finding.key] = CONFIRMATIONS_PER_KEY
                count.defects += 1
                self.outcome.nonfinite += int(oracle == "non_finite" and doubtful)
                new[slot] = True
            else:
                self._tries[finding.key] = tries + 1
        return new

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
            natural=all(step.operator not in self.domain.model_bounds for step in recipe),
            oracle=oracle,
            label=label,
            predicted=None if predicted < 0 else predicted,
            confidence_before=float(self._seeds.probabilities[seed, label]),
            confidence_after=None if predicted < 0 else float(outcome.probabilities[slot, predicted]),
        )

    def _after_search(self, batch: Batch, outcome: Outcome, found: np.ndarray, said: dict[str, Any]) -> None:
        executions = self.outcome.counts["search"].executions
        self.outcome.final = dict(said["valid"])
        self.outcome.raw = dict(said["raw"])
        self.outcome.discovery = dict(said["discovery"])
        if executions <= FIRST_EXECUTIONS:
            self.outcome.after_first, self.outcome.first = dict(self.outcome.final), executions
        for row, recipe in enumerate(batch.recipes):
            operator = self.outcome.operators[recipe[-1].operator]
            operator.executions += 1
            operator.valid += int(batch.valid[row])
            operator.findings += int(outcome.complaint[row] >= 0 and batch.valid[row])
            operator.new_items += float(outcome.new_items[row])
        for row, label in enumerate(self._seeds.labels[batch.seeds].tolist()):
            of_class = self.outcome.classes.setdefault(label, ClassCount())
            of_class.executions += 1
            of_class.valid += int(batch.valid[row])
            of_class.new_items += float(outcome.new_items[row])
        if batch.operators is not None and batch.faults is not None:
            add_reasons(self.outcome.invalid, batch.operators, batch.faults, self.search.choice.names, self.domain.reasons)
        self.search.take(batch, outcome, found)
        gained = np.flatnonzero(outcome.new_items > 0)
        self.outcome.stalled_for = len(batch.x) - 1 - int(gained[-1]) if len(gained) else self.outcome.stalled_for + len(batch.x)

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
