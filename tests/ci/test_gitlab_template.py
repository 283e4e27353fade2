from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from stand_in import install_stand_in
from test_github_action import HOSTILE

ROOT = Path(__file__).parents[2]
FILE = ROOT / ".gitlab-ci-template.yml"
TEMPLATE: dict[str, Any] = YAML(typ="safe").load(FILE)
JOB: dict[str, Any] = TEMPLATE[".gate"]
SHELLS = {"sh": ["sh", "-e"], "bash": ["bash", "-eo", "pipefail"]}

pytestmark = pytest.mark.parametrize("shell", SHELLS)


def run(tmp_path: Path, shell: str, path: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs before_script and script as a runner does: one text on the shell's standard input, a line that follows included."""
    project = tmp_path / "builds of a group"
    project.mkdir(exist_ok=True)
    settings = {name: str(value) for name, value in TEMPLATE["variables"].items()} | variables
    return subprocess.run(
        SHELLS[shell],
        input="\n".join([*JOB["before_script"], *JOB["script"], "echo the script went on"]),
        cwd=project,
        env={"PATH": path, "HOME": str(tmp_path), **settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def arguments(folder: Path) -> list[str]:
    loaded: list[str] = json.loads((folder / "arguments.json").read_text())
    return loaded


def test_the_template_is_valid_by_its_public_schema(shell: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.gitlab-ci", str(FILE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_reports_are_kept_whatever_the_verdict(shell: str) -> None:
    artifacts = JOB["artifacts"]
    assert artifacts["when"] == "always"
    assert artifacts["paths"] == ["gate-out/"]
    assert artifacts["reports"] == {"junit": "gate-out/junit.xml", "metrics": "gate-out/metrics.txt"}
    # GitLab shows no link where a path holds a variable.
    assert not any("$" in path for path in artifacts["paths"])
    assert artifacts["expose_as"]


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4])
def test_the_job_ends_with_the_gates_exit_code(tmp_path: Path, shell: str, code: int) -> None:
    done = run(tmp_path, shell, install_stand_in(tmp_path / "bin", code=code), FUZZGATE_MODEL="models:/digits/2")
    assert done.returncode == code
    assert ("the script went on" in done.stdout) is (code == 0)
    assert (tmp_path / "builds of a group" / "gate-out" / "junit.xml").exists() is (code != 2)
    assert (tmp_path / "bin" / "stdin").read_bytes() == b""


def test_every_variable_becomes_its_option(tmp_path: Path, shell: str) -> None:
    switches = {"FUZZGATE_PUBLISH": "false", "FUZZGATE_ADVISORY": "true"}
    plain = [name for name in TEMPLATE["variables"] if name not in {*switches, "FUZZGATE_INSTALL"}]
    run(tmp_path, shell, install_stand_in(tmp_path / "bin", code=0), **switches, **{name: f"value of {name}" for name in plain})
    expected = [f"--{name.removeprefix('FUZZGATE_').lower().replace('_', '-')}=value of {name}" for name in plain]
    assert arguments(tmp_path / "bin") == ["run", "--out=gate-out", *expected, "--no-publish", "--advisory"]


def test_variables_not_set_are_not_passed_on(tmp_path: Path, shell: str) -> None:
    run(tmp_path, shell, install_stand_in(tmp_path / "bin", code=0))
    assert arguments(tmp_path / "bin") == ["run", "--out=gate-out"]


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_values_stay_text(tmp_path: Path, shell: str, value: str) -> None:
    done = run(tmp_path, shell, install_stand_in(tmp_path / "bin", code=1), FUZZGATE_MODEL=value, FUZZGATE_SEEDS=value)
    assert arguments(tmp_path / "bin") == ["run", "--out=gate-out", f"--model={value}", f"--seeds={value}"]
    assert done.returncode == 1
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.parametrize("name", ["FUZZGATE_PUBLISH", "FUZZGATE_ADVISORY"])
def test_a_switch_that_is_neither_true_nor_false_is_a_usage_error(tmp_path: Path, shell: str, name: str) -> None:
    done = run(tmp_path, shell, install_stand_in(tmp_path / "bin", code=0), **{name: "perhaps"})
    assert done.returncode == 2
    assert name in done.stderr
    assert not (tmp_path / "bin" / "arguments.json").exists()


def test_an_image_without_the_gate_says_what_to_set(tmp_path: Path, shell: str) -> None:
    done = run(tmp_path, shell, "/usr/bin:/bin")
    assert done.returncode == 2
    assert "FUZZGATE_INSTALL" in done.stderr


def test_an_installation_that_fails_fails_the_job(tmp_path: Path, shell: str) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}/usr/bin:/bin"
    done = run(tmp_path, shell, path, FUZZGATE_INSTALL=str(tmp_path / "nothing here"))
    assert done.returncode not in (0, 4)
    assert "the script went on" not in done.stdout
