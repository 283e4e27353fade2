"""The one object a run ends in. Every rendering (exit code, JUnit, HTML, summary, registry tag) is made from it and from nothing else.

``Result`` is what ``result.json`` holds: schema ``gate.result/1``. Objects are frozen; a file with unknown or malformed fields is refused.
"""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gate.errors import OutputError

__all__ = [
    "SCHEMA",
    "UNREACHED_EXAMPLES",
    "UNREACHED_PLACES",
    "ArmSummary",
    "Attribution",
    "BaselineSummary",
    "CampaignSummary",
    "CanaryResult",
    "CanarySummary",
    "ClassCoverage",
    "ControlComparison",
    "CorpusReuse",
    "CoverageSummary",
    "CurvePoint",
    "DataSetInfo",
    "Defect",
    "Discovery",
    "EarlierCause",
    "EarlyDecision",
    "FamilyMargin",
    "FeatureMap",
    "FlakyFinding",
    "Heat",
    "LayerSummary",
    "MapPoint",
    "MarksSummary",
    "Metric",
    "Minimal",
    "ModelInfo",
    "Multiplicity",
    "NeuronEffect",
    "OperatorWeights",
    "Paired",
    "PathTally",
    "PathsSummary",
    "PolicyInfo",
    "PreflightCheck",
    "PreviousInfo",
    "ProbeOracle",
    "ProbesSummary",
    "Result",
    "RootCause",
    "RuleResult",
    "Status",
    "StrategySummary",
    "Subgroup",
    "TriageSummary",
    "UniversalMark",
    "Unreached",
    "Verdict",
    "WaiverUse",
    "exit_code_of",
]

SCHEMA = "gate.result/1"
UNREACHED_PLACES = 12  # of one criterion, told of at most
UNREACHED_EXAMPLES = 5  # of one place


class Verdict(StrEnum):
    """The answer of a run. There is exactly one per run."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    ERROR = "error"


class Status(StrEnum):
    """What became of one rule."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    SKIPPED = "skipped"  # the metric is missing and the rule's on_missing says skip
    WAIVED = "waived"  # breached, and a waiver in force covers it
    ERROR = "error"


_EXIT_CODES = {Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.INCONCLUSIVE: 4, Verdict.ERROR: 3}


def exit_code_of(verdict: Verdict, *, advisory: bool = False) -> int:
    """The exit code a verdict stands for; ``advisory`` turns fail and inconclusive into 0, never an error."""
    if advisory and verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE):
        return 0
    return _EXIT_CODES[verdict]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="constants")


class ModelInfo(_Frozen):
    """The candidate or the baseline, pinned: an alias has become a version, the files have a digest."""

    uri: str  # as the user gave it
    resolved_uri: str  # pinned: models:/name/version, models:/m-..., runs:/..., or a folder
    name: str | None = None
    version: str | None = None
    digest: str | None = None  # "sha256:<hex>" over the sorted manifest
    format: str | None = None  # "pickle" | "pt2"


class PolicyInfo(_Frozen):
    """The policy that judged."""

    name: str
    digest: str  # "sha256:<hex>" over the policy in force, after extends
    source: str  # a shipped name or a file name
    description: str = ""
    criterion: str | None = None  # the coverage criterion that it reports; None: the run's first with a share


class DataSetInfo(_Frozen):
    """One data set as it was used."""

    source: str
    samples: int
    digest: str
    skipped: int = 0  # files left out because data.on_bad_file is skip


class PreviousInfo(_Frozen):
    """The earlier run whose defects were replayed."""

    source: str
    verdict: Verdict
    candidate: str  # resolved URI
    defects: int
    remaining: int  # of these, how many recur
    recurring: tuple[str, ...] = ()  # their ids in the earlier run
    digest: str | None = None  # of the earlier run's record, see Result.digest; None: the run did not note it


class PreflightCheck(_Frozen):
    """One check made before any fuzzing."""

    name: str  # eval_mode, deterministic, batch_independent, output_shape, output_kind, clean_accuracy, seeds
    status: Literal["ok", "note", "fault"]  # a fault counts in the metric preflight_faults
    seen: str
    advice: str = ""


