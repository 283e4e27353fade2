from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from action_runner import ActionRun, interrupt_when, load_action, run_action
from stand_in import install_stand_in

ROOT = Path(__file__).parents[2]
ACTION = load_action(ROOT / "action.yml")
UPLOAD = "actions/upload-artifact@v6"
HOSTILE = [
    "$(touch pwned)",
    '"; touch pwned; "',
    "`touch pwned`",
    "a\nb=c\nverdict=pass",
    "'; touch pwned #",
    "${IFS}",
    "--help",
    "*",
    "a b",
    "ü→\u202e",
]


def run(tmp_path: Path, path: str, **inputs: str) -> ActionRun:
    workspace = tmp_path / "work space"
    workspace.mkdir(exist_ok=True)
    return run_action(ACTION, workspace=workspace, inputs={"install": "none", **inputs}, path=path, action_path=ROOT)


def arguments(folder: Path) -> list[str]:
    loaded: list[str] = json.loads((folder / "arguments.json").read_text())
    return loaded


def test_the_action_is_valid_by_its_public_schema() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-actions", str(ROOT / "action.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_input_is_pasted_into_shell_text() -> None:
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", ""), step["name"]


def test_every_declared_input_is_used() -> None:
    text = (ROOT / "action.yml").read_text(encoding="utf-8").split("\nruns:\n")[1]
    assert not [name for name in ACTION["inputs"] if f"inputs.{name}" not in text]


@pytest.mark.parametrize(("code", "verdict"), [(0, "pass"), (1, "fail"), (3, "error"), (4, "inconclusive")])
def test_exit_code_verdict_and_reports_agree(tmp_path: Path, code: int, verdict: str) -> None:
    done = run(tmp_path, install_stand_in(tmp_path / "bin", code=code), model="models:/digits/2")
    out = tmp_path / "work space" / "gate-out"
    assert done.failed_with == code
    assert done.action_outputs == {
        "verdict": verdict,
        "exit-code": str(code),
        "report": str(out / "report.html"),
        "result": str(out / "result.json"),
    }
    assert done.summary == "# Gate\n"
    assert done.used[UPLOAD]["path"] == str(out)


def test_a_usage_error_fails_with_two_and_an_error_verdict(tmp_path: Path) -> None:
    done = run(tmp_path, install_stand_in(tmp_path / "bin", code=2))
    assert done.failed_with == 2
    assert done.action_outputs == {"verdict": "error", "exit-code": "2", "report": "", "result": ""}
    assert done.summary == ""


def test_a_record_of_an_earlier_run_is_not_taken_for_this_one(tmp_path: Path) -> None:
    run(tmp_path, install_stand_in(tmp_path / "bin", code=0))
    done = run(tmp_path, install_stand_in(tmp_path / "bin", code=2))
    assert done.failed_with == 2
    assert done.action_outputs["verdict"] == "error"
    assert done.action_outputs["result"] == ""
    assert done.summary == ""


def test_a_pass_without_a_record_is_no_pass(tmp_path: Path) -> None:
    done = run(tmp_path, install_stand_in(tmp_path / "bin", code=0, writes=False))
    assert done.failed_with == 3
    assert done.action_outputs["verdict"] == "error"


@pytest.mark.parametrize("code", [137, 5, 255])
def test_an_unknown_exit_code_is_an_error(tmp_path: Path, code: int) -> None:
    done = run(tmp_path, install_stand_in(tmp_path / "bin", code=code))
    assert done.failed_with == 3
    assert done.action_outputs["exit-code"] == "3"


def test_a_missing_command_is_said_and_fails(tmp_path: Path) -> None:
    done = run(tmp_path, "/usr/bin:/bin")
    assert done.failed_with != 0
    assert "no gate command on the PATH" in done.log
    assert (done.action_outputs["verdict"], done.action_outputs["exit-code"]) == ("error", "3")


def test_every_setting_becomes_its_option(tmp_path: Path) -> None:
    given = {
        "model": "models:/digits/2",
        "baseline": "models:/digits@champion", "previous": "auto", "config": "my gate.yaml",
        "policy": "strict",
        "seeds": "seeds.npz", "long-tail": "fog.npz", "profile": "train", "judge-half": "b",
        "budget": "10m", "executions": "2000", "device-budget": "5m",
        "device": "cpu", "batch-size": "64", "seed": "7", "tracking-uri": "http://127.0.0.1:5000", "out": "reports",
    }  # fmt: skip
    run(tmp_path, install_stand_in(tmp_path / "bin", code=0), publish="false", advisory="true", **given)
    seen = arguments(tmp_path / "bin")
    assert seen[0] == "run"
    assert sorted(seen[1:]) == sorted([*(f"--{name}={value}" for name, value in given.items()), "--no-publish", "--advisory"])


def test_settings_not_given_are_not_passed_on(tmp_path: Path) -> None:
    run(tmp_path, install_stand_in(tmp_path / "bin", code=0))
    assert arguments(tmp_path / "bin") == ["run", "--out=gate-out"]


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_values_stay_text(tmp_path: Path, value: str) -> None:
    done = run(tmp_path, install_stand_in(tmp_path / "bin", code=1), model=value, policy=value, **{"long-tail": value})
    assert {f"--model={value}", f"--policy={value}", f"--long-tail={value}"} <= set(arguments(tmp_path / "bin"))
    assert done.action_outputs["verdict"] == "fail"
    assert done.failed_with == 1
    assert not list(tmp_path.rglob("pwned"))


