"""What a run's record says beside what its rules came to."""

from __future__ import annotations

import pytest

from gate.metrics.evidence import BaselineEvidence, CleanEvidence, Evidence
from gate.policy.load import LoadedPolicy
from gate.policy.schema import Compare, Policy, Rule
from gate.policy.threshold import Threshold
from gate.record import judged
from gate.result import ModelInfo, PolicyInfo, Result, Verdict

CLEAN = CleanEvidence(labels=(0, 1) * 50, correct=(True,) * 100)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, ""),  # nobody asked for a comparison
        ({"baseline": BaselineEvidence(correct=(True,) * 100)}, ""),
        ({"baseline_reason": "its worker did not start"}, "its worker did not start."),
        ({"baseline": BaselineEvidence(correct=(True,) * 100, reason="the budget ended.")}, "the budget ended."),
    ],
)
def test_a_baseline_that_was_given_and_not_compared_is_told_of_although_the_rules_are_skipped(more: dict[str, object], said: str) -> None:
    rules = (
        Rule(id="clean", metric="clean_accuracy", fail=Threshold("<", 0.5, "< 0.5")),  # type: ignore[call-arg]
        Rule(id="beside", metric="defect_rate", compare=Compare(max_rise=0.1), on_missing="skip"),  # type: ignore[call-arg]
    )
    policy = Policy(version=1, name="p", rules=rules)
    seen = Evidence(seed=0, classes=("a", "b"), clean=CLEAN, executions=100, domain_digest=policy.domain.digest(), **more)  # type: ignore[arg-type]
    blank = Result(verdict=Verdict.INCONCLUSIVE, exit_code=4, reasons=(), candidate=ModelInfo(uri="m", resolved_uri="m"))
    loaded = LoadedPolicy(policy=policy, info=PolicyInfo(name="p", digest="sha256:0", source="p.yaml"), rule_lines={})
    found = judged(blank, seen, loaded, advisory=False)
    assert [rule.status for rule in found.rules] == ["pass", "skipped"]
    told = [reason for reason in found.reasons if reason.startswith("Not everything was compared with the baseline: ")]
    assert [reason.endswith(said) for reason in told] == ([True] if said else [])