class ArmSummary(_Frozen):
    """What one arm (search, judging, random, noise) did."""

    executions: int
    valid: int
    findings: int = 0
    defects: int = 0  # distinct ones, as in the record: what minimising merged is one; found by two arms, it counts for both
    model_calls: int = 0
    coverage: dict[str, float] = Field(default_factory=dict)  # final valid coverage by criterion, where the arm has its own map
    invalid: dict[str, int] = Field(default_factory=dict)  # invalid mutants by reason


class CorpusReuse(_Frozen):
    """What became of the entries of an earlier corpus that the search was given to start from."""

    source: str  # as the user gave it
    entries: int
    used: int  # run as the search arm's first executions
    left: int  # not run before the campaign ended
    no_seed: int  # their seed input is not among the seeds
    misclassified: int  # the candidate does not classify their seed input correctly
    unknown: int  # made by operators that the policy switches off, or that are unknown or of no use with this model
    invalid: int  # not valid under the policy
    changed: int  # of those used: made again with other bytes than the stored ones


class CampaignState(_Frozen):
    """A change in a campaign's life."""

    state: Literal["init", "active", "frozen", "paused", "resumed", "shut_down"]  # frozen: coverage has stalled, defects are looked for
    executions: int  # when it came
    reason: str


class StrategySummary(_Frozen):
    """What came of one strategy's choices of entries; or why it took no part."""

    executions: int = 0
    findings: int = 0  # new distinct ones
    new_items: float = 0.0  # newly covered items of the guiding criteria (gains of statistics included)
    model_calls: int = 0  # that scoring entries cost, in forward-equivalents
    left_out: str | None = None  # why the model does not allow it


class OperatorWeights(_Frozen):
    """How the search's work was shared out among operators at one time; the weights sum to one."""

    executions: int  # mutants that operators had been chosen for
    weights: dict[str, float]  # by operator, or by family where there are many


class ObjectiveSummary(_Frozen):
    """What the search arm spent while it was after one thing, and what came of it."""

    executions: int = 0
    model_calls: int = 0  # forward-equivalents
    findings: int = 0
    defects: int = 0  # new distinct ones


class SearchedBoundary(_Frozen):
    """The least severity of one natural operator at which the search saw seed inputs change class. Found by hunting: no rate, no margin."""

    seed_inputs: int  # that changed class at all
    of: int
    median: float  # over those that did
    smallest: float


class CampaignSummary(_Frozen):
    """The budget and how it was spent. model_calls counts forward-equivalents per sample; one backward counts two."""

    seed: int
    executions: int
    model_calls: int
    wall_seconds: float
    device: str
    device_hours: float  # time for which the device was held by the search arm, in hours
    stop_reason: str  # executions | wall | device | saturated | decided | abort | interrupted | error
    budget_executions: int | None = None  # that the run was given, of which the arms have their shares; None: time alone limits it
    stalled_for: int = 0  # search executions since one covered something new
    states: tuple[CampaignState, ...] = ()  # in the order in which they came
    unconfirmed: int = 0  # findings that there was no time left to confirm
    reused: CorpusReuse | None = None
    precision_only: int = 0  # findings of a search in mixed precision that full precision does not show; no defects
    too_close: int = 0  # findings that came back so near to a threshold that another machine might see none; no defects
    resumed: bool = False
    judge_half: Literal["all", "a", "b"] = "all"  # the half of the seed inputs that the judging arm's rates come from
    valid_fraction: float | None = None
    arms: dict[str, ArmSummary] = Field(default_factory=dict)
    fingerprint: dict[str, Any] = Field(default_factory=dict)
    started_at: str = ""
    operators: dict[str, dict[str, float]] = Field(default_factory=dict)  # by operator: executions, valid, findings, new_items
    operator_weights: tuple[OperatorWeights, ...] = ()  # over time, thinned out; empty where weights were not adapted
    objectives: dict[str, ObjectiveSummary] = Field(default_factory=dict)  # coverage; defects, once coverage had stalled
    boundary: SearchedBoundary | None = None  # None where no seed input changed class by one natural operator
    strategies: dict[str, StrategySummary] = Field(default_factory=dict)  # that chose entries, and those which were left out
    invalid: dict[str, dict[str, int]] = Field(default_factory=dict)  # by operator: the search's invalid mutants by reason
    validator: ModelInfo | None = None  # the model that a mutant must look the same to as its seed input
    validator_calls: int = 0  # its forward passes; model_calls holds none of them


