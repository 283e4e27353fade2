"""Two finished runs side by side: what became of root causes, rules, metrics, coverage and defects from A to B, and what may be compared.

Nothing is judged. A root cause that B did not find counts as fixed only where B replayed the defects of A and none of this cause's came
back; anything else is "not found again", which a search says of what it had no luck with, too. Two values differ for certain only where
their intervals do not overlap: stricter than a test of the difference at the same level, and so never a false alarm more often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from gate.metrics.catalogue import CATALOGUE
from gate.metrics.evidence import Evidence
from gate.report.words import limit_of
from gate.result import Defect, Metric, Result, RootCause, RuleResult, Status
from gate.triage.gravity import gravity

__all__ = [
    "CAUSE_STATUSES",
    "CauseChange",
    "Certainty",
    "Change",
    "CoverageChange",
    "DefectChange",
    "Difference",
    "MetricChange",
    "RuleChange",
    "Run",
    "as_json",
    "compare",
]

SCHEMA = "gate.difference/1"

CauseStatus = Literal["new", "back", "known", "remains", "fixed", "not found again"]
Change = Literal["better", "worse", "more", "less", "same", "unknown"]
Certainty = Literal["real change", "within noise", "no interval", ""]

CAUSE_STATUSES: tuple[CauseStatus, ...] = ("new", "back", "remains", "known", "fixed", "not found again")
_BADNESS = {Status.PASS: 0, Status.WAIVED: 1, Status.WARN: 2, Status.INCONCLUSIVE: 3, Status.FAIL: 4, Status.ERROR: 5}


@dataclass(frozen=True)
class Run:
    """A finished run and its folder."""

    result: Result
    folder: Path

    @classmethod
    def load(cls, folder: Path) -> Run:
        """Reads a run.

        Raises:
            OutputError: the folder holds no finished run, or one of another schema.
        """
        return cls(Result.load(folder), folder)

    def effort(self) -> tuple[int, str] | None:
        """(mutants of each judged seed input, digest of the domain); None where the folder holds no evidence that can be read."""
        try:
            evidence = Evidence.model_validate_json((self.folder / "campaign" / "evidence.json").read_bytes())
        except (OSError, ValidationError):
            return None
        return evidence.judging_mutants_per_seed, evidence.domain_digest


@dataclass(frozen=True)
class CauseChange:
    """One root cause, by its identity."""

    id: str
    title: str
    status: CauseStatus
    before: RootCause | None
    after: RootCause | None
    basis: str  # what the status rests on, one sentence

    @property
    def sizes(self) -> tuple[int, int]:
        """Defects of it in A and in B."""
        return (self.before.size if self.before else 0), (self.after.size if self.after else 0)

    @property
    def gravity(self) -> tuple[int, int, str]:
        """The sort key among root causes of one status."""
        cause = self.after or self.before
        return gravity(cause.oracle if cause else "", max(self.sizes), self.id)


@dataclass(frozen=True)
class MetricChange:
    """One metric in both runs."""

    name: str
    before: Metric | None
    after: Metric | None
    change: Change
    certainty: Certainty


@dataclass(frozen=True)
class RuleChange:
    """One rule in both runs; None where a run's policy does not have it."""

    id: str
    before: RuleResult | None
    after: RuleResult | None
    change: Change  # of the status; of the value where the status is the same
    certainty: Certainty  # of the value

    @property
    def moved_status(self) -> tuple[Status, Status] | None:
        """Both statuses where one of them is better than the other."""
        if self.before is None or self.after is None or self.change == "unknown" or self.before.status is self.after.status:
            return None
        return self.before.status, self.after.status

    @property
    def other_limit(self) -> bool:
        """Whether both runs have the rule, with different limits."""
        return self.before is not None and self.after is not None and self.before.threshold != self.after.threshold


@dataclass(frozen=True)
class CoverageChange:
    """One criterion in both runs."""

    criterion: str
    kind: str  # share, count or statistic
    before: tuple[float, float] | None  # of the seeds alone, at the end
    after: tuple[float, float] | None


@dataclass(frozen=True)
class DefectChange:
    """A defect of one run beside the same one, or another one on the same seed input, of the other run."""

    before: Defect | None
    after: Defect | None
    same: bool  # whether both are one and the same defect


