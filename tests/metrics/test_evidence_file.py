"""Evidence whose numbers do not fit together is said to be damaged, and never judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gate.metrics.evidence import (
    BaselineEvidence,
    BaselineSeed,
    CanaryEvidence,
    CleanEvidence,
    Evidence,
    JudgedSeed,
    LongTailEvidence,
    MarkEvidence,
)
from gate.metrics.evidence_file import read_evidence


def sound(*, repeat: int = 1) -> dict[str, Any]:
    """Two seed inputs with three mutants each, as JSON."""
    answers = {"failures": (0, 1, 0), "failing_predicted": (0, 1, 0), "failing_confidence": (0.9, 0.6, 0.9)} if repeat > 1 else {}
    judged = tuple(
        JudgedSeed(
            seed_id=name,
            label=0,
            operators=("blur",) * 3,
            families=("blur",) * 3,
            severities=(0.1, 0.5, 1.0),
            valid=(True, True, False),
            failed=(False, True, False),
            predicted=(0, 1, 0),
            confidence=(0.9, 0.6, 0.9),
            **answers,
        )
        for name in ("s0", "s1")
    )
    beside = BaselineSeed(failed=(False, False, False), predicted=(0, 0, -1), confidence=(0.9, 0.9, 0.0))
    evidence = Evidence(
        seed=1,
        classes=("crack", "sound"),
        clean=CleanEvidence(labels=(0, 0, 1), correct=(True, True, False), nonfinite=1),
        long_tail=LongTailEvidence(labels=(0, 1), predicted=(0, 0), kinds=("fog", "rain")),
        judged=judged,
        judging_mutants_per_seed=3,
        judging_repeat=repeat,
        marks=(MarkEvidence(kind="patch", label=0, moved=1, inputs=2),),
        crashes=1,
        nonfinite_outputs=1,
        executions=10,
        preflight_faults=0,
        baseline=BaselineEvidence(
            correct=(True, True, True), long_tail=(0, 1), judged={"s0": beside}, crash_defects=1, known_crashes=1, nonfinite_defects=1
        ),
        canaries=(CanaryEvidence(name="dark", found=True, executions=5),),
    )
    said: dict[str, Any] = json.loads(evidence.model_dump_json())
    return said


def put(said: dict[str, Any], place: str, value: Any) -> None:
    """Changes one value; a place is ``judged.0.valid``."""
    *way, last = place.split(".")
    at: Any = said
    for step in way:
        at = at[int(step)] if step.isdigit() else at[step]
    at[int(last) if last.isdigit() else last] = value


def written(said: dict[str, Any], folder: Path) -> Path:
    path = folder / "evidence.json"
    path.write_text(json.dumps(said), encoding="utf-8")
    return path


@pytest.mark.parametrize("repeat", [1, 3])
def test_what_a_run_writes_is_read(repeat: int, tmp_path: Path) -> None:
    assert read_evidence(written(sound(repeat=repeat), tmp_path)).executions == 10


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("crashes", -1),
        ("nonfinite_outputs", -1),
        ("executions", -5),
        ("preflight_faults", -1),
        ("root_causes", -1),
        ("judging_repeat", 2),
        ("clean.correct", [True]),
        ("clean.nonfinite", 3),
        ("long_tail.predicted", [0]),
        ("long_tail.kinds", ["fog"]),
        ("judged.1.seed_id", "s0"),
        ("judged.0.severities", [0.1]),
        ("judged.0.families", ["blur"] * 4),
        ("judged.0.failed", [False]),
        ("judged.0.failed.2", True),
        ("judged.0.predicted", []),
        ("judged.0.confidence", [0.5]),
        ("judged.0.severities.0", 7.0),
        ("judged.0.failures", [0, 1, 0]),
        ("marks.0.moved", 3),
        ("marks.0.moved", -1),
        ("canaries", [{"name": "dark", "found": True, "executions": 5}] * 2),
        ("baseline.correct", [True]),
        ("baseline.long_tail", [0]),
        ("baseline.nonfinite", 2),
        ("baseline.known_crashes", 2),
        ("baseline.known_crashes", -1),
        ("baseline.known_nonfinite", 2),
        ("baseline.judged.s0.confidence", []),
        ("baseline.judged.s0.failed", []),
        ("baseline.judged.nobody", {"failed": [True], "predicted": [1], "confidence": [0.5]}),
    ],
)
def test_what_does_not_fit_together_is_refused(place: str, value: object, tmp_path: Path) -> None:
    said = sound()
    put(said, place, value)
    with pytest.raises(ValueError, match=r"below 0|differ|other|number|judged|more|between|planted|moved|failed"):
        read_evidence(written(said, tmp_path))


def test_a_mutant_never_fails_more_often_than_it_was_asked(tmp_path: Path) -> None:
    said = sound(repeat=3)
    put(said, "judged.0.failures.1", 4)
    with pytest.raises(ValueError, match="more often than it was asked"):
        read_evidence(written(said, tmp_path))
