"""``gate evaluate`` over old runs: what another policy would have decided about each, and as of which day."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from foggy_rows import foggy_rows

from gate.cli import main
from gate.cli.evaluate import command
from gate.domains.image.limits import Domain
from gate.errors import OutputError, UsageError
from gate.metrics.evidence import Evidence
from gate.policy.load import load_policy
from gate.record import judged
from gate.rejudging import Rejudged, in_words
from gate.result import ModelInfo, Result, RuleResult, Status, Verdict

SEEDS = 200

LENIENT = (
    'version: 1\nname: lenient\nrules: [{id: rate, metric: defect_rate, fail: "> 0.5"}, {id: gone, metric: executions, fail: "< 10"}]\n'
)
TIGHT = 'version: 1\nname: tight\nrules: [{id: rate, metric: defect_rate, fail: "> 0.1"}, {id: new, metric: crashes, fail: "> 3"}]\n'
WAIVED = TIGHT + "waivers: [{rule: rate, reason: glare, owner: '@t', expires: 2027-01-01}]\n"


def evidence(failing: int) -> Evidence:
    rows = foggy_rows(SEEDS, failing)
    return Evidence(
        seed=1,
        classes=("a", "b"),
        domain_digest=Domain().digest(),
        judged=rows,
        judging_mutants_per_seed=8,
        executions=8 * SEEDS,
        crashes=0,
    )


@pytest.fixture
def policies(tmp_path: Path) -> dict[str, str]:
    paths = {}
    for name, text in (("lenient", LENIENT), ("tight", TIGHT), ("waived", WAIVED)):
        (tmp_path / f"{name}.yaml").write_text(text)
        paths[name] = str(tmp_path / f"{name}.yaml")
    return paths


def old_run(folder: Path, policy: str, failing: int) -> Path:
    """A finished run as far as judging again needs one."""
    model = ModelInfo(uri=f"m{failing}", resolved_uri=f"models:/m/{failing}", name="m", version=str(failing))
    blank = Result(verdict=Verdict.INCONCLUSIVE, exit_code=4, reasons=(), candidate=model, classes=("a", "b"))
    known = evidence(failing)
    result = judged(blank, known, load_policy(policy), advisory=False)
    (folder / "campaign").mkdir(parents=True)
    (folder / "result.json").write_text(result.to_json())
    (folder / "campaign" / "evidence.json").write_text(known.model_dump_json())
    return folder


@pytest.fixture
def runs(tmp_path: Path, policies: dict[str, str]) -> list[str]:
    return [str(old_run(tmp_path / f"run{failing}", policies["lenient"], failing)) for failing in (4, 40, 120)]


def files(folders: list[str]) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for folder in folders for path in sorted(Path(folder).rglob("*")) if path.is_file()}


def code_of(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", *arguments])
    return int(ended.value.code or 0)


def test_rules_that_miss_their_metrics_for_one_reason_are_told_together(tmp_path: Path) -> None:
    missing = "%s could not be computed: the run's mutants were made under another domain; the policy needs it."
    model = ModelInfo(uri="m", resolved_uri="m")

    def run(**rules: tuple[Status, str]) -> Result:
        told = [
            RuleResult(
                id=name, metric="defect_rate", kind="quality", status=status, value=None, unit="share", threshold="> 0.2", explanation=why
            )
            for name, (status, why) in rules.items()
        ]
        return Result(verdict=Verdict.INCONCLUSIVE, exit_code=4, reasons=("r",), candidate=model, rules=tuple(told))

    before = run(a=(Status.PASS, ""), b=(Status.PASS, ""), c=(Status.FAIL, ""), d=(Status.PASS, ""))
    open_ = Status.INCONCLUSIVE
    after = run(a=(open_, missing % "x"), b=(open_, missing % "y"), c=(open_, missing % "z"), d=(open_, "x is 3 %."))
    lines = list(in_words([Rejudged(tmp_path, before, after, None)]))[1:]
    assert lines == [
        "  a, b: pass -> inconclusive. The run's mutants were made under another domain; the policy needs it.",
        f"  c: fail -> inconclusive. {missing % 'z'}",
        "  d: pass -> inconclusive. x is 3 %.",
    ]


def test_several_old_runs_are_told_with_what_changed_and_how_many_would_be_blocked(runs: list[str], policies: dict[str, str]) -> None:
    before = files(runs)
    done = CliRunner().invoke(command, [*runs, "--policy", policies["tight"]])
    lines = done.output.splitlines()
    assert lines[0] == f"{runs[0]}: pass as before  (models:/m/4)"
    assert lines[1] == "  new: no such rule -> pass. " + lines[1].partition("-> pass. ")[2]
    assert lines[2] == "  gone: pass -> no such rule"
    assert f"{runs[1]}: pass -> fail  (models:/m/40)" in lines
    assert f"{runs[2]}: fail as before  (models:/m/120)" in lines
    assert "Of 3 runs this policy would have passed 1 (before: 2), blocked 2 (before: 1)." in lines
    assert any(line.startswith("  rate: pass -> fail. defect_rate is 20") for line in lines)
    assert files(runs) == before


def test_the_exit_code_is_the_verdict_of_one_run_and_0_for_several(
    runs: list[str], policies: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert [code_of(run, "--policy", policies["tight"]) for run in runs] == [0, 1, 1]
    assert code_of(*runs, "--policy", policies["tight"]) == 0
    assert code_of(runs[1], "--policy", policies["tight"], "--advisory") == 0


def test_a_run_that_can_not_be_judged_again_is_named_and_the_others_are_judged(runs: list[str], policies: dict[str, str]) -> None:
    Path(runs[1], "campaign", "evidence.json").write_text("{")
    done = CliRunner().invoke(command, [*runs, "--policy", policies["tight"]])
    assert f"{runs[1]}: can't be judged again: The run's evidence is damaged." in done.output
    assert "Of 2 runs this policy would have passed 1 (before: 1), blocked 1 (before: 1); 1 can't be judged again." in done.output
    assert code_of(*runs, "--policy", policies["tight"]) == 3
    with pytest.raises(OutputError):
        CliRunner().invoke(command, [runs[1], "--policy", policies["tight"]], catch_exceptions=False)


def test_waivers_go_by_the_day_that_is_given_and_it_is_said_which(runs: list[str], policies: dict[str, str]) -> None:
    def judged_on(*day: str) -> str:
        return CliRunner().invoke(command, [runs[1], runs[2], "--policy", policies["waived"], *day]).output

    assert "passed 2" in judged_on("--today", "2027-01-01")
    assert "Waivers as of 2027-01-01 (--today)." in judged_on("--today", "2027-01-01")
    late = judged_on("--today", "2027-01-02")
    assert "blocked 2" in late
    assert "expired on 2027-01-01, so the rule counts again" in late
    assert "(UTC date)." in judged_on()


def test_a_program_gets_both_verdicts_and_the_rules_that_changed(runs: list[str], policies: dict[str, str]) -> None:
    done = CliRunner().invoke(command, [*runs, "--policy", policies["tight"], "--format", "json", "--today", "2027-01-01"])
    said = json.loads(done.stdout)
    assert said["policy"]["name"] == "tight"
    assert (said["today"], said["today_from"]) == ("2027-01-01", "--today")
    assert said["summary"] == {"runs": 3, "judged": 3, "pass": 1, "fail": 2, "inconclusive": 0, "error": 0}
    second = said["runs"][1]
    assert (second["before"]["verdict"], second["before"]["policy"], second["after"]["verdict"]) == ("pass", "lenient", "fail")
    assert [(one["rule"], one["before"], one["after"]) for one in second["changed"]] == [
        ("rate", "pass", "fail"),
        ("new", None, "pass"),
        ("gone", "pass", None),
    ]


def test_renderings_are_written_of_one_run_only(runs: list[str], policies: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        CliRunner().invoke(command, [*runs, "--policy", policies["tight"], "--out", str(tmp_path / "out")], catch_exceptions=False)
    assert not (tmp_path / "out").exists()


def test_what_a_run_says_of_its_model_can_not_act_on_the_terminal(runs: list[str], policies: dict[str, str]) -> None:
    path = Path(runs[0], "result.json")
    path.write_text(path.read_text().replace("models:/m/4", "models:/\\u001b[31mm/4"))
    done = CliRunner().invoke(command, [*runs, "--policy", policies["tight"]])
    assert "\x1b" not in done.output
    assert "\\x1b[31m" in done.output


def test_evidence_that_does_not_fit_together_is_no_verdict(
    runs: list[str], policies: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(runs[0]) / "campaign" / "evidence.json"
    path.write_text(path.read_text().replace('"crashes":0', '"crashes":-4'))
    assert code_of(runs[0], "--policy", policies["tight"]) == OutputError.exit_code
    assert "damaged: crashes is below 0" in capsys.readouterr().err
