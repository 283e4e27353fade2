"""What a run knows so far. Each stage of the pipeline adds its part; whatever is there when an error strikes still gets into the record."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gate.campaign.budget import Budget
from gate.campaign.deadline import Deadline
from gate.campaign.events import EventLog
from gate.campaign.judging import JudgingArm
from gate.campaign.lifecycle import Pause
from gate.campaign.loop import Campaign, Seeds
from gate.campaign.reuse import Reuse
from gate.campaign.run_folder import RunFolder
from gate.campaign.validator import Validator
from gate.config import Settings
from gate.corpus.corpus_file import CorpusFile, CorpusWriter
from gate.metrics.evidence import BaselineEvidence, CleanEvidence, LongTailEvidence, RegressionEvidence
from gate.policy.load import LoadedPolicy
from gate.registry.resolve import ModelReference
from gate.result import (
    BaselineSummary,
    CanarySummary,
    DataSetInfo,
    EarlyDecision,
    FeatureMap,
    LayerSummary,
    MarksSummary,
    ModelInfo,
    PathsSummary,
    PreflightCheck,
    PreviousInfo,
    ProbesSummary,
    Result,
    TriageSummary,
)
from gate.triage.allowance import Allowance
from gate.triage.confirm import Confirmer
from gate.triage.feature_space import FeatureSample

__all__ = ["Work"]


@dataclass
class Work:
    """Lives in the supervisor; owned by the pipeline. None and empty mean: that stage has not been reached."""

    settings: Settings
    policy: LoadedPolicy
    folder: RunFolder
    budget: Budget
    deadline: Deadline
    events: EventLog
    started_at: str
    reference: ModelReference | None = None
    candidate: ModelInfo | None = None
    baseline: ModelInfo | None = None
    baseline_reference: ModelReference | None = None
    validator: ModelInfo | None = None
    asked: Validator | None = None  # that model, in a worker of its own
    data: dict[str, DataSetInfo] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    preflight: tuple[PreflightCheck, ...] = ()
    preflight_faults: int | None = None
    environment: dict[str, Any] = field(default_factory=dict)
    fingerprint: dict[str, Any] = field(default_factory=dict)
    confirmer: Confirmer | None = None
    campaign: Campaign | None = None

    @property
    def pause(self) -> Pause:
        """What asks the campaign to wait: a file in the run folder, and the signals that make it."""
        return Pause(self.folder.campaign / "pause")

    judging: JudgingArm | None = None
    seeds: Seeds | None = None
    corpus: CorpusWriter | None = None
    earlier_corpus: CorpusFile | None = None  # whose entries the search starts from, too
    reuse: Reuse | None = None
    clean: CleanEvidence | None = None
    long_tail: LongTailEvidence | None = None
    long_tail_reason: str | None = None
    long_tail_hits: dict[str, bool] = field(default_factory=dict)
    regression: RegressionEvidence | None = None
    regression_reason: str | None = None
    probes: ProbesSummary | None = None
    probes_broken: int = 0  # answered with what is not finite
    probes_compared: int = 0  # in other company and on other numeric paths
    probes_disagreeing: int = 0
    paths: PathsSummary | None = None
    against_baseline: BaselineSummary | None = None
    baseline_evidence: BaselineEvidence | None = None
    baseline_reason: str | None = None  # why there is none
    canaries: CanarySummary | None = None
    early: EarlyDecision | None = None
    marks: MarksSummary | None = None
    allowance: Allowance | None = None  # of explaining what was found
    triage: TriageSummary | None = None
    feature_map: FeatureMap | None = None
    about_causes: dict[str, dict[str, Any]] = field(default_factory=dict)  # by root cause: fields of RootCause that explaining filled
    features: FeatureSample = field(default_factory=FeatureSample)
    earlier: Result | None = None  # the earlier run's record, where there is one to compare with
    gradients: bool = True
    steerable: bool = True  # whether a guiding criterion can say which way a neuron has to move
    layers: tuple[LayerSummary, ...] = ()  # watched
    previous: PreviousInfo | None = None
    coverage: dict[str, dict[str, Any]] = field(default_factory=dict)
    model_calls: int = 0
    interrupted: bool = False
    seconds_per_sample: float = 0.0  # measured before fuzzing, coverage included
