"""Where the reproducers can't be written, everything else still is, and the run says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from known_model import CLASSES, TRAP, write_npz
from saved_models import Stripes, save

import gate.pipeline
from gate.config import Settings
from gate.errors import OutputError
from gate.result import Result, Verdict


def disk_full(*_: Any) -> int:
    raise OutputError("A defect's reproducer can't be written: No space left on device.", where="defects", hint="Check the disk.")


def strange_record(*_: Any) -> int:
    raise KeyError("operator")


@pytest.mark.parametrize("fault", [disk_full, strange_record])
def test_the_report_and_the_verdict_are_there_and_the_problem_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Any) -> None:
    monkeypatch.setattr(gate.pipeline, "write_reproducers", fault)
    settings = {
        "model": str(save(Stripes(trap=TRAP).eval(), tmp_path / "trapped")),
        "classes": CLASSES,
        "data": {"seeds": str(write_npz(tmp_path / "seeds.npz"))},
        "budget": {"executions": 300},
        "coverage": {"layers": ["hidden"], "criteria": ["nbc"]},
        "out": str(tmp_path / "run"),
    }
    result = gate.pipeline.run(Settings.model_validate(settings)).result
    assert result.defects
    assert result.verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE)
    said = [step for step in result.next_steps if "test_defect.py" in step]
    assert len(said) == 1
    assert ("No space left" if fault is disk_full else "KeyError") in said[0]
    assert Result.load(tmp_path / "run").next_steps == result.next_steps
    assert "test_defect.py" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    events = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    assert "verdict" in json.dumps(events[-1])
