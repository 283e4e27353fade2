"""The JSON Schema of policy files, for editors: made from the models that read them, with what every key means.

``python -m gate.policy.schema_file`` prints it, and so does ``gate policy schema``; ``docs/schemas/policy-1.schema.json`` is that text. It
says less than loading does: what needs other files (``extends``) or two keys at once is checked by ``gate policy check``. Draft 7, which
editors know best.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from gate.config import CRITERIA, kind_of
from gate.metrics.catalogue import CATALOGUE
from gate.policy.key_words import KEY_WORDS
from gate.policy.schema import Policy

__all__ = ["schema", "text"]

_LIMIT = r"^\s*(>=|<=|>|<)?\s*\+?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?\s*%?\s*$"
_DURATION = r"^\s*(\d+(\.\d+)?[smh])+\s*$"
_DATE = r"^\d{4}-\d{2}-\d{2}$"
_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
_KEPT = (
    "type",
    "const",
    "enum",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
)


def schema() -> dict[str, Any]:
    """The schema of one file, before ``extends`` is resolved."""
    made = Policy.model_json_schema(mode="validation")
    file = _object(made, "", made["$defs"])
    file["properties"]["extends"] = {"description": KEY_WORDS["extends"], "type": "array", "items": {"type": "string", "minLength": 1}}
    file["required"] = ["version", "name"]
    alone = {
        "required": ["rules"],
        "properties": {
            "rules": {
                "minItems": 1,
                "items": {"required": ["metric"], "anyOf": [{"required": [key]} for key in ("fail", "warn", "compare")]},
            }
        },
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "urn:gate:policy:1",
        "title": "gate policy, version 1",
        "description": "What a release gate tests, how hard, and what is good enough; see docs/policies.md.",
        **file,
        "if": {"not": {"required": ["extends"]}},
        "then": alone,
    }


def text() -> str:
    """The schema as the published file has it."""
    return json.dumps(schema(), indent=2, ensure_ascii=True) + "\n"


def _object(node: dict[str, Any], path: str, models: dict[str, Any]) -> dict[str, Any]:
    """A model: its keys with their words, and no others."""
    properties = {}
    for key, value in node["properties"].items():
        here = f"{path}.{key}" if path else key
        properties[key] = {"description": KEY_WORDS[here], **_value(here, value, models)}
    made: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if path == "rules":
        properties["drop"] = {"description": KEY_WORDS["rules.drop"], "const": True}
        return {**made, "required": ["id"], "if": {"required": ["drop"]}, "then": {"maxProperties": 2}}
    if node.get("required"):
        made["required"] = node["required"]
    return made


def _value(path: str, node: dict[str, Any], models: dict[str, Any]) -> dict[str, Any]:
    """What may stand after a key, references resolved."""
    special = _special(path)
    if special is not None:
        return special
    if "$ref" in node:
        made = _object(models[node["$ref"].rpartition("/")[2]], path, models)
        is_oracle = path.startswith("oracles.") and path.count(".") == 1
        return {"anyOf": [{"type": "boolean"}, made]} if is_oracle else made
    made = {key: node[key] for key in _KEPT if key in node}
    if "anyOf" in node:
        made["anyOf"] = [_value(path, part, models) for part in node["anyOf"]]
    if "prefixItems" in node:
        made["items"] = [_value(path, part, models) for part in node["prefixItems"]]
    elif "items" in node:
        made["items"] = _value(path, node["items"], models)
    default = node.get("default")
    if default is not None and not isinstance(default, dict | list | tuple):
        made["default"] = default
    return made


def _special(path: str) -> dict[str, Any] | None:
    """Keys whose written form is not that of the value they become, or whose names are known."""
    match path:
        case "rules.fail" | "rules.warn":
            return {"anyOf": [{"type": "string", "pattern": _LIMIT}, {"type": "number", "minimum": 0}, {"type": "null"}]}
        case "rules.metric":
            meanings = [
                f"{spec.meaning} ({spec.unit}; {'less' if spec.higher_is_worse else 'more'} is better)" for spec in CATALOGUE.values()
            ]
            return {"type": "string", "enum": list(CATALOGUE), "enumDescriptions": meanings}
        case "rules.id":
            return {"type": "string", "pattern": _ID, "maxLength": 100}
        case "budget.wall" | "budget.device":
            return {"anyOf": [{"type": "string", "pattern": _DURATION}, {"type": "null"}]}
        case "waivers.expires":
            return {"type": "string", "pattern": _DATE}
        case "criterion":
            shares = [name for name in CRITERIA if kind_of(name) == "share"]
            return {"anyOf": [{"type": "string", "enum": shares}, {"type": "null"}]}
    return None


if __name__ == "__main__":
    sys.stdout.write(text())