@dataclass(frozen=True)
class Difference:
    """Everything that two runs have to say about each other."""

    a: Run
    b: Run
    replayed: bool  # whether B replayed the defects of A
    remarks: tuple[str, ...]  # why numbers can't be compared as they stand, or what has to be known to do so
    causes: tuple[CauseChange, ...]
    rules: tuple[RuleChange, ...]
    metrics: tuple[MetricChange, ...]
    coverage: tuple[CoverageChange, ...]
    both: tuple[DefectChange, ...]
    only_a: tuple[DefectChange, ...]
    only_b: tuple[DefectChange, ...]

    def count(self, status: CauseStatus) -> int:
        """Root causes of this status."""
        return sum(cause.status == status for cause in self.causes)


def compare(a: Run, b: Run) -> Difference:
    """Sets run B beside run A; A is the earlier one."""
    replayed = b.result.previous is not None and b.result.previous.digest == a.result.digest
    both, only_a, only_b = _defects(a.result, b.result)
    return Difference(
        a=a,
        b=b,
        replayed=replayed,
        remarks=tuple(_remarks(a, b)),
        causes=_causes(a.result, b.result, replayed),
        rules=_rules(a.result, b.result),
        metrics=_metrics(a.result, b.result),
        coverage=_coverage(a.result, b.result),
        both=both,
        only_a=only_a,
        only_b=only_b,
    )


def as_json(difference: Difference) -> dict[str, Any]:
    """The difference as JSON values (schema ``gate.difference/1``)."""

    def run(one: Run) -> dict[str, Any]:
        result = one.result
        return {
            "folder": str(one.folder),
            "digest": result.digest,
            "verdict": str(result.verdict),
            "candidate": result.candidate.model_dump(mode="json"),
            "policy": None if result.policy is None else {"name": result.policy.name, "digest": result.policy.digest},
            "executions": None if result.campaign is None else result.campaign.executions,
        }

    def value(metric: Metric | RuleResult | None) -> dict[str, Any] | None:
        if metric is None:
            return None
        said = {"value": metric.value, "lower": metric.lower, "upper": metric.upper, "confidence": metric.confidence}
        return said | ({"status": str(metric.status), "threshold": metric.threshold} if isinstance(metric, RuleResult) else {})

    return {
        "schema": SCHEMA,
        "a": run(difference.a),
        "b": run(difference.b),
        "b_replayed_a": difference.replayed,
        "remarks": list(difference.remarks),
        "root_causes": [
            {"id": one.id, "title": one.title, "status": one.status, "a": one.sizes[0], "b": one.sizes[1], "basis": one.basis}
            for one in difference.causes
        ],
        "rules": [
            {"id": one.id, "a": value(one.before), "b": value(one.after), "change": one.change, "certainty": one.certainty or None}
            for one in difference.rules
        ],
        "metrics": [
            {"name": one.name, "a": value(one.before), "b": value(one.after), "change": one.change, "certainty": one.certainty or None}
            for one in difference.metrics
        ],
        "coverage": [
            {
                "criterion": one.criterion,
                "kind": one.kind,
                **{
                    name: None if pair is None else {"initial": pair[0], "final": pair[1]}
                    for name, pair in (("a", one.before), ("b", one.after))
                },
            }
            for one in difference.coverage
        ],
        "defects": {
            "both": [one.after.id for one in difference.both if one.after is not None],
            "only_a": [one.before.id for one in difference.only_a if one.before is not None],
            "only_b": [one.after.id for one in difference.only_b if one.after is not None],
        },
    }


# ---------------------------------------------------------------------------------------------------------------------------------
# What may be compared


def _remarks(a: Run, b: Run) -> list[str]:
    one, other = a.result, b.result
    said: list[str] = []
    for name, run in (("A", one), ("B", other)):
        if run.campaign is None:
            said.append(f"Run {name} ended before any campaign, so it has nothing to compare.")
        elif run.partial or run.campaign.stop_reason in ("interrupted", "error"):
            said.append(f"Run {name} was cut short; what it did not find says little.")
    if one.classes != other.classes:
        said.append("The classes are not the same, so root causes and defects are compared by names that may mean different things.")
    if one.policy is not None and other.policy is not None and one.policy.digest != other.policy.digest:
        said.append(
            f"The policies differ ({one.policy.name} and {other.policy.name}, by content): rules, budgets and the changes allowed may be "
            "others, and rates rest on them."
        )
    seeds = tuple(run.data["seeds"].digest if "seeds" in run.data else None for run in (one, other))
    if seeds[0] != seeds[1]:
        said.append("The seeds are other data, so neither rates nor defects come from the same inputs.")
    for role in ("long_tail", "profile"):
        digests = tuple(run.data[role].digest if role in run.data else None for run in (one, other))
        if digests[0] != digests[1]:
            concerned = "what rests on it" if role == "long_tail" else "coverage"
            said.append(f"The {role.replace('_', '-')} set is not the same, so {concerned} can't be compared.")
    return said + _campaign_remarks(a, b)


