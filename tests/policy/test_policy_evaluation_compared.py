"""Against the baseline on the same inputs: three-valued, absolute or relative, by slice; and failures that the baseline has too."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from gate.metrics import CATALOGUE
from gate.policy import Judgement, evaluate, load_policy
from gate.result import Metric, ModelInfo, Paired, RuleResult, Status, Verdict

TODAY = datetime.date(2026, 11, 30)
MODEL = ModelInfo(uri="models:/digits@candidate", resolved_uri="models:/digits/2", name="digits", version="2")
RAN = {"executions": Metric(value=1000.0, n=1000, unit="count")}


def metric(name: str, value: float | None, paired: Paired | None = None, **more: Any) -> Metric:
    return Metric(value=value, unit=CATALOGUE[name].unit, paired=paired, **{"n": 300, **more})


def beside(candidate: float, baseline: float, lower: float | None = None, upper: float | None = None, **more: Any) -> Paired:
    given = {"n": 180, "confidence": None if lower is None else 0.95, **more}
    return Paired(candidate=candidate, baseline=baseline, rise=candidate - baseline, lower=lower, upper=upper, **given)


def judged(tmp_path: Path, rule: str, found: dict[str, Metric], **more: Any) -> tuple[Judgement, RuleResult]:
    path = tmp_path / "policy.yaml"
    path.write_text(f"version: 1\nname: p\nrules:\n  - {rule}\n")
    result = evaluate(load_policy(str(path)).policy, {**RAN, **found}, **{"today": TODAY, "candidate": MODEL, **more})
    return result, result.rules[0]


RISE = "{id: r, metric: defect_rate, compare: {to: baseline, max_rise: 0.02}}"
SURE = "{id: r, metric: defect_rate, confidence: 0.95, compare: {to: baseline, max_rise: 0.02}}"
DROP = "{id: r, metric: clean_accuracy, confidence: 0.95, compare: {to: baseline, max_drop: 0.01}}"
SHARE = "{id: r, metric: defect_rate, confidence: 0.95, compare: {to: baseline, max_rise: 0.5, relative: true}}"


@pytest.mark.parametrize(
    ("rule", "paired", "status"),
    [
        (RISE, beside(0.12, 0.10), Status.PASS),
        (RISE, beside(0.14, 0.10), Status.FAIL),
        (RISE, beside(0.05, 0.10), Status.PASS),
        (SURE, beside(0.15, 0.10, 0.021, 0.08), Status.FAIL),
        (SURE, beside(0.15, 0.10, 0.02, 0.08), Status.INCONCLUSIVE),
        (SURE, beside(0.11, 0.10, -0.01, 0.021), Status.INCONCLUSIVE),
        (SURE, beside(0.11, 0.10, -0.01, 0.02), Status.PASS),
        (DROP, beside(0.90, 0.95, -0.08, -0.011), Status.FAIL),
        (DROP, beside(0.90, 0.95, -0.08, -0.01), Status.INCONCLUSIVE),
        (DROP, beside(0.95, 0.95, -0.01, 0.01), Status.PASS),
        (DROP, beside(0.99, 0.95, 0.03, 0.05), Status.PASS),
        (SHARE, beside(0.20, 0.10, 0.05, 0.15, relative=1.0, relative_lower=0.51, relative_upper=2.0), Status.FAIL),
        (SHARE, beside(0.20, 0.10, 0.05, 0.15, relative=1.0, relative_lower=0.4, relative_upper=2.0), Status.INCONCLUSIVE),
        (SHARE, beside(0.11, 0.10, 0.0, 0.02, relative=0.1, relative_lower=0.0, relative_upper=0.5), Status.PASS),
        # No bound of a ratio is no bound: it decides nothing on that side, and the other side may.
        (SHARE, beside(0.11, 0.10, 0.0, 0.02, relative=0.1, relative_lower=0.0), Status.INCONCLUSIVE),
        (SHARE, beside(0.30, 0.10, 0.1, 0.3, relative=2.0, relative_lower=0.6), Status.FAIL),
        (SHARE, beside(0.30, 0.10, 0.1, 0.3, relative=2.0, relative_upper=3.0), Status.INCONCLUSIVE),
    ],
)
def test_the_change_against_the_baseline_decides(tmp_path: Path, rule: str, paired: Paired, status: Status) -> None:
    name = "clean_accuracy" if rule is DROP else "defect_rate"
    _, outcome = judged(tmp_path, rule, {name: metric(name, 0.5, paired)})
    assert outcome.status is status
    assert outcome.paired == paired
    assert outcome.next_step if status is not Status.PASS else not outcome.next_step


def test_the_sentence_has_both_values_the_change_its_interval_and_the_distance(tmp_path: Path) -> None:
    _, outcome = judged(tmp_path, SURE, {"defect_rate": metric("defect_rate", 0.15, beside(0.152, 0.1, 0.031, 0.073))})
    assert outcome.explanation == (
        "On the 180 inputs that both models were run on, defect_rate is 10.0 % for the baseline and 15.2 % for the candidate: "
        "+5.2 points (95 % interval +3.1 to +7.3), beyond the rise of 2 points that is allowed by 3.2 points."
    )
    assert outcome.distance == pytest.approx(-0.032)
    assert (outcome.compare, outcome.threshold) == ("may rise by 2 points over the baseline",) * 2


def test_a_relative_change_is_said_as_a_share_and_its_distance_in_the_metrics_unit(tmp_path: Path) -> None:
    paired = beside(0.20, 0.10, 0.08, 0.15, relative=1.0, relative_lower=0.7, relative_upper=1.5)
    _, outcome = judged(tmp_path, SHARE, {"defect_rate": metric("defect_rate", 0.2, paired)})
    assert "+100.0 % of the baseline's value (95 % interval +70.0 to +150.0)" in outcome.explanation
    assert "beyond the rise of 50 % of the baseline's value that is allowed by 50.0 % of the baseline's value" in outcome.explanation
    assert outcome.distance == pytest.approx(-0.05)


@pytest.mark.parametrize(("on_missing", "status"), [("inconclusive", "inconclusive"), ("skip", "skipped"), ("fail", "fail")])
@pytest.mark.parametrize(
    ("rule", "given", "said"),
    [
        (SURE, metric("defect_rate", 0.1), "no baseline was given"),
        (SURE, metric("defect_rate", 0.1, paired_reason="the baseline has 9 classes."), "the baseline has 9 classes; "),
        (SURE, metric("defect_rate", 0.1, beside(0.1, 0.1)), "the change has no 95 % interval"),
        (SHARE, metric("defect_rate", 0.1, beside(0.1, 0.0, 0.02, 0.2)), "the baseline's value is 0"),
        (SURE, metric("defect_rate", None, reason="nothing was judged"), "nothing was judged"),
    ],
)
def test_a_comparison_that_can_not_be_made_follows_on_missing_and_says_why(
    tmp_path: Path, rule: str, given: Metric, said: str, on_missing: str, status: str
) -> None:
    result, outcome = judged(tmp_path, rule[:-1] + f", on_missing: {on_missing}}}", {"defect_rate": given})
    assert outcome.status.value == status
    assert said in outcome.explanation
    assert result.verdict is not Verdict.PASS


BOTH = "{id: r, metric: defect_rate, fail: '> 20%', warn: '> 5%', confidence: 0.95, compare: {max_rise: 0.02}}"


@pytest.mark.parametrize(
    ("value", "lower", "upper", "paired", "status", "first"),
    [
        (0.30, 0.25, 0.35, beside(0.3, 0.3, -0.01, 0.01), Status.FAIL, "defect_rate is 30.0 %"),
        (0.10, 0.07, 0.15, beside(0.1, 0.03, 0.04, 0.11), Status.FAIL, "On the 180 inputs"),
        (0.10, 0.07, 0.15, beside(0.1, 0.09, -0.01, 0.03), Status.INCONCLUSIVE, "On the 180 inputs"),
        (0.10, 0.07, 0.15, beside(0.1, 0.1, -0.01, 0.01), Status.WARN, "defect_rate is 10.0 %"),
        (0.02, 0.01, 0.05, beside(0.02, 0.02, -0.01, 0.01), Status.PASS, "defect_rate is 2.0 %"),
    ],
)
def test_the_worse_of_limit_and_comparison_speaks_and_the_sentence_names_both(
    tmp_path: Path, value: float, lower: float, upper: float, paired: Paired, status: Status, first: str
) -> None:
    def at(confidence: float) -> dict[str, Metric]:
        wide = paired.model_copy(update={"confidence": confidence})
        return {"defect_rate": metric("defect_rate", value, wide, lower=lower, upper=upper, confidence=confidence)}

    _, outcome = judged(tmp_path, BOTH, at(0.95), metrics_at=at)
    assert outcome.status is status
    assert outcome.explanation.startswith(first)
    assert "On the 180 inputs" in outcome.explanation
    assert "defect_rate is " in outcome.explanation.split("for the candidate")[-1 if first.startswith("On") else 0]


def test_a_comparison_left_out_does_not_hide_the_limit(tmp_path: Path) -> None:
    rule = BOTH[:-1] + ", on_missing: skip}"
    for value, lower, upper, status in ((0.3, 0.25, 0.4, Status.FAIL), (0.03, 0.01, 0.05, Status.PASS)):
        given = metric("defect_rate", value, lower=lower, upper=upper, confidence=0.95)
        _, outcome = judged(tmp_path, rule, {"defect_rate": given})
        assert outcome.status is status
        assert "the policy skips the comparison then" in outcome.explanation


def test_too_few_inputs_of_both_models_leave_a_comparison_open(tmp_path: Path) -> None:
    rule = SURE[:-1] + ", min_samples: 200}"
    _, outcome = judged(tmp_path, rule, {"defect_rate": metric("defect_rate", 0.3, beside(0.3, 0.1, 0.1, 0.3))})
    assert outcome.status is Status.INCONCLUSIVE
    assert "on 180 inputs; 200 are needed" in outcome.explanation


def slices(**parts: Paired | None) -> dict[str, Metric]:
    found = {name: metric("defect_rate", 0.1, paired, n=50) for name, paired in parts.items()}
    return {"defect_rate": metric("defect_rate", 0.1, beside(0.1, 0.1), slices={"class": found})}


def test_each_slice_is_compared_and_the_worst_speaks(tmp_path: Path) -> None:
    rule = "{id: r, metric: defect_rate, compare: {max_rise: 0.02}, slice: {by: class}, min_samples: 20}"
    given = slices(
        cat=beside(0.1, 0.1, n=40), truck=beside(0.4, 0.1, n=40), ship=beside(0.2, 0.1, n=40), few=beside(0.9, 0.0, n=3), none=None
    )
    _, outcome = judged(tmp_path, rule, given)
    assert (outcome.status, outcome.slice) == (Status.FAIL, "truck")
    assert outcome.distance == pytest.approx(-0.28)
    assert "defect_rate of the class 'truck'" in outcome.explanation
    assert outcome.explanation.endswith("2 slices were left out because they have too few samples.")
    _, outcome = judged(tmp_path, rule, slices(few=beside(0.9, 0.0, n=3), none=None))
    assert outcome.status is Status.INCONCLUSIVE
    assert "could not be compared" in outcome.explanation


def test_slices_that_only_the_limit_can_judge_are_judged_by_it_and_counted(tmp_path: Path) -> None:
    rule = "{id: r, metric: defect_rate, fail: '> 50%', compare: {max_rise: 0.02}, slice: {by: class}, min_samples: 20}"
    _, outcome = judged(tmp_path, rule, slices(cat=beside(0.1, 0.1, n=40), ship=None))
    assert outcome.status is Status.PASS
    assert "1 slice was not compared with the baseline because it has too few samples of both" in outcome.explanation
    given = slices(cat=beside(0.1, 0.1, n=40), ship=None)
    worse = given["defect_rate"].slices["class"]["ship"].model_copy(update={"value": 0.9})
    given["defect_rate"].slices["class"]["ship"] = worse
    _, outcome = judged(tmp_path, rule, given)
    assert (outcome.status, outcome.slice) == (Status.FAIL, "ship")


def test_a_breach_of_the_comparison_can_be_waived(tmp_path: Path) -> None:
    waiver = "\nwaivers:\n  - {rule: r, reason: Agreed., owner: '@team', expires: 2026-12-31}"
    rule = "{id: s, metric: executions, fail: 10}\n  - " + RISE + waiver
    result, _ = judged(tmp_path, rule, {"defect_rate": metric("defect_rate", 0.3, beside(0.3, 0.1))})
    assert (result.rules[1].status, result.verdict) == (Status.WAIVED, Verdict.PASS)


LIMIT = "{id: r, metric: defect_rate, fail: '> 20%', confidence: 0.95}"


def known(new: float, lower: float | None, upper: float | None, *, least: float = 0.35) -> dict[str, Metric]:
    paired = beside(0.4, 0.38, -0.02, 0.06, new=new, new_lower=lower, new_upper=upper)
    return {"defect_rate": metric("defect_rate", 0.4, paired, lower=least, upper=0.45, confidence=0.95)}


@pytest.mark.parametrize(
    ("rule", "given", "status"),
    [
        (LIMIT, known(0.02, 0.0, 0.05), Status.WARN),
        (LIMIT, known(0.15, 0.1, 0.21), Status.FAIL),  # not certain without them either
        (LIMIT, known(0.02, None, None), Status.FAIL),
        (LIMIT[:-1] + ", known: count}", known(0.02, 0.0, 0.05), Status.FAIL),
        (LIMIT[:-1] + ", known: excuse}", known(0.02, 0.0, 0.05), Status.WARN),
        (LIMIT[:-1] + ", min_samples: 200}", known(0.02, 0.0, 0.05), Status.FAIL),  # 300 judged, and only 180 of both
        ("{id: r, metric: defect_rate, fail: '> 20%'}", known(0.1, None, None), Status.WARN),
        ("{id: r, metric: defect_rate, fail: '> 20%'}", known(0.21, None, None), Status.FAIL),
        # An excuse needs evidence, also of a rule that goes by the point value: three inputs that both were run on excuse nothing.
        ("{id: r, metric: defect_rate, fail: '> 20%'}", known(0.0, 0.0, 0.7), Status.FAIL),
        ("{id: r, metric: defect_rate, fail: '> 20%'}", known(0.1, 0.06, 0.15), Status.WARN),
    ],
)
def test_failures_that_the_baseline_has_too_do_not_block_unless_the_policy_counts_them(
    tmp_path: Path, rule: str, given: dict[str, Metric], status: Status
) -> None:
    result, outcome = judged(tmp_path, rule, given)
    assert outcome.status is status
    assert outcome.known is (status is Status.WARN)
    assert result.verdict is (Verdict.PASS if outcome.known else Verdict.FAIL)
    if outcome.known:
        assert "over the limit of 20 % by 20.0 points. The baseline has these failures too: without them it is " in outcome.explanation
        assert outcome.paired is not None


def test_a_rule_that_the_evidence_leaves_open_is_excused_as_well(tmp_path: Path) -> None:
    _, outcome = judged(tmp_path, LIMIT, known(0.02, 0.0, 0.05, least=0.15))
    assert (outcome.status, outcome.known) == (Status.WARN, True)


def test_an_excuse_does_not_cover_the_comparison(tmp_path: Path) -> None:
    def at(confidence: float) -> dict[str, Metric]:
        paired = beside(0.4, 0.3, 0.06, 0.14, new=0.1, new_lower=0.05, new_upper=0.19).model_copy(update={"confidence": confidence})
        return {"defect_rate": metric("defect_rate", 0.4, paired, lower=0.35, upper=0.45, confidence=confidence)}

    _, outcome = judged(tmp_path, LIMIT[:-1] + ", compare: {max_rise: 0.02}}", at(0.95), metrics_at=at)
    assert (outcome.status, outcome.known) == (Status.FAIL, False)
    assert "The baseline has these failures too" in outcome.explanation


def test_an_excuse_of_one_slice_leaves_the_next_worst_to_be_judged(tmp_path: Path) -> None:
    old = beside(0.6, 0.6, new=0.0, n=40)
    rule = "{id: r, metric: defect_rate, fail: '> 20%', slice: {by: class}}"
    parts = {
        "old": metric("defect_rate", 0.6, old),
        "new": metric("defect_rate", 0.3, beside(0.3, 0.0, new=0.3)),
        "fine": metric("defect_rate", 0.1),
    }
    _, outcome = judged(tmp_path, rule, {"defect_rate": metric("defect_rate", 0.1, slices={"class": parts})})
    assert (outcome.status, outcome.slice, outcome.known) == (Status.FAIL, "new", False)
    del parts["new"]
    _, outcome = judged(tmp_path, rule, {"defect_rate": metric("defect_rate", 0.1, slices={"class": parts})})
    assert (outcome.status, outcome.slice, outcome.known) == (Status.WARN, "old", True)


def test_crashes_of_the_baseline_are_known_too(tmp_path: Path) -> None:
    rule = "{id: r, metric: crashes, fail: '> 0'}"
    for new, status in ((0.0, Status.WARN), (1.0, Status.FAIL)):
        given = metric("crashes", 3.0, beside(3.0, 3.0 - new, n=3, new=new))
        _, outcome = judged(tmp_path, rule, {"crashes": given})
        assert outcome.status is status


def test_a_change_that_is_not_a_number_is_an_error(tmp_path: Path) -> None:
    broken = beside(0.1, 0.1, 0.0, 0.01).model_copy(update={"rise": float("nan"), "lower": float("nan")})
    result, outcome = judged(tmp_path, SURE, {"defect_rate": metric("defect_rate", 0.1, broken)})
    assert (outcome.status, outcome.value, outcome.paired, result.verdict) == (Status.ERROR, None, None, Verdict.ERROR)


def test_a_breach_that_can_not_be_looked_at_with_all_limits_allowed_for_is_not_skipped(tmp_path: Path) -> None:
    """Nobody gave intervals at other confidences."""
    given = metric("defect_rate", 0.15, beside(0.15, 0.05, 0.06, 0.14), lower=0.1, upper=0.18, confidence=0.95)
    result, outcome = judged(tmp_path, BOTH[:-1] + ", on_missing: skip}", {"defect_rate": given})
    assert (outcome.status, result.verdict) == (Status.ERROR, Verdict.ERROR)
    assert "97.5 % interval" in outcome.explanation