class ControlComparison(_Frozen):
    """A control arm's coverage beside the search's after as many executions; both start from the seeds' coverage."""

    executions: int  # of either: those of the control arm, which has fewer unless the policy gives it more than the search
    gain: float  # of the control arm
    search_gain: float  # of the search after so many executions


class Discovery(_Frozen):
    """How much there may be left to find, estimated from the items that the search met once and twice (Good-Turing, Chao)."""

    executions: int  # valid search executions that the estimate rests on
    chance: float  # that the next one covers something new, 0 to 1
    seen: float | None  # share of what the search will reach that it has reached; None where too little is known


class Unreached(_Frozen):
    """What the campaign left uncovered in one place."""

    place: str  # a layer; of output coverage a class
    items: int  # uncovered
    total: int
    untouched: int = 0  # neurons of which nothing at all is covered
    examples: tuple[str, ...] = ()  # in words, such as "neuron 17: above its range"


class CoverageSummary(_Frozen):
    """One criterion over the campaign. Values are shares between 0 and 1 where ``kind`` is share."""

    kind: Literal["share", "count", "statistic"] = "share"
    guides: bool = True  # whether the search followed it
    initial: float
    final: float
    gain: float
    gain_per_iteration: float | None
    raw_final: float  # valid and invalid mutants together
    covered: int = 0
    total: int | None = None
    by_layer: dict[str, float] = Field(default_factory=dict)
    nonfinite: int = 0  # neurons that gave NaN or an infinite value
    unreached: tuple[Unreached, ...] = ()  # where most is left first
    random: ControlComparison | None = None  # the search's operators without guidance
    noise: ControlComparison | None = None  # uniform noise
    false_coverage: bool = False  # noise gained as much: this coverage says nothing
    discovery: Discovery | None = None


class LayerSummary(_Frozen):
    """One watched layer."""

    name: str
    type: str
    neurons: int
    low: float | None = None  # lowest and highest finite output of any neuron over the profile set
    high: float | None = None
    constant: int = 0  # neurons whose output never varied over the profile set
    head: bool = False  # the classifier head


class ClassCoverage(_Frozen):
    """What the mutants of one class's seed inputs did for the search's coverage."""

    label: int
    executions: int
    valid: int
    new_items: float  # newly covered items of the guiding criteria (gains of statistics included)
    output: float | None = None  # share of this class's confidence sections that answers fell into, where output coverage is measured


class CurvePoint(_Frozen):
    """One point of the coverage curve."""

    executions: int
    coverage: dict[str, float]
    random: dict[str, float] = Field(default_factory=dict)
    noise: dict[str, float] = Field(default_factory=dict)
    findings: int
    defects: int


class Metric(_Frozen):
    """One number with its interval. ``value`` is None where it could not be computed, and then ``reason`` says why."""

    value: float | None
    lower: float | None = None
    upper: float | None = None
    confidence: float | None = None
    n: int | None = None
    unit: str
    reason: str | None = None
    extra: dict[str, float] = Field(default_factory=dict)  # e.g. chance level beside long_tail_hit_rate
    slices: dict[str, dict[str, Metric]] = Field(default_factory=dict)  # by (class, family, long_tail_kind) -> slice -> metric
    paired: Paired | None = None  # None: there is no baseline, or it can't be compared by this metric
    paired_reason: str | None = None  # why there is none, where a baseline was given


class Paired(_Frozen):
    """A metric of the candidate beside the baseline's, on the same inputs, one seed input (or sample) being one observation."""

    candidate: float  # over the inputs that both have
    baseline: float
    rise: float  # candidate less baseline, in the metric's unit
    lower: float | None = None  # of the rise; paired interval
    upper: float | None = None
    relative: float | None = None  # rise as a share of the baseline's value; None where that is 0
    relative_lower: float | None = None
    relative_upper: float | None = None
    confidence: float | None = None
    n: int  # seed inputs (or samples) that were paired
    new: float | None = None  # the metric with those failures left out which the baseline has too, over the same inputs
    new_lower: float | None = None
    new_upper: float | None = None