def _inputs(half: str) -> str:
    return "all seed inputs" if half == "all" else f"half {half} of the seed inputs"


def _campaign_remarks(a: Run, b: Run) -> list[str]:
    one, other = a.result.campaign, b.result.campaign
    if one is None or other is None:
        return []
    said = []
    if one.seed != other.seed:
        said.append(
            f"The campaign seeds differ ({one.seed} and {other.seed}): both drew other mutants, so that defects in only one of them may "
            "be chance."
        )
    if one.executions != other.executions:
        said.append(
            f"The campaigns differ in size ({one.executions:,} and {other.executions:,} executions): the larger one finds more of "
            "anything. Compare rates, not numbers of defects or root causes."
        )
    if one.judge_half != other.judge_half:
        said.append(
            f"Rates come from {_inputs(one.judge_half)} in A and from {_inputs(other.judge_half)} in B: part of a difference may lie in "
            "the inputs."
        )
    efforts = a.effort(), b.effort()
    if efforts[0] is not None and efforts[1] is not None:
        if efforts[0][0] != efforts[1][0]:
            said.append(
                f"Each seed input was judged by {efforts[0][0]} mutants in A and {efforts[1][0]} in B: more mutants give higher rates."
            )
        if efforts[0][1] != efforts[1][1]:
            said.append("The domains differ: what a person would still label the same was drawn in other limits.")
    elif a.result.metrics or b.result.metrics:
        missing = " and ".join(name for name, effort in zip("AB", efforts, strict=True) if effort is None)
        said.append(f"How many mutants each seed input was judged by is not known of {missing} (campaign/evidence.json).")
    differing = sorted(
        key for key in {*one.fingerprint, *other.fingerprint} - {"layers"} if one.fingerprint.get(key) != other.fingerprint.get(key)
    )
    if differing:
        said.append(f"The machines or the software differ ({', '.join(differing)}): searches part ways by the last bits of an answer.")
    return said


# ---------------------------------------------------------------------------------------------------------------------------------
# Root causes


def _causes(a: Result, b: Result, replayed: bool) -> tuple[CauseChange, ...]:
    before, after = ({cause.id: cause for cause in run.root_causes} for run in (a, b))
    found = [_found(cause, before.get(identity)) for identity, cause in after.items()]
    gone = [_gone(cause, a, b, replayed) for identity, cause in before.items() if identity not in after]
    return tuple(sorted((*found, *gone), key=lambda one: (CAUSE_STATUSES.index(one.status), one.gravity)))


def _found(cause: RootCause, before: RootCause | None) -> CauseChange:
    if before is not None:
        return CauseChange(cause.id, cause.title, "known", before, cause, "Both runs found it.")
    if cause.status == "back":
        return CauseChange(cause.id, cause.title, "back", None, cause, "B found it, A did not, and an earlier run had it.")
    return CauseChange(cause.id, cause.title, "new", None, cause, "B found it and A did not.")


def _gone(cause: RootCause, a: Result, b: Result, replayed: bool) -> CauseChange:
    def said(status: CauseStatus, basis: str) -> CauseChange:
        return CauseChange(cause.id, cause.title, status, cause, None, basis)

    if not replayed or b.previous is None:
        return said("not found again", "B did not find it, and did not replay A's defects either: that is no proof of a repair.")
    own = {defect.id for defect in a.defects if defect.root_cause == cause.id}
    recurring = len(own & set(b.previous.recurring))
    if recurring:
        return said("remains", f"B's search did not find it, but {recurring} of A's {len(own)} defects of it recur when B replays them.")
    if not own:
        return said("not found again", "A lists no defect of it that could have been replayed.")
    return said("fixed", f"B replayed A's {len(own)} {'defect' if len(own) == 1 else 'defects'} of it and none recurs.")


# ---------------------------------------------------------------------------------------------------------------------------------
# Values


