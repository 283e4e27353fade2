"""Cases 25 and 26 through the command that a person runs: exit code 2 with the line and the nearest known name, or the right reading."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gate.cli.policy import command
from gate.errors import PolicyError
from gate.metrics import CATALOGUE
from gate.policy import evaluate, load_policy
from gate.result import Metric, ModelInfo, Status, Verdict

HEAD = "version: 1\nname: p\n"
RULE = "rules:\n  - id: r\n    metric: defect_rate\n    fail: '> 0.2'\n"
TODAY = datetime.date(2026, 11, 30)
MODEL = ModelInfo(uri="m", resolved_uri="m")
BOMB = HEAD + "a: &a [x, x]\n" + "".join(f"{y}: &{y} [*{x}, *{x}, *{x}]\n" for x, y in zip("abcdefgh", "bcdefghi", strict=True)) + RULE


def check(path: Path, text: str) -> Result:
    path.write_text(text)
    return CliRunner().invoke(command, ["check", str(path)])


def assert_refused(path: Path, text: str, line: int, said: str) -> None:
    error = check(path, text).exception
    assert isinstance(error, PolicyError)
    assert error.exit_code == 2
    assert error.where == f"{path}:{line}"
    assert said in str(error)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        pytest.param(HEAD + "name: q\n" + RULE, 3, "stands twice", id="duplicate key"),
        pytest.param(HEAD + RULE + "    metric: clean_accuracy\n", 7, "stands twice", id="duplicate key of a rule"),
        pytest.param(HEAD + "aliases: 1\n" + RULE, 3, "aliases", id="unknown key"),
        pytest.param(HEAD + RULE.replace("fail", "fial"), 6, "Did you mean 'fail'?", id="unknown key of a rule"),
        pytest.param(HEAD + RULE.replace("defect_rate", "defect_rat"), 5, "Did you mean 'defect_rate'?", id="unknown metric"),
        pytest.param(HEAD + RULE.replace("'> 0.2'", ".nan"), 6, "is no limit", id="nan"),
        pytest.param(HEAD + RULE.replace("'> 0.2'", "'> nan'"), 6, "is no limit", id="nan in a comparison"),
        pytest.param(BOMB, 3, "Anchors and aliases", id="alias bomb"),
        pytest.param(HEAD + "description: !!python/object/apply:os.system ['true']\n" + RULE, 3, "tag", id="python object"),
        pytest.param(HEAD + RULE + "    min_samples: many\n", 7, "min_samples", id="text for a number"),
        pytest.param(HEAD + RULE + "    min_samples: '200'\n", 7, "min_samples", id="number in quotes"),
        pytest.param(HEAD + RULE + "    compare: {max_rise: 1, relative: no}\n", 7, "relative", id="no is text"),
    ],
)
def test_case_25_bad_yaml_and_bad_values_are_refused_with_their_line(tmp_path: Path, text: str, line: int, said: str) -> None:
    assert_refused(tmp_path / "policy.yaml", text, line, said)


def test_case_25_a_number_with_an_exponent_is_one_and_no_is_a_text(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    assert check(path, HEAD.replace("p\n", "no\n") + RULE.replace("'> 0.2'", "1e-3")).exit_code == 0
    policy = load_policy(str(path)).policy
    assert policy.name == "no"
    assert policy.rules[0].fail is not None
    assert policy.rules[0].fail.limit == 0.001


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        pytest.param(HEAD + "extends: [policy.yaml]\n" + RULE, 3, "extends itself", id="extends itself"),
        pytest.param(HEAD, 1, "has no rules", id="no rules"),
        pytest.param(HEAD + "rules: []\n", 3, "has no rules", id="an empty list of rules"),
        pytest.param(HEAD + RULE + "waivers:\n  - {rule: r, reason: x, expires: 2027-01-01}\n", 8, "owner", id="no owner"),
    ],
)
def test_case_26a_policies_without_sense_are_refused_with_their_line(tmp_path: Path, text: str, line: int, said: str) -> None:
    assert_refused(tmp_path / "policy.yaml", text, line, said)


def test_case_26b_after_its_last_day_a_waiver_is_named_and_the_rule_counts_again(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    second = "  - {id: s, metric: executions, fail: 10}\n"
    path.write_text(HEAD + RULE + second + "waivers:\n  - {rule: r, reason: Known glare., owner: '@team', expires: 2026-11-30}\n")
    metrics = {name: Metric(value=value, n=500, unit=CATALOGUE[name].unit) for name, value in (("defect_rate", 0.3), ("executions", 500.0))}
    for days, status, verdict in ((0, Status.WAIVED, Verdict.PASS), (1, Status.FAIL, Verdict.FAIL)):
        today = TODAY + datetime.timedelta(days=days)
        result = evaluate(load_policy(str(path)).policy, metrics, today=today, candidate=MODEL)
        assert (result.rules[0].status, result.verdict) == (status, verdict)
    assert "The waiver by @team (Known glare) expired on 2026-11-30, so the rule counts again." in result.reasons[0]


@pytest.mark.parametrize(
    ("on_missing", "verdict"), [("inconclusive", Verdict.INCONCLUSIVE), ("skip", Verdict.PASS), ("fail", Verdict.FAIL)]
)
def test_case_26c_a_rule_on_what_this_run_can_not_produce_takes_its_on_missing(tmp_path: Path, on_missing: str, verdict: Verdict) -> None:
    path = tmp_path / "policy.yaml"
    rules = f"  - {{id: a, metric: long_tail_hit_rate, fail: 0.3, on_missing: {on_missing}}}\n  - {{id: s, metric: executions, fail: 10}}\n"
    path.write_text(HEAD + "rules:\n" + rules)
    executions = Metric(value=500.0, n=500, unit="count")
    result = evaluate(load_policy(str(path)).policy, {"executions": executions}, today=TODAY, candidate=MODEL)
    assert result.verdict is verdict
    assert "long_tail_hit_rate could not be computed" in result.rules[0].explanation