class RuleResult(_Frozen):
    """What one rule of the policy came to."""

    id: str
    metric: str
    kind: Literal["quality", "adequacy"]
    status: Status
    value: float | None
    lower: float | None = None
    upper: float | None = None
    confidence: float | None = None
    unit: str = ""
    threshold: str  # as the policy writes it, e.g. "> 0.20"
    warn: str | None = None
    slice: str | None = None
    waiver: str | None = None
    explanation: str  # one sentence for a person: value, limit, distance
    next_step: str = ""  # what to do about it
    meaning: str = ""  # what the metric means, one sentence
    distance: float | None = None  # from the limit, in the metric's unit; above 0 is on the good side
    paired: Paired | None = None  # where the rule compares with the baseline, or excuses what that has too
    compare: str | None = None  # the comparison in words, e.g. "may rise by 2 points over the baseline"
    known: bool = False  # a breach that the baseline has too, and that therefore only warns
    adjusted: float | None = None  # confidence at which a breach was decided, once several rules and slices are allowed for
    evidence: tuple[str, ...] = ()  # defects that show it, the most telling first, at most five
    evidence_count: int = 0  # how many there are


class WaiverUse(_Frozen):
    """One waiver of the policy, and whether it excused anything in this run."""

    rule: str
    slice: str | None = None
    root_cause: str | None = None
    model: str | None = None
    reason: str
    owner: str
    expires: str  # the last day on which it is in force, as 2027-03-31
    state: Literal["used", "unused", "expired", "another_model"]
    as_of: str  # the day that decided whether it is in force


class Minimal(_Frozen):
    """What minimising left of a defect's recipe. The defect's own recipe, severity, families and mutant are the minimised ones."""

    found_recipe: tuple[dict[str, Any], ...]  # as the campaign found it
    found_severity: float
    found_area: float  # share of the positions that the found mutant changed
    area: float  # share of the positions that the minimised mutant changes, 0 to 1
    part: float | None = None  # share of the positions whose change alone fails as well (file ``part``); None: not looked for
    model_calls: int  # spent on this defect, in forward-equivalents
    complete: bool  # nothing simpler is known to fail; False where the allowance ended first


class NeuronEffect(_Frozen):
    """What restoring one neuron's clean value does to a mutant's answer."""

    layer: str
    neuron: int
    effect: float  # share of the way back from the mutant's margin to the seed input's; 1 is all of it, below 0 is further away
    restores: bool  # whether the seed input's answer comes back


class Heat(_Frozen):
    """Where in the picture the answers come from, before and after, and whether the change lies there."""

    method: str  # grad_cam_pp | rollout | occlusion
    layer: str | None  # None where no layer was looked at
    overlap: float  # share of the mutant's heat which lies where the change is
    chance: float | None = None  # what the overlap would be if the heat were spread evenly
    focus_before: float  # share of the positions that hold half of the heat: small is focused
    focus_after: float
    moved: float  # distance between the two heat maps: 0 the same, 1 nothing in common
    where: Literal["on_the_change", "elsewhere", "unclear"]  # the change hit what the model looks at; the decision drifted elsewhere


class Attribution(_Frozen):
    """Which neurons and which part of the picture a defect comes from."""

    neurons: tuple[NeuronEffect, ...] = ()  # by effect, the largest first
    patched: int = 0  # neurons that were tried
    of: int = 0  # neurons that there are
    neurons_reason: str | None = None  # why there are none
    heat: Heat | None = None
    heat_reason: str | None = None  # why there is none
    model_calls: int = 0


class Defect(_Frozen):
    """A confirmed finding. ``files`` are relative to the run folder."""

    id: str  # d-<12 hex>
    arm: str
    seed_id: str  # "probe:<name>" for a probe
    label: int | None  # None for a probe, which shows no class
    predicted: int | None  # None for a fault such as a non-finite output
    confidence_before: float | None
    confidence_after: float | None
    oracle: str  # the one with the lowest rank that complains; see gate.oracles
    also: tuple[str, ...] = ()  # other oracles that complain about the same mutant
    detail: str | None = None  # of the fault, in words: the numeric path, the exception
    operator: str  # the last operator of the recipe
    family: str  # dominant family; before minimising, the sorted families joined by "+"
    families: tuple[str, ...]
    natural: bool  # every operator of the recipe is a natural one
    severity: float
    recipe: tuple[dict[str, Any], ...]
    type: str | None = None  # see gate.triage.classify; None: too little is known to say
    type_reason: str | None = None  # why it is of this type, or why that can't be said; one sentence
    root_cause: str
    neurons: tuple[str, ...] = ()  # "layer[neuron]", by effect
    minimal: Minimal | None = None  # None: not minimised
    attribution: Attribution | None = None  # None: not attributed
    baseline: int | None = None  # what the baseline predicts for the same file; None where there is none or its answer is not finite
    known: bool | None = None  # whether the baseline fails on the same file, too; None: it was not asked, or that can't be said
    long_tail_kind: str | None = None  # of the long-tail sample in files["long_tail"], where the set names kinds
    files: dict[str, str] = Field(default_factory=dict)  # original, mutant, diff, cam_before, cam, long_tail, found, original_data, ...


