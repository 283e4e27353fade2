"""What a run watches: what the user says, else what the policy says, else the gate's own default."""

from __future__ import annotations

from gate.config import CoverageSettings
from gate.policy.schema import Policy

__all__ = ["watched"]


def watched(given: CoverageSettings, policy: Policy) -> CoverageSettings:
    """The coverage settings in force. The policy speaks only where the user names neither criteria nor guide."""
    if policy.coverage is None or {"criteria", "guide"} & given.model_fields_set:
        return given
    return given.model_copy(update={"criteria": policy.coverage.criteria, "guide": policy.coverage.guide})
