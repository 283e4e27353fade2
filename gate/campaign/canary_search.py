"""The search for one planted fault: a campaign of its own that has a search arm alone, and ends once the fault is found.

Nothing of it reaches the corpus, the defects, the events or the coverage of the real campaign. Lives in the supervisor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gate.campaign.batch import Finding
from gate.campaign.budget import Budget
from gate.campaign.events import EventLog
from gate.campaign.judging import JudgingArm
from gate.campaign.loop import Campaign, Seeds
from gate.campaign.search import SearchArm
from gate.campaign.supervisor import Refused, Worker
from gate.config import BudgetSettings, CoverageSettings
from gate.domains.domain import InputDomain
from gate.models.outputs import OutputKind, predictions
from gate.oracles import Oracle, complaints, observe

__all__ = ["Searched", "search_for"]


@dataclass(frozen=True)
class Searched:
    """What came of the search for one planted fault."""

    found_after: int | None  # executions, to the end of the step in which it was found; None: it was not found
    executions: int
    valid: int
    model_calls: int
    ended: str  # why it ended: executions, found, stopped, or as a campaign says


def search_for(
    *,
    worker: Worker,
    domain: InputDomain,
    seeds: Seeds,
    search: SearchArm,
    judging: JudgingArm,
    executions: int,
    batch_size: int,
    output_kind: OutputKind,
    initial: dict[str, float],
    coverage: CoverageSettings,
    oracles: Sequence[Oracle],
    campaign_seed: int,
    mixed: bool,
    stop: Callable[[], bool],
) -> Searched:
    """Searches for a fault that is planted while this runs.

    A finding is the fault's where the model with it gives the input alone a wrong answer or none, and the model without it the right one.

    Args:
        search: a fresh one.
        judging: never gets a turn.
        executions: at most.
        stop: asked between steps; True ends the search early.

    The others are those of ``Campaign``.

    Raises:
        ModelError, WorkerError: as ``Campaign.run`` does.
    """
    confirming = _Confirming(worker, seeds, output_kind, oracles)
    campaign = Campaign(
        worker=worker,
        domain=domain,
        seeds=seeds,
        search=search,
        judging=judging,
        shares={},
        budget=Budget(BudgetSettings(executions=executions)),
        batch_size=batch_size,
        output_kind=output_kind,
        initial=initial,
        coverage=coverage,
        events=EventLog(None),
        confirm=confirming.confirm,
        stop=lambda: confirming.found or stop(),
        campaign_seed=campaign_seed,
        mixed=mixed,
        oracles=oracles,
    )
    confirming.executions = lambda: campaign.outcome.executions
    outcome = campaign.run()
    count = outcome.counts["search"]
    ended = "found" if confirming.found else "stopped" if outcome.stop_reason == "interrupted" else outcome.stop_reason
    return Searched(confirming.found_after, count.executions, count.valid, count.model_calls + confirming.model_calls, ended)


class _Confirming:
    """Says which findings reproduce, as for the real campaign, and notes the first that is the planted fault's."""

    def __init__(self, worker: Worker, seeds: Seeds, kind: OutputKind, oracles: Sequence[Oracle]) -> None:
        self._worker = worker
        self._seeds = seeds
        self._kind = kind
        self._oracles = oracles
        self.executions: Callable[[], int] = lambda: 0
        self.found_after: int | None = None
        self.model_calls = 0

    @property
    def found(self) -> bool:
        return self.found_after is not None

    def confirm(self, finding: Finding) -> bool:
        """Whether the finding reproduces from its bytes at batch 1."""
        sample, label = finding.mutant[None], np.array([finding.label])
        raw = self._answer("forward", sample)
        if raw is None:
            return True  # the model itself raises: no planted fault does
        clean: tuple[Any, Any] = (
            self._seeds.probabilities[[finding.seed]],
            None if self._seeds.raw is None else self._seeds.raw[[finding.seed]],
        )
        seen = observe(raw, self._kind, label, before=clean[0], raw_before=clean[1])
        if complaints(seen, self._oracles)[0] < 0:
            return False
        if not self.found and seen.predicted[0] != finding.label:
            sound = self._answer("sound", sample)
            if sound is not None and predictions(sound, self._kind)[0] == finding.label:
                self.found_after = self.executions()
        return True

    def _answer(self, operation: str, sample: np.ndarray) -> np.ndarray | None:
        self.model_calls += 1
        try:
            return self._worker.call(operation, {}, {"x": sample})[1]["raw"]
        except Refused:
            return None
