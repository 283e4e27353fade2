"""``gate policy``: what it prints and raises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gate.cli.policy import command
from gate.errors import PolicyError
from gate.policy import shipped_policies

GOOD = "version: 1\nname: good\nrules: [{id: r, metric: defect_rate, fail: 0.2}]\n"


def call(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def test_list_names_every_shipped_policy_with_its_purpose() -> None:
    result = call("list")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.output.splitlines()] == list(shipped_policies())
    assert all(" For " in line and line.endswith(".") for line in result.output.splitlines())


def test_show_tells_a_policy_in_force_after_extends() -> None:
    result = call("show", "strict")
    assert result.exit_code == 0
    assert "If defect_rate is more than 10 %, the run fails." in result.output
    assert "  preflight\n" in result.output  # inherited from baseline


def test_check_accepts_good_files_and_says_which_waivers_expired(tmp_path: Path) -> None:
    path = tmp_path / "a policy.yaml"
    path.write_text(GOOD + "waivers: [{rule: r, reason: x, owner: '@t', expires: 2020-01-01}]\n")
    result = call("check", str(path), "smoke")
    assert result.exit_code == 0
    assert "ok, 1 rule, 1 waiver, sha256:" in result.output
    assert f"{path}:4: warning: r: The waiver of r by @t expired on 2020-01-01; the rule counts again." in result.output


def test_check_raises_the_error_of_a_bad_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(GOOD.replace("defect_rate", "defect_rat"))
    result = call("check", str(path))
    assert isinstance(result.exception, PolicyError)
    assert result.exception.exit_code == 2
    assert result.exception.where == f"{path}:3"


def test_check_goes_through_all_files_and_tells_every_error(tmp_path: Path) -> None:
    for name, text in (("one.yaml", GOOD), ("two.yaml", "version: 1\n"), ("three.yaml", GOOD + "extra: 1\n")):
        (tmp_path / name).write_text(text)
    result = call("check", *(str(tmp_path / name) for name in ("two.yaml", "one.yaml", "three.yaml")))
    assert isinstance(result.exception, PolicyError)
    assert "2 of 3 policies are not sound" in str(result.exception)
    assert result.exception.exit_code == 2
    assert "has no name" in result.stderr
    assert "'extra'" in result.stderr
    assert "one.yaml: ok" in result.stdout


@pytest.mark.parametrize("module", ["gate.policy", "gate.metrics"])
def test_judging_needs_neither_torch_nor_mlflow(module: str) -> None:
    code = f"import sys, {module}; print(sorted({{'torch', 'mlflow', 'cv2', 'albumentations', 'foolbox'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
