"""``gate policy check`` beyond the schema: what a policy's rules would do, and each finding with its place."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gate.cli.policy import command
from gate.config import BudgetSettings
from gate.errors import PolicyError
from gate.policy import load_policy, shipped_policies
from gate.policy.check import Finding, check
from gate.policy.doubts import doubts

TODAY = datetime.date(2026, 11, 30)
FINE = '{id: fine, metric: defect_rate, fail: "> 0.2", confidence: 0.95}'


def policy(folder: Path, rules: str, more: str = "") -> Path:
    path = folder / "p.yaml"
    path.write_text(f"version: 1\nname: p\n{more}rules:\n" + "".join(f"  - {rule}\n" for rule in rules.splitlines()))
    return path


def found(folder: Path, rules: str, more: str = "") -> list[tuple[str, str | None]]:
    return [(one.level, one.rule) for one in findings(folder, rules, more)]


def findings(folder: Path, rules: str, more: str = "") -> tuple[Finding, ...]:
    return check(load_policy(str(policy(folder, rules, more))), today=TODAY)


@pytest.mark.parametrize("name", shipped_policies())
def test_every_shipped_policy_is_clean(name: str) -> None:
    assert [one for one in check(load_policy(name), today=TODAY) if one.level != "note"] == []


@pytest.mark.parametrize(
    ("rule", "level"),
    [
        ('{id: r, metric: crashes, fail: ">= 0"}', "error"),
        ('{id: r, metric: defect_rate, fail: ">= 0%"}', "error"),
        ('{id: r, metric: clean_accuracy, fail: "<= 1"}', "error"),
        ('{id: r, metric: crashes, fail: "> 1", warn: ">= 0"}', "warning"),
        ('{id: r, metric: clean_accuracy, fail: "> 0.9"}', "error"),
        ('{id: r, metric: regression_rate, fail: "< 0.1"}', "error"),
        ('{id: r, metric: clean_accuracy, fail: "< 0.5", warn: "> 0.999"}', "warning"),
        ('{id: r, metric: defects_per_1k_executions, fail: "> 30", warn: "< 40"}', "warning"),
        ("{id: r, metric: defect_rate, compare: {max_rise: 0}, confidence: 0.95, on_missing: skip}", "warning"),
    ],
)
def test_a_limit_that_no_model_could_meet_or_only_a_bad_one_is_found(tmp_path: Path, rule: str, level: str) -> None:
    assert (level, "r") in found(tmp_path, f"{rule}\n{FINE}")


@pytest.mark.parametrize(
    "rule",
    [
        '{id: r, metric: crashes, fail: "> 0"}',
        '{id: r, metric: coverage_gain, fail: "<= 0"}',
        '{id: r, metric: coverage_gain_per_iteration, fail: "< 0.005%", warn: "> 0.1%"}',
        '{id: r, metric: clean_accuracy, fail: "< 0.5", warn: "< 0.8"}',
        "{id: r, metric: mutant_failure_rate, compare: {max_rise: 0.02}, confidence: 0.95, on_missing: skip}",
    ],
)
def test_sound_rules_are_left_alone(tmp_path: Path, rule: str) -> None:
    assert found(tmp_path, f"{rule}\n{FINE}") == []


def test_more_executions_than_the_own_budget_has_can_never_be_reached(tmp_path: Path) -> None:
    rule = '{id: r, metric: executions, fail: "< 5000"}'
    assert found(tmp_path, f"{rule}\n{FINE}", "budget: {executions: 5000}\n") == []
    assert found(tmp_path, f"{rule}\n{FINE}", "budget: {executions: 4999}\n") == [("error", "r")]
    canaries = "budget: {executions: 5560}\narms: {canaries: 0.1}\n"  # what is kept for canaries is run through another model
    assert found(tmp_path, f"{rule}\n{FINE}", canaries) == []
    assert found(tmp_path, f"{rule}\n{FINE}", canaries.replace("5560", "5550")) == [("error", "r")]


def test_more_samples_than_the_judging_arm_can_give_are_never_there(tmp_path: Path) -> None:
    rule = '{id: r, metric: defect_rate, fail: "> 0.5", min_samples: 187}'
    assert found(tmp_path, rule, "budget: {executions: 5000}\n") == []  # 1,500 executions, 8 each
    assert found(tmp_path, rule.replace("187", "188"), "budget: {executions: 5000}\n") == [("error", "r")]
    assert found(tmp_path, rule, "budget: {executions: 5000}\njudging: {repeat: 2}\n") == [("error", "r")]
    assert found(tmp_path, rule.replace("187", "188")) == []  # no budget of its own, so nothing is known


def test_classes_that_can_not_all_have_enough_samples_are_warned_of(tmp_path: Path) -> None:
    rule = '{id: r, metric: defect_rate, fail: "> 0.5", min_samples: 100, slice: {by: class}}'
    assert found(tmp_path, rule, "budget: {executions: 5000}\n") == [("warning", "r")]


@pytest.mark.parametrize(
    ("fail", "confidence", "executions", "says"),
    [
        ("> 0.5", 0.9999, 200, "always inconclusive"),  # 7 seed inputs
        ("> 0.01", 0.95, 5000, "can never hold"),
        ("> 0.99", 0.95, 5000, "can never fail"),
    ],
)
def test_an_interval_too_wide_for_its_limit_is_found_by_the_real_intervals(
    tmp_path: Path, fail: str, confidence: float, executions: int, says: str
) -> None:
    (one,) = findings(
        tmp_path, f'{{id: r, metric: defect_rate, fail: "{fail}", confidence: {confidence}}}', f"budget: {{executions: {executions}}}\n"
    )
    assert one.level == "error"
    assert says in one.text
    more = findings(tmp_path, f'{{id: r, metric: defect_rate, fail: "{fail}", confidence: {confidence}}}', "budget: {executions: 500000}\n")
    assert more == ()


def test_a_breach_that_can_not_stand_among_many_rules_is_warned_of(tmp_path: Path) -> None:
    rules = '{id: r, metric: defect_rate, fail: "> 0.96", confidence: 0.95}\n' + "\n".join(
        f'{{id: r{number}, metric: mutant_failure_rate, fail: "> 0.{number + 10}", confidence: 0.9{number}}}' for number in range(1, 9)
    )
    (one,) = [one for one in findings(tmp_path, rules, "budget: {executions: 3000}\n") if one.rule == "r"]
    assert one.level == "warning"
    assert "can't fail alone" in one.text


def test_rules_that_exclude_each_other_or_repeat_each_other_are_found(tmp_path: Path) -> None:
    low = '{id: low, metric: defects_per_1k_executions, fail: "< 10"}'
    assert found(tmp_path, low + '\n{id: high, metric: defects_per_1k_executions, fail: "> 5"}\n' + FINE) == [("error", "high")]
    assert found(tmp_path, low + '\n{id: high, metric: defects_per_1k_executions, fail: "> 10"}\n' + FINE) == []  # 10 meets both
    assert found(tmp_path, low + '\n{id: high, metric: defects_per_1k_executions, fail: ">= 10"}\n' + FINE) == [("error", "high")]
    assert found(tmp_path, FINE + '\n{id: wide, metric: defect_rate, fail: "> 0.3", confidence: 0.95}') == [("warning", "wide")]
    assert found(tmp_path, '{id: wide, metric: defect_rate, fail: "> 0.3", confidence: 0.95}\n' + FINE) == [("warning", "wide")]
    assert found(tmp_path, FINE + '\n{id: point, metric: defect_rate, fail: "> 0.3"}') == []  # it decides without an interval
    assert found(tmp_path, FINE + '\n{id: slices, metric: defect_rate, fail: "> 0.3", confidence: 0.95, slice: {by: class}}') == []


@pytest.mark.parametrize(
    ("metric", "more"),
    [
        ("canary_recall", ""),
        ("universal_mark_rate", "arms: {marks: 0}\n"),
        ("universal_mark_rate", "domain: {marks: {patch: null, border: 0, blend: null}}\n"),
        ("defect_rate", "arms: {judging: 0}\n"),
        ("backend_disagreements", "arms: {probes: 0}\n"),
    ],
)
def test_a_rule_on_what_the_policy_never_measures_is_found(tmp_path: Path, metric: str, more: str) -> None:
    sign = "<" if metric == "canary_recall" else ">"
    rule = f'{{id: r, metric: {metric}, fail: "{sign} 0.5"%s}}\n{{id: c, metric: crashes, fail: "> 0"}}'
    assert found(tmp_path, rule % "", more) == [("error", "r")]
    assert found(tmp_path, rule % ", on_missing: skip", more) == [("warning", "r")]
    assert ("error", "r") not in found(tmp_path, rule % "", "arms: {canaries: 0.1}\n")


def test_what_needs_a_baseline_says_what_happens_without_one(tmp_path: Path) -> None:
    flips, rise = '{id: r, metric: negative_flip_rate, fail: "> 0.1"%s}', "{id: r, metric: defect_rate, compare: {max_rise: 0.1}%s}"
    for rule in (flips, rise):
        assert found(tmp_path, rule % "") == [("warning", "r")]
        assert found(tmp_path, rule % ", on_missing: inconclusive") == []


def test_a_policy_that_skips_or_never_blocks_is_warned_of(tmp_path: Path) -> None:
    assert found(tmp_path, '{id: r, metric: defect_rate, fail: "> 0.1", on_missing: skip}') == [("warning", None)]
    assert found(tmp_path, '{id: r, metric: defect_rate, warn: "> 0.1"}') == [("warning", None)]


def test_positive_classes_that_are_not_named_are_a_note(tmp_path: Path) -> None:
    rule = '{id: r, metric: missed_positive_rate, fail: "> 0.1"}'
    assert found(tmp_path, rule) == [("note", "r")]
    assert found(tmp_path, rule, "positive: [crack]\n") == []


def test_a_point_value_that_keeps_an_early_policy_from_stopping_is_warned_of(tmp_path: Path) -> None:
    rule = '{id: r, metric: defect_rate, fail: "> %s"}'
    early = "decide: early\nbudget: {executions: 2000}\n"  # 75 seed inputs
    assert found(tmp_path, rule % 0.02, early) == [("warning", "r")]
    assert found(tmp_path, rule % 0.3, early) == []
    assert found(tmp_path, rule % 0.02, "budget: {executions: 2000}\n") == []


def test_intervals_that_may_be_looked_at_again_and_again_are_the_ones_that_count_where_the_policy_decides_early(tmp_path: Path) -> None:
    rule = '{id: r, metric: defect_rate, fail: "> 0.06", confidence: 0.95}'
    assert found(tmp_path, rule, "budget: {executions: 2000}\n") == []
    assert found(tmp_path, rule, "decide: early\nbudget: {executions: 2000}\n") == [("error", "r")]


def test_what_is_never_compared_can_not_be(tmp_path: Path) -> None:
    rule = "{id: r, metric: %s, compare: {max_rise: 0.1}, on_missing: inconclusive}"
    assert found(tmp_path, f"{rule % 'universal_mark_rate'}\n{FINE}") == [("error", "r")]
    assert found(tmp_path, f"{rule % 'defect_rate'}\n{FINE}") == []


@pytest.mark.parametrize(
    ("metric", "compare", "said"),
    [
        ("clean_accuracy", "max_rise: 0.02", "Write max_drop: 0.02."),
        ("defect_rate", "max_drop: 0.1", "Write max_rise: 0.1."),
        ("robust_margin_p05", "max_rise: 0.1, relative: true", "Write max_drop: 0.1."),
        ("defect_rate", "max_rise: 2", "Shares count from 0 to 1: 2 points are 0.02."),
        ("clean_accuracy", "max_drop: 1, relative: true", "Shares count from 0 to 1: 2 points are 0.02."),
        ("robust_margin_p05", "max_drop: 1", "Allow a smaller change."),
        ("crashes", "max_rise: 3", None),
        ("defect_rate", "max_rise: 2, relative: true", None),
    ],
)
def test_a_comparison_that_blocks_what_is_better_or_nothing_at_all_is_found(
    tmp_path: Path, metric: str, compare: str, said: str | None
) -> None:
    rule = f"{{id: r, metric: {metric}, compare: {{to: baseline, {compare}}}, on_missing: skip}}"
    told = [one.hint for one in findings(tmp_path, f"{rule}\n{FINE}") if one.level == "error"]
    assert told == ([] if said is None else [said])


def test_a_share_that_pays_for_no_canary_is_found(tmp_path: Path) -> None:
    rule = '{id: r, metric: canary_recall, fail: "<= 0"}'
    assert found(tmp_path, f"{rule}\n{FINE}", "budget: {executions: 4000}\narms: {canaries: 0.01}\n") == []
    errors = findings(tmp_path, f"{rule}\n{FINE}", "budget: {executions: 3900}\narms: {canaries: 0.01}\n")
    assert [(one.level, one.rule) for one in errors] == [("error", "r")]
    assert "of 3,900 executions that is 39, and a fault is searched for with 40 at least" in errors[0].text


@pytest.mark.parametrize(
    ("given", "said", "hint"),
    [
        ("confidence: 95", "must be at most 0.999999 (given: 95).", "Write confidence: 0.95."),
        ("confidence: 95%", "must be a number (given: '95%').", "Write confidence: 0.95."),
        ("compare: {to: baseline, max_rise: 2%}", "must be a number (given: '2%').", "Write max_rise: 0.02."),
        ("slice: class", "must be a mapping: slice: {by: class}", None),
        ('warn: "> 20"', 'did you mean ">20%"?', None),
    ],
)
def test_a_value_written_in_another_way_is_refused_with_the_right_one(tmp_path: Path, given: str, said: str, hint: str | None) -> None:
    with pytest.raises(PolicyError) as refused:
        load_policy(str(policy(tmp_path, f"{{id: r, metric: defect_rate, fail: 0.2, {given}}}")))
    assert refused.value.what.endswith(said) or said in refused.value.what
    assert hint is None or (refused.value.hint or "").startswith(hint)
    assert "?." not in refused.value.what


def test_an_inherited_rule_whose_name_is_misspelt_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as refused:
        load_policy(str(policy(tmp_path, "{id: defect_rate, fail: 0.1}", "extends: [baseline]\n")))
    assert "no policy that this one extends has a rule of that name" in refused.value.what
    assert refused.value.hint == "Did you mean 'defect-rate'?"


def test_a_run_is_told_beforehand_what_its_budget_or_any_can_not_decide(tmp_path: Path) -> None:
    turned = '{id: turned, metric: clean_accuracy, fail: "> 0.9"}'
    loaded = load_policy(str(policy(tmp_path, f"{FINE[:-1]}, min_samples: 100}}\n{turned}", "budget: {executions: 5000}\n")))
    told = {
        given: {one.rule: one.text for one in doubts(loaded, BudgetSettings(executions=given), today=TODAY)} for given in (600, 5000, None)
    }
    assert [set(told[given]) for given in (600, 5000, None)] == [{"fine", "turned"}, {"turned"}, {"turned"}]
    assert (
        told[600]["fine"] == "min_samples is 100, and there are 22 seed inputs, which the budget of this run judges at most: never decided."
    )


def test_more_canaries_than_there_are_can_not_be_asked_for(tmp_path: Path) -> None:
    rule = '{id: r, metric: canary_recall, fail: "< 0.5", %s}'
    assert found(tmp_path, f"{rule % 'min_samples: 100'}\n{FINE}", "arms: {canaries: 0.1}\n") == [("error", "r")]
    assert found(tmp_path, f"{rule % 'confidence: 0.999999'}\n{FINE}", "arms: {canaries: 0.1}\n") == [("error", "r")]
    assert found(tmp_path, f"{rule % 'confidence: 0.9'}\n{FINE}", "arms: {canaries: 0.1}\n") == []


@pytest.mark.parametrize(
    ("waiver", "level"),
    [
        ("expires: 2026-11-29", "warning"),
        ("expires: 2026-11-30", None),
        ("expires: 2027-12-02", "warning"),
        ("expires: 2027-12-02, model: 'digits/*'", None),
        ("expires: 2027-01-01, root_cause: cause-1", "error"),
        ("expires: 2027-01-01, root_cause: rc-0a1b2c", None),
        ("expires: 2027-01-01, slice: blurr", "error"),
        ("expires: 2027-01-01, slice: blur", None),
    ],
)
def test_waivers_that_excuse_nothing_or_too_much_are_found(tmp_path: Path, waiver: str, level: str | None) -> None:
    rule = '{id: r, metric: defect_rate, fail: "> 0.2", slice: {by: family}}'
    waivers = f"waivers: [{{rule: r, reason: x, owner: y, {waiver}}}]\n"
    assert found(tmp_path, rule, waivers) == ([] if level is None else [(level, "r")])


def test_a_waiver_of_a_rule_that_only_warns_excuses_nothing(tmp_path: Path) -> None:
    waivers = "waivers: [{rule: r, reason: x, owner: y, expires: 2027-01-01}]\n"
    assert found(tmp_path, f'{{id: r, metric: root_causes, warn: "> 5"}}\n{FINE}', waivers) == [("warning", "r")]


def test_findings_name_the_file_and_line_of_the_key(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text('version: 1\nname: b\nrules:\n  - id: r\n    metric: crashes\n    fail: ">= 0"\n')
    path = tmp_path / "p.yaml"
    path.write_text("version: 1\nname: p\nextends: [base.yaml]\nrules:\n  - {id: r, min_samples: 3}\n")
    (one,) = check(load_policy(str(path)), today=TODAY)
    assert one.where == f"{tmp_path / 'base.yaml'}:6"


def test_the_command_exits_with_2_on_errors_and_on_warnings_only_by_strict(tmp_path: Path) -> None:
    warned = str(policy(tmp_path, '{id: r, metric: defect_rate, fail: "> 0.1", on_missing: skip}'))
    fine = CliRunner().invoke(command, ["check", warned])
    assert fine.exit_code == 0
    assert "warning: Every rule that can make a run fail" in fine.stdout
    strict = CliRunner().invoke(command, ["check", "--strict", warned])
    assert isinstance(strict.exception, PolicyError)
    assert "NOT SOUND" in strict.stderr


def test_the_command_tells_a_program_the_same(tmp_path: Path) -> None:
    bad = policy(tmp_path, '{id: r, metric: crashes, fail: ">= 0"}')
    (tmp_path / "broken.yaml").write_text("version: 1\nname: x\nrules: [{id: r, metric: nope}]\n")
    done = CliRunner().invoke(command, ["check", "--format", "json", str(bad), str(tmp_path / "broken.yaml"), "baseline"])
    assert done.exit_code == 2
    first, second, third = json.loads(done.stdout)
    assert (first["sound"], first["error"], first["findings"][0]["where"]) == (False, None, f"{bad}:4")
    assert (second["sound"], second["error"]["where"]) == (False, f"{tmp_path / 'broken.yaml'}:3")
    assert (third["sound"], third["error"]) == (True, None)
    assert [one for one in third["findings"] if one["level"] != "note"] == []


def test_the_day_of_the_check_can_be_given(tmp_path: Path) -> None:
    path = str(policy(tmp_path, FINE, "waivers: [{rule: fine, reason: x, owner: y, expires: 2027-01-01}]\n"))
    assert "expired" not in CliRunner().invoke(command, ["check", "--today", "2027-01-01", path]).output
    assert "expired on 2027-01-01" in CliRunner().invoke(command, ["check", "--today", "2027-01-02", path]).output