class Subgroup(_Frozen):
    """Defects of a root cause that lie together in feature space."""

    size: int
    example: str  # defect id


class RootCause(_Frozen):
    """All defects with one (oracle, true class, predicted class or fault, family)."""

    id: str  # rc-<12 hex>
    title: str
    type: str | None = None  # of most of its defects
    type_reason: str | None = None
    size: int
    example: str  # defect id
    repair: str | None = None
    oracle: str = ""
    label: int | None = None  # None: of a probe, or of a mark, which leads there from any class
    predicted: int | None = None
    family: str = ""
    range: dict[str, tuple[float, float]] = Field(default_factory=dict)  # by parameter, in its unit: of the minimised defects
    status: Literal["new", "known", "back"] | None = None  # beside the earlier run; None where there is none
    explained: int = 0  # defects of it that were attributed
    known: int = 0  # defects of it on whose files the baseline fails, too
    subgroups: tuple[Subgroup, ...] = ()  # the largest first; empty where they could not be told apart
    outside: int = 0  # defects that belong to no subgroup
    grouped: int = 0  # defects among which subgroups were looked for
    subgroups_reason: str | None = None  # why there are none


class EarlierCause(_Frozen):
    """A root cause of the earlier run, or of one before it."""

    id: str
    title: str
    size: int
    # fixed: none of its defects recurs; known: still there; back: was fixed, and found again; None: not found, and not replayed
    status: Literal["fixed", "known", "back"] | None
    runs_ago: int = 1  # the run that last had it among its own root causes: 1 is the earlier run itself


class FlakyFinding(_Frozen):
    """A finding that did not come back every time: no defect."""

    id: str
    seed_id: str
    label: int | None
    oracle: str
    families: tuple[str, ...]
    seen: dict[str, int]  # answers (class numbers, or crash, timeout or non_finite) over the replays
    files: dict[str, str] = Field(default_factory=dict)


class TriageSummary(_Frozen):
    """What explaining the defects took, and what there was no budget for."""

    share: float  # of the budget
    allowed: int  # forward-equivalents
    spent: int
    minimised: int = 0
    merged: int = 0  # defects that turned out to be others' duplicates once they were minimised
    attributed: int = 0
    not_explained: tuple[str, ...] = ()  # root causes of which no defect was attributed
    reason: str | None = None  # why


class MapPoint(_Frozen):
    """One input on the map of features."""

    x: float  # 0 to 1
    y: float
    label: int
    defect: str | None = None  # of a mutant: the defect's id; None for a seed input


class FeatureMap(_Frozen):
    """Penultimate features in two dimensions: how the mutants lie between the classes. Distances far apart mean nothing (t-SNE)."""

    method: str
    points: tuple[MapPoint, ...] = ()
    reason: str | None = None  # why there is none


class FamilyMargin(_Frozen):
    """How far seed inputs stand one family of natural mutants, in the judging arm."""

    family: str
    seeds: int  # with a valid mutant of this family alone
    failed: int
    severities: tuple[float, ...] = ()  # ascending: of each seed input that failed, the smallest severity that did


class ProbeOracle(_Frozen):
    """What one oracle that needs no label said of the probes."""

    tried: int  # probes it looked at
    findings: int
    worst: float | None = None  # the largest difference of a probability that it saw; of unjustified_confidence: the highest confidence
    example: str | None = None  # the name of the worst probe it complains about
    picture: str | None = None  # of that probe, relative to the run folder
    baseline: int | None = None  # of unjustified_confidence: findings of the baseline on the same probes; None: it was not asked


