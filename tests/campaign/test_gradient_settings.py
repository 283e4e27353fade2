"""What the settings say of gradients reaches the worker; what could never run is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from known_model import Scene

from gate.campaign.ascent_options import Ascent
from gate.campaign.descent_options import Descent
from gate.campaign.gradient_settings import ascents_of, descent_of
from gate.campaign.guide import ASCENTS
from gate.config import SearchSettings, load
from gate.errors import ConfigError

CHOSEN = {"ascent_steps": 3, "step_size": 0.25, "direction": "normalised"}


def test_unless_told_otherwise_the_search_climbs_and_descends_as_it_does_by_itself() -> None:
    assert ascents_of(SearchSettings(), ASCENTS) == ASCENTS
    assert descent_of(SearchSettings()) == Descent()


def test_each_setting_replaces_one_thing() -> None:
    usual = (Ascent(num_steps=2, targets=5), Ascent(num_steps=6, multiples=(1.0, 3.0)))
    told = ascents_of(SearchSettings.model_validate(CHOSEN), usual)
    assert [(one.num_steps, one.step_size, one.direction) for one in told] == [(3, 0.25, "normalised")] * 2
    assert [(one.targets, one.multiples) for one in told] == [(one.targets, one.multiples) for one in usual]
    assert descent_of(SearchSettings(ascent_steps=7)) == Descent(num_steps=7)
    assert ascents_of(SearchSettings(step_size=1.0), usual)[1] == Ascent(num_steps=6, multiples=(1.0, 3.0), step_size=1.0)


@pytest.mark.parametrize(("operation", "part"), [("climb", "ascent"), ("descend", "descent")])
def test_the_worker_is_asked_for_what_the_settings_say(operation: str, part: str) -> None:
    hunting = operation == "descend"
    stall = {"stall": 1 if hunting else 10_000}
    alone = {"judging": 0.0, "random": 0.0, "noise": 0.0}
    made = Scene(executions=2500, shares=alone, search=CHOSEN, steerable=not hunting, coverage=stall)
    made.worker.covers = not hunting
    made.run()
    asked = [parameters[part] for name, parameters, _ in made.worker.calls if name == operation]
    assert asked
    for one in asked:
        assert (one["num_steps"], one["step_size"], one["direction"]) == (3, 0.25, "normalised")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("search: {ascent_steps: 0}", "ascent_steps"),
        ("search: {ascent_steps: 21}", "ascent_steps"),
        ("search: {step_size: 0}", "step_size"),
        ("search: {step_size: 1.01}", "step_size"),
        ("search: {direction: up}", "direction"),
        ("search: {ascent_steps: 12}\nbatch_size: 35", "a climb of 12 steps makes up to 36 mutants, more than the 35 of one batch"),
    ],
)
def test_what_can_never_run_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "gate.yaml", environment={})
    assert said in str(caught.value)
