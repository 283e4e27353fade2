"""Empty, one-sample, all-defect and no-defect runs under every rule and every shipped policy; policies that try to hide."""

from __future__ import annotations

import datetime
import math

import pytest

from gate.metrics import CATALOGUE, Evidence, compute
from gate.metrics.evidence import (
    BaselineEvidence,
    BaselineSeed,
    CanaryEvidence,
    CleanEvidence,
    CoverageEvidence,
    JudgedSeed,
    LongTailEvidence,
    MarkEvidence,
    RegressionEvidence,
    SearchDefect,
)
from gate.metrics.on_demand import MetricsOnDemand
from gate.policy import Judgement, Policy, evaluate, load_policy, shipped_policies
from gate.policy.threshold import Threshold
from gate.result import ModelInfo, Status, Verdict

TODAY = datetime.date(2026, 11, 30)
MODEL = ModelInfo(uri="m", resolved_uri="m")
MUTANTS = 32  # as many as any shipped policy asks for


def run(n: int, *, fails: bool, each: int = MUTANTS) -> Evidence:
    """Everything measured on ``n`` inputs of two classes, all of which fail or none; a baseline without a failure beside it."""
    label = [i % 2 for i in range(n)]
    ids = [f"s{i}" for i in range(n)]
    predicted = [1 - y if fails else y for y in label]
    judged = tuple(
        JudgedSeed(
            seed_id=ids[i],
            label=label[i],
            operators=("blur",) * each,
            families=("blur", "noise") * (each // 2) + ("blur",) * (each % 2),
            severities=(0.1,) * each,
            valid=(True,) * each,
            failed=(fails,) * each,
            predicted=(predicted[i],) * each,
            confidence=(0.95,) * each,
        )
        for i in range(n)
    )
    sound = {ids[i]: BaselineSeed(failed=(False,) * each, predicted=(label[i],) * each, confidence=(0.95,) * each) for i in range(n)}
    return Evidence(
        seed=1,
        classes=("crack", "sound"),
        clean=CleanEvidence(labels=tuple(label), correct=(not fails,) * n, nonfinite=n if fails else 0),
        long_tail=LongTailEvidence(labels=tuple(label), predicted=tuple(predicted), kinds=("fog",) * n, radius=0.1, chance=0.1),
        judged=judged,
        judging_mutants_per_seed=each,
        positive=(0,),
        search_executions=10 * n,
        search_device_seconds=1.0,
        searched_seed_ids=tuple(ids),
        defects=tuple(
            SearchDefect(id=f"d{i}", seed_id=ids[i], label=label[i], predicted=predicted[i], natural=True, recurs_in_long_tail=True)
            for i in range(n if fails else 0)
        ),
        root_causes=n if fails else 0,
        coverage={"kmnc": CoverageEvidence(initial=0.2, final=0.2 if fails else 0.9, after_first=0.2 if fails else 0.9, first=10)},
        criterion="kmnc",
        regression=RegressionEvidence(
            source="m",
            recurs={f"e{i}": "file" if fails else None for i in range(n)},
            root_cause={f"e{i}": f"rc-{i % 2}" for i in range(n)},
            half={f"e{i}": "ab"[i % 2] for i in range(n)},
        ),
        marks=(MarkEvidence(kind="patch", label=0, moved=n if fails else 0, inputs=n),),
        probes_compared=n,
        probes_disagreeing=n if fails else 0,
        nonfinite_outputs=n if fails else 0,
        flaky_findings=n if fails else 0,
        preflight_faults=3 if fails else 0,
        crashes=n if fails else 0,
        executions=100 * n,
        baseline=BaselineEvidence(correct=(True,) * n, long_tail=tuple(label), judged=sound),
        canaries=tuple(CanaryEvidence(name=f"c{i}", found=not fails, executions=100) for i in range(min(n, 20))),
    )


EMPTY = Evidence(seed=1, classes=())
ONE_GOOD, ONE_BAD = run(1, fails=False), run(1, fails=True)
NO_DEFECT, ALL_DEFECT = run(120, fails=False), run(120, fails=True)
RUNS = {"empty": EMPTY, "one good": ONE_GOOD, "one bad": ONE_BAD, "no defect": NO_DEFECT, "all defect": ALL_DEFECT}
METRICS = {name: compute(evidence) for name, evidence in RUNS.items()}


def judge(policy: Policy, name: str) -> Judgement:
    evidence = RUNS[name]
    return evaluate(
        policy, METRICS[name], today=TODAY, candidate=MODEL, metrics_at=lambda confidence: MetricsOnDemand(evidence, confidence)
    )


def every_rule() -> list[dict[str, object]]:
    """On every metric, in every form: point value, whole interval, by slice, beside the baseline."""
    found: list[dict[str, object]] = []
    for name, spec in CATALOGUE.items():
        middle = "0.5" if spec.is_share or spec.unit == "severity" else "1"
        sign = ">" if spec.higher_is_worse else "<"
        plain: dict[str, object] = {"metric": name, "fail": Threshold.parse(f"{sign} {middle}", spec), "on_breach": "fail"}
        forms: list[dict[str, object]] = [
            plain,
            {"metric": name, "compare": {"max_rise" if spec.higher_is_worse else "max_drop": 0.1}, "on_breach": "fail"},
        ]
        if spec.interval:
            forms += [{**form, "confidence": 0.95} for form in forms]
        forms += [{**form, "slice": {"by": by}} for form in forms for by in spec.slices]
        found += forms
    return found


RULES = every_rule()


def policy_of(*rules: dict[str, object], **more: object) -> Policy:
    numbered = tuple({"id": f"r{index}", **rule} for index, rule in enumerate(rules))
    return Policy.model_validate({"version": 1, "name": "p", "rules": numbered, **more})


@pytest.mark.parametrize("name", RUNS)
def test_every_rule_comes_to_an_outcome_with_a_reason_and_never_to_an_error(name: str) -> None:
    result = judge(policy_of(*RULES), name)
    for rule in result.rules:
        assert rule.status is not Status.ERROR, rule
        assert rule.explanation.endswith((".", "?"))
        assert "nan" not in rule.explanation.lower().replace("finance", "")
        assert rule.status is Status.PASS or rule.next_step
        assert rule.value is None or math.isfinite(rule.value)
        assert (rule.value is not None) or rule.status is not Status.PASS


def test_of_an_empty_run_no_rule_holds() -> None:
    for rule in RULES:
        alone = judge(policy_of(rule), "empty")
        nothing_ran = rule["metric"] == "executions" and "fail" in rule  # that there were none is known, and breaches
        assert alone.rules[0].status is (Status.FAIL if nothing_ran else Status.INCONCLUSIVE)
        assert alone.verdict is (Verdict.FAIL if nothing_ran else Verdict.INCONCLUSIVE)


def test_of_a_run_in_which_everything_fails_no_rule_about_the_model_holds() -> None:
    result = judge(policy_of(*RULES), "all defect")
    # That the search found much is good for what says how productive it was; one class can't be missed without being asked for.
    fine = {"defect_density", "defects_per_1k_executions", "long_tail_hit_rate", "executions", "coverage_gain_per_iteration", "hangs"}
    held = {rule.metric for rule in result.rules if rule.status in (Status.PASS, Status.WARN)}
    assert held <= fine
    assert result.verdict is Verdict.FAIL


def test_one_sample_decides_nothing_that_is_asked_for_with_confidence() -> None:
    certain = [rule for rule in RULES if "confidence" in rule and CATALOGUE[str(rule["metric"])].unit == "share"]
    assert len(certain) > 20
    for name in ("one good", "one bad"):
        assert {rule.status for rule in judge(policy_of(*certain), name).rules} == {Status.INCONCLUSIVE}


def test_a_run_without_a_defect_breaches_no_rule_about_the_model() -> None:
    result = judge(policy_of(*[rule for rule in RULES if CATALOGUE[str(rule["metric"])].kind == "quality"]), "no defect")
    assert not [rule for rule in result.rules if rule.status is Status.FAIL]


@pytest.mark.parametrize("policy", shipped_policies())
@pytest.mark.parametrize("name", RUNS)
def test_shipped_policies_on_extremes(policy: str, name: str) -> None:
    result = judge(load_policy(policy).policy, name)
    if name == "empty" or name.startswith("one"):
        assert result.verdict is not Verdict.PASS
    if name == "all defect" and policy != "classic":
        assert (result.verdict, result.exit_code) == (Verdict.FAIL, 1)
    if name == "no defect" and policy != "classic":
        assert result.verdict is not Verdict.FAIL
    assert result.reasons
    assert result.verdict is Verdict.PASS or result.next_steps


HIDING: dict[str, tuple[list[dict[str, object]], str, Verdict]] = {
    "a metric that is never computed": ([{"metric": "hangs", "fail": 1, "on_missing": "inconclusive"}], "empty", Verdict.INCONCLUSIVE),
    "and skipped": ([{"metric": "regression_rate", "fail": 0.5, "on_missing": "skip"}], "empty", Verdict.INCONCLUSIVE),
    "and failed": ([{"metric": "regression_rate", "fail": 0.5, "on_missing": "fail"}], "empty", Verdict.FAIL),
    "samples nobody has": ([{"metric": "defect_rate", "fail": 0.5, "min_samples": 10**9}], "no defect", Verdict.INCONCLUSIVE),
    "slices nobody fills": (
        [{"metric": "defect_rate", "fail": 0.5, "min_samples": 10**9, "slice": {"by": "class"}, "on_missing": "skip"}],
        "no defect",
        Verdict.INCONCLUSIVE,
    ),
    "a certainty nobody has": ([{"metric": "defect_rate", "fail": 0.01, "confidence": 0.999999}], "no defect", Verdict.INCONCLUSIVE),
    "skipping everywhere": (
        [{**rule, "on_missing": "skip"} for rule in RULES if rule["metric"] != "executions"],
        "empty",
        Verdict.INCONCLUSIVE,
    ),
    "only a comparison with nothing": (
        [{"metric": "executions", "compare": {"max_rise": 1.0}, "on_missing": "skip"}],
        "no defect",
        Verdict.INCONCLUSIVE,
    ),
}


@pytest.mark.parametrize("case", HIDING)
def test_a_policy_that_tries_to_hide_gets_no_pass(case: str) -> None:
    rules, name, verdict = HIDING[case]
    written = [
        {**rule, "fail": Threshold.parse(rule["fail"], CATALOGUE[str(rule["metric"])])}
        if "fail" in rule and not isinstance(rule["fail"], Threshold)
        else rule
        for rule in rules
    ]
    result = judge(policy_of(*written), name)
    assert result.verdict is verdict
    waivers = [{"rule": f"r{i}", "reason": "r", "owner": "o", "expires": "2027-01-01"} for i in range(len(written))]
    assert judge(policy_of(*written, waivers=tuple(waivers)), name).verdict is not Verdict.PASS


def test_zero_executions_are_no_pass_whatever_else_was_measured() -> None:
    evidence = NO_DEFECT.model_copy(update={"executions": 0})
    rule = {"metric": "clean_accuracy", "fail": Threshold.parse("< 50%", CATALOGUE["clean_accuracy"])}
    result = evaluate(policy_of(rule), compute(evidence), today=TODAY, candidate=MODEL)
    assert result.rules[0].status is Status.PASS
    assert (result.verdict, result.exit_code) == (Verdict.INCONCLUSIVE, 4)