class ProbesSummary(_Frozen):
    """The probes: inputs without a label, which must not break the model."""

    offered: int  # in the list
    run: int
    reason: str | None = None  # why not all were run, or not all was asked of them
    oracles: dict[str, ProbeOracle] = Field(default_factory=dict)  # numeric paths as numeric_path:<path>
    untaken: tuple[str, ...] = ()  # numeric paths that the model can't take


class BaselineSummary(_Frozen):
    """What the baseline made of the candidate's defects, and what it was run on beside the candidate."""

    reason: str | None = None  # why it was not asked, or not about all of them
    asked: int = 0  # defects
    brought_in: int = 0  # of these, how many the baseline reads rightly: new with this candidate
    same: int = 0  # ... and how many it reads as the same wrong class
    known: int = 0  # ... and on how many it fails too, in whatever way: see Defect.known
    sure_of_nothing: int | None = None  # probes that show nothing and that it is sure of; None: not asked
    clean: int = 0  # clean samples that it was run on
    long_tail: int = 0  # ... and long-tail samples
    judged: int = 0  # judged seed inputs whose mutants it was run on
    paired_reason: str | None = None  # why it was not run on the candidate's inputs, or not on all of them
    executions: int = 0  # inputs that it answered, all in all; none of them counts as the candidate's
    seconds: float = 0.0  # that this took, the start of its worker included


class CanaryResult(_Frozen):
    """One fault planted on purpose, and whether the search found it."""

    name: str
    title: str  # what the fault does, in words
    found: bool | None  # None: it was not searched for
    executions: int = 0  # that the search had
    found_after: int | None = None  # executions until it was found
    reason: str | None = None  # why it was not searched for, or could not be planted


class CanarySummary(_Frozen):
    """Faults planted in the candidate at run time: what the search's silence is worth."""

    reason: str | None = None  # why none was planted, or not all
    executions_each: int = 0
    executions: int = 0
    model_calls: int = 0
    canaries: tuple[CanaryResult, ...] = ()


class EarlyDecision(_Frozen):
    """Whether the campaign could end because everything was settled."""

    stopped: bool
    reason: str  # in words: what was settled, or what was still open
    looks: int = 0  # how often it was asked
    executions: int = 0  # when the campaign had ended
    of: int | None = None  # executions that it had, those of the canaries left out; None where the budget is in time only
    seconds: float | None = None  # that it took
    of_seconds: float | None = None  # that it would have taken at this pace; None where that can't be told
    open_rules: tuple[str, ...] = ()  # not settled when it ended


class Multiplicity(_Frozen):
    """How several rules and slices are allowed for, so that many looks do not make a breach out of chance."""

    method: Literal["holm"] = "holm"
    tests: int  # rules and slices decided on an interval
    error: float  # chance, at most, that any of them breaches by chance alone


class PathTally(_Frozen):
    """What came of one way of running the model on inputs that it reads rightly."""

    tried: int
    findings: int  # inputs with another class by a margin, or with an answer that is not finite
    worst: float  # the largest difference of a probability, whether it changed the class or not


class PathsSummary(_Frozen):
    """Right answers once more on other numeric paths, alone and in company; defects of it are of the arm ``paths``."""

    reason: str | None = None  # why nothing was compared, or not all of it
    seeds: int = 0  # seed inputs compared
    mutants: int = 0  # valid mutants of the judging arm compared
    disagreeing: int = 0  # of both
    model_calls: int = 0
    ways: dict[str, PathTally] = Field(default_factory=dict)  # batch_dependence, numeric_path:<path>
    untaken: dict[str, str] = Field(default_factory=dict)  # numeric paths without an answer, and why


class UniversalMark(_Frozen):
    """One mark, the same for all inputs, as measured on held-out seed inputs. ``files`` are relative to the run folder."""

    kind: str  # patch | border | blend
    label: int  # the class it moves inputs to
    moved: int  # held-out seed inputs of other classes that it moves there
    inputs: int  # held-out seed inputs of other classes
    rate: float
    lower: float  # exact, at the level at which all marks measured hold together
    upper: float
    confidence: float  # of all intervals together
    outlier: float | None  # how far the class is out of line with the others, in median absolute deviations; None below three classes
    shortcut: bool  # whether it moves most inputs and its class is out of line
    files: dict[str, str] = Field(default_factory=dict)  # mark, before_1, after_1, ...


