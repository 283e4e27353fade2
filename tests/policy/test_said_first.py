"""Among the reasons of a verdict, what makes all others hard to read comes first."""

from __future__ import annotations

from gate.metrics.measured import measured
from gate.policy.judgement import judge
from gate.result import RuleResult, Status


def rule(name: str, metric: str, status: Status = Status.FAIL) -> RuleResult:
    return RuleResult(id=name, metric=metric, kind="quality", status=status, value=1.0, threshold="> 0", explanation="it is so.")


def test_a_model_that_failed_its_checks_is_named_before_rules_that_broke_as_badly_and_after_those_that_broke_worse() -> None:
    metrics = {"executions": measured("executions", 5.0, n=5)}
    rules = (rule("accuracy", "clean_accuracy"), rule("z-preflight", "preflight_faults"), rule("broken", "defect_rate", Status.ERROR))
    judged = judge(rules, metrics, advisory=False)
    assert [reason.split(":")[0] for reason in judged.reasons] == ["broken", "z-preflight", "accuracy"]
