"""Mutants of the judging arm that are answered several times count as failing by how many of their answers do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from known_model import CLASSES, Scene, reads_stripes

from gate.campaign.batch import Finding
from gate.campaign.repeated import Aggregate, least_failures
from gate.metrics import compute
from gate.metrics.aggregated import aggregated
from gate.metrics.evidence import Evidence, JudgedSeed
from gate.policy.load import LoadedPolicy
from gate.policy.schema import Judging, Policy, Rule
from gate.policy.threshold import Threshold
from gate.record import judged as judge_again
from gate.result import Metric, ModelInfo, PolicyInfo, Result, Verdict

SHARES = {"judging": 0.9}
OF_RATES = ("defect_rate", "mutant_failure_rate", "confident_error_rate", "missed_positive_rate", "robust_margin_p05")


def fails_when_dim(x: np.ndarray) -> np.ndarray:
    """Reads pictures that are a little darker than usual as the next class."""
    raw = reads_stripes(x)
    return np.where((x.reshape(len(x), -1).mean(axis=1) < 74)[:, None], np.roll(raw, 1, axis=1), raw)


class Unsteady:
    """Reads every third input or so as the next class, as a model does whose dropout was left on."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(3)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        raw = fails_when_dim(x)
        return np.where((self.random.random(len(x)) < 0.3)[:, None], np.roll(raw, 1, axis=1), raw)


def judged(made: Scene, repeat: int, aggregate: Aggregate = "majority") -> Evidence:
    """What the metrics are computed from."""
    rows = made.judging.rows
    columns = (
        "operators",
        "severities",
        "valid",
        "failed",
        "predicted",
        "confidence",
        "failures",
        "failing_predicted",
        "failing_confidence",
    )
    seeds = tuple(
        JudgedSeed(
            seed_id=made.ids[row.seed],
            label=int(made.seeds.labels[row.seed]),
            families=tuple(map(made.domain.family, row.operators)),
            **{name: getattr(row, name) for name in columns},
        )
        for row in rows
    )
    return Evidence(
        seed=0,
        classes=CLASSES,
        judged=seeds,
        judging_mutants_per_seed=made.judging.mutants_per_seed,
        judging_repeat=repeat,
        judging_aggregate=aggregate,
        positive=(0, 1),
    )


def rates(evidence: Evidence) -> dict[str, Any]:
    metrics = compute(evidence)
    return {name: metrics[name].model_dump() for name in OF_RATES}


def test_a_model_that_answers_alike_gets_the_same_metrics_however_often_it_is_asked() -> None:
    once = Scene(fails_when_dim, executions=160, seeds=16, shares=SHARES)
    once.run()
    thrice = Scene(fails_when_dim, executions=480, seeds=16, shares=SHARES, repeat=3)
    thrice.run()
    assert len(once.judging.rows) == len(thrice.judging.rows) == 16
    assert sum(map(sum, (row.failed for row in once.judging.rows))) > 0
    assert rates(judged(once, 1)) == rates(judged(thrice, 3))
    assert once.campaign.outcome.counts["judging"].findings == thrice.campaign.outcome.counts["judging"].findings > 0
    assert once.campaign.outcome.counts["judging"].defects == thrice.campaign.outcome.counts["judging"].defects > 0


def test_every_answer_is_an_execution_and_counts_against_the_share() -> None:
    made = Scene(executions=400, seeds=40, shares={"judging": 0.6}, repeat=3)
    outcome = made.run()
    assert outcome.counts["judging"].executions == len(made.judging.rows) * 8 * 3 == 240  # 0.6 * 400 pays for ten seed inputs


def test_the_answers_to_a_mutant_are_answers_to_the_same_bytes() -> None:
    made = Scene(executions=400, seeds=8, shares=SHARES, repeat=4, mutants_per_seed=2)
    batch = made.judging.propose(0, 64)
    assert batch is not None
    assert len(batch.x) == 8 * 2 * 4
    answers = batch.x.reshape(4, 16, *batch.x.shape[1:])
    assert (answers == answers[:1]).all()
    assert (batch.seeds.reshape(4, 16) == batch.seeds[:16]).all()
    assert (batch.valid.reshape(4, 16) == batch.valid[:16]).all()
    assert [str(recipe) for recipe in batch.recipes[16:32]] == [str(recipe) for recipe in batch.recipes[:16]]


def test_of_an_unsteady_model_more_mutants_fail_the_fewer_answers_have_to() -> None:
    failing = {}
    for aggregate in ("any", "majority", "all"):
        made = Scene(Unsteady(), executions=600, seeds=16, shares=SHARES, repeat=3, aggregate=aggregate)
        made.run()
        failing[aggregate] = sum(sum(row.failed) for row in made.judging.rows)
    assert failing["any"] > failing["majority"] > failing["all"] > 0


