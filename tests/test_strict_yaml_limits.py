"""Files and numbers without end are refused before they cost anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from gate.config import load
from gate.errors import ConfigError, PolicyError
from gate.policy import load_policy
from gate.strict_yaml import parse, read


def test_a_file_that_never_ends_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="longer than"):
        read(Path("/dev/zero"))


@pytest.mark.parametrize("number", ["0x" + "f" * 4000, "1" + "0" * 300, "18446744073709551616"])
def test_a_number_beyond_every_setting_is_refused(number: str) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        parse(f"a: {number}".encode(), "gate.yaml")


def test_more_executions_than_anybody_can_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"budget\.executions"):
        load(None, environment={}, command_line={"budget.executions": 10**400})


def test_a_confidence_that_no_interval_can_reach_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    rule = '{id: a, metric: defect_rate, fail: "> 0.2", confidence: 0.9999999999999999}'
    path.write_text(f"version: 1\nname: p\nrules: [{rule}]\n")
    with pytest.raises(PolicyError, match="confidence"):
        load_policy(str(path))
