"""A run, and judging one again, end in the same five lines, which say what to do."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console
from sample import hostile_run, make_run

from gate.cli import main
from gate.domains.image.limits import Domain
from gate.metrics.evidence import Evidence, JudgedSeed
from gate.pipeline import Outcome
from gate.report import write
from gate.result import Metric, Result, Status, Verdict
from gate.terminal.closing import WIDTH, closing_lines
from gate.terminal.verdict import show_verdict

LABELS = ["verdict:", "decided by:", "look at:", "what to do:", "files:"]
HERE = Path("out")


def lines_of(result: Result) -> list[str]:
    return [str(line) for line in closing_lines(result, run=HERE, report=HERE)]


def printed(result: Result, *, width: int = 80, terminal: bool = False) -> str:
    text = io.StringIO()
    outcome = Outcome(result=result, folder=HERE, published="run-1", publish_problem="the server went away")
    show_verdict(outcome, Console(file=text, width=width, force_terminal=terminal, color_system="standard" if terminal else None))
    return text.getvalue()


def is_closed(lines: list[str]) -> bool:
    return [re.match(r"[a-z ]+:", line + ":")[0] for line in lines[-5:]] == LABELS  # type: ignore[index]


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_run_ends_in_five_lines_of_a_hundred_columns_in_plain_text(tmp_path: Path, verdict: Verdict) -> None:
    result = make_run(tmp_path, verdict, 3, partial=verdict is Verdict.INCONCLUSIVE, advisory=True)
    lines = printed(result).splitlines()
    assert lines[-5:] == lines_of(result)
    assert is_closed(lines)
    assert all(cell_len(line) <= WIDTH for line in lines[-5:])
    assert f" {verdict.upper()} " in lines[-5]
    assert "advisory" in lines[-5]
    assert "\x1b" not in "".join(lines)


def test_colour_says_nothing_that_words_do_not(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 3)
    coloured = printed(result, terminal=True)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == printed(result)


def test_a_fail_names_the_rule_with_value_limit_and_distance_a_defect_and_what_to_repair(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 60)
    _, decided, look, todo, files = lines_of(result)
    assert "defect-rate 34.0 %, 14.0 points beyond the limit (20 %) (and 1 more)" in decided
    assert f"gate replay out {result.rules[0].evidence[0]}" in look
    assert "60 defects" in look
    cause = next(defect.root_cause for defect in result.defects if defect.id == result.rules[0].evidence[0])
    assert next(one.title for one in result.root_causes if one.id == cause) in todo
    assert "out/report.html" in files


def test_a_fail_by_comparison_says_how_far_it_rose(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 12)
    alone = result.model_copy(
        update={"rules": tuple(rule for rule in result.rules if rule.id == "no-worse"), "reasons": ("no-worse: it rises",)}
    )
    assert "no-worse: +6.2 points to the baseline, 4.2 too much (may" in lines_of(alone)[1]


def test_a_fail_on_clean_data_sends_nobody_to_a_defect_that_has_nothing_to_do_with_it(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 12)
    rule = next(rule for rule in result.rules if rule.id == "clean-accuracy").model_copy(update={"status": Status.FAIL})
    look = lines_of(result.model_copy(update={"rules": (rule,), "reasons": ("clean-accuracy: it is low",)}))[2]
    assert "replay" not in look


def test_a_pass_says_what_warned_what_the_silence_is_worth_and_to_promote(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.PASS, 0)
    _, decided, look, todo, _ = lines_of(result)
    assert "8 of 10 rules hold; nearest: clean-accuracy 96.8 %" in decided
    assert "nothing warned; 4 of 5 canaries found; 300 seed inputs judged" in look
    assert "promote models:/digits/2" in todo
    assert "--previous out" in todo
    rules = (result.rules[0].model_copy(update={"status": Status.WARN, "known": True}), *result.rules[1:])
    assert "warned: defect-rate (known); " in lines_of(result.model_copy(update={"rules": rules, "canaries": None}))[2]
    assert "no canary was planted" in lines_of(result.model_copy(update={"canaries": None}))[2]


def test_an_inconclusive_run_says_what_is_missing_and_the_option_to_add(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.INCONCLUSIVE, 3)
    _, decided, look, todo, _ = lines_of(result)
    assert "defect-rate 3.1 % (2.7 to 3.6 %)" in decided
    assert look.endswith("missing: about 2,400 seed inputs (300 so far) would decide it")
    assert todo.endswith("run again with --executions 64000, and with more in --seeds where those do not suffice")
    step = "100 seed inputs are needed, 22 were judged: about 2,700 executions (--executions 2700), where there are seed inputs enough."
    few = result.rules[0].model_copy(update={"next_step": step})
    _, _, look, todo, _ = lines_of(result.model_copy(update={"rules": (few,)}))
    assert look.endswith("missing: 100 seed inputs are needed, 22 were judged")
    assert "--executions 2700, " in todo
    silent = result.rules[0].model_copy(update={"next_step": ""})
    assert "missing: more observations than 300" in lines_of(result.model_copy(update={"rules": (silent,)}))[2]


@pytest.mark.parametrize(
    ("stop_reason", "option"),
    [("executions", "--executions 24000 (twice"), ("wall", "--budget 429s (twice"), ("device", "a larger --device-budget: ")],
)
def test_where_the_rule_names_no_figure_the_budget_that_ended_is_doubled(tmp_path: Path, stop_reason: str, option: str) -> None:
    result = make_run(tmp_path, Verdict.INCONCLUSIVE, 3)
    assert result.campaign is not None
    rule = result.rules[0].model_copy(update={"next_step": "Give a larger budget."})
    campaign = result.campaign.model_copy(update={"stop_reason": stop_reason})
    todo = lines_of(result.model_copy(update={"rules": (rule,), "campaign": campaign}))[3]
    assert f"run again with {option}" in todo


def test_a_missing_set_or_baseline_is_asked_for_by_its_option(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.INCONCLUSIVE, 3).model_copy(update={"baseline": None})
    missing = result.rules[0].model_copy(update={"value": None, "lower": None, "upper": None, "next_step": "Give one."})
    long_tail = missing.model_copy(update={"metric": "long_tail_accuracy"})
    assert "--long-tail" in lines_of(result.model_copy(update={"rules": (long_tail,)}))[3]
    open_ = result.rules[0].model_copy(
        update={"metric": "negative_flip_rate", "next_step": "About 800 inputs (90 so far) would decide it if …"}
    )
    look, todo = lines_of(result.model_copy(update={"rules": (open_,)}))[2:4]
    assert look.endswith("missing: about 800 inputs (90 so far) would decide it")
    assert todo.endswith("run again with more in --seeds")
    compared = missing.model_copy(update={"compare": "may rise by 2 points over the baseline"})
    assert "--baseline" in lines_of(result.model_copy(update={"rules": (compared,)}))[3]
    few = missing.model_copy(update={"metric": "executions", "value": 500.0, "threshold": "< 9000"})
    assert result.campaign is not None
    assert result.campaign.executions > 500
    campaign = result.campaign.model_copy(update={"budget_executions": 600})  # of which 100 went to probes, marks and canaries
    asked = lines_of(result.model_copy(update={"rules": (few,), "campaign": campaign}))[3]
    assert "--executions 10800 or more" in asked


def test_an_interrupted_run_says_how_it_goes_on(tmp_path: Path) -> None:
    assert "--out" in lines_of(make_run(tmp_path, Verdict.INCONCLUSIVE, 3, partial=True))[3]


def test_an_error_says_what_failed_and_where_the_steps_stand(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.ERROR)
    (tmp_path / "events.jsonl").write_text("{}\n", encoding="utf-8")
    lines = [str(line) for line in closing_lines(result, run=tmp_path, report=tmp_path)]
    assert "data/model.pth is cut short" in lines[1]
    assert "events.jsonl" in lines[2]
    assert "Log the model again" in lines[3]


def test_hostile_names_stay_on_their_lines(tmp_path: Path) -> None:
    result = hostile_run(tmp_path)
    for changed in (result, *(result.model_copy(update={"verdict": verdict, "partial": True, "advisory": True}) for verdict in Verdict)):
        lines = printed(changed).splitlines()
        assert is_closed(lines)
        assert all(cell_len(line) <= WIDTH for line in lines[-5:])


def test_a_path_is_never_cut_and_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    folder = tmp_path / ("long " * 30).strip()
    result = make_run(tmp_path, Verdict.FAIL, 3)
    lines = [str(line) for line in closing_lines(result, run=folder, report=folder)]
    assert f"'{folder}'" in lines[2]
    assert f"'{folder / 'report.html'}'" in lines[4]


def _judged_again(tmp_path: Path, *options: str) -> tuple[int, list[str]]:
    """``gate evaluate`` on a run of 200 seed inputs of which none failed."""
    run = tmp_path / "run"
    run.mkdir()
    result = make_run(run, Verdict.FAIL, 3)
    write(result.model_copy(update={"metrics": {"executions": Metric(value=1600.0, unit="count")}}), run)
    seeds = tuple(
        JudgedSeed(
            seed_id=f"s-{i}",
            label=i % 10,
            operators=("gaussian_noise",) * 8,
            families=("noise",) * 8,
            valid=(True,) * 8,
            failed=(False,) * 8,
            predicted=(i % 10,) * 8,
            severities=(0.5,) * 8,
        )
        for i in range(200)
    )
    domain = Domain().digest()
    evidence = Evidence(
        seed=1, classes=result.classes, domain_digest=domain, judged=seeds, judging_mutants_per_seed=8, executions=1600, preflight_faults=0
    )
    (run / "campaign").mkdir()
    (run / "campaign" / "evidence.json").write_text(evidence.model_dump_json(), encoding="utf-8")
    policy = tmp_path / "one.yaml"
    policy.write_text(
        'version: 1\nname: one\nrules:\n  - {id: rate, metric: defect_rate, fail: "> 0.2", confidence: 0.95}\n', encoding="utf-8"
    )
    out, code = io.StringIO(), 0
    with contextlib.redirect_stdout(out):
        try:
            main(["evaluate", str(run), "--policy", str(policy), *options])
        except SystemExit as stopped:
            code = int(stopped.code or 0)
    return code, out.getvalue().splitlines()


def test_judging_again_ends_in_the_same_five_lines(tmp_path: Path) -> None:
    code, lines = _judged_again(tmp_path, "--out", str(tmp_path / "again"))
    assert code == 0, lines
    assert is_closed(lines)
    assert "PASS" in lines[-5]
    assert "rate 0 %" in lines[-4]
    assert str(tmp_path / "again" / "report.html") in lines[-1]
    assert json.loads((tmp_path / "again" / "result.json").read_text(encoding="utf-8"))["verdict"] == "pass"


def test_judging_again_without_a_folder_says_that_nothing_was_written(tmp_path: Path) -> None:
    _, lines = _judged_again(tmp_path)
    assert is_closed(lines)
    assert "--out FOLDER" in lines[-1]
