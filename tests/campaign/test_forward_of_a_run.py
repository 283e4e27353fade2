"""A whole run whose search is in mixed precision on a device that is short of memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from known_model import CLASSES, write_npz
from limited_models import Wavering
from saved_models import save

from gate.config import Settings
from gate.pipeline import run
from gate.result import Result


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, list[dict[str, Any]]]:
    base: Path = tmp_path_factory.mktemp("mixed")
    settings = {
        "model": str(save(Wavering().eval(), base / "model")),
        "classes": CLASSES,
        "data": {"seeds": str(write_npz(base / "seeds.npz"))},
        "budget": {"executions": 600},
        "coverage": {"layers": ["hidden"], "criteria": ["kmnc"]},
        "search": {"amp": "bf16"},
        "previous": "none",
        "device": "cpu",
        "batch_size": 64,
        "out": str(base / "run"),
    }
    events: list[dict[str, Any]] = []
    return run(Settings.model_validate_json(json.dumps(settings)), observers=(events.append,)).result, events


def test_what_full_precision_answers_rightly_is_no_defect_of_the_search(told: tuple[Result, list[dict[str, Any]]]) -> None:
    result, _ = told
    assert result.campaign is not None
    assert result.campaign.arms["search"].findings > 10
    assert result.campaign.precision_only > 5
    assert not result.defects
    assert result.metrics["flaky_findings"].value == 0


def test_clean_accuracy_and_rates_come_from_full_precision(told: tuple[Result, list[dict[str, Any]]]) -> None:
    result, _ = told
    assert result.metrics["clean_accuracy"].value == 1
    assert result.metrics["mutant_failure_rate"].value is not None
    assert result.metrics["mutant_failure_rate"].value < 0.5


def test_precision_and_batch_sizes_are_part_of_the_numeric_fingerprint_and_told_once(told: tuple[Result, list[dict[str, Any]]]) -> None:
    result, events = told
    assert result.campaign is not None
    fingerprint = result.campaign.fingerprint
    assert fingerprint["amp"] == "bf16"
    assert 10 <= fingerprint["micro_batch"] <= 20
    said = [event for event in events if event["event"] == "forward"]
    assert said[0]["micro_batch"] == fingerprint["micro_batch"]
    assert len(said) <= 2