class MarksSummary(_Frozen):
    """The search for universal marks."""

    reason: str | None = None  # why nothing was measured
    gradients: bool = True  # whether marks were moved along gradients, or by evolution
    searched: int = 0  # seed inputs that marks were searched on
    held_out: int = 0  # others that they were measured on, at most
    starts: int = 0  # plain marks tried first
    improved: tuple[tuple[int, int], ...] = ()  # (candidates, steps on each) at each level
    model_calls: int = 0
    marks: tuple[UniversalMark, ...] = ()  # the largest share first
    by_class: dict[str, tuple[float, ...]] = Field(default_factory=dict)  # by kind: what equal effort reached for each class, 0 to 1


class Result(_Frozen):
    """A finished run."""

    schema_: Literal["gate.result/1"] = Field(default="gate.result/1", alias="schema")
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True, title="gate.result/1")

    verdict: Verdict
    exit_code: int
    advisory: bool = False
    partial: bool = False  # interrupted before the budget ended
    reasons: tuple[str, ...]
    next_steps: tuple[str, ...] = ()
    candidate: ModelInfo
    baseline: ModelInfo | None = None
    previous: PreviousInfo | None = None
    policy: PolicyInfo | None = None
    classes: tuple[str, ...] = ()
    data: dict[str, DataSetInfo] = Field(default_factory=dict)
    preflight: tuple[PreflightCheck, ...] = ()
    campaign: CampaignSummary | None = None
    coverage: dict[str, CoverageSummary] = Field(default_factory=dict)
    layers: tuple[LayerSummary, ...] = ()  # watched by the criteria
    coverage_by_class: tuple[ClassCoverage, ...] = ()
    curve: tuple[CurvePoint, ...] = ()
    metrics: dict[str, Metric] = Field(default_factory=dict)
    rules: tuple[RuleResult, ...] = ()
    waivers: tuple[WaiverUse, ...] = ()  # of the policy, used or not
    defects: tuple[Defect, ...] = ()
    root_causes: tuple[RootCause, ...] = ()
    earlier_causes: tuple[EarlierCause, ...] = ()  # of the earlier run
    quarantine: tuple[FlakyFinding, ...] = ()
    triage: TriageSummary | None = None
    feature_map: FeatureMap | None = None
    margins: tuple[FamilyMargin, ...] = ()
    probes: ProbesSummary | None = None
    paths: PathsSummary | None = None
    against_baseline: BaselineSummary | None = None
    canaries: CanarySummary | None = None
    early: EarlyDecision | None = None  # None: the policy decides at the end
    multiplicity: Multiplicity | None = None  # None: no rule is decided on an interval
    universal_marks: MarksSummary | None = None
    isolation: dict[str, Any] = Field(default_factory=dict)
    environment: dict[str, Any] = Field(default_factory=dict)

    def class_name(self, index: int | None) -> str:
        """The name of a class, its number where it has none, or "no class"."""
        if index is None:
            return "no class"
        return self.classes[index] if 0 <= index < len(self.classes) else str(index)

    @property
    def digest(self) -> str:
        """``sha256:<hex>`` of the record, by which a later run names the one whose defects it replayed."""
        return f"sha256:{hashlib.sha256(self.to_json().encode('utf-8')).hexdigest()}"

    def to_json(self) -> str:
        """JSON text, keys in the order above, ending in a newline."""
        return json.dumps(self.model_dump(mode="json", by_alias=True), indent=2, ensure_ascii=True, allow_nan=False) + "\n"

    @classmethod
    def load(cls, run: Path) -> Result:
        """Reads ``result.json`` of a run folder.

        Raises:
            OutputError: the folder holds none, or the file is not of this schema.
        """
        path = run / "result.json"
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise OutputError(
                "No finished run can be read there.", where=str(path), hint="Give the output folder of an earlier `gate run`."
            ) from error
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            raise OutputError(
                f"The file is not a {SCHEMA} record: {'.'.join(map(str, first['loc'])) or 'document'}: {first['msg']}.",
                where=str(path),
                hint="Run the gate again, or use the version of the gate that wrote it.",
            ) from error
