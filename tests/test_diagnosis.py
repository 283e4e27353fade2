"""Why coverage does not rise: each cause is named first by a run in which it is the one that matters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gate.config import CoverageSettings
from gate.diagnosis import Diagnosis, RunFacts, diagnose, read_run
from gate.errors import OutputError
from gate.result import (
    ArmSummary,
    CampaignSummary,
    ControlComparison,
    CoverageSummary,
    CurvePoint,
    DataSetInfo,
    Discovery,
    LayerSummary,
    ModelInfo,
    PreflightCheck,
    Result,
    Verdict,
)

EXECUTIONS = 10_000


def _coverage(initial: float = 0.4, final: float = 0.4, **more: Any) -> CoverageSummary:
    return CoverageSummary(
        **{
            "initial": initial,
            "final": final,
            "gain": final - initial,
            "gain_per_iteration": None,
            "raw_final": max(initial, final),
            **more,
        }
    )


def _layer(name: str = "hidden", **more: Any) -> LayerSummary:
    return LayerSummary(**{"name": name, "type": "torch.nn.modules.linear.Linear", "neurons": 100, "low": -1.0, "high": 2.0, **more})


def _data(samples: int) -> DataSetInfo:
    return DataSetInfo(source="x.npz", samples=samples, digest="sha256:0")


def _facts(
    coverage: dict[str, CoverageSummary] | None = None,
    *,
    executions: int = EXECUTIONS,
    valid: int | None = None,
    samples: int = 5_000,
    settings: dict[str, Any] | None = None,
    gradients: bool | None = True,
    steerable: bool | None = True,
    curve: tuple[CurvePoint, ...] = (),
    operators: dict[str, dict[str, float]] | None = None,
    campaign: dict[str, Any] | None = None,
    **more: Any,
) -> RunFacts:
    """A run in which nothing is wrong but that coverage stands still."""
    search = ArmSummary(executions=executions, valid=executions * 9 // 10 if valid is None else valid)
    said: dict[str, Any] = {
        **{"seed": 0, "executions": executions, "model_calls": executions, "wall_seconds": 60.0, "device": "cpu", "device_hours": 0.1},
        **{"stop_reason": "executions", "arms": {"search": search}, "operators": operators or {}, **(campaign or {})},
    }
    result: dict[str, Any] = {
        **{"verdict": Verdict.PASS, "exit_code": 0, "reasons": ("6 rules hold.",)},
        "candidate": ModelInfo(uri="m", resolved_uri="m"),
        "campaign": CampaignSummary(**said),
        "coverage": {"kmnc": _coverage()} if coverage is None else coverage,
        "layers": (_layer(),),
        "data": {"seeds": _data(samples)},
        "curve": curve,
        **more,
    }
    names = tuple(result["coverage"]) or ("kmnc",)
    return RunFacts(Result(**result), CoverageSettings(**{"criteria": names, **(settings or {})}), gradients, steerable)


def _first(found: Diagnosis) -> str:
    assert not found.rises
    return found.causes[0].kind


def test_a_run_in_order_gives_no_cause() -> None:
    assert diagnose(_facts()).causes == ()


def test_a_search_that_never_ran_comes_before_everything_with_the_reason_why() -> None:
    for campaign in (None, CampaignSummary(**{**_facts().result.campaign.model_dump(), "arms": {}})):
        facts = _facts({}, reasons=("The worker died.",), next_steps=("Give it memory.",), samples=3)
        found = diagnose(RunFacts(facts.result.model_copy(update={"campaign": campaign})))
        assert _first(found) == "nothing_ran"
        assert (found.causes[0].evidence, found.causes[0].advice) == ("The worker died.", "Give it memory.")


def test_a_search_of_a_few_executions() -> None:
    found = diagnose(_facts(executions=30, campaign={"stop_reason": "wall"}))
    assert _first(found) == "few_executions"
    assert "30 search executions" in found.causes[0].evidence
    assert "because the time budget was used up" in found.causes[0].evidence


def test_a_larger_budget_is_no_advice_for_a_search_that_ended_itself() -> None:
    causes = {cause.kind: cause for cause in diagnose(_facts(executions=600, campaign={"stop_reason": "saturated"})).causes}
    assert "a larger budget alone changes nothing" in causes["few_executions"].advice
    causes = {cause.kind: cause for cause in diagnose(_facts(executions=600, campaign={"stop_reason": "wall"})).causes}
    assert causes["few_executions"].advice.startswith("Give a larger budget")


def test_mutants_that_are_hardly_ever_valid() -> None:
    operators = {"fog": {"executions": 500, "valid": 4}, "blur": {"executions": 500, "valid": 400}, "rare": {"executions": 2, "valid": 0}}
    found = diagnose(_facts(valid=100, operators=operators))
    assert _first(found) == "few_valid"
    assert "100 of 10,000 search mutants (1 %)" in found.causes[0].evidence
    assert "Least often valid: fog (0.8 %), blur" in found.causes[0].evidence
    assert "rare" not in found.causes[0].evidence


def test_coverage_that_was_complete_from_the_start() -> None:
    found = diagnose(_facts({"nc": _coverage(1.0, 1.0), "kmnc": _coverage(0.4, 0.6)}))
    assert _first(found) == "complete"
    assert "nc 100 %" in found.causes[0].evidence
    assert "kmnc" not in found.causes[0].evidence


def test_a_fixed_threshold_above_all_outputs() -> None:
    found = diagnose(_facts({"nc": _coverage(0.0, 0.0)}, settings={"nc_scale": "none", "nc_threshold": 5.0}))
    assert _first(found) == "threshold_above_all"
    assert found.causes[0].evidence == "coverage.nc_threshold is 5; the highest output over the profile set is 2."
    assert "below 2" in found.causes[0].advice
    assert diagnose(_facts({"nc": _coverage(0.0, 0.0)}, settings={"nc_scale": "none", "nc_threshold": 1.0})).causes == ()
    for criterion, settings in (("snac", {"snac_bounds": (-9.0, 9.0)}), ("map", {"map_threshold": 3.0})):
        kind = "count" if criterion == "map" else "share"
        assert _first(diagnose(_facts({criterion: _coverage(0.0, 0.0, kind=kind)}, settings=settings))) == "threshold_above_all"


def test_ranges_from_a_handful_of_samples() -> None:
    found = diagnose(_facts({"kmnc": _coverage(0.02, 0.02), "nbc": _coverage(0.0, 0.9)}, data={"seeds": _data(900), "profile": _data(6)}))
    assert _first(found) == "few_profile_samples"
    assert "6 samples in the profile set" in found.causes[0].evidence
    assert "counts for no section of kmnc" in found.causes[0].evidence


def test_neurons_that_never_vary() -> None:
    found = diagnose(_facts(layers=(_layer(constant=100), _layer("other", constant=60))))
    assert _first(found) == "constant_neurons"
    assert "160 of 200 neurons (80 %)" in found.causes[0].evidence
    assert "hidden 100 of 100, other 60 of 100" in found.causes[0].evidence


def test_the_head_being_watched() -> None:
    found = diagnose(_facts(layers=(_layer("fc", head=True),)))
    assert _first(found) == "head_watched"
    assert found.causes[0].evidence == "100 % of the watched neurons are the classifier head's: fc."


@pytest.mark.parametrize("campaign", [{"stop_reason": "saturated"}, {"stalled_for": 5_000}])
def test_a_search_that_has_stalled(campaign: dict[str, Any]) -> None:
    coverage = {"kmnc": _coverage(discovery=Discovery(executions=9_000, chance=0.0002, seen=0.997))}
    found = diagnose(_facts(coverage, campaign={"stalled_for": 6_000, **campaign}))
    assert _first(found) == "stalled"
    assert "estimated at 0.02 %, and over 99 % of what this search will reach" in found.causes[0].evidence


def test_no_gradients_or_none_that_steer() -> None:
    assert _first(diagnose(_facts(gradients=False))) == "no_gradients"
    assert _first(diagnose(_facts({"output": _coverage()}, steerable=False))) == "not_steerable"
    assert diagnose(_facts(gradients=None, steerable=None)).causes == ()


def test_guidance_that_earned_nothing() -> None:
    idle = ControlComparison(executions=500, gain=0.03, search_gain=0.02)
    found = diagnose(_facts({"kmnc": _coverage(0.4, 0.42, random=idle)}, curve=_curve(0.4, 0.42, 0.42, 0.42, 0.42)))
    assert _first(found) == "guidance_earned_nothing"
    assert "3.0 points by random mutants, 2.0 points by the search, after 500 executions each" in found.causes[0].evidence
    ahead = _coverage(0.4, 0.42, random=ControlComparison(executions=500, gain=0.01, search_gain=0.02))
    assert diagnose(_facts({"kmnc": ahead})).causes == ()


def test_coverage_that_noise_reaches_too() -> None:
    noise = ControlComparison(executions=200, gain=0.2, search_gain=0.05)
    found = diagnose(_facts({"snac": _coverage(0.0, 0.1, noise=noise, false_coverage=True)}, curve=()))
    assert found.causes[0].kind == "false_coverage"
    assert "snac: 20.0 points by noise, 5.0 points by the search" in found.causes[0].evidence
    assert "luck" not in found.causes[0].evidence


def test_false_coverage_is_never_answered_with_a_criterion_that_noise_fills_too() -> None:
    noise = ControlComparison(executions=80, gain=0.2, search_gain=0.05)
    coverage = {
        "kmnc": _coverage(0.4, 0.6, noise=noise, false_coverage=True),
        "output": _coverage(0.4, 0.6, noise=noise, false_coverage=True),
        "nbc": _coverage(0.4, 0.6, noise=ControlComparison(executions=80, gain=0.1, search_gain=0.2)),
        "tknc": _coverage(0.4, 0.4),
    }
    cause = next(cause for cause in diagnose(_facts(coverage)).causes if cause.kind == "false_coverage")
    assert "this gain of kmnc and output is no evidence" in cause.what
    assert "after 80 executions each: a longer run tells it from luck" in cause.evidence
    assert cause.advice.startswith("Report nbc, which noise did not fill here")
    del coverage["nbc"]
    cause = next(cause for cause in diagnose(_facts(coverage)).causes if cause.kind == "false_coverage")
    assert "Report" not in cause.advice


def test_neurons_that_are_not_finite() -> None:
    found = diagnose(_facts({"kmnc": _coverage(nonfinite=70)}))
    assert _first(found) == "nonfinite_neurons"
    assert "70 of 100 watched neurons (70 %)" in found.causes[0].evidence


def test_a_statistic_that_fell() -> None:
    found = diagnose(_facts({"nlc": _coverage(5.0, 4.5, kind="statistic"), "kmnc": _coverage(0.4, 0.6)}))
    assert _first(found) == "statistic"
    assert "nlc: 5, then 4.5" in found.causes[0].evidence


def test_few_seeds_and_an_unsteady_model() -> None:
    assert _first(diagnose(_facts(data={"seeds": _data(9), "profile": _data(5_000)}))) == "few_seeds"
    fault = PreflightCheck(name="eval_mode", status="fault", seen="dropout is active")
    assert _first(diagnose(_facts(preflight=(fault,)))) == "unsteady_model"


def test_of_several_causes_the_one_that_explains_most_comes_first() -> None:
    threshold = {"nc_scale": "none", "nc_threshold": 5.0}
    found = diagnose(_facts({"nc": _coverage(0.0, 0.0)}, settings=threshold, executions=400, samples=12, layers=(_layer(constant=3),)))
    kinds = [cause.kind for cause in found.causes]
    assert kinds[0] == "threshold_above_all"
    assert {"few_executions", "few_seeds", "constant_neurons"} <= set(kinds)
    assert [cause.weight for cause in found.causes] == sorted((cause.weight for cause in found.causes), reverse=True)


def _curve(*values: float) -> tuple[CurvePoint, ...]:
    step = EXECUTIONS // (len(values) - 1)
    return tuple(CurvePoint(executions=i * step, coverage={"kmnc": value}, findings=0, defects=0) for i, value in enumerate(values))


def test_coverage_that_rises_is_said_to_rise() -> None:
    found = diagnose(_facts({"kmnc": _coverage(0.4, 0.6)}, curve=_curve(0.4, 0.5, 0.55, 0.58, 0.6)))
    assert found.rises
    assert found.courses[0].said == "rises, by 20.0 points so far: 40.0 % by the seeds, 60.0 % in the end"


def test_coverage_that_rose_and_stopped_is_said_to_have_stopped_and_when() -> None:
    found = diagnose(_facts({"kmnc": _coverage(0.4, 0.6)}, curve=_curve(0.4, 0.6, 0.6, 0.6, 0.6)))
    assert not found.rises
    assert "stopped after 2,500 of 10,000 executions" in found.courses[0].said


def test_a_record_that_is_damaged_around_its_result_is_still_read(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(_facts().result.to_json(), encoding="utf-8")
    assert read_run(tmp_path) == RunFacts(_facts().result)
    (tmp_path / "campaign").mkdir()
    (tmp_path / "campaign" / "identity.json").write_text(json.dumps({"settings": {"coverage": {"nc_threshold": "high"}}}))
    events = ["no json", "[1]", json.dumps({"event": "layers", "gradients": False, "steerable": "yes"}), '{"event": "st']
    (tmp_path / "events.jsonl").write_text("\n".join(events))
    facts = read_run(tmp_path)
    assert (facts.settings, facts.gradients, facts.steerable) == (None, False, None)
    with pytest.raises(OutputError, match="No finished run"):
        read_run(tmp_path / "campaign")