def _metrics(a: Result, b: Result) -> tuple[MetricChange, ...]:
    names = [name for name in CATALOGUE if name in a.metrics or name in b.metrics]
    names += sorted({*a.metrics, *b.metrics} - set(names))
    found = []
    for name in names:
        before, after = a.metrics.get(name), b.metrics.get(name)
        if all(metric is None or metric.value is None for metric in (before, after)):
            continue  # measured in neither
        spec = CATALOGUE.get(name)
        worse = None if spec is None or spec.kind == "adequacy" else spec.higher_is_worse
        found.append(MetricChange(name, before, after, _changed(before, after, worse), _certainty(before, after)))
    return tuple(found)


def _rules(a: Result, b: Result) -> tuple[RuleChange, ...]:
    before, after = ({rule.id: rule for rule in run.rules} for run in (a, b))
    found = []
    for name in dict.fromkeys((*after, *before)):
        one, other = before.get(name), after.get(name)
        # The slice that decides may be another class or family: then the values are of different things.
        comparable = one is not None and other is not None and (one.metric, one.slice) == (other.metric, other.slice)
        change, certainty = _status_change(one, other), _certainty(one, other) if comparable else ""
        if change == "same" and comparable and other is not None:
            limit = limit_of(other)
            change = _changed(one, other, None if limit is None else limit.upper)
        found.append(RuleChange(name, one, other, change, certainty))
    return tuple(found)


def _status_change(before: RuleResult | None, after: RuleResult | None) -> Change:
    if before is None or after is None or Status.SKIPPED in (before.status, after.status):
        return "unknown" if before is None or after is None or before.status is not after.status else "same"
    if before.status is after.status:
        return "same"
    return "worse" if _BADNESS[after.status] > _BADNESS[before.status] else "better"


def _changed(before: Metric | RuleResult | None, after: Metric | RuleResult | None, higher_is_worse: bool | None) -> Change:
    """Which way a value went. ``higher_is_worse`` None: neither way is good or bad."""
    if before is None or after is None or before.value is None or after.value is None:
        return "unknown" if before is not after else "same"
    if before.value == after.value:
        return "same"
    rose = after.value > before.value
    if higher_is_worse is None:
        return "more" if rose else "less"
    return "worse" if rose == higher_is_worse else "better"


def _certainty(before: Metric | RuleResult | None, after: Metric | RuleResult | None) -> Certainty:
    if before is None or after is None or before.value is None or after.value is None or before.value == after.value:
        return ""
    if before.lower is None or before.upper is None or after.lower is None or after.upper is None:
        return "no interval"
    if before.confidence != after.confidence:
        return "no interval"
    return "within noise" if before.lower <= after.upper and after.lower <= before.upper else "real change"


def _coverage(a: Result, b: Result) -> tuple[CoverageChange, ...]:
    def ends(run: Result, name: str) -> tuple[float, float] | None:
        summary = run.coverage.get(name)
        return None if summary is None else (summary.initial, summary.final)

    return tuple(
        CoverageChange(name, (a.coverage.get(name) or b.coverage[name]).kind, ends(a, name), ends(b, name))
        for name in dict.fromkeys((*a.coverage, *b.coverage))
    )


# ---------------------------------------------------------------------------------------------------------------------------------
# Defects


def _defects(a: Result, b: Result) -> tuple[tuple[DefectChange, ...], tuple[DefectChange, ...], tuple[DefectChange, ...]]:
    """(in both, only in A, only in B), each the mildest first."""
    before, after = ({defect.id: defect for defect in run.defects} for run in (a, b))
    both = [DefectChange(before[identity], after[identity], True) for identity in before if identity in after]
    beside_a, beside_b = _by_seed(a.defects), _by_seed(b.defects)
    only_a = [DefectChange(one, beside_b.get(one.seed_id), False) for identity, one in before.items() if identity not in after]
    only_b = [DefectChange(beside_a.get(one.seed_id), one, False) for identity, one in after.items() if identity not in before]
    return (
        tuple(sorted(both, key=lambda one: _mildness(one.after))),
        tuple(sorted(only_a, key=lambda one: _mildness(one.before))),
        tuple(sorted(only_b, key=lambda one: _mildness(one.after))),
    )


def _by_seed(defects: Sequence[Defect]) -> Mapping[str, Defect]:
    """The mildest defect of each seed input."""
    found: dict[str, Defect] = {}
    for defect in sorted(defects, key=_mildness):
        found.setdefault(defect.seed_id, defect)
    return found


def _mildness(defect: Defect | None) -> tuple[float, str]:
    assert defect is not None
    return defect.severity, defect.id
