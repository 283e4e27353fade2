"""What a real run keeps of its defects: minimised, still failing on the real model, under ids that everything agrees on."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from candidates import tensor
from gate_command import Finished

from gate.domains.image import picture
from gate.domains.image.domain import ImageDomain
from gate.policy.load import load_policy
from gate.result import Defect, Result


@pytest.fixture(scope="module")
def result(finished: Finished) -> Result:
    return Result.load(finished.folder)


@pytest.fixture(scope="module")
def minimised(result: Result) -> list[Defect]:
    found = [defect for defect in result.defects if defect.minimal is not None]
    assert len(found) > 5
    return found


def sample(finished: Finished, defect: Defect, name: str) -> np.ndarray:
    return picture.load(finished.folder / defect.files[name]).copy()


def predicted(network: Any, x: np.ndarray) -> int:
    import torch

    with torch.no_grad():
        return int(network(tensor(x[None, ..., 0].copy())).argmax())


def test_each_still_fails_in_the_same_way_and_so_does_what_was_found(finished: Finished, minimised: list[Defect], network: Any) -> None:
    for defect in minimised:
        assert predicted(network, sample(finished, defect, "mutant_data")) == defect.predicted != defect.label
        for name in {"found_data", "part_data"} & set(defect.files):
            assert predicted(network, sample(finished, defect, name)) == defect.predicted
        assert predicted(network, sample(finished, defect, "original_data")) == defect.label


def test_each_is_what_its_recipe_makes_and_valid(finished: Finished, minimised: list[Defect]) -> None:
    first = sample(finished, minimised[0], "original_data")
    domain = ImageDomain(load_policy("smoke").policy.domain, first.shape, first.dtype, (0.0, 255.0))
    natural = [defect for defect in minimised if defect.natural]
    assert natural
    for defect in natural:
        seed, mutant = (sample(finished, defect, name) for name in ("original_data", "mutant_data"))
        recipe = [domain.step(step["operator"], step["severity"], step["draw"]) for step in defect.recipe]
        np.testing.assert_array_equal(domain.replay(seed, recipe), mutant)
        assert domain.valid(mutant[None], seed[None], [recipe])[0]
        assert [step.to_json() for step in recipe] == list(defect.recipe)


def test_they_are_simpler_on_the_whole(minimised: list[Defect]) -> None:
    for defect in minimised:
        assert defect.minimal is not None
        assert len(defect.recipe) <= len(defect.minimal.found_recipe)
        if len(defect.recipe) == len(defect.minimal.found_recipe):
            assert defect.severity <= defect.minimal.found_severity
    found = sum(defect.minimal.found_severity for defect in minimised if defect.minimal is not None)
    assert sum(defect.severity for defect in minimised) < 0.8 * found


def test_ids_agree_everywhere(finished: Finished, result: Result) -> None:
    ids = {defect.id for defect in result.defects}
    assert len(ids) == len(result.defects)
    assert {path.name for path in (finished.folder / "defects").iterdir()} == ids
    assert not (finished.folder / "campaign" / "minimising").exists()
    for defect in result.defects:
        said = Defect.model_validate_json((finished.folder / "defects" / defect.id / "defect.json").read_bytes())
        assert said == defect
        assert all((finished.folder / path).is_file() for path in defect.files.values())
    assert {cause.id: cause.size for cause in result.root_causes} == {
        cause: sum(defect.root_cause == cause for defect in result.defects) for cause in {defect.root_cause for defect in result.defects}
    }
    assert {cause.example for cause in result.root_causes} <= ids
    evidence = json.loads((finished.folder / "campaign/evidence.json").read_text())
    assert {defect["id"] for defect in evidence["defects"]} <= ids
    events = [json.loads(line) for line in (finished.folder / "events.jsonl").read_text().splitlines()]
    told = {event["id"] for event in events if event["event"] == "defect"}
    (minimised,) = [event for event in events if event["event"] == "minimised"]
    assert result.triage is not None
    assert minimised["defects"] == result.triage.minimised
    assert len(minimised["merged"]) == result.triage.merged
    now = {minimised["renamed"].get(identity, minimised["merged"].get(identity, identity)) for identity in told}
    assert ids <= now


def test_an_arm_has_as_many_defects_as_its_density_counts(result: Result) -> None:
    assert result.campaign is not None
    assert result.triage is not None
    assert result.triage.merged > 0, "what was merged would count twice"
    arms, thousand = result.campaign.arms, result.metrics["defects_per_1k_executions"].value
    assert thousand is not None
    assert arms["search"].defects == round(thousand * arms["search"].executions / 1000) > 0
    assert sum(arm.defects for arm in arms.values()) >= len(result.defects)


def test_it_took_no_more_than_its_half(result: Result) -> None:
    assert result.triage is not None
    spent = sum(defect.minimal.model_calls for defect in result.defects if defect.minimal is not None)
    assert 0 < spent <= result.triage.allowed // 2
    assert result.triage.spent <= result.triage.allowed
