"""What a rule points to: the defects that show it, how far it is from its limit, and how much more evidence would decide it."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from gate.metrics import CATALOGUE
from gate.metrics.intervals import exact_share
from gate.policy import evaluate, load_policy
from gate.result import Defect, Metric, ModelInfo, RootCause, RuleResult, Status

TODAY = datetime.date(2026, 11, 30)
MODEL = ModelInfo(uri="m", resolved_uri="m")
CLASSES = ("cat", "dog", "ship")


def metric(name: str, value: float | None, **more: Any) -> Metric:
    return Metric(value=value, unit=CATALOGUE[name].unit, **{"n": 300, **more})


def judged(tmp_path: Path, rule: str, found: Metric, head: str = "", **more: Any) -> RuleResult:
    path = tmp_path / "policy.yaml"
    path.write_text(f"version: 1\nname: p\n{head}rules:\n  - {rule}\n")
    policy = load_policy(str(path)).policy
    ran = {"executions": metric("executions", 1000.0), "defect_rate": metric("defect_rate", 0.1, n=200)}
    return evaluate(policy, {**ran, policy.rules[0].metric: found}, today=TODAY, candidate=MODEL, classes=CLASSES, **more).rules[0]


def defect(name: str, **more: Any) -> Defect:
    given: dict[str, Any] = {
        "arm": "judging",
        "seed_id": f"s-{name}",
        "label": 0,
        "predicted": 1,
        "confidence_before": 0.9,
        "confidence_after": 0.5,
        "oracle": "changed_prediction",
        "operator": "blur",
        "family": "blur",
        "families": ("blur",),
        "natural": True,
        "severity": 0.5,
        "recipe": (),
        "root_cause": "rc-a",
        **more,
    }
    return Defect(id=f"d-{name}", **given)


RATE = "{id: r, metric: defect_rate, fail: '> 5%'}"
MIXED = (
    defect("weak"),
    defect("sure", confidence_after=0.99),
    defect("sure-and-small", confidence_after=0.99, severity=0.1),
    defect("dog", label=1, predicted=2, families=("blur", "noise"), baseline=1),
    defect("searched", arm="search", confidence_after=1.0),
    defect("attack", arm="search", natural=False),
    defect("nan", arm="search", predicted=None, confidence_after=None, oracle="non_finite"),
    defect("raised", arm="probes", label=None, predicted=None, confidence_after=None, oracle="crash"),
    defect("paths", arm="paths", oracle="numeric_path:half", also=("changed_prediction",)),
    defect("mark", arm="marks", oracle="universal_mark", root_cause="rc-m", natural=False),
)


@pytest.mark.parametrize(
    ("rule", "shown"),
    [
        (RATE, ["sure-and-small", "sure", "dog", "weak"]),
        ("{id: r, metric: robust_margin_p05, warn: '< 0.5'}", ["sure-and-small", "sure", "dog", "weak"]),
        ("{id: r, metric: confident_error_rate, fail: '> 5%'}", ["sure-and-small", "sure"]),
        ("{id: r, metric: missed_positive_rate, fail: '> 5%'}", ["dog"]),
        ("{id: r, metric: negative_flip_rate, fail: '> 5%'}", ["dog"]),
        ("{id: r, metric: nonfinite_outputs, fail: '> 0'}", ["nan"]),
        ("{id: r, metric: crashes, fail: '> 0'}", ["raised"]),
        ("{id: r, metric: hangs, fail: '> 0'}", []),
        ("{id: r, metric: backend_disagreements, fail: '> 0'}", ["paths"]),
        ("{id: r, metric: universal_mark_rate, fail: '> 5%'}", ["mark"]),
        ("{id: r, metric: defect_density, fail: '< 1'}", ["nan", "searched", "attack"]),
        ("{id: r, metric: clean_accuracy, fail: '< 50%'}", []),
    ],
)
def test_each_rule_names_the_defects_that_show_it(tmp_path: Path, rule: str, shown: list[str]) -> None:
    name = rule.split("metric: ")[1].split(",")[0]
    outcome = judged(tmp_path, rule, metric(name, 0.4), head="positive: [dog]\n", defects=MIXED)
    assert [identity.removeprefix("d-") for identity in outcome.evidence] == shown
    assert outcome.evidence_count == len(shown)


@pytest.mark.parametrize("slices", ["", ", slice: {by: class}"])
def test_a_rate_of_0_is_shown_by_no_defect_that_the_search_alone_found(tmp_path: Path, slices: str) -> None:
    none = metric("defect_rate", 0.0 if not slices else 0.1, slices={"class": {"cat": metric("defect_rate", 0.0)}})
    outcome = judged(tmp_path, RATE[:-1] + slices + "}", none, defects=[defect("a", arm="search")])
    assert (outcome.value, outcome.evidence, outcome.evidence_count) == (0.0, (), 0)


def test_at_most_five_are_named_and_all_are_counted(tmp_path: Path) -> None:
    many = [defect(f"{index:02}", severity=index / 100) for index in range(20)]
    outcome = judged(tmp_path, RATE, metric("defect_rate", 0.4), defects=many)
    assert outcome.evidence == ("d-00", "d-01", "d-02", "d-03", "d-04")
    assert outcome.evidence_count == 20


def test_defects_the_search_found_first_stand_in_where_the_judging_arm_has_none_left(tmp_path: Path) -> None:
    outcome = judged(tmp_path, RATE, metric("defect_rate", 0.4), defects=[MIXED[4], MIXED[5], MIXED[9]])
    assert outcome.evidence == ("d-searched",)


@pytest.mark.parametrize(
    ("by", "slice_name", "shown"),
    [("class", "dog", ["d-dog"]), ("class", "ship", []), ("family", "noise", ["d-dog"]), ("family", "blur", None)],
)
def test_a_slice_names_its_own_defects(tmp_path: Path, by: str, slice_name: str, shown: list[str] | None) -> None:
    found = metric("defect_rate", 0.1, slices={by: {slice_name: metric("defect_rate", 0.5)}})
    outcome = judged(tmp_path, RATE[:-1] + f", slice: {{by: {by}}}}}", found, defects=MIXED)
    assert outcome.slice == slice_name
    assert outcome.evidence_count == (4 if shown is None else len(shown))
    assert shown is None or list(outcome.evidence) == shown


def test_a_comparison_shows_first_what_the_baseline_does_not_have(tmp_path: Path) -> None:
    old = defect("old", baseline=2, confidence_after=0.99)
    new = defect("new", baseline=0, confidence_after=0.6)
    compared = "{id: r, metric: defect_rate, compare: {max_rise: 0.1}, on_missing: fail}"
    assert judged(tmp_path, compared, metric("defect_rate", 0.4), defects=[old, new]).evidence == ("d-new", "d-old")
    assert judged(tmp_path, RATE, metric("defect_rate", 0.4), defects=[old, new]).evidence == ("d-old", "d-new")


def test_root_causes_show_one_of_each_of_the_largest_and_a_regression_those_that_recur(tmp_path: Path) -> None:
    causes = [RootCause(id=f"rc-{size}", title="t", size=size, example=f"d-{size}") for size in (1, 9, 4)]
    outcome = judged(tmp_path, "{id: r, metric: root_causes, fail: '> 2'}", metric("root_causes", 3.0), root_causes=causes)
    assert (outcome.evidence, outcome.evidence_count) == (("d-9", "d-4", "d-1"), 3)
    parts = {"rc-a": metric("regression_rate", 0.5), "rc-m": metric("regression_rate", 0.0)}
    given = metric("regression_rate", 0.4, slices={"root_cause": parts})
    outcome = judged(tmp_path, "{id: r, metric: regression_rate, fail: '> 20%'}", given, defects=[MIXED[0], MIXED[9]])
    assert outcome.evidence == ("d-weak",)


def test_what_was_not_judged_shows_nothing(tmp_path: Path) -> None:
    missing = metric("defect_rate", None, reason="nothing ran")
    for on_missing in ("skip", "inconclusive"):
        assert judged(tmp_path, RATE[:-1] + f", on_missing: {on_missing}}}", missing, defects=MIXED).evidence == ()


@pytest.mark.parametrize(
    ("rule", "value", "distance"),
    [
        ("{id: r, metric: defect_rate, fail: '> 20%', warn: '> 5%'}", 0.3, -0.1),
        ("{id: r, metric: defect_rate, fail: '> 20%', warn: '> 5%'}", 0.15, 0.05),
        ("{id: r, metric: defect_rate, warn: '> 5%'}", 0.15, -0.1),
        ("{id: r, metric: clean_accuracy, fail: '< 60%'}", 0.5, -0.1),
        ("{id: r, metric: clean_accuracy, fail: '< 60%'}", 0.9, 0.3),
        ("{id: r, metric: root_causes, fail: '> 5'}", 7.0, -2.0),
    ],
)
def test_the_distance_is_above_zero_on_the_good_side(tmp_path: Path, rule: str, value: float, distance: float) -> None:
    name = rule.split("metric: ")[1].split(",")[0]
    assert judged(tmp_path, rule, metric(name, value)).distance == pytest.approx(distance)


SURE = "{id: r, metric: defect_rate, fail: '> 20%', confidence: 0.95}"
HEAD = "arms: {judging: 0.25}\njudging: {mutants_per_seed: 10}\n"


def open_rate(failed: int, n: int) -> Metric:
    lower, upper = exact_share(failed, n, 0.95)
    return metric("defect_rate", failed / n, n=n, lower=lower, upper=upper, confidence=0.95)


def step(tmp_path: Path, given: Metric, rule: str = SURE) -> str:
    outcome = judged(tmp_path, rule, given, head=HEAD)
    assert outcome.status is Status.INCONCLUSIVE
    return outcome.next_step


def test_an_open_rule_says_how_many_more_seed_inputs_and_executions_would_decide_it(tmp_path: Path) -> None:
    said = step(tmp_path, open_rate(30, 200))  # 15 %, 10.4 to 20.7: 200 (5.73 / 5) ** 2 = 263, rounded up to 270; 270 * 10 / 0.25
    assert said == (
        "About 270 seed inputs (200 so far) would decide it if the value stays: about 11,000 executions (--executions 11000), where there "
        "are seed inputs enough."
    )


def test_on_the_bad_side_the_lower_end_has_to_pass_the_limit(tmp_path: Path) -> None:
    assert step(tmp_path, open_rate(50, 200)).startswith("About 280 seed inputs")  # 25 %, 19.2 to 31.6: 200 (5.84 / 5) ** 2 = 273


@pytest.mark.parametrize(("failed", "n"), [(30, 200), (26, 150), (70, 300), (3, 40), (0, 15)])
def test_the_guess_is_about_right(tmp_path: Path, failed: int, n: int) -> None:
    needed = int(step(tmp_path, open_rate(failed, n)).split(" seed inputs")[0].removeprefix("About ").replace(",", ""))

    def decided(times: float) -> bool:
        size = int(needed * times)
        lower, upper = exact_share(round(failed / n * size), size, 0.95)
        return upper <= 0.2 or lower > 0.2

    assert decided(1.25)
    assert not decided(0.6)


def test_a_value_at_the_limit_promises_nothing(tmp_path: Path) -> None:
    for failed in (40, 41):
        assert step(tmp_path, open_rate(failed, 200)).startswith("The value lies so near the limit that 100 times as many seed inputs")


def test_quantiles_and_ratios_get_no_guess(tmp_path: Path) -> None:
    rule = "{id: r, metric: robust_margin_p05, fail: '< 0.1', confidence: 0.95}"
    given = metric("robust_margin_p05", 0.2, lower=0.05, upper=0.4, confidence=0.95)
    assert step(tmp_path, given, rule) == CATALOGUE["robust_margin_p05"].to_measure


def test_a_slice_needs_its_share_of_a_larger_campaign(tmp_path: Path) -> None:
    found = metric("defect_rate", 0.1, n=200, slices={"class": {"cat": open_rate(3, 30)}}, lower=0.0, upper=0.2, confidence=0.95)
    said = step(tmp_path, found, SURE[:-1] + ", slice: {by: class}}")
    assert said.startswith("About 82 seed inputs of this slice (30 so far)")
    assert "about 22,000 executions" in said  # 547 seed inputs in all, ten mutants each, a quarter of the executions


def test_too_few_samples_say_how_many_executions_are_needed(tmp_path: Path) -> None:
    given = metric("defect_rate", 0.1, n=200)
    said = step(tmp_path, given, "{id: r, metric: defect_rate, fail: '> 20%', min_samples: 400}")
    assert "400 seed inputs are needed, 200 were judged: about 16,000 executions (--executions 16000)" in said
