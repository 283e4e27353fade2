"""Everything the metrics are computed from, as plain numbers: what a campaign leaves behind for judging.

Written to ``campaign/evidence.json`` of the run folder, so that ``gate evaluate`` can compute every metric and interval again under
another policy without running the model.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from gate.triage.verdicts import Word

__all__ = [
    "BaselineEvidence",
    "BaselineSeed",
    "CanaryEvidence",
    "CleanEvidence",
    "CoverageEvidence",
    "Evidence",
    "JudgedSeed",
    "LongTailEvidence",
    "MarkEvidence",
    "RegressionEvidence",
    "SearchDefect",
]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class JudgedSeed(_Frozen):
    """One seed input of the judging arm: all its mutants, slot by slot. Lists are of equal length."""

    seed_id: str
    label: int
    operators: tuple[str, ...]
    families: tuple[str, ...]
    severities: tuple[float, ...]  # 0 to 1
    valid: tuple[bool, ...]
    failed: tuple[bool, ...]  # prediction changed, or output not finite
    predicted: tuple[int, ...]  # -1 where the output was not finite
    confidence: tuple[float, ...] = ()  # probability of the class predicted, 0 where there is none; empty where it was not recorded
    # Where each mutant was asked more than once, else empty:
    failures: tuple[int, ...] = ()  # of its answers, how many fail
    failing_predicted: tuple[int, ...] = ()  # of the first failing answer; of the first where none fails
    failing_confidence: tuple[float, ...] = ()


class SearchDefect(_Frozen):
    """One distinct confirmed defect of the search arm."""

    id: str
    seed_id: str
    label: int
    predicted: int | None
    natural: bool
    recurs_in_long_tail: bool | None = None  # see long_tail_hit_rate; None: not decided


class CleanEvidence(_Frozen):
    """Predictions on a labelled set, before any filtering. Lists are of equal length."""

    labels: tuple[int, ...]
    correct: tuple[bool, ...]
    nonfinite: int = 0  # of the samples, how many have an output that is not finite; they count as wrong, too


class LongTailEvidence(_Frozen):
    """The long-tail set: predictions, kinds, and what decides long_tail_hit_rate."""

    labels: tuple[int, ...]
    predicted: tuple[int, ...]  # -1 where the output was not finite
    kinds: tuple[str, ...] = ()  # slice names; empty where the set has none
    radius: float | None = None  # r: 95th percentile of same-class nearest-neighbour cosine distances among clean samples
    chance: float | None = None  # mean hit rate with the class pairs permuted
    reason: str | None = None  # why hits could not be decided


class RegressionEvidence(_Frozen):
    """The earlier run's defects, replayed. ``recurs`` gives a reason by defect id: file | seed | fresh, or None where it does not recur."""

    source: str
    recurs: dict[str, Literal["file", "seed", "fresh"] | None]
    root_cause: dict[str, str] = Field(default_factory=dict)
    half: dict[str, str] = Field(default_factory=dict)  # of the seed inputs, a or b: one may have been exported for training
    became: dict[str, Word] = Field(default_factory=dict)  # by root cause; see gate.triage.verdicts


class CoverageEvidence(_Frozen):
    """Valid coverage of one criterion of the search arm; shares between 0 and 1 where ``kind`` is share."""

    kind: Literal["share", "count", "statistic"] = "share"

    initial: float
    final: float
    after_first: float  # after the first min(1000, n) search executions
    first: int  # that number of executions


class MarkEvidence(_Frozen):
    """One universal mark, measured on held-out seed inputs of other classes than its own."""

    kind: str
    label: int
    moved: int
    inputs: int


class BaselineSeed(_Frozen):
    """What the baseline made of one judged seed input's mutants, slot by slot, where it reads the seed input itself rightly.

    Of a mutant that is not valid nobody asked: it stands there as one that does not fail, predicted as -1.
    """

    failed: tuple[bool, ...]
    predicted: tuple[int, ...]  # -1 where the output was not finite
    confidence: tuple[float, ...]  # probability of the class predicted, 0 where there is none


class BaselineEvidence(_Frozen):
    """The baseline on the same inputs as the candidate."""

    correct: tuple[bool, ...] = ()  # of the clean set, in its order; empty where it was not run
    long_tail: tuple[int, ...] = ()  # predicted classes of the long-tail set, -1 where not finite; empty where it was not run
    judged: dict[str, BaselineSeed] = Field(default_factory=dict)  # by seed_id: only what both models read rightly
    nonfinite: int = 0  # of the clean set, how many samples neither model gives a finite answer to
    crash_defects: int = 0  # the candidate's defects of that kind ...
    known_crashes: int = 0  # ... and of these, those which the baseline has too
    nonfinite_defects: int = 0  # likewise, of outputs that are not finite
    known_nonfinite: int = 0
    reason: str | None = None  # why something of it is missing


class CanaryEvidence(_Frozen):
    """One fault planted on purpose."""

    name: str
    found: bool
    executions: int  # that the search had


class Evidence(_Frozen):
    """What the metrics need; None and empty mean: not part of this run."""

    seed: int  # campaign seed
    classes: tuple[str, ...]
    clean: CleanEvidence | None = None
    long_tail: LongTailEvidence | None = None
    judged: tuple[JudgedSeed, ...] = ()
    judging_mutants_per_seed: int = 0
    judging_repeat: int = 1  # answers to each mutant
    judging_aggregate: Literal["any", "majority", "all"] = "majority"  # of which so many had to fail; by it ``failed`` was decided
    domain_digest: str = ""  # of the policy's domain, by which the mutants were made
    positive: tuple[int, ...] = ()  # classes that must not be missed; the policy that judges names them
    judged_reason: str | None = None  # why ``judged`` is empty, where that is not plain from the campaign
    search_executions: int = 0
    search_device_seconds: float = 0.0
    searched_seed_ids: tuple[str, ...] = ()  # every seed input the search could start from
    defects: tuple[SearchDefect, ...] = ()
    root_causes: int = 0
    coverage: dict[str, CoverageEvidence] = Field(default_factory=dict)
    criterion: str | None = None  # the one that coverage_gain reports
    regression: RegressionEvidence | None = None
    regression_reason: str | None = None  # why there is none, e.g. no earlier run was given
    long_tail_reason: str | None = None  # why there is none, where a set was given
    marks: tuple[MarkEvidence, ...] = ()
    marks_reason: str | None = None  # why there are none
    probes_compared: int = 0  # run in other company and on other numeric paths
    probes_disagreeing: int = 0  # of these, how many got another answer there
    probes_reason: str | None = None  # why none was compared
    inputs_compared: int = 0  # seed inputs and mutants that are read rightly: alone, in company, and on other numeric paths
    inputs_disagreeing: int = 0  # of these, how many got another class there, or no finite answer
    nonfinite_outputs: int = 0  # of valid mutants and probes
    flaky_findings: int = 0
    preflight_faults: int | None = None
    crashes: int = 0  # valid mutants and probes on which the model raised an exception
    executions: int = 0  # mutants of the search, the judging arm and the control arms
    baseline: BaselineEvidence | None = None
    baseline_reason: str | None = None  # why there is none
    canaries: tuple[CanaryEvidence, ...] = ()
    canaries_reason: str | None = None  # why there is none
    decide: Literal["end", "early"] = "end"  # early: intervals of the judging arm hold at every moment, and not only at the end
    stopped_early: str | None = None  # why there is too little, e.g. the budget ended while the model loaded
