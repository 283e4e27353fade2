"""A whole run on a network with a planted cause: the root cause on top names it. The benchmark does so many times over."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.planted import PLANTS, Cause, plant
from benchmarks.triage import PURE, marked, named, repetition
from gate.demo.network import tensor
from gate.result import MarksSummary, ModelInfo, Result, RootCause, UniversalMark, Verdict


def record(*causes: RootCause) -> Result:
    return Result(verdict=Verdict.PASS, exit_code=0, reasons=(), candidate=ModelInfo(uri="m", resolved_uri="m"), root_causes=causes)


def found(**more: object) -> RootCause:
    said = {"id": "rc", "title": "t", "size": 3, "example": "d", "oracle": "changed_prediction", "family": "photometry", "label": 4}
    return RootCause.model_validate({**said, "predicted": 9, "type": "global-drift", **more})


def test_the_root_cause_on_top_is_held_against_every_planted_fact() -> None:
    cause = Cause(families=frozenset({"photometry"}), labels=frozenset({4}), predicted=frozenset({9}))
    assert named(record(found(), found(label=5)), cause)[0] == ""
    assert named(record(found(label=5), found()), cause)[0] == "class 5"
    assert named(record(found(family="noise", predicted=1)), cause)[0] == "family noise, predicted 1"
    assert named(record(found(oracle="non_finite")), cause)[0] == "oracle non_finite"
    typed = Cause(oracles=frozenset(), predicted=frozenset({9}), types=frozenset({"shortcut"}))
    assert named(record(found(label=5), found(type="shortcut")), typed)[0] == ""
    assert named(record(found()), typed) == ("no root cause of type shortcut", None)


def test_a_planted_mark_is_looked_for_among_the_shortcuts() -> None:
    plain = {"inputs": 60, "confidence": 0.95, "lower": 0.5, "upper": 1.0, "outlier": 3.0, "kind": "patch", "rate": 0.9}
    first = UniversalMark(label=7, moved=58, shortcut=True, **plain)
    run = record().model_copy(
        update={"universal_marks": MarksSummary(marks=(first, UniversalMark(label=2, moved=50, shortcut=True, **plain)))}
    )
    assert marked(run, 7) == ("", "a mark (patch) leads to 7", 58, 0.5)
    assert marked(run, 2)[0] == "predicted 7"
    assert marked(record(), 7)[0] == "no mark that is a shortcut"


@pytest.mark.parametrize("name", sorted(set(PLANTS) - {"rotation", "two"}))  # which train on five times as many pictures
def test_a_planted_network_is_right_on_clean_digits_and_the_same_again(name: str) -> None:
    first, again = plant(name, 3), plant(name, 3)
    x = tensor(first.seeds.x)
    with torch.no_grad():
        one, other = first.module(x), again.module(x)
    assert torch.equal(one, other)
    assert first.cause == again.cause
    assert float((one.argmax(1).numpy() == first.seeds.y).mean()) > 0.85
    assert bool(torch.isfinite(one).all())


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", list(PLANTS))
def test_triage_names_the_planted_cause(name: str, tmp_path: Path) -> None:
    row = repetition(name, 0, 2500, tmp_path)
    assert row.right, row
    assert row.share >= PURE, row
