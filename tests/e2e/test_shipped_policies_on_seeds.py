"""Each shipped policy with seeds alone: a verdict that follows from its numbers, and no rule that the missing data breaks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from gate_command import Done, Finished, in_process

CODES = {"pass": 0, "fail": 1, "inconclusive": 4}


def _agrees(done: Done, run: Finished) -> dict[str, str]:
    """The rules' statuses by id; fails unless verdict and exit code follow from them."""
    record = run.record
    statuses = {rule["id"]: rule["status"] for rule in record["rules"]}
    worst = next((one for one in ("error", "fail", "inconclusive") if one in statuses.values()), "pass")
    assert record["verdict"] == worst, record["reasons"]
    assert done.code == record["exit_code"] == CODES[worst]
    return statuses


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory, model: Path, seeds: Path) -> tuple[Done, Finished]:
    out = tmp_path_factory.mktemp("larger") / "out"
    done = in_process("run", "--model", model, "--seeds", seeds, "--policy", "baseline", "--executions", "1200", "--out", out)
    return done, Finished(out)


def test_smoke_passes_a_sound_model_and_skips_what_was_not_given(finished: Finished) -> None:
    statuses = _agrees(Done(0, "", ""), finished)
    assert statuses["defect-rate"] in ("pass", "warn")
    assert statuses["regressions"] == "skipped"


def test_classic_judges_by_the_published_thresholds(model: Path, seeds: Path, tmp_path: Path) -> None:
    done = in_process("run", "--model", model, "--seeds", seeds, "--policy", "classic", "--out", tmp_path / "out")
    run = Finished(tmp_path / "out")
    statuses = _agrees(done, run)
    value = {name: metric["value"] for name, metric in run.record["metrics"].items()}
    assert statuses["coverage-gain"] == ("fail" if value["coverage_gain"] < 0.005 else "pass")
    assert statuses["defect-density"] == ("fail" if value["defect_density"] < 2.0 else "pass")
    step = value["coverage_gain_per_iteration"]
    assert statuses["coverage-gain-per-iteration"] == ("fail" if step < 0.00005 else "warn" if step > 0.001 else "pass")
    assert statuses["long-tail-hit-rate"] == statuses["regression-rate"] == "skipped"
    assert run.record["campaign"]["executions"] == 100  # the policy's own budget
    assert done.code in (0, 1)


def test_baseline_is_open_on_too_few_executions_and_says_what_is_missing(larger: tuple[Done, Finished]) -> None:
    done, run = larger
    statuses = _agrees(done, run)
    assert done.code == 4, done.said
    assert statuses["defect-rate"] == "inconclusive"
    assert statuses["enough-executions"] == "pass"
    assert statuses["regressions"] == statuses["long-tail-accuracy"] == "skipped"
    done.explains("100 are needed to judge it", "what to do:")


def test_strict_asks_for_more_of_the_same_run(larger: tuple[Done, Finished], tmp_path: Path) -> None:
    done = in_process("evaluate", larger[1].folder, "--policy", "strict", "--out", tmp_path / "out")
    statuses = _agrees(done, Finished(tmp_path / "out"))
    assert statuses["enough-executions"] == statuses["defect-rate"] == "inconclusive"


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["baseline", "strict"])
def test_on_its_own_budget_a_policy_decides_what_it_is_for(policy: str, model: Path, seeds: Path, tmp_path: Path) -> None:
    done = in_process("run", "--model", model, "--seeds", seeds, "--policy", policy, "--out", tmp_path / "out")
    run = Finished(tmp_path / "out")
    statuses = _agrees(done, run)
    assert statuses["enough-executions"] == "pass"
    assert statuses["defect-rate"] != "skipped"
    judged = run.record["metrics"]["defect_rate"]["n"]
    assert judged >= {"baseline": 100, "strict": 200}[policy]


def test_a_policy_file_of_ones_own_may_extend_a_shipped_one(finished: Finished, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        'version: 1\nname: mine\nextends: [smoke]\nrules:\n  - {id: clean-accuracy, fail: "< 0.999", warn: "< 1"}\n', encoding="utf-8"
    )
    done = in_process("evaluate", finished.folder, "--policy", tmp_path / "mine.yaml")
    assert done.code == 1, done.said
    done.explains("clean-accuracy", "under the limit")


@pytest.mark.parametrize("arguments", [["policy", "list"], ["policy", "show", "strict"], ["policy", "check", "smoke", "classic"]])
def test_policies_are_listed_shown_and_checked(arguments: list[str]) -> None:
    done = in_process(*arguments)
    assert done.code == 0, done.said
    done.explains(*(["smoke", "baseline", "strict", "classic"] if arguments[1] == "list" else [arguments[2]]))


def test_a_bad_policy_file_is_told_by_check(limits: Callable[[str, str], Path]) -> None:
    bad = limits("bad", '  - {id: a, metric: defect_rate, fail: "> 3"}\n')
    done = in_process("policy", "check", bad)
    assert done.code == 2
    done.explains(f"{bad}:7", "defect_rate")
