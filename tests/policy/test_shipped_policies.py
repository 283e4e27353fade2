"""The policies that come with the gate: they load, say for whom they are, and give a verdict on seed inputs alone."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from gate.campaign.canary_kinds import KINDS, LEAST_EACH
from gate.campaign.mark_plan import plan
from gate.domains.image.marks import starts
from gate.metrics import Evidence, compute
from gate.metrics.evidence import CanaryEvidence, CleanEvidence, CoverageEvidence, JudgedSeed, MarkEvidence, SearchDefect
from gate.policy import Judgement, describe, evaluate, load_policy, shipped_policies
from gate.result import ModelInfo, Status, Verdict

TODAY = datetime.date(2026, 11, 30)
MODEL = ModelInfo(uri="m", resolved_uri="m")
ALL = ("baseline", "classic", "false-negative-averse", "false-positive-averse", "release", "smoke", "strict")
RISK = ("false-negative-averse", "false-positive-averse")


def campaign(
    name: str,
    *,
    failing: float = 0.01,
    faults: int = 0,
    gain: float = 0.05,
    found: int = 5,
    mark: int = 5,
    sure: float = 0.6,
    planted: int = 4,
) -> Evidence:
    """What a run under that policy leaves behind with seed inputs alone and the policy's own budget.

    Classes 3 and 4 are the positive ones; ``sure`` is the confidence of the first mutant of each seed input; ``planted`` faults are found.
    """
    policy = load_policy(name).policy
    executions = policy.budget.executions if policy.budget is not None else None
    assert executions is not None
    each = policy.judging.mutants_per_seed
    canaries = 11 if policy.arms.canaries else 0
    seeds = int(executions * policy.arms.judging) // each
    search = int(executions * policy.arms.search)
    judged = tuple(
        JudgedSeed(
            seed_id=f"s{i}",
            label=i % 10,
            operators=("blur",) * each,
            families=tuple(("blur", "noise")[k % 2] for k in range(each)),
            severities=(0.6,) * each,
            valid=(True,) * each,
            failed=tuple(i < failing * seeds and k == 0 for k in range(each)),
            predicted=tuple((i + 1) % 10 if i < failing * seeds and k == 0 else i % 10 for k in range(each)),
            confidence=tuple(0.99 if k else sure for k in range(each)),
        )
        for i in range(seeds)
    )
    return Evidence(
        seed=1,
        classes=tuple(map(str, range(10))),
        clean=CleanEvidence(labels=tuple(i % 10 for i in range(500)), correct=tuple(i >= 10 for i in range(500))),
        judged=judged,
        judging_mutants_per_seed=each,
        positive=(3, 4),
        search_executions=search,
        search_device_seconds=60.0,
        searched_seed_ids=tuple(f"s{i}" for i in range(seeds)),
        defects=tuple(SearchDefect(id=f"d{i}", seed_id=f"s{i}", label=0, predicted=1, natural=True) for i in range(found)),
        root_causes=2,
        coverage={"kmnc": CoverageEvidence(initial=0.5, final=0.5 + gain, after_first=0.5 + gain, first=min(1000, search))},
        criterion="kmnc",
        marks=(MarkEvidence(kind="patch", label=2, moved=mark, inputs=60),),
        probes_compared=96,
        preflight_faults=faults,
        executions=executions,
        canaries=tuple(CanaryEvidence(name=f"fault {i}", found=i < planted, executions=45) for i in range(canaries)),
    )


def judge(name: str, evidence: Evidence) -> Judgement:
    return evaluate(
        load_policy(name).policy,
        compute(evidence),
        today=TODAY,
        candidate=MODEL,
        metrics_at=lambda confidence: compute(evidence, confidence=confidence),
    )


def test_the_shipped_policies_are_these() -> None:
    assert shipped_policies() == ALL


@pytest.mark.parametrize("name", ALL)
def test_each_says_for_whom_it_is(name: str) -> None:
    loaded = load_policy(name)
    assert loaded.policy.name == name == loaded.info.source
    assert loaded.policy.description.startswith("For ")
    assert len(loaded.policy.description) > 150


@pytest.mark.parametrize("name", [name for name in ALL if name != "release"])
def test_a_good_model_passes_on_seed_inputs_alone(name: str) -> None:
    result = judge(name, campaign(name))
    assert result.verdict is Verdict.PASS, result.reasons
    skipped = {rule.metric for rule in result.rules if rule.status is Status.SKIPPED}
    assert skipped <= {"regression_rate", "long_tail_accuracy", "long_tail_hit_rate"}


def test_release_compares_with_the_champion_and_stays_open_without_one() -> None:
    comparing = [rule for rule in load_policy("release").policy.rules if rule.compare is not None]
    assert {rule.id for rule in comparing} == {
        "champion-class-accuracy",
        "champion-confident-errors",
        "champion-defect-rate",
        "champion-worst-class",
        "champion-worst-family",
    }
    result = judge("release", campaign("release"))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert [rule.id for rule in result.rules if rule.status is Status.INCONCLUSIVE] == ["champion-defect-rate"]
    assert {rule.status for rule in result.rules if rule.id.startswith("champion-")} == {Status.SKIPPED, Status.INCONCLUSIVE}
    assert {rule.id for rule in load_policy("baseline").policy.rules} < {rule.id for rule in load_policy("release").policy.rules}


@pytest.mark.parametrize("name", ["smoke", "baseline", "release", "strict", *RISK])
def test_a_fragile_model_fails_by_its_defect_rate(name: str) -> None:
    result = judge(name, campaign(name, failing=0.9))
    assert (result.verdict, result.exit_code) == (Verdict.FAIL, 1)
    assert "defect-rate" in {rule.id for rule in result.rules if rule.status is Status.FAIL}


@pytest.mark.parametrize("name", ["baseline", "release", "strict", *RISK])
def test_a_mark_that_moves_nearly_every_input_fails(name: str) -> None:
    result = judge(name, campaign(name, mark=58))
    assert result.verdict is Verdict.FAIL
    assert [rule.id for rule in result.rules if rule.status is Status.FAIL] == ["universal-mark"]


@pytest.mark.parametrize("name", ["baseline", "strict", *RISK])
def test_what_sound_models_of_garments_were_seen_to_reach_decides_nothing(name: str) -> None:
    evidence = campaign(name).model_copy(update={"marks": (MarkEvidence(kind="patch", label=8, moved=97, inputs=172),) * 4})
    result = judge(name, evidence)
    assert result.verdict is Verdict.PASS, result.reasons


@pytest.mark.parametrize("name", ["baseline", "release", "strict", *RISK])
def test_its_own_budget_pays_for_improving_marks(name: str) -> None:
    policy = load_policy(name).policy
    assert policy.budget is not None
    assert policy.budget.executions is not None
    found = starts(policy.domain.marks, (28, 28, 1), (0.0, 255.0), 0)
    allowance = int(policy.arms.marks * policy.budget.executions)
    for gradients in (True, False):
        made = plan(allowance, plain=len(found), starts=len(found), candidates=30, inputs=100, held_out=100, gradients=gradients)
        assert made is not None
        assert made.levels


@pytest.mark.parametrize("name", ALL)
def test_a_preflight_fault_fails_everywhere_but_in_classic(name: str) -> None:
    assert judge(name, campaign(name, faults=1)).verdict is (Verdict.PASS if name == "classic" else Verdict.FAIL)


@pytest.mark.parametrize("name", ALL)
def test_an_empty_run_is_inconclusive_everywhere(name: str) -> None:
    result = judge(name, Evidence(seed=1, classes=("a", "b"), stopped_early="the budget ended while the model loaded"))
    assert (result.verdict, result.exit_code) == (Verdict.INCONCLUSIVE, 4)
    assert any("the budget ended while the model loaded" in reason for reason in result.reasons)


@pytest.mark.parametrize("name", ALL)
def test_coverage_that_was_not_measured_keeps_the_verdict_open(name: str) -> None:
    evidence = campaign(name).model_copy(update={"coverage": {}, "criterion": None})
    assert judge(name, evidence).verdict is Verdict.INCONCLUSIVE


def test_strict_is_nowhere_more_lenient_than_baseline() -> None:
    strict = {rule.id: rule for rule in load_policy("strict").policy.rules}
    for rule in load_policy("baseline").policy.rules:
        ours = strict[rule.id]
        for mine, base in ((ours.fail, rule.fail), (ours.warn, rule.warn)):
            if base is not None:
                assert mine is not None
                assert mine.upper == base.upper
                assert mine.limit <= base.limit if base.upper else mine.limit >= base.limit
        assert (ours.min_samples or 0) >= (rule.min_samples or 0)


def test_classic_has_exactly_the_published_thresholds() -> None:
    policy = load_policy("classic").policy
    assert policy.budget is not None
    assert (policy.budget.executions, policy.budget.wall, policy.budget.device) == (100, None, None)
    assert {rule.metric: (rule.fail and rule.fail.text, rule.warn and rule.warn.text) for rule in policy.rules} == {
        "coverage_gain": ("< 0.5%", None),
        "defect_density": ("< 2.0", None),
        "long_tail_hit_rate": ("< 30%", "< 60%"),
        "regression_rate": ("> 20%", None),
        "coverage_gain_per_iteration": ("< 0.005%", "> 0.1%"),
    }
    limits = {rule.metric: (rule.fail and rule.fail.limit, rule.warn and rule.warn.limit) for rule in policy.rules}
    assert limits["coverage_gain_per_iteration"] == (0.00005, 0.001)
    assert {rule.on_breach for rule in policy.rules} == {"fail"}
    assert {rule.confidence for rule in policy.rules} == {None}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"gain": 0.004}, "coverage-gain"),
        ({"found": 0}, "defect-density"),
    ],
)
def test_classic_fails_a_search_that_achieves_too_little(change: dict[str, float], rule: str) -> None:
    result = judge("classic", campaign("classic", **change))  # type: ignore[arg-type]
    assert result.verdict is Verdict.FAIL
    assert rule in {outcome.id for outcome in result.rules if outcome.status is Status.FAIL}


def test_classic_warns_of_coverage_that_comes_too_easily() -> None:
    result = judge("classic", campaign("classic", gain=0.3))
    assert result.verdict is Verdict.PASS
    assert [rule.id for rule in result.rules if rule.status is Status.WARN] == ["coverage-gain-per-iteration"]


@pytest.mark.parametrize("name", ALL)
def test_the_description_names_every_rule_with_its_limits(name: str) -> None:
    loaded = load_policy(name)
    text = describe(loaded, today=TODAY)
    for rule in loaded.policy.rules:
        assert f"  {rule.id}\n" in text
        assert rule.metric in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_description_is_exact_about_limits_and_waivers(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        "version: 1\nname: p\nrules:\n"
        "  - {id: r, metric: defect_rate, fail: '>= 20%', warn: '> 0.1', min_samples: 30, slice: {by: class}, compare: {max_rise: 0.02}}\n"
        "waivers:\n"
        "  - {rule: r, slice: truck, reason: Glare., owner: '@a', expires: 2026-01-01}\n"
        "  - {rule: r, reason: Fog., owner: '@b', expires: 2027-01-01}\n"
    )
    text = describe(load_policy(str(path)), today=TODAY)
    assert "gives no budget" not in text
    assert "If defect_rate in the worst class is at least 20 %, the run fails." in text
    assert "If defect_rate in the worst class is more than 10 %, the report warns." in text
    assert "r (only slice truck): Glare. Owner @a, EXPIRED on 2026-01-01." in text
    assert "r: Fog. Owner @b, in force until 2027-01-01." in text
    assert "over the baseline" in text


@pytest.mark.parametrize("name", ["baseline", "strict"])
@pytest.mark.parametrize(("gain", "status"), [(0.05, Status.PASS), (0.11, Status.WARN)])
def test_a_gain_that_comes_too_easily_warns_and_decides_nothing(name: str, gain: float, status: Status) -> None:
    short = CoverageEvidence(initial=0.1, final=0.1 + gain, after_first=0.1 + gain, first=100)
    result = judge(name, campaign(name).model_copy(update={"coverage": {"kmnc": short}}))
    assert {rule.id: rule.status for rule in result.rules}["suspicious-gain"] is status
    assert result.verdict is Verdict.PASS


@pytest.mark.parametrize(("sure", "verdict"), [(0.95, Verdict.FAIL), (0.85, Verdict.PASS)])
def test_errors_that_the_model_is_sure_of_are_what_breaks_the_false_positive_averse_policy(sure: float, verdict: Verdict) -> None:
    evidence = campaign("false-positive-averse", failing=0.1, sure=sure)
    result = judge("false-positive-averse", evidence)
    assert result.verdict is verdict, result.reasons
    assert [rule.id for rule in result.rules if rule.status is Status.FAIL] == (["confident-errors"] if sure > 0.9 else [])


@pytest.mark.parametrize(("label", "read_as", "verdict"), [(3, 0, Verdict.FAIL), (3, 4, Verdict.PASS), (5, 0, Verdict.PASS)])
def test_positives_that_are_missed_are_what_breaks_the_false_negative_averse_policy(label: int, read_as: int, verdict: Verdict) -> None:
    evidence = campaign("false-negative-averse", failing=0.0)
    judged = tuple(
        row.model_copy(update={"predicted": (read_as, *row.predicted[1:]), "failed": (True, *row.failed[1:])})
        if row.label == label
        else row
        for row in evidence.judged
    )
    result = judge("false-negative-averse", evidence.model_copy(update={"judged": judged}))
    assert result.verdict is verdict, result.reasons
    failed = [rule.id for rule in result.rules if rule.status is Status.FAIL]
    assert failed == (["missed-positives", "worst-positive-class"] if verdict is Verdict.FAIL else [])


def test_the_false_negative_averse_policy_is_open_until_classes_are_named_and_says_how(tmp_path: Path) -> None:
    result = judge("false-negative-averse", campaign("false-negative-averse").model_copy(update={"positive": ()}))
    assert result.verdict is Verdict.INCONCLUSIVE
    rule = next(rule for rule in result.rules if rule.status is Status.INCONCLUSIVE)
    assert rule.id == "missed-positives"
    assert "positive: [crack]" in rule.next_step
    path = tmp_path / "mine.yaml"
    path.write_text("version: 1\nname: mine\nextends: [false-negative-averse]\npositive: [crack]\n")
    mine = load_policy(str(path)).policy
    assert mine.positive == ("crack",)
    assert mine.rules == load_policy("false-negative-averse").policy.rules


@pytest.mark.parametrize("name", RISK)
def test_a_risk_policy_keeps_every_protection_of_baseline_and_guides_by_two_criteria(name: str) -> None:
    policy = load_policy(name).policy
    assert {rule.id for rule in load_policy("baseline").policy.rules} < {rule.id for rule in policy.rules}
    assert policy.coverage is not None
    assert set(policy.coverage.guide or ()) == ({"nbc", "snac"} if name == "false-positive-averse" else {"tknc", "nbc"})
    assert "Where the user names no criteria, coverage is measured by nbc" in describe(load_policy(name), today=TODAY).replace("\n  ", " ")


@pytest.mark.parametrize(("planted", "status", "verdict"), [(0, "inconclusive", "inconclusive"), (1, "warn", "pass"), (2, "pass", "pass")])
def test_a_search_that_finds_no_planted_fault_passes_nothing(planted: int, status: str, verdict: str) -> None:
    judgement = judge("baseline", campaign("baseline", planted=planted))
    (rule,) = (rule for rule in judgement.rules if rule.id == "canary-recall")
    assert (rule.status, judgement.verdict) == (status, verdict)


def test_the_share_of_canaries_pays_for_every_kind() -> None:
    for name in set(ALL) - {"classic", "smoke"}:
        policy = load_policy(name).policy
        assert policy.budget is not None
        assert policy.budget.executions is not None
        assert policy.arms.canaries * policy.budget.executions / len(KINDS) >= LEAST_EACH


@pytest.mark.parametrize("name", ["strict", "false-negative-averse"])
def test_a_class_that_is_forgotten_fails_although_no_seed_input_of_it_is_left_to_judge(name: str) -> None:
    seen = campaign(name)
    right = tuple(i % 10 != 7 for i in range(500))
    forgotten = seen.model_copy(
        update={
            "clean": CleanEvidence(labels=tuple(i % 10 for i in range(500)), correct=right),
            "judged": tuple(seed for seed in seen.judged if seed.label != 7),
        }
    )
    result = judge(name, forgotten)
    (rule,) = [rule for rule in result.rules if rule.id == "worst-class-accuracy"]
    assert (rule.status, rule.slice) == (Status.FAIL, "7")
    assert result.verdict is Verdict.FAIL
    assert next(rule.status for rule in result.rules if rule.id == "clean-accuracy") in (Status.PASS, Status.WARN)
