"""Which oracles are on and from what on they complain: the policy's section ``oracles``."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gate.oracles.changed_prediction import ChangedPrediction
from gate.oracles.confidence_collapse import ConfidenceCollapse
from gate.oracles.confident_misclassification import ConfidentMisclassification
from gate.oracles.crash import Crash
from gate.oracles.non_finite import NonFinite
from gate.oracles.oracle import Oracle
from gate.oracles.saturated import FLOAT16_MAX, Saturated
from gate.oracles.timeout import Timeout

__all__ = ["Switches", "panel"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


class Switch(_Part):
    """An oracle without thresholds."""

    on: bool = True


class CollapseSwitch(_Part):
    """Of confidence_collapse; leads of the first class over the second, in probability."""

    on: bool = False
    below: float = Field(default=0.1, gt=0, lt=1)
    clean: float = Field(default=0.5, gt=0, lt=1)

    @model_validator(mode="after")
    def _can_be_lost(self) -> CollapseSwitch:
        if self.below > self.clean:
            raise ValueError(f"a lead of {self.clean:g} can't fall below {self.below:g} by being lost: below must not exceed clean")
        return self


class ConfidentSwitch(_Part):
    """Of confident_misclassification; a probability."""

    on: bool = True
    above: float = Field(default=0.9, ge=0, lt=1)


class SaturatedSwitch(_Part):
    """Of saturated; a magnitude of scores."""

    on: bool = False
    above: float = Field(default=FLOAT16_MAX, gt=0)


class Switches(_Part):
    """One field for each oracle that can be switched; ``true`` and ``false`` stand for it with its own thresholds.

    Without a field are timeout and flaky: no policy can wish that a model hangs, or that what does not come back counts.
    """

    crash: Switch = Switch()
    non_finite: Switch = Switch()
    changed_prediction: Switch = Switch()
    saturated: SaturatedSwitch = SaturatedSwitch()
    confidence_collapse: CollapseSwitch = CollapseSwitch()
    numeric_path: Switch = Switch()
    batch_dependence: Switch = Switch()
    universal_mark: Switch = Switch()
    baseline_disagreement: Switch = Switch()
    confident_misclassification: ConfidentSwitch = ConfidentSwitch()
    unjustified_confidence: Switch = Switch()

    @model_validator(mode="before")
    @classmethod
    def _spelled_out(cls, data: Any) -> Any:
        return {name: _spelled_out(name, given) for name, given in data.items()} if isinstance(data, dict) else data

    @model_validator(mode="after")
    def _one_at_least(self) -> Switches:
        if not any(getattr(self, name).on for name in _OF_MUTANTS):
            raise ValueError(f"no oracle is left that could find a defect; switch on one of {', '.join(_OF_MUTANTS)}")
        return self


def _spelled_out(name: str, given: Any) -> Any:
    if isinstance(given, bool):
        return {"on": given}
    if isinstance(given, dict):
        return {"on": True, **given}
    if isinstance(given, BaseModel):
        return given
    raise ValueError(f"{name} is true, false or its thresholds, not {given!r}")


_OF_MUTANTS = ("crash", "non_finite", "changed_prediction", "saturated", "confidence_collapse", "confident_misclassification")


def panel(switches: Switches | None = None) -> tuple[Oracle, ...]:
    """The oracles that look at every mutant's answer, the lowest rank first; the defaults' where no switches are given."""
    chosen = switches or Switches()
    collapse, confident, saturated = chosen.confidence_collapse, chosen.confident_misclassification, chosen.saturated
    oracles: list[tuple[bool, Oracle]] = [
        (chosen.crash.on, Crash()),
        (True, Timeout()),
        (chosen.non_finite.on, NonFinite()),
        (chosen.changed_prediction.on, ChangedPrediction()),
        (saturated.on, Saturated(saturated.above)),
        (collapse.on, ConfidenceCollapse(collapse.below, collapse.clean)),
        (confident.on, ConfidentMisclassification(confident.above)),
    ]
    return tuple(sorted((oracle for on, oracle in oracles if on), key=lambda oracle: oracle.rank))