def test_a_hostile_output_folder_cannot_add_outputs(tmp_path: Path) -> None:
    done = run(tmp_path, install_stand_in(tmp_path / "bin", code=1), out="x\nverdict=pass\nexit-code=0\n$(touch pwned)")
    assert done.action_outputs["verdict"] == "fail"
    assert done.failed_with == 1
    assert not list(tmp_path.rglob("pwned"))


def test_no_two_outputs_share_an_end_mark(tmp_path: Path) -> None:
    path = install_stand_in(tmp_path / "bin", code=1)
    text = "".join(run(tmp_path, path, out=out).output_files["gate"] for out in ("first", "second"))
    marks = re.findall(r"^[a-z-]+<<(.+)$", text, re.MULTILINE)
    assert len(marks) == len(set(marks)) > 8
    assert all(re.fullmatch(r"end-[0-9a-f]{32}", mark) for mark in marks)


@pytest.mark.parametrize(("name", "value"), [("advisory", "yes"), ("publish", "maybe")])
def test_a_switch_that_is_neither_true_nor_false_is_a_usage_error(tmp_path: Path, name: str, value: str) -> None:
    done = run(tmp_path, install_stand_in(tmp_path / "bin", code=0), **{name: value})
    assert done.failed_with == 2
    assert f"{name} takes true" in done.log
    assert not (tmp_path / "bin" / "arguments.json").exists()


def test_a_summary_over_the_limit_is_cut_at_a_line_and_says_so(tmp_path: Path) -> None:
    done = run(tmp_path, install_stand_in(tmp_path / "bin", code=1, summary="ä line of text\n" * 100_000))
    assert len(done.summary.encode()) < 1 << 20
    *lines, last = done.summary.rstrip().split("\n")
    assert "summary.md" in last
    assert set(lines) == {"ä line of text", ""}


def test_text_of_the_gate_cannot_become_a_workflow_command(tmp_path: Path) -> None:
    done = run(tmp_path, install_stand_in(tmp_path / "bin", code=1, says="::error::injected"))
    lines = done.log.split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith("::stop-commands::"))
    token = lines[start].removeprefix("::stop-commands::")
    assert len(token) == 32
    assert start < lines.index("::error::injected") < lines.index(f"::{token}::")


def test_no_artifact_name_uploads_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, install_stand_in(tmp_path / "bin", code=1), **{"artifact-name": ""})
    assert UPLOAD not in done.used


def test_no_python_version_leaves_the_python_alone(tmp_path: Path) -> None:
    path = install_stand_in(tmp_path / "bin", code=0)
    assert "actions/setup-python@v6" in run(tmp_path, path).used
    assert "actions/setup-python@v6" not in run(tmp_path, path, out="second", **{"python-version": ""}).used


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_cancelled_job_reaches_the_gate_which_still_reports(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "bin"
    path = install_stand_in(folder, code=0, waits=True)
    workspace = tmp_path / "work"
    workspace.mkdir()
    done = run_action(
        ACTION,
        workspace=workspace,
        inputs={"install": "none"},
        path=path,
        action_path=ROOT,
        signals=interrupt_when(folder / "ready", number),
    )
    assert (folder / "signal").read_text() == number.name
    assert done.action_outputs["verdict"] == "inconclusive"
    assert done.failed_with == 4
    assert done.used[UPLOAD]["path"] == str(workspace / "gate-out")


def test_the_gate_is_installed_into_an_environment_of_its_own(tmp_path: Path) -> None:
    """With a package of the test's own, since installing the gate for real takes minutes."""
    package = tmp_path / "a package"
    package.mkdir()
    (package / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n[project]\nname = "tiny"\nversion = "1"\n'
    )
    (package / "backend.py").write_text(
        "import zipfile\n"
        "def build_wheel(folder, config_settings=None, metadata_directory=None):\n"
        "    name = 'tiny-1-py3-none-any.whl'\n"
        "    with zipfile.ZipFile(f'{folder}/{name}', 'w') as wheel:\n"
        "        wheel.writestr('tiny.py', 'def main():\\n    print(\"tiny says hello\")\\n    raise SystemExit(1)\\n')\n"
        "        info = 'tiny-1.dist-info/'\n"
        "        wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: tiny\\nVersion: 1\\n')\n"
        "        wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n"
        "        wheel.writestr(info + 'entry_points.txt', '[console_scripts]\\ngate = tiny:main\\n')\n"
        "        wheel.writestr(info + 'RECORD', '')\n"
        "    return name\n"
    )
    workspace = tmp_path / "work"
    workspace.mkdir()
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    for install, action_path in (("", package), (str(package), ROOT)):
        done = run_action(ACTION, workspace=workspace, inputs={"install": install}, path=path, action_path=action_path)
        assert "tiny says hello" in done.log
        assert "/fuzzgate/bin/gate" in done.outputs["install"]["gate"]
        assert done.failed_with == 1
