"""A campaign is asked between its steps whether it should end, and which defects end it."""

from __future__ import annotations

from typing import Any

import pytest
from known_model import Scene

from gate.deciding import _why
from gate.metrics.evidence import Evidence, JudgedSeed
from gate.policy.load import LoadedPolicy
from gate.policy.schema import Judging, Policy, Rule
from gate.policy.threshold import Threshold
from gate.record import judged
from gate.result import CampaignSummary, Defect, ModelInfo, PolicyInfo, Result, Verdict
from gate.triage.aborting import aborting


def ended(after: int, reason: str) -> Scene:
    made = Scene(executions=400)
    made.campaign.ending = lambda: reason if made.campaign.outcome.executions >= after else None
    made.run()
    return made


@pytest.mark.parametrize("reason", ["decided", "abort"])
def test_a_campaign_that_is_told_to_end_takes_what_is_in_flight_and_stops(reason: str) -> None:
    made = ended(120, reason)
    outcome = made.campaign.outcome
    assert outcome.stop_reason == reason
    assert 120 <= outcome.executions <= 120 + 2 * made.campaign.step_size
    ran = sum(len(arrays.get("x", ())) for name, _, arrays in made.worker.calls if name == "run")
    kept = sum(len(arrays["earns"]) for name, _, arrays in made.worker.calls if name == "run_kept")
    assert ran + kept == outcome.executions  # no step was run for nothing
    assert outcome.states[-1].reason == reason


def test_it_ends_as_the_beginning_of_the_campaign_that_goes_on() -> None:
    short, long = ended(120, "decided"), Scene(executions=400)
    long.run()
    assert short.judging.rows == long.judging.rows[: len(short.judging.rows)]
    assert len(short.judging.rows) < len(long.judging.rows)


def test_told_before_anything_ran_it_runs_nothing() -> None:
    made = ended(0, "abort")
    assert made.campaign.outcome.executions == 0
    assert made.campaign.outcome.stop_reason == "abort"


def defect(number: int, oracle: str, **more: Any) -> Defect:
    given: dict[str, Any] = {
        "label": None,
        "predicted": None,
        "confidence_before": None,
        "confidence_after": None,
        "operator": "blank",
        "family": "probe",
    }
    given |= {"families": ("probe",), "natural": False, "severity": 0.0, "recipe": (), "root_cause": "rc-0", "arm": "probes"}
    return Defect(id=f"d-{number}", seed_id="probe:blank", oracle=oracle, **{**given, **more})


def test_only_defects_of_the_kinds_that_are_named_end_a_campaign() -> None:
    defects = [defect(0, "changed_prediction"), defect(1, "non_finite"), defect(2, "crash")]
    assert aborting((), defects) is None
    assert aborting(("crashes",), defects) is defects[2]
    assert aborting(("nonfinite_outputs",), defects) is defects[1]
    assert aborting(("crashes", "nonfinite_outputs"), defects) is defects[1]
    assert aborting(("crashes",), defects[:2]) is None
    assert aborting(("nonfinite_outputs",), [defect(3, "crash", also=("non_finite",))]) is not None


@pytest.mark.parametrize(("stop", "verdict"), [("abort", "inconclusive"), ("decided", "pass"), ("executions", "pass")])
def test_what_a_defect_ended_does_not_pass_even_where_no_rule_blocks_for_that_defect(stop: str, verdict: str) -> None:
    rule = Rule(id="rate", metric="defect_rate", fail=Threshold(">", 0.2, "> 0.2"))  # type: ignore[call-arg]
    policy = Policy(version=1, name="p", rules=(rule,), abort_on=("crashes",), judging=Judging(mutants_per_seed=1))
    campaign = CampaignSummary.model_construct(executions=100, stop_reason=stop, arms={}, unconfirmed=0)
    blank = Result(verdict=Verdict.INCONCLUSIVE, exit_code=4, reasons=(), candidate=ModelInfo(uri="m", resolved_uri="m"))
    row = JudgedSeed(
        seed_id="s", label=0, operators=("blur",), families=("blur",), severities=(0.5,), valid=(True,), failed=(False,), predicted=(0,)
    )
    seen = Evidence(
        seed=0,
        classes=("a", "b"),
        judged=(row,),
        judging_mutants_per_seed=1,
        executions=100,
        domain_digest=policy.domain.digest(),
        crashes=1,
    )
    loaded = LoadedPolicy(policy=policy, info=PolicyInfo(name="p", digest="sha256:0", source="p.yaml"), rule_lines={})
    found = judged(blank.model_copy(update={"campaign": campaign}), seen, loaded, advisory=False)
    assert found.rules[0].status == "pass"
    assert (found.verdict, found.exit_code) == (verdict, 0 if verdict == "pass" else 4)
    assert ("abort_on" in found.reasons[0]) is (stop == "abort")


@pytest.mark.parametrize(
    ("judged_by_then", "words"), [(3, "nothing is looked at before 16"), (64, "before it was looked at for the first time")]
)
def test_a_campaign_that_was_never_looked_at_says_why(judged_by_then: int, words: str) -> None:
    assert words in _why((), stopped=False, judged=judged_by_then, looks=0)
