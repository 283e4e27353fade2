"""What a policy says about metrics: every status, its sentence, waivers by date and scope, and the verdict."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from gate.metrics import CATALOGUE
from gate.policy import Judgement, Policy, evaluate, load_policy
from gate.result import Metric, ModelInfo, RootCause, RuleResult, Status, Verdict

TODAY = datetime.date(2026, 11, 30)
MODEL = ModelInfo(uri="models:/digits@candidate", resolved_uri="models:/digits/2", name="digits", version="2")


def policy(tmp_path: Path, rules: str, waivers: str = "") -> Policy:
    path = tmp_path / "policy.yaml"
    path.write_text(f"version: 1\nname: p\nrules:\n{rules}" + (f"waivers:\n{waivers}" if waivers else ""))
    return load_policy(str(path)).policy


def metric(name: str, value: float | None, **more: Any) -> Metric:
    if value is None:
        more.setdefault("reason", "no long-tail set was given")
    return Metric(value=value, unit=CATALOGUE[name].unit, **{"n": 300, **more})


def rate(value: float, lower: float, upper: float, **more: Any) -> Metric:
    return metric("defect_rate", value, lower=lower, upper=upper, confidence=0.95, **more)


RAN = {"executions": metric("executions", 1000.0)}


def judged(tmp_path: Path, rule: str, metrics: dict[str, Metric], waivers: str = "", **more: Any) -> tuple[Judgement, RuleResult]:
    result = evaluate(policy(tmp_path, f"  - {rule}\n", waivers), {**RAN, **metrics}, **{"today": TODAY, "candidate": MODEL, **more})
    return result, result.rules[0]


RATE = "{id: r, metric: defect_rate, fail: '> 20%', warn: '> 10%'}"
SURE = "{id: r, metric: defect_rate, fail: '> 20%', warn: '> 10%', confidence: 0.95}"


@pytest.mark.parametrize(
    ("rule", "value", "status", "verdict", "code"),
    [
        (RATE, 0.05, Status.PASS, Verdict.PASS, 0),
        (RATE, 0.10, Status.PASS, Verdict.PASS, 0),
        (RATE, 0.15, Status.WARN, Verdict.PASS, 0),
        (RATE, 0.20, Status.WARN, Verdict.PASS, 0),
        (RATE, 0.2000001, Status.FAIL, Verdict.FAIL, 1),
        ("{id: r, metric: defect_rate, fail: '>= 20%'}", 0.20, Status.FAIL, Verdict.FAIL, 1),
        ("{id: r, metric: defect_rate, fail: '< 20%'}", 0.20, Status.PASS, Verdict.PASS, 0),
        ("{id: r, metric: defect_rate, fail: '<= 20%'}", 0.20, Status.FAIL, Verdict.FAIL, 1),
        ("{id: r, metric: defect_rate, fail: '> 20%', kind: adequacy}", 0.3, Status.INCONCLUSIVE, Verdict.INCONCLUSIVE, 4),
        ("{id: r, metric: defect_rate, fail: '> 20%', kind: adequacy, on_breach: fail}", 0.3, Status.FAIL, Verdict.FAIL, 1),
        ("{id: r, metric: defect_rate, fail: '> 20%', on_breach: inconclusive}", 0.3, Status.INCONCLUSIVE, Verdict.INCONCLUSIVE, 4),
        ("{id: r, metric: defect_rate, warn: '> 20%'}", 0.3, Status.WARN, Verdict.PASS, 0),
        ("{id: r, metric: defect_rate, fail: '> 20%', min_samples: 301}", 0.01, Status.INCONCLUSIVE, Verdict.INCONCLUSIVE, 4),
        ("{id: r, metric: defect_rate, fail: '> 20%', min_samples: 300}", 0.01, Status.PASS, Verdict.PASS, 0),
    ],
)
def test_the_point_value_decides(tmp_path: Path, rule: str, value: float, status: Status, verdict: Verdict, code: int) -> None:
    result, outcome = judged(tmp_path, rule, {"defect_rate": metric("defect_rate", value)})
    assert (outcome.status, result.verdict, result.exit_code) == (status, verdict, code)


@pytest.mark.parametrize(
    ("fail", "lower", "value", "upper", "status"),
    [
        ("> 20%", 0.21, 0.30, 0.40, Status.FAIL),
        ("> 20%", 0.20, 0.30, 0.40, Status.INCONCLUSIVE),
        ("> 20%", 0.05, 0.10, 0.20, Status.PASS),
        ("> 20%", 0.05, 0.10, 0.21, Status.INCONCLUSIVE),
        (">= 20%", 0.20, 0.30, 0.40, Status.FAIL),
        (">= 20%", 0.05, 0.10, 0.20, Status.INCONCLUSIVE),
        ("< 20%", 0.05, 0.10, 0.19, Status.FAIL),
        ("< 20%", 0.05, 0.10, 0.20, Status.INCONCLUSIVE),
        ("< 20%", 0.20, 0.30, 0.40, Status.PASS),
        ("<= 20%", 0.05, 0.10, 0.20, Status.FAIL),
        ("<= 20%", 0.20, 0.30, 0.40, Status.INCONCLUSIVE),
    ],
)
def test_with_a_confidence_the_whole_interval_decides(
    tmp_path: Path, fail: str, lower: float, value: float, upper: float, status: Status
) -> None:
    rule = f"{{id: r, metric: defect_rate, fail: '{fail}', confidence: 0.95}}"
    assert judged(tmp_path, rule, {"defect_rate": rate(value, lower, upper)})[1].status is status


def test_a_warning_goes_by_the_point_value_even_with_a_confidence(tmp_path: Path) -> None:
    assert judged(tmp_path, SURE, {"defect_rate": rate(0.11, 0.08, 0.15)})[1].status is Status.WARN


def test_each_rule_gets_the_interval_of_its_own_confidence(tmp_path: Path) -> None:
    asked: list[float] = []

    def at(confidence: float) -> dict[str, Metric]:
        asked.append(confidence)
        return {"defect_rate": rate(0.3, 0.19, 0.41).model_copy(update={"confidence": confidence})}

    rules = "{id: r, metric: defect_rate, fail: '> 20%', confidence: 0.99}"
    _, outcome = judged(tmp_path, rules, {"defect_rate": rate(0.3, 0.21, 0.39)}, metrics_at=at)
    assert (outcome.status, outcome.lower, outcome.confidence, asked) == (Status.INCONCLUSIVE, 0.19, 0.99, [0.99])


def test_an_interval_of_another_confidence_is_never_used_in_its_place(tmp_path: Path) -> None:
    rule = "{id: r, metric: defect_rate, fail: '> 20%', confidence: 0.99}"
    result, outcome = judged(tmp_path, rule, {"defect_rate": rate(0.05, 0.02, 0.08)})
    assert (outcome.status, result.verdict, result.exit_code) == (Status.ERROR, Verdict.ERROR, 3)
    assert "no 99 % interval" in outcome.explanation


@pytest.mark.parametrize(
    ("rule", "given", "sentence"),
    [
        (RATE, rate(0.34, 0.291, 0.393), "defect_rate is 34.0 % (95 % interval 29.1 to 39.3 %), over the limit of 20 % by 14.0 points."),
        (RATE, rate(0.05, 0.02, 0.09), "defect_rate is 5.0 % (95 % interval 2.0 to 9.0 %), within the limit of 20 % by 15.0 points."),
        (RATE, metric("defect_rate", 0.2), "defect_rate is 20.0 %, over the warning limit of 10 % by 10.0 points."),
        (RATE, metric("defect_rate", 0.20001), "defect_rate is 20.001 %, over the limit of 20 % by 0.0010 points."),
        (
            SURE,
            rate(0.22, 0.18, 0.27),
            "defect_rate is 22.0 % (95 % interval 18.0 to 27.0 %); the limit of 20 % lies inside the interval, so the evidence decides "
            "neither way.",
        ),
        (
            "{id: r, metric: defect_rate, fail: '> 20%', min_samples: 1000}",
            rate(0.22, 0.18, 0.27),
            "defect_rate is 22.0 % (95 % interval 18.0 to 27.0 %), from 300 samples; 1,000 are needed to judge it.",
        ),
        ("{id: r, metric: root_causes, fail: '> 5'}", metric("root_causes", 7.0), "root_causes is 7, over the limit of 5 by 2."),
        (
            "{id: r, metric: root_causes, fail: '>= 5'}",
            metric("root_causes", 5.0),
            "root_causes is 5, which is the limit of 5 itself; it must stay below it.",
        ),
        (
            "{id: r, metric: defect_density, fail: '< 2.0', on_breach: fail}",
            metric("defect_density", 1.25, lower=0.5, upper=2.5, confidence=0.95),
            "defect_density is 1.25 per device-hour (95 % interval 0.50 to 2.50), under the limit of 2 per device-hour by 0.75.",
        ),
        (
            "{id: r, metric: coverage_gain_per_iteration, fail: '< 0.005%', on_breach: fail}",
            metric("coverage_gain_per_iteration", 0.00001),
            "coverage_gain_per_iteration is 0.0010 % per execution, under the limit of 0.005 % per execution by 0.0040 points.",
        ),
    ],
)
def test_the_explanation_is_one_sentence_with_value_limit_and_distance(tmp_path: Path, rule: str, given: Metric, sentence: str) -> None:
    name = policy(tmp_path, f"  - {rule}\n").rules[0].metric
    assert judged(tmp_path, rule, {name: given})[1].explanation == sentence


def test_every_outcome_but_a_pass_says_what_to_do_next(tmp_path: Path) -> None:
    for given in (rate(0.3, 0.25, 0.35), rate(0.22, 0.18, 0.27), rate(0.12, 0.1, 0.14), metric("defect_rate", None)):
        result, outcome = judged(tmp_path, SURE, {"defect_rate": given})
        assert outcome.next_step
        assert outcome.next_step in result.next_steps
    result, outcome = judged(tmp_path, SURE, {"defect_rate": rate(0.02, 0.01, 0.05)})
    assert (outcome.next_step, result.next_steps) == ("", ())


@pytest.mark.parametrize(
    ("on_missing", "status", "verdict"),
    [
        ("inconclusive", Status.INCONCLUSIVE, Verdict.INCONCLUSIVE),
        ("fail", Status.FAIL, Verdict.FAIL),
        ("skip", Status.SKIPPED, Verdict.PASS),
    ],
)
def test_case_26c_a_metric_this_run_cannot_produce_follows_on_missing(
    tmp_path: Path, on_missing: str, status: Status, verdict: Verdict
) -> None:
    rules = f"{{id: r, metric: long_tail_hit_rate, fail: '< 30%', on_missing: {on_missing}}}\n  - {{id: s, metric: executions, fail: 10}}"
    for given in ({"long_tail_hit_rate": metric("long_tail_hit_rate", None)}, {}):
        result, outcome = judged(tmp_path, rules, given)
        assert (outcome.status, result.verdict) == (status, verdict)
        assert ("no long-tail set was given" if given else "not among the metrics") in outcome.explanation


def test_all_rules_skipped_is_no_pass(tmp_path: Path) -> None:
    result, _ = judged(tmp_path, "{id: r, metric: long_tail_hit_rate, fail: '< 30%', on_missing: skip}", {})
    assert (result.verdict, result.exit_code) == (Verdict.INCONCLUSIVE, 4)
    assert "no evidence is not a pass" in result.reasons[0]
    assert result.next_steps


@pytest.mark.parametrize("executions", [None, 0.0])
def test_without_an_execution_nothing_passes(tmp_path: Path, executions: float | None) -> None:
    given = {"clean_accuracy": metric("clean_accuracy", 0.99), "executions": metric("executions", executions)}
    result, outcome = judged(tmp_path, "{id: r, metric: clean_accuracy, fail: '< 50%'}", given)
    assert (outcome.status, result.verdict) == (Status.PASS, Verdict.INCONCLUSIVE)
    assert "No mutant was run" in result.reasons[0]
    failing, _ = judged(tmp_path, "{id: r, metric: clean_accuracy, fail: '< 99.5%'}", given)
    assert failing.verdict is Verdict.FAIL


def test_reasons_lead_with_what_decided(tmp_path: Path) -> None:
    rules = (
        "  - {id: fine, metric: root_causes, fail: 10}\n"
        "  - {id: warned, metric: flaky_findings, warn: '> 0'}\n"
        "  - {id: open, metric: coverage_gain, fail: '< 1%'}\n"
        "  - {id: broken, metric: defect_rate, fail: '> 20%'}\n"
    )
    given = {
        **RAN,
        "root_causes": metric("root_causes", 1.0),
        "flaky_findings": metric("flaky_findings", 1.0),
        "coverage_gain": metric("coverage_gain", 0.001),
        "defect_rate": metric("defect_rate", 0.5),
    }
    result = evaluate(policy(tmp_path, rules), given, today=TODAY, candidate=MODEL)
    assert [reason.split(":")[0] for reason in result.reasons] == ["broken", "open", "warned"]
    assert [rule.id for rule in result.rules] == ["fine", "warned", "open", "broken"]


def test_a_pass_says_how_many_rules_hold_warn_and_were_skipped(tmp_path: Path) -> None:
    rules = f"{RATE}\n  - {{id: s, metric: regression_rate, fail: 0.2, on_missing: skip}}\n  - {{id: t, metric: executions, fail: 10}}"
    result, _ = judged(tmp_path, rules, {"defect_rate": metric("defect_rate", 0.15)})
    assert result.reasons[0] == "2 of 3 rules hold, 1 of them with a warning, 1 skipped."
    assert result.reasons[1].startswith("r: defect_rate is 15.0 %")


@pytest.mark.parametrize(("value", "code", "said"), [(0.3, 0, True), (0.01, 0, False)])
def test_advisory_mode_turns_the_exit_code_and_says_so(tmp_path: Path, value: float, code: int, said: bool) -> None:
    result, _ = judged(tmp_path, RATE, {"defect_rate": metric("defect_rate", value)}, advisory=True)
    assert result.exit_code == code
    assert any("exit code is 0 instead of 1" in reason for reason in result.reasons) is said
    assert result.verdict is (Verdict.FAIL if said else Verdict.PASS)


def sliced(**parts: tuple[float, int]) -> Metric:
    slices = {name: metric("defect_rate", value, n=n) for name, (value, n) in parts.items()}
    return metric("defect_rate", 0.05, slices={"class": slices})


WORST = "{id: r, metric: defect_rate, fail: '> 20%', slice: {by: class, worst: true}, min_samples: 20}"


def test_the_worst_slice_speaks_by_name(tmp_path: Path) -> None:
    _, outcome = judged(tmp_path, WORST, {"defect_rate": sliced(cat=(0.1, 50), truck=(0.4, 50), ship=(0.3, 50))})
    assert (outcome.status, outcome.slice, outcome.value) == (Status.FAIL, "truck", 0.4)
    assert outcome.explanation == "defect_rate of the class 'truck' is 40.0 %, over the limit of 20 % by 20.0 points."


def test_the_worst_slice_of_a_metric_where_less_is_worse_is_the_least(tmp_path: Path) -> None:
    slices = {name: metric("clean_accuracy", value) for name, value in (("a", 0.9), ("b", 0.6), ("c", 0.7))}
    rule = "{id: r, metric: clean_accuracy, fail: '< 50%', slice: {by: class}}"
    assert judged(tmp_path, rule, {"clean_accuracy": metric("clean_accuracy", 0.8, slices={"class": slices})})[1].slice == "b"


def test_slices_with_too_few_samples_are_left_out_and_counted(tmp_path: Path) -> None:
    _, outcome = judged(tmp_path, WORST, {"defect_rate": sliced(cat=(0.1, 50), truck=(1.0, 2))})
    assert (outcome.status, outcome.slice) == (Status.PASS, "cat")
    assert outcome.explanation.endswith("1 slice was left out because it has too few samples.")


def test_no_slice_with_enough_samples_counts_as_missing(tmp_path: Path) -> None:
    for given in (sliced(truck=(1.0, 2)), metric("defect_rate", 0.05)):
        result, outcome = judged(tmp_path, WORST, {"defect_rate": given})
        assert (outcome.status, result.verdict) == (Status.INCONCLUSIVE, Verdict.INCONCLUSIVE)


def test_a_slice_name_out_of_hand_stays_one_short_line(tmp_path: Path) -> None:
    name = "a\n::error::\x1b[31m" + "x" * 10_000
    slices = {"class": {name: metric("defect_rate", 0.4)}}
    _, outcome = judged(tmp_path, WORST, {"defect_rate": metric("defect_rate", 0.1, slices=slices)})
    assert len(outcome.explanation) < 250
    assert outcome.explanation.isprintable()
    assert outcome.slice == name


def test_a_comparison_is_missing_and_never_hides_the_limit(tmp_path: Path) -> None:
    def status(on_missing: str, value: float) -> tuple[Status, str]:
        rule = f"{{id: r, metric: defect_rate, fail: '> 20%', compare: {{to: baseline, max_rise: 0.02}}, on_missing: {on_missing}}}"
        outcome = judged(tmp_path, rule, {"defect_rate": metric("defect_rate", value)})[1]
        return outcome.status, outcome.explanation

    assert [status(on_missing, 0.1)[0] for on_missing in ("inconclusive", "skip", "fail")] == [
        Status.INCONCLUSIVE,
        Status.PASS,
        Status.FAIL,
    ]
    assert [status(on_missing, 0.9)[0] for on_missing in ("inconclusive", "skip", "fail")] == [Status.FAIL] * 3
    assert "could not be compared with the baseline: no baseline was given; the policy skips the comparison then." in status("skip", 0.1)[1]


def waiver(**more: str) -> str:
    fields = {"rule": "r", "reason": "Known glare.", "owner": "'@team'", "expires": "2026-12-31", **more}
    return f"  - {{{', '.join(f'{key}: {value}' for key, value in fields.items())}}}\n"


FAILS = {"defect_rate": metric("defect_rate", 0.34)}


@pytest.mark.parametrize(
    ("fields", "covered"),
    [
        ({}, True),
        ({"expires": "2026-11-30"}, True),  # the last day counts
        ({"expires": "2026-11-29"}, False),
        ({"model": "'digits/*'"}, True),
        ({"model": "digits/2"}, True),
        ({"model": "'digits/1*'"}, False),
        ({"model": "'other/*'"}, False),
    ],
)
def test_a_breach_is_waived_in_time_and_for_the_models_named(tmp_path: Path, fields: dict[str, str], covered: bool) -> None:
    result, outcome = judged(tmp_path, f"{RATE}\n  - {{id: s, metric: executions, fail: 10}}", FAILS, waiver(**fields))
    assert (outcome.status is Status.WAIVED) is covered
    assert result.verdict is (Verdict.PASS if covered else Verdict.FAIL)
    assert (outcome.waiver is not None) is covered
    if covered:
        assert "@team" in (outcome.waiver or "")
        assert "Known glare" in outcome.explanation
        assert "over the limit of 20 %" in outcome.explanation


def test_waivers_for_everything_are_no_pass(tmp_path: Path) -> None:
    rules = (
        f"{RATE}\n  - {{id: s, metric: executions, fail: 9999, on_breach: fail}}\n  - {{id: t, metric: hangs, fail: 1, on_missing: skip}}"
    )
    result, _ = judged(tmp_path, rules, FAILS, waiver() + waiver(rule="s"))
    assert [rule.status for rule in result.rules] == [Status.WAIVED, Status.WAIVED, Status.SKIPPED]
    assert (result.verdict, result.exit_code) == (Verdict.INCONCLUSIVE, 4)
    assert result.reasons[0] == "Every rule of the policy was waived or skipped, and no evidence is not a pass."


def test_case_26b_a_waiver_past_its_date_is_named_and_the_rule_counts_again(tmp_path: Path) -> None:
    result, outcome = judged(tmp_path, RATE, FAILS, waiver(expires="2026-11-01"))
    assert (outcome.status, result.exit_code) == (Status.FAIL, 1)
    assert "The waiver by @team (Known glare) expired on 2026-11-01, so the rule counts again." in outcome.explanation
    assert any("expired on 2026-11-01" in reason for reason in result.reasons)


def test_a_waiver_does_not_hide_an_unrelated_pass_or_missing_metric(tmp_path: Path) -> None:
    assert judged(tmp_path, RATE, {"defect_rate": metric("defect_rate", 0.01)}, waiver())[1].status is Status.PASS
    assert judged(tmp_path, RATE, {"defect_rate": metric("defect_rate", None)}, waiver())[1].status is Status.INCONCLUSIVE
    few = "{id: r, metric: defect_rate, fail: '> 20%', min_samples: 1000}"
    assert judged(tmp_path, few, FAILS, waiver())[1].status is Status.INCONCLUSIVE


def test_a_waiver_covers_a_rule_that_the_evidence_leaves_open(tmp_path: Path) -> None:
    _, outcome = judged(tmp_path, SURE, {"defect_rate": rate(0.22, 0.18, 0.27)}, waiver())
    assert outcome.status is Status.WAIVED
    assert "whichever way it would go" in outcome.explanation


def test_a_waived_slice_leaves_the_next_worst_to_be_judged(tmp_path: Path) -> None:
    both = {"defect_rate": sliced(cat=(0.1, 50), truck=(0.4, 50), ship=(0.3, 50))}
    _, outcome = judged(tmp_path, WORST, both, waiver(slice="truck"))
    assert (outcome.status, outcome.slice) == (Status.FAIL, "ship")
    _, outcome = judged(tmp_path, WORST, both, waiver(slice="truck") + waiver(slice="ship"))
    assert outcome.status is Status.WAIVED


def causes(*names: str) -> list[RootCause]:
    return [RootCause(id=name, title=name, size=1, example="d-1") for name in names]


def test_waivers_of_root_causes_cover_only_when_they_name_all_of_them(tmp_path: Path) -> None:
    one, both = waiver(root_cause="rc-a"), waiver(root_cause="rc-a") + waiver(root_cause="rc-b")
    assert judged(tmp_path, RATE, FAILS, one, root_causes=causes("rc-a"))[1].status is Status.WAIVED
    _, outcome = judged(tmp_path, RATE, FAILS, one, root_causes=causes("rc-a", "rc-b"))
    assert outcome.status is Status.FAIL
    assert "but not rc-b" in outcome.explanation
    assert judged(tmp_path, RATE, FAILS, both, root_causes=causes("rc-a", "rc-b"))[1].status is Status.WAIVED
    assert judged(tmp_path, RATE, FAILS, one)[1].status is Status.FAIL  # nothing to explain the breach by


def test_a_regression_is_waived_by_the_root_causes_that_recur(tmp_path: Path) -> None:
    parts = {"rc-a": metric("regression_rate", 1.0), "rc-b": metric("regression_rate", 0.0)}
    given = {"regression_rate": metric("regression_rate", 0.5, slices={"root_cause": parts})}
    rule = "{id: r, metric: regression_rate, fail: '> 20%'}"
    assert judged(tmp_path, rule, given, waiver(root_cause="rc-a"), root_causes=causes("rc-z"))[1].status is Status.WAIVED
    assert judged(tmp_path, rule, given, waiver(root_cause="rc-b"), root_causes=causes("rc-z"))[1].status is Status.FAIL


def test_the_rule_result_carries_what_a_report_needs(tmp_path: Path) -> None:
    _, outcome = judged(tmp_path, SURE, {"defect_rate": rate(0.34, 0.291, 0.393)})
    assert (outcome.threshold, outcome.warn, outcome.unit, outcome.confidence) == ("> 20%", "> 10%", "share", 0.95)
    assert outcome.meaning == CATALOGUE["defect_rate"].meaning
    only_warns = judged(tmp_path, "{id: r, metric: defect_rate, warn: '> 10%'}", FAILS)[1]
    assert (only_warns.threshold, only_warns.warn) == ("> 10%", "> 10%")
