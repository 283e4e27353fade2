"""How the search shared out its work, as the page shows it: every row its own line, one scale, nothing where nothing was adapted."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from gate.campaign.choice_summary import MANY, boundary_of, objectives_of, weights_over_time
from gate.campaign.loop import ObjectiveCount
from gate.campaign.operator_choice import OperatorChoice
from gate.report.choices import HEIGHT, WIDTH, choices_page
from gate.report.html import render
from gate.result import CampaignSummary, ModelInfo, ObjectiveSummary, OperatorWeights, Result, StrategySummary, Verdict


def campaign(weights: tuple[OperatorWeights, ...] = (), strategies: dict[str, StrategySummary] | None = None) -> CampaignSummary:
    return CampaignSummary(
        seed=0,
        executions=100,
        model_calls=100,
        wall_seconds=1,
        device="cpu",
        device_hours=0.1,
        stop_reason="executions",
        operators={"fog": {"executions": 10, "valid": 10, "findings": 1, "new_items": 3}},
        operator_weights=weights,
        strategies=strategies or {},
    )


POINTS = (
    OperatorWeights(executions=0, weights={"fog": 0.5, "rain": 0.5}),
    OperatorWeights(executions=50, weights={"fog": 0.2, "rain": 0.8}),
    OperatorWeights(executions=100, weights={"fog": 0.7, "rain": 0.3}),
)


def test_each_operator_has_a_line_on_the_scale_that_all_share() -> None:
    fog, rain = choices_page(campaign(POINTS))["weights"]
    assert (fog["name"], rain["name"]) == ("fog", "rain")  # the heaviest at the end first

    def heights(row: dict[str, str]) -> list[float]:
        return [float(place.split(",")[1]) for place in row["points"].split()]

    low, high = HEIGHT - 2, 2
    assert heights(rain)[1] == high
    assert heights(fog) == pytest.approx([low - (low - high) * weight / 0.8 for weight in (0.5, 0.2, 0.7)], abs=0.06)
    assert [float(place.split(",")[0]) for place in fog["points"].split()] == [0, WIDTH / 2, WIDTH]
    assert (fog["begin"], fog["end"], fog["most"]) == ("50.0 %", "70.0 %", "70.0 %")


def test_the_page_shows_weights_and_strategies_and_why_one_was_left_out(tmp_path: Path) -> None:
    strategies = {
        "uniform": StrategySummary(executions=70, new_items=12, findings=2),
        "coverage": StrategySummary(left_out="the model has no gradient towards what is not covered"),
    }
    result = Result(
        verdict=Verdict.PASS, exit_code=0, reasons=(), candidate=ModelInfo(uri="m", resolved_uri="m"), campaign=campaign(POINTS, strategies)
    )
    page = render(result, tmp_path)
    assert "shared out its work among operators" in page
    assert len(re.findall(r'<polyline class="line search" points="[\d., ]+"/>', page)) == 2
    assert "left out: the model has no gradient towards what is not covered" in page
    bare = render(result.model_copy(update={"campaign": campaign()}), tmp_path)
    assert "shared out its work" not in bare
    assert "Which strategies" not in bare


def test_many_operators_are_told_by_family_and_no_adaptation_is_not_told() -> None:
    names = [f"o{number}" for number in range(MANY + 1)]
    choice = OperatorChoice(names, [1.0] * len(names))
    choice.learn(np.array([0, 1]), np.array([1.0, 0.0]), np.array([False, False]))
    told = weights_over_time(choice, lambda name: "even" if int(name[1:]) % 2 == 0 else "odd")
    assert [point.executions for point in told] == [0, 2]
    assert set(told[0].weights) == {"even", "odd"}
    for point in told:
        assert sum(point.weights.values()) == pytest.approx(1, abs=1e-5)
    assert told[0].weights["even"] == pytest.approx(7 / 13, abs=1e-5)
    assert told[1].weights["even"] > told[0].weights["even"]
    few = OperatorChoice(names[:3], [1.0] * 3)
    assert weights_over_time(few, lambda name: name) == ()  # nothing was learnt yet
    few.learn(np.array([0]), np.array([1.0]), np.array([False]))
    assert set(weights_over_time(few, lambda _: "family")[0].weights) == {"o0", "o1", "o2"}
    fixed = OperatorChoice(names, [1.0] * len(names), adaptive=False)
    fixed.learn(np.array([0]), np.array([1.0]), np.array([False]))
    assert weights_over_time(fixed, lambda name: name) == ()


def test_what_the_search_did_after_coverage_had_stalled_is_told_in_words_and_nothing_where_it_never_did() -> None:
    spent = {"coverage": ObjectiveCount(1500, 3000, 12, 4), "defects": ObjectiveCount(500, 1000, 40, 16)}
    summaries = objectives_of({"coverage": spent["coverage"], "defects": spent["defects"]})
    assert summaries["defects"] == ObjectiveSummary(executions=500, model_calls=1000, findings=40, defects=16)
    told = choices_page(campaign().model_copy(update={"objectives": summaries}))["objectives"]
    assert told == (
        "After coverage had stalled, 500 of the search's 2,000 mutants (25 % of its model passes) went for defects and small margins;"
        " they brought 16 of its 20 new distinct defects."
    )
    found = boundary_of(np.array([0.25, np.inf, 0.5, 0.75, np.inf]))
    told = choices_page(campaign().model_copy(update={"objectives": summaries, "boundary": found}))["objectives"]
    assert "Of 5 seed inputs 3 changed class by a single natural operator, half of these at a severity of 0.5 or less." in told
    assert boundary_of(np.full(5, np.inf)) is None
    never = campaign().model_copy(update={"objectives": {"coverage": summaries["coverage"]}, "boundary": found})
    assert choices_page(never)["objectives"] == ""
    assert choices_page(campaign())["objectives"] == choices_page(None)["objectives"] == ""
