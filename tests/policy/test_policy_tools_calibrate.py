"""``gate policy calibrate`` on finished runs of models known to be good: limits, what they promise, and the policy that is written."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from foggy_rows import foggy_rows

from gate.calibrating import calibrate, policy_file, read_runs
from gate.cli.policy import command
from gate.domains.image.limits import Domain
from gate.errors import OutputError, UsageError
from gate.metrics.catalogue import CATALOGUE
from gate.metrics.evidence import CleanEvidence, Evidence
from gate.metrics.intervals import exact_share
from gate.metrics.next_value import models_needed, share_below_highest, upper_bound
from gate.policy.check import check
from gate.policy.load import LoadedPolicy, load_policy
from gate.policy.proposing import MetricAt, in_force, propose
from gate.policy.schema import Compare
from gate.policy.threshold import Threshold
from gate.result import Metric, ModelInfo, Paired, Result, Verdict

TODAY = datetime.date(2026, 11, 30)
SEEDS = 120

POLICY = """\
version: 1
name: mine
rules:
  - {id: rate, metric: defect_rate, fail: "> 0.08", warn: "> 0.05", confidence: 0.95, min_samples: 50}
  - {id: point, metric: mutant_failure_rate, fail: "> 0.9"}
  - {id: clean, metric: clean_accuracy, fail: "< 0.5"}
  - {id: crashes, metric: crashes, fail: "> 0"}
  - {id: worst, metric: defect_rate, fail: "> 0.3", slice: {by: class}, min_samples: 40}
  - {id: tail, metric: long_tail_accuracy, fail: "< 0.5", on_missing: skip}
  - {id: only-warns, metric: root_causes, warn: "> 3"}
  - {id: enough, metric: executions, fail: "< 500"}
