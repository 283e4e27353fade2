"""The CI files around the real command, on runs that end before a model is loaded and so take a second."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from action_runner import run_action
from junitparser import JUnitXml
from test_github_action import ACTION, ROOT
from test_gitlab_template import JOB, TEMPLATE

PATH = f"{Path(sys.executable).parent}:/usr/bin:/bin"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout with seeds and a model folder that is none."""
    folder = tmp_path / "check out"
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "MLmodel").write_text("")
    np.savez(folder / "seeds.npz", x=np.zeros((20, 8, 8), np.uint8), y=np.arange(20) % 10)
    return folder


def test_the_action_hands_on_what_the_gate_says_of_a_broken_model(project: Path) -> None:
    inputs = {"install": "none", "model": "model", "seeds": "seeds.npz", "executions": "100", "device": "cpu"}
    done = run_action(ACTION, workspace=project, inputs=inputs, path=PATH, action_path=ROOT)
    out = project / "gate-out"
    assert done.failed_with == 3, done.log
    assert done.action_outputs == {
        "verdict": "error",
        "exit-code": "3",
        "report": str(out / "report.html"),
        "result": str(out / "result.json"),
    }
    assert json.loads((out / "result.json").read_text())["verdict"] == "error"
    assert "MLmodel" in done.summary


def test_the_action_hands_on_a_usage_error(project: Path) -> None:
    done = run_action(ACTION, workspace=project, inputs={"install": "none", "policy": "basline"}, path=PATH, action_path=ROOT)
    assert done.failed_with == 2, done.log
    assert done.action_outputs["verdict"] == "error"
    assert done.action_outputs["report"] == ""


def test_the_gitlab_job_leaves_the_reports_that_it_declares(project: Path) -> None:
    variables = {name: str(value) for name, value in TEMPLATE["variables"].items()}
    variables |= {"FUZZGATE_MODEL": "model", "FUZZGATE_SEEDS": "seeds.npz", "FUZZGATE_EXECUTIONS": "100", "FUZZGATE_DEVICE": "cpu"}
    script = "\n".join([*JOB["before_script"], *JOB["script"]])
    done = subprocess.run(
        ["sh", "-e"],
        input=script,
        cwd=project,
        env={"PATH": PATH, "HOME": str(project), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    reports = JOB["artifacts"]["reports"]
    suites = JUnitXml.fromfile(str(project / reports["junit"]))
    assert suites.errors + suites.failures > 0
    assert (project / reports["metrics"]).read_text().endswith("# EOF\n")
