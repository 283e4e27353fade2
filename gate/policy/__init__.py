"""Policies: what is tested, how hard, and what counts as good enough; and the one place where a verdict is made."""

from __future__ import annotations

from gate.policy.describe import describe
from gate.policy.evaluate import evaluate
from gate.policy.judgement import Judgement
from gate.policy.load import LoadedPolicy, load_policy, shipped_policies
from gate.policy.schema import Policy

__all__ = ["Judgement", "LoadedPolicy", "Policy", "describe", "evaluate", "load_policy", "shipped_policies"]
