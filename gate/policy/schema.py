"""The policy in force, after ``extends``: what ``load_policy`` makes out of YAML, and what rules are judged by.

Objects are frozen. Defaults are written here once; a rule's ``kind`` comes from the catalogue and its ``on_breach`` from its kind unless
the file says otherwise.
"""

from __future__ import annotations

import datetime
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from gate.config import CRITERIA, BudgetSettings, Criterion, kind_of
from gate.domains.image.limits import Domain
from gate.metrics.catalogue import CATALOGUE
from gate.oracles import Switches
from gate.policy.threshold import Threshold
from gate.strict_yaml import nearest

__all__ = ["Arms", "Compare", "Coverage", "Judging", "Policy", "Rule", "Slice", "Waiver"]

Share = Annotated[float, Field(ge=0, lt=1)]
Text = Annotated[str, Field(min_length=1, max_length=2_000)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


class Arms(_Part):
    """Shares of the executions; what they leave is the search arm's."""

    judging: Share = 0.3
    random: Share = 0.05
    noise: Share = 0.02
    probes: Share = 0.02  # at most: there is a fixed list of them, and they come first
    marks: Share = 0.05  # at most: of the executions, model work counted in forward-equivalents
    canaries: Share = 0.0  # shared out equally among the faults planted on purpose; 0 plants none

    @model_validator(mode="after")
    def _leave_some_for_the_search(self) -> Arms:
        total = self.judging + self.random + self.noise + self.probes + self.marks + self.canaries
        if not total < 1:
            raise ValueError(f"the arms take {total:g} of the executions; they must leave some for the search, so less than 1 together")
        return self

    @property
    def search(self) -> float:
        """The search arm's share."""
        return 1 - self.judging - self.random - self.noise - self.probes - self.marks - self.canaries


class Coverage(_Part):
    """What is watched where the user says neither ``coverage.criteria`` nor ``coverage.guide``; the names are those of the settings."""

    criteria: tuple[Criterion, ...]
    guide: tuple[Criterion, ...] | None = None  # those that the search follows; None: all of criteria

    @model_validator(mode="after")
    def _fits(self) -> Coverage:
        for key, names in (("criteria", self.criteria), ("guide", self.guide)):
            if names is not None and (not names or len(set(names)) < len(names)):
                raise ValueError(f"{key} must name at least one criterion, and each of them once")
        extra = [name for name in self.guide or () if name not in self.criteria]
        if extra:
            raise ValueError(f"guide names {extra[0]!r}, which is not among criteria")
        return self


class Judging(_Part):
    """Effort per seed input of the judging arm; rates depend on it."""

    mutants_per_seed: int = Field(default=8, ge=1, le=1_000)
    repeat: int = Field(default=1, ge=1, le=99)  # how often each mutant is answered, where the set-up is noisy; each time is an execution
    aggregate: Literal["any", "majority", "all"] = "majority"  # of these answers, how many must fail for the mutant to count as failing

    @model_validator(mode="after")
    def _fit_a_step(self) -> Judging:
        if self.mutants_per_seed * self.repeat > 1_000:
            raise ValueError(f"one seed input takes {self.mutants_per_seed * self.repeat:,} executions; 1,000 is the most")
        return self


class Slice(_Part):
    """The rule is judged in every slice with enough samples, and the worst one decides."""

    by: Literal["class", "family", "half", "long_tail_kind", "root_cause"]
    worst: Literal[True] = True


class Compare(_Part):
    """How much more, or less, than the baseline the candidate may have, on the same inputs."""

    to: Literal["baseline"] = "baseline"
    max_rise: float | None = Field(default=None, ge=0)  # in the metric's unit; a share of the baseline's value where relative
    max_drop: float | None = Field(default=None, ge=0)
    relative: bool = False

    @model_validator(mode="after")
    def _one_way(self) -> Compare:
        if (self.max_rise is None) == (self.max_drop is None):
            raise ValueError("give either max_rise or max_drop")
        return self


class Rule(_Part):
    """One limit."""

    id: str = Field(max_length=100)
    metric: str
    kind: Literal["quality", "adequacy"]
    fail: Threshold | None = None
    warn: Threshold | None = None
    on_breach: Literal["fail", "inconclusive"]
    on_missing: Literal["inconclusive", "skip", "fail"] = "inconclusive"
    confidence: float | None = Field(default=None, gt=0, le=0.999999)  # None: the point value decides
    min_samples: int | None = Field(default=None, ge=1)
    slice: Slice | None = None
    compare: Compare | None = None
    known: Literal["excuse", "count"] = "excuse"  # failures which the baseline has too, on the same inputs

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, data: Any) -> Any:
        if isinstance(data, dict):
            data = dict(data)
            spec = CATALOGUE.get(data.get("metric", ""))
            if spec is not None:
                data.setdefault("kind", spec.kind)
            data.setdefault("on_breach", "inconclusive" if data.get("kind") == "adequacy" else "fail")
        return data

    @field_validator("id")
    @classmethod
    def _plain(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", value):
            raise ValueError(f"{value!r} is no id; use letters, digits, dots, dashes and underscores")
        return value

    @field_validator("metric")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in CATALOGUE:
            close = nearest(value, CATALOGUE)
            raise ValueError(f"unknown metric {value!r}" + (f"; did you mean {close!r}?" if close else ""))
        return value

    @model_validator(mode="after")
    def _makes_sense(self) -> Rule:
        spec = CATALOGUE[self.metric]
        if self.fail is None and self.warn is None and self.compare is None:
            raise ValueError(f"rule {self.id!r} has none of fail, warn and compare, so it could never say anything")
        if self.fail is not None and self.warn is not None and self.warn.out_of_reach_behind(self.fail):
            raise ValueError(f"rule {self.id!r} fails ({self.fail.text}) wherever it would warn ({self.warn.text})")
        if spec.never_quality and self.kind == "quality":
            raise ValueError(f"{self.metric} depends on the machine and says nothing about the model: its rules are of kind adequacy")
        if self.slice is not None and self.slice.by not in spec.slices:
            known = ", ".join(spec.slices) or "none"
            raise ValueError(f"{self.metric} has no slices by {self.slice.by} (it has: {known})")
        if self.confidence is not None and not spec.interval:
            raise ValueError(f"{self.metric} comes without an interval, so a rule on it can't have a confidence")
        return self


class Waiver(_Part):
    """A dated exception to one rule, in force up to and including its last day."""

    rule: str
    reason: Text
    owner: Text
    expires: datetime.date
    slice: str | None = None  # only this slice of a sliced rule
    root_cause: str | None = None  # only as far as the breach comes from this root cause
    model: str | None = None  # only models whose "name/version" matches; * matches any text

    @field_validator("reason", "owner")
    @classmethod
    def _says_something(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("must not be blank")
        return value

    @field_validator("expires", mode="before")
    @classmethod
    def _date(cls, value: Any) -> Any:
        if isinstance(value, str):
            if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
                raise ValueError(f"{value!r} is no date; write the last day as 2027-03-31")
            return datetime.date.fromisoformat(value)
        return value


class Policy(_Part):
    """Everything that decides what is tested, how hard, and what counts as good enough."""

    version: Literal[1]
    name: Text
    description: str = ""
    criterion: str | None = None  # the one coverage_gain reports; None: the run's first whose value is a share
    coverage: Coverage | None = None  # what a run measures and follows that is not told; None: the gate's own default
    positive: tuple[Text, ...] = ()  # names of the classes that must not be missed
    domain: Domain = Domain()
    arms: Arms = Arms()
    judging: Judging = Judging()
    oracles: Switches = Switches()
    decide: Literal["end", "early"] = "end"  # early: by anytime-valid intervals, so that a campaign may stop once all is settled
    abort_on: tuple[Literal["crashes", "nonfinite_outputs"], ...] = ()  # the first confirmed defect of this kind ends the campaign
    budget: BudgetSettings | None = None  # what a run gets that is given no budget; None: the gate's own default
    rules: tuple[Rule, ...]
    waivers: tuple[Waiver, ...] = ()

    @field_validator("budget")
    @classmethod
    def _limits_something(cls, value: BudgetSettings | None) -> BudgetSettings | None:
        if value is not None and value.wall is None and value.executions is None and value.device is None:
            raise ValueError("a budget needs at least one of wall, executions and device")
        return value

    @model_validator(mode="after")
    def _seen_at_all(self) -> Policy:
        for kind, switch in (("crashes", self.oracles.crash), ("nonfinite_outputs", self.oracles.non_finite)):
            if kind in self.abort_on and not switch.on:
                raise ValueError(f"abort_on names {kind}, but the oracle that finds them is switched off, so it would never end anything")
        return self

    @field_validator("positive")
    @classmethod
    def _each_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        twice = [name for name in value if value.count(name) > 1]
        if twice:
            raise ValueError(f"{twice[0]!r} stands twice")
        return value

    @field_validator("criterion")
    @classmethod
    def _measured(cls, value: str | None) -> str | None:
        if value is not None and value not in CRITERIA:
            close = nearest(value, CRITERIA)
            known = f"did you mean {close!r}?" if close else f"known: {', '.join(CRITERIA)}"
            raise ValueError(f"unknown coverage criterion {value!r}; {known}")
        if value is not None and kind_of(value) != "share":
            shares = ", ".join(name for name in CRITERIA if kind_of(name) == "share")
            raise ValueError(f"{value} has no fixed number of items, so there is no share of them to gain; take one of {shares}")
        return value
