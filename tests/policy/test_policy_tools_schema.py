"""The JSON Schema of policy files: it is the published one, every key is explained, and editors would refuse what loading refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from gate.cli.policy import command
from gate.errors import PolicyError
from gate.metrics.catalogue import CATALOGUE
from gate.policy import load_policy, shipped_policies
from gate.policy.merged import as_yaml
from gate.policy.schema import Policy, Rule, Waiver
from gate.policy.schema_file import schema, text

ROOT = Path(__file__).parents[2]
HEAD = "version: 1\nname: p\n"


def check(written: str) -> None:
    """As an editor does: dates are text."""
    yaml = YAML(typ="safe", pure=True)
    data = json.loads(json.dumps(yaml.load(written), default=str))
    jsonschema.Draft7Validator(schema()).validate(data)


def test_the_published_schema_is_the_one_that_the_command_prints() -> None:
    assert (ROOT / "docs" / "schemas" / "policy-1.schema.json").read_text(encoding="utf-8") == text()
    assert CliRunner().invoke(command, ["schema"]).output == text()
    jsonschema.Draft7Validator.check_schema(schema())


def test_it_has_every_key_of_a_policy_a_rule_and_a_waiver() -> None:
    top = schema()["properties"]
    assert set(top) == {*Policy.model_fields, "extends"}
    assert set(top["rules"]["items"]["properties"]) == {*Rule.model_fields, "drop"}
    assert set(top["waivers"]["items"]["properties"]) == set(Waiver.model_fields)
    assert top["rules"]["items"]["properties"]["metric"]["enum"] == list(CATALOGUE)


def test_every_key_is_explained() -> None:
    def walk(node: Any, path: str) -> None:
        if isinstance(node, dict):
            for key, value in node.get("properties", {}).items() if "type" in node else ():
                assert len(value.get("description", "")) > 3, f"{path}.{key}"
            for key, value in node.items():
                walk(value, f"{path}.{key}")
        elif isinstance(node, list):
            for part in node:
                walk(part, path)

    walk(schema(), "")


@pytest.mark.parametrize("name", shipped_policies())
def test_shipped_policies_are_valid_as_they_are_and_merged(name: str) -> None:
    check((ROOT / "policies" / f"{name}.yaml").read_text(encoding="utf-8"))
    check(as_yaml(load_policy(name)))


def test_policies_shown_on_the_pages_are_valid() -> None:
    blocks: list[str] = []
    for page in (ROOT / "docs").glob("*.md"):
        blocks += re.findall(r'```yaml title="[^"]*"\n(.*?)```', page.read_text(encoding="utf-8"), re.DOTALL)
    policies = [block for block in blocks if block.startswith("version: 1\nname:")]
    assert len(policies) >= 2
    for block in policies:
        check(block)


@pytest.mark.parametrize(
    "written",
    [
        "name: p\nrules: [{id: r, metric: crashes, fail: 1}]\n",
        "version: 2\nname: p\nrules: [{id: r, metric: crashes, fail: 1}]\n",
        HEAD,
        HEAD + "rules: []\n",
        HEAD + "rules: [{id: r, metric: crashes}]\n",
        HEAD + "rules: [{id: r, fail: 1}]\n",
        HEAD + "rules: [{metric: crashes, fail: 1}]\n",
        HEAD + "rules: [{id: r, metric: crash, fail: 1}]\n",
        HEAD + 'rules: [{id: r, metric: crashes, fail: "more than 1"}]\n',
        HEAD + 'rules: [{id: r, metric: crashes, fail: "> -1"}]\n',
        HEAD + "rules: [{id: r, metric: crashes, fail: 1, cofidence: 0.9}]\n",
        HEAD + "rules: [{id: 'r r', metric: crashes, fail: 1}]\n",
        HEAD + "rules: [{id: r, metric: defect_rate, fail: 0.1, confidence: 1}]\n",
        HEAD + "rules: [{id: r, metric: defect_rate, fail: 0.1, slice: {by: colour}}]\n",
        HEAD + "extends: [baseline]\nrules: [{id: preflight, drop: true, fail: 1}]\n",
        HEAD + "extends: baseline\n",
        HEAD + "extends: [baseline]\narms: {judging: 1}\n",
        HEAD + "extends: [baseline]\nbudget: {wall: 10}\n",
        HEAD + "extends: [baseline]\ncriterion: map\n",
        HEAD + "extends: [baseline]\ndecide: soon\n",
        HEAD + "extends: [baseline]\nabort_on: [hangs]\n",
        HEAD + "extends: [baseline]\noracles: {crash: maybe}\n",
        HEAD + "extends: [baseline]\ndomain: {geometry: {rotation: 181}}\n",
        HEAD + "extends: [baseline]\ndomain: {photometry: {gamma: [0.5]}}\n",
        HEAD + "extends: [baseline]\nwaivers: [{rule: defect-rate, reason: x, owner: y}]\n",
        HEAD + "extends: [baseline]\nwaivers: [{rule: defect-rate, reason: x, owner: y, expires: tomorrow}]\n",
    ],
)
def test_what_loading_refuses_an_editor_marks(tmp_path: Path, written: str) -> None:
    (tmp_path / "p.yaml").write_text(written)
    with pytest.raises(PolicyError):
        load_policy(str(tmp_path / "p.yaml"))
    with pytest.raises(jsonschema.ValidationError):
        check(written)


@pytest.mark.parametrize(
    "more",
    [
        "rules: [{id: defect-rate, fail: 20%}]\n",
        "rules: [{id: defect-rate, fail: '>=.5e-1', warn: null}, {id: preflight, drop: true}]\n",
        "oracles: {crash: false, saturated: {above: 1000}}\n",
        "domain: {geometry: {rotation: null}, photometry: {gamma: [0.5, 1]}}\nbudget: {wall: 1h30m, device: 90s}\n",
        "waivers: [{rule: worst-class, slice: truck, reason: x, owner: y, expires: 2027-03-31, model: 'a/*'}]\n",
    ],
)
def test_what_loads_an_editor_leaves_alone(tmp_path: Path, more: str) -> None:
    written = HEAD + "extends: [baseline]\n" + more
    (tmp_path / "p.yaml").write_text(written)
    load_policy(str(tmp_path / "p.yaml"))
    check(written)
