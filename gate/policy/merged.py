"""A policy in force as data: what ``extends`` has made of its files, so that it can be stored, compared, and loaded again."""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from gate.config import BudgetSettings
from gate.policy.load import LoadedPolicy
from gate.policy.schema import Policy
from gate.policy.threshold import Threshold

__all__ = ["as_data", "as_json", "as_yaml", "dump", "origin_of_rule"]

_LONG = 140


def as_data(policy: Policy) -> dict[str, Any]:
    """Plain values with every key that is not the default None; loaded again they make the same policy, and so the same digest."""
    made = _plain(policy)
    assert isinstance(made, dict)
    return made


def as_yaml(loaded: LoadedPolicy) -> str:
    """One file that needs no other, ending in a newline."""
    source = "".join(letter if letter.isprintable() else "?" for letter in loaded.info.source)  # in a comment, which ends with its line
    head = f"# {source} as it is in force after extends: {loaded.info.digest}\n"
    return head + dump(as_data(loaded.policy))


def as_json(loaded: LoadedPolicy, *, today: datetime.date) -> str:
    """The policy with its digest, which file set every key of each rule, and which waivers are in force on ``today``."""
    waivers = [
        {"rule": waiver.rule, "owner": waiver.owner, "expires": str(waiver.expires), "in_force": waiver.expires >= today}
        for waiver in loaded.policy.waivers
    ]
    said = {
        "source": loaded.info.source,
        "digest": loaded.info.digest,
        "policy": as_data(loaded.policy),
        "origins": {rule.id: origin_of_rule(loaded, rule.id) for rule in loaded.policy.rules},
        "today": str(today),
        "waivers": waivers,
    }
    return json.dumps(said, indent=2, ensure_ascii=True) + "\n"


def dump(data: Mapping[str, Any]) -> str:
    """YAML 1.2 in block style, keys in the order given."""
    yaml = YAML()
    yaml.width = _LONG
    yaml.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    yaml.dump(dict(data), text)
    return text.getvalue()


def origin_of_rule(loaded: LoadedPolicy, rule: str) -> dict[str, str]:
    """``file:line`` of every key of a rule that some file sets, in the schema's order; id is where the last file names the rule."""
    return {
        path[2]: place
        for path, place in loaded.places.items()
        if path[:2] == ("rules", rule) and len(path) == 3 and isinstance(path[2], str)
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Threshold):
        return DoubleQuotedScalarString(value.text)
    if isinstance(value, BudgetSettings):
        written = {"executions": value.executions, "wall": _seconds(value.wall), "device": _seconds(value.device)}
        return {name: part for name, part in written.items() if part is not None}
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        return {name: _plain(part) for name, part in value if part is not None or fields[name].default is not None}
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)  # a date


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.12g}s"