"""


def loaded(folder: Path, text: str = POLICY) -> LoadedPolicy:
    path = folder / "mine.yaml"
    path.write_text(text)
    return load_policy(str(path))


def good_run(folder: Path, number: int, failing: int, *, crashes: int = 0, executions: int = 1_000) -> Path:
    """A finished run as far as calibrating needs one: ``failing`` of the seed inputs fail by one of eight mutants."""
    classes = ("a", "b")
    rows = foggy_rows(SEEDS, failing)
    evidence = Evidence(
        seed=number,
        classes=classes,
        clean=CleanEvidence(labels=(0,) * 200, correct=tuple(i >= 4 + number % 5 for i in range(200))),
        domain_digest=Domain().digest(),
        judged=rows,
        judging_mutants_per_seed=8,
        executions=executions,
        crashes=crashes,
    )
    model = ModelInfo(uri=f"m{number}", resolved_uri=f"models:/m/{number}", name="m", version=str(number), digest=f"sha256:{number}")
    blank = Result(verdict=Verdict.INCONCLUSIVE, exit_code=4, reasons=(), candidate=model, classes=classes)
    run = folder / f"run{number}"
    (run / "campaign").mkdir(parents=True)
    (run / "result.json").write_text(blank.to_json())
    (run / "campaign" / "evidence.json").write_text(evidence.model_dump_json())
    return run


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    return [good_run(tmp_path, number, failing) for number, failing in enumerate((3, 5, 4, 8, 6, 2))]


def measures(values: Sequence[float], metric: str, n: int) -> list[MetricAt]:
    """Models of which one metric is known, a share of n."""

    def of(value: float) -> MetricAt:
        def at(name: str, confidence: float) -> Metric:
            assert name == metric
            lower, upper = exact_share(round(value * n), n, confidence)
            return Metric(value=round(value * n) / n, lower=lower, upper=upper, confidence=confidence, n=n, unit="share")

        return at

    return [of(value) for value in values]


def test_each_limit_is_one_that_the_good_models_meet(tmp_path: Path, runs: list[Path]) -> None:
    policy = loaded(tmp_path)
    found = calibrate(policy, read_runs(runs), false_block=0.05, today=TODAY)
    proposals = {(one.rule, one.key): one for one in found.proposals}
    assert set(proposals) == {(rule, "fail") for rule in ("rate", "point", "clean", "crashes", "worst", "tail")}
    rate = proposals["rate", "fail"]
    assert rate.seen == tuple(failing / SEEDS for failing in (3, 5, 4, 8, 6, 2))
    limit = Threshold.parse(rate.limit, CATALOGUE["defect_rate"])
    assert limit.holds(exact_share(8, SEEDS, 0.95)[1])  # the whole interval of the weakest
    assert 0.13 < limit.limit < 0.25
    assert rate.looser
    assert not proposals["point", "fail"].looser  # 8 failing mutants of 960 at most
    assert float((proposals["point", "fail"].limit or "").lstrip("> ")) < 0.05
    assert (proposals["clean", "fail"].limit or "").startswith("< 0.9")
    assert all(not one.blocked_by for one in found.held_out)
    assert found.interval == exact_share(0, 6, 0.95)


def test_rules_about_the_evidence_and_about_faults_are_never_touched(tmp_path: Path) -> None:
    policy = loaded(tmp_path)
    given = [good_run(tmp_path, number, 3 + number, crashes=1, executions=400) for number in range(4)]
    found = calibrate(policy, read_runs(given), false_block=0.05, today=TODAY)
    changed = {one.rule for one in found.proposals if one.limit is not None}
    assert "crashes" not in changed
    assert "enough" not in {one.rule for one in found.proposals}
    assert [one.blocked_by for one in found.held_out] == [("crashes",)] * 4
    before, after = ({rule.id: rule for rule in one.rules} for one in (policy.policy, in_force(policy.policy, found.proposals)))
    for name in ("crashes", "enough", "only-warns", "tail"):
        assert before[name] == after[name]


def test_a_limit_that_the_runs_can_not_speak_about_is_left_and_it_is_said_why(tmp_path: Path, runs: list[Path]) -> None:
    policy = loaded(tmp_path, POLICY.replace("name: mine", "name: mine\ndomain: {geometry: {rotation: 90}}"))
    found = {one.rule: one for one in calibrate(policy, read_runs(runs), false_block=0.05, today=TODAY).proposals}
    assert found["rate"].limit is None
    assert "only 0 of 6 models have a value for it (the run's mutants were made under another domain" in found["rate"].method
    assert found["clean"].limit is not None
    policy = loaded(tmp_path, POLICY.replace("min_samples: 50", f"min_samples: {SEEDS + 1}"))
    found = {one.rule: one for one in calibrate(policy, read_runs(runs), false_block=0.05, today=TODAY).proposals}
    assert f"({SEEDS} samples, and the rule needs {SEEDS + 1}: give a larger budget)" in found["rate"].method


def test_models_that_lack_evidence_are_told_apart_from_blocked_ones(tmp_path: Path) -> None:
    given = [good_run(tmp_path, number, 3 + number, executions=400) for number in range(4)]
    found = calibrate(loaded(tmp_path), read_runs(given), false_block=0.05, today=TODAY)
    assert found.blocked == 0
    assert all(one.lacks_evidence for one in found.held_out)


def test_a_model_unlike_the_others_is_blocked_when_held_out(tmp_path: Path) -> None:
    given = [good_run(tmp_path, number, failing) for number, failing in enumerate((3, 5, 4, 4, 6, 3, 5, 90))]
    found = calibrate(loaded(tmp_path), read_runs(given), false_block=0.05, today=TODAY)
    assert [bool(one.blocked_by) for one in found.held_out] == [False] * 7 + [True]
    assert {"rate", "point", "worst"} <= set(found.held_out[-1].blocked_by)
    assert found.interval == exact_share(1, 8, 0.95)


@pytest.mark.parametrize(("models", "way"), [(8, "prediction bound"), (150, "order statistics")])
def test_together_the_limits_block_no_more_good_models_than_asked(models: int, way: str) -> None:
    policy = load_policy("baseline").policy
    rule = next(rule for rule in policy.rules if rule.id == "defect-rate")
    policy = policy.model_copy(update={"rules": (rule,)})
    random, blocked, fresh = np.random.default_rng(1), 0, 0
    for _ in range(60):
        seen, new = random.binomial(187, random.beta(6, 60, size=models)) / 187, random.binomial(187, random.beta(6, 60, size=50)) / 187
        (proposal,) = propose(policy, measures(seen, "defect_rate", 187), false_block=0.05)
        assert way in proposal.method
        limit = in_force(policy, (proposal,)).rules[0].fail
        assert limit is not None
        for metric_at in measures(new, "defect_rate", 187):
            metric = metric_at("defect_rate", 0.95)
            assert metric.lower is not None
            assert metric.upper is not None
            blocked += limit.decide(metric.lower, metric.upper) != "holds"
            fresh += 1
    assert 0 < blocked / fresh < 0.065, blocked / fresh  # 5 %, two-figure limits and the simulation's own error


def test_bounds_are_those_of_the_textbooks() -> None:
    values = [float(value) for value in range(1, 40)]  # 39 values: the highest is exceeded in one case of 40
    bound = upper_bound(values, 1 / 40, share=False)
    assert bound is not None
    assert bound.value == 39
    assert (upper_bound(values, 2 / 40, share=False) or bound).value == 38
    lower = upper_bound(values, 1 / 41, share=False)
    assert lower is not None
    assert lower.value > 39
    assert "prediction bound" in lower.method
    # Two values, a and b on the root scale: mean + t(0.9; 1) * s * sqrt(1.5), and t(0.9; 1) is 3.0777
    two = upper_bound([1.0, 4.0], 0.1, share=False)
    assert two is not None
    assert two.value == pytest.approx((1.5 + 3.077684 * np.sqrt(0.5) * np.sqrt(1.5)) ** 2, rel=1e-6)
    assert upper_bound([0.2, 0.2], 0.1, share=True) is None
    assert upper_bound([0.2], 0.1, share=True) is None
    assert share_below_highest(59, 0.95) == pytest.approx(0.95, abs=0.001)
    assert models_needed(0.05, 0.95) == 72
    assert exact_share(0, 72, 0.95)[1] <= 0.05 < exact_share(0, 71, 0.95)[1]


def test_changes_from_the_baseline_are_calibrated_too() -> None:
    policy = load_policy("baseline").policy
    rule = next(rule for rule in policy.rules if rule.id == "defect-rate")

    def of(rise: float) -> MetricAt:
        paired = Paired(candidate=0.1 + rise, baseline=0.1, rise=rise, lower=rise - 0.02, upper=rise + 0.02, confidence=0.95, n=100)
        return lambda name, confidence: Metric(
            value=0.1 + rise, lower=0.05, upper=0.2, confidence=confidence, n=150, unit="share", paired=paired
        )

    for compare, key, least in (({"max_rise": 0.01}, "max_rise", 0.06), ({"max_drop": 0.01}, "max_drop", 0.05)):
        own = rule.model_copy(update={"fail": None, "warn": None, "compare": Compare.model_validate(compare)})
        (proposal,) = propose(policy.model_copy(update={"rules": (own,)}), [of(rise) for rise in (-0.03, 0.0, 0.01, 0.04)], false_block=0.2)
        assert proposal.key == key
        assert float(proposal.limit or 0) >= least
        made = in_force(policy.model_copy(update={"rules": (own,)}), (proposal,)).rules[0].compare
        assert made is not None
        assert getattr(made, key) == float(proposal.limit or 0)


def test_a_model_whose_change_nothing_bounds_is_not_left_out() -> None:
    policy = load_policy("baseline").policy
    rule = next(rule for rule in policy.rules if rule.id == "defect-rate")
    compare = Compare.model_validate({"max_rise": 0.5, "relative": True})
    own = policy.model_copy(update={"rules": (rule.model_copy(update={"fail": None, "warn": None, "compare": compare}),)})

    def of(upper: float | None) -> MetricAt:
        ratio = {"relative": 0.1, "relative_lower": -0.1, "relative_upper": upper}
        paired = Paired(candidate=0.11, baseline=0.1, rise=0.01, lower=-0.01, upper=0.03, confidence=0.95, n=100, **ratio)
        return lambda name, confidence: Metric(value=0.11, lower=0.05, upper=0.2, confidence=confidence, n=150, unit="share", paired=paired)

    (bounded,) = propose(own, [of(0.3), of(0.4), of(0.5)], false_block=0.2)
    assert bounded.limit is not None
    (open_,) = propose(own, [of(0.3), of(0.4), of(0.5), of(None)], false_block=0.2)
    assert open_.limit is None
    assert "nothing bounds the change" in open_.method


def test_the_policy_written_extends_the_one_given_and_is_sound(tmp_path: Path, runs: list[Path]) -> None:
    policy = loaded(tmp_path)
    out = tmp_path / "new" / "calibrated.yaml"
    done = CliRunner().invoke(
        command,
        ["calibrate", *(f"--run={run}" for run in runs), "--policy", policy.info.source, "--out", str(out), "--today", "2026-11-30"],
    )
    assert done.exit_code == 0, done.output
    written = load_policy(str(out))
    assert written.policy.name == "mine-calibrated"
    found = calibrate(policy, read_runs(runs), false_block=0.05, today=TODAY)
    assert written.policy.rules == in_force(policy.policy, found.proposals).rules
    assert [one for one in check(written, today=TODAY) if one.level == "error"] == []
    text = out.read_text()
    assert "# fail: seen 0.01667 to 0.06667, median 0.0375, in 6 models" in text
    assert "mine has > 0.08, which is tighter" in text
    assert "# crashes, fail: left as it is: a model with this fault is no good one" in text
    assert "# Expected false blocks over all rules: 0.0% (0 of 6" in text
    assert f"policy:  {out}" in done.output
    assert "WARNING: 6 models can't show a rate of 5.0%: that takes 72 without a single block." in done.output
    again = CliRunner().invoke(command, ["calibrate", *(f"--run={run}" for run in runs), "--policy", policy.info.source, "--out", str(out)])
    assert isinstance(again.exception, OutputError)
    assert out.read_text() == text


def test_a_warning_that_would_lie_behind_the_new_limit_is_moved_or_removed(tmp_path: Path) -> None:
    policy = loaded(tmp_path, 'version: 1\nname: p\nrules: [{id: r, metric: mutant_failure_rate, fail: "> 0.9", warn: "> 0.5"}]\n')
    given = read_runs([good_run(tmp_path, number, failing) for number, failing in enumerate((3, 5, 4, 8))])
    found = calibrate(policy, given, false_block=0.05, today=TODAY)
    (one,) = found.proposals
    assert one.warn is not None
    (tmp_path / "out.yaml").write_text(policy_file(found, tmp_path / "out.yaml"))
    (rule,) = load_policy(str(tmp_path / "out.yaml")).policy.rules
    assert rule.fail is not None
    assert rule.warn is not None
    assert max(one.seen) <= rule.warn.limit < rule.fail.limit < 0.5


def test_a_shipped_policy_is_extended_by_its_name_and_hostile_names_stay_comments(tmp_path: Path, runs: list[Path]) -> None:
    found = calibrate(load_policy("smoke"), read_runs(runs), false_block=0.05, today=TODAY)
    assert 'extends: ["smoke"]' in policy_file(found, tmp_path / "out.yaml")
    path = tmp_path / "odd.yaml"
    path.write_text(POLICY.replace("name: mine", 'name: "x\\nrules: []\\u2028# \\" \'"'))
    odd = calibrate(load_policy(str(path)), read_runs(runs), false_block=0.05, today=TODAY)
    (tmp_path / "out.yaml").write_text(policy_file(odd, tmp_path / "out.yaml"))
    assert len(load_policy(str(tmp_path / "out.yaml")).policy.rules) == 8


def test_what_is_given_must_be_several_different_models_that_were_finished(tmp_path: Path, runs: list[Path]) -> None:
    with pytest.raises(UsageError, match="at least 2 models"):
        read_runs(runs[:1])
    with pytest.raises(UsageError, match="same model"):
        read_runs([runs[0], runs[1], runs[0]])
    partial = json.loads((runs[2] / "result.json").read_text())
    (runs[2] / "result.json").write_text(json.dumps({**partial, "partial": True}))
    with pytest.raises(OutputError, match="interrupted"):
        read_runs(runs)
    (runs[2] / "campaign" / "evidence.json").unlink()
    with pytest.raises(OutputError, match="no evidence"):
        read_runs(runs)
    for given in ([], [f"--run={runs[0]}", "--model=x"]):
        assert isinstance(CliRunner().invoke(command, ["calibrate", *given]).exception, UsageError)