@pytest.mark.parametrize("wanted", ["any", "majority", "all"])
@pytest.mark.parametrize("made_by", ["any", "majority", "all"])
def test_another_aggregate_can_be_asked_for_afterwards(made_by: Aggregate, wanted: Aggregate) -> None:
    def run(aggregate: Aggregate) -> Evidence:
        made = Scene(Unsteady(), executions=400, seeds=12, shares=SHARES, repeat=3, aggregate=aggregate)
        made.run()
        return judged(made, 3, aggregate)

    assert rates(aggregated(run(made_by), wanted)) == rates(run(wanted))


def test_what_a_mutant_is_read_as_agrees_with_whether_it_fails() -> None:
    made = Scene(Unsteady(), executions=600, seeds=16, shares=SHARES, repeat=3)
    made.run()
    for row in made.judging.rows:
        label = int(made.seeds.labels[row.seed])
        for valid, failed, predicted, failures in zip(row.valid, row.failed, row.predicted, row.failures, strict=True):
            assert not valid or failed == (predicted != label) == (failures >= 2)


def test_half_of_the_answers_is_no_majority() -> None:
    assert [least_failures(repeat, "majority") for repeat in (1, 2, 3, 4, 5)] == [1, 2, 2, 3, 3]
    assert least_failures(4, "any") == 1
    assert least_failures(4, "all") == 4


def test_an_answer_that_is_not_finite_is_counted_once_and_never_outvoted() -> None:
    class Breaks:
        """The second of three answers to every mutant in a judging step is not finite."""

        def __call__(self, x: np.ndarray) -> np.ndarray:
            raw = reads_stripes(x).copy()
            third = len(x) // 3
            raw[third : 2 * third] = np.nan
            return raw

    kinds: list[Finding] = []

    def confirm(finding: Finding) -> bool:
        kinds.append(finding)
        return True

    made = Scene(Breaks(), executions=160, seeds=4, shares={"judging": 0.97}, repeat=3, confirm=confirm)
    made.run()
    of_judging = [finding for finding in kinds if finding.arm == "judging"]
    valid = sum(sum(row.valid) for row in made.judging.rows)
    assert not any(any(row.failed) for row in made.judging.rows)
    assert made.campaign.outcome.counts["judging"].findings == valid > 0
    assert {finding.oracle for finding in of_judging} == {"non_finite"}


def rejudged(seen: Evidence, judging: dict[str, Any]) -> Metric:
    """The defect rate as of ``gate evaluate`` under a policy that asks for this effort."""
    rule = Rule(id="rate", metric="defect_rate", fail=Threshold(">", 0.2, "> 0.2"))  # type: ignore[call-arg]
    asked = Policy(version=1, name="other", rules=(rule,), judging=Judging(**judging))
    info = PolicyInfo(name="other", digest="sha256:0", source="other.yaml")
    blank = Result(verdict=Verdict.INCONCLUSIVE, exit_code=4, reasons=(), candidate=ModelInfo(uri="m", resolved_uri="m"), classes=CLASSES)
    seen = seen.model_copy(update={"domain_digest": asked.domain.digest()})
    return judge_again(blank, seen, LoadedPolicy(policy=asked, info=info, rule_lines={}), advisory=False).metrics["defect_rate"]


def test_a_policy_that_asks_for_another_number_of_answers_needs_another_run() -> None:
    made = Scene(Unsteady(), executions=400, seeds=12, shares=SHARES, repeat=3)
    made.run()
    seen = judged(made, 3)
    same = rejudged(seen, {"mutants_per_seed": 8, "repeat": 3})
    other = rejudged(seen, {"mutants_per_seed": 8, "repeat": 5})
    assert same.value == compute(seen)["defect_rate"].value
    assert other.value is None
    assert other.reason is not None
    assert "asked for 3 answers to each mutant and this policy asks for 5" in other.reason


def test_fewer_mutants_of_each_seed_input_and_another_aggregate_can_be_asked_for_together() -> None:
    made = Scene(Unsteady(), executions=400, seeds=12, shares=SHARES, repeat=3, aggregate="all")
    made.run()
    rate = rejudged(judged(made, 3, "all"), {"mutants_per_seed": 2, "repeat": 3, "aggregate": "any"})
    expected = sum(any(valid and count for valid, count in zip(row.valid[:2], row.failures[:2], strict=True)) for row in made.judging.rows)
    assert rate.n == 12
    assert rate.value == pytest.approx(expected / 12)
