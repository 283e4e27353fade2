"""Reads a policy: strict YAML, ``extends`` resolved, every complaint with file and line.

Files are merged in the order of ``extends``, the extending file last: rules by id and field by field, waivers one list after the other,
everything else key by key. What is inherited can be dropped by ``{id: …, drop: true}``.
"""

from __future__ import annotations

import hashlib
import json
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from gate.errors import PolicyError
from gate.metrics.catalogue import CATALOGUE
from gate.policy.refusal import refusal
from gate.policy.schema import Policy, Rule
from gate.policy.threshold import Threshold
from gate.result import PolicyInfo
from gate.strict_yaml import Document, nearest, parse, read

__all__ = ["LoadedPolicy", "load_policy", "shipped_policies"]

_SHIPPED = Path(__file__).parent / "shipped"
_SECTIONS = ("coverage", "domain", "arms", "judging", "oracles", "budget")
_OF_THE_FILE_ONLY = ("version", "name", "description", "extends")  # not inherited
_MAX_FILES = 64

_Path = tuple[str | int, ...]


@dataclass(frozen=True)
class LoadedPolicy:
    """A policy in force and where it came from."""

    policy: Policy
    info: PolicyInfo
    rule_lines: Mapping[str, str]  # rule id -> "file:line" where it was last set
    places: Mapping[tuple[str | int, ...], str] = field(default_factory=dict)  # ("rules", id, key), ("waivers", number), … -> "file:line"

    def place(self, *path: str | int) -> str:
        """``file:line`` of the deepest part of a path that a file sets; the policy's source where none does."""
        parts = path
        while parts and parts not in self.places:
            parts = parts[:-1]
        return self.places.get(parts, self.info.source)


def shipped_policies() -> tuple[str, ...]:
    """Names of the policies that come with the gate."""
    return tuple(sorted(path.stem for path in _SHIPPED.glob("*.yaml")))


def load_policy(name_or_path: str) -> LoadedPolicy:
    """Loads a shipped policy by name, or a file.

    Raises:
        PolicyError: it does not exist, is malformed, or contradicts itself; with file, line and what to do.
    """
    document = _find(name_or_path, None, None)
    merged = _Merged()
    _merge(document, merged, chain=())
    return _checked(merged, document, name_or_path)


@dataclass
class _Merged:
    """What has been read so far, and for every path the place that set it last."""

    data: dict[str, Any] = field(default_factory=dict)
    rules: dict[str, dict[str, Any]] = field(default_factory=dict)
    waivers: list[dict[str, Any]] = field(default_factory=list)
    places: dict[_Path, str] = field(default_factory=dict)  # rules by id: ("rules", id, field)
    files: int = 0

    def place(self, path: Iterable[str | int]) -> str | None:
        parts = tuple(path)
        while parts and parts not in self.places:
            parts = parts[:-1]
        return self.places.get(parts)


def _find(name: str, beside: Path | None, where: str | None) -> Document:
    """The document of a shipped name or of a file, relative to the file ``beside`` that asks for it."""
    if name in shipped_policies():
        return parse((_SHIPPED / f"{name}.yaml").read_bytes(), f"{name}.yaml (shipped)", error=PolicyError)
    path = Path(name) if beside is None else beside.parent / name
    try:
        there = path.is_file()
    except (OSError, ValueError):  # a name too long or with a null byte
        there = False
    if there:
        return read(path, error=PolicyError)
    known = shipped_policies()
    close = nearest(name, known)
    hint = f"Did you mean {close!r}?" if close else "Give a file, or one of the shipped names."
    raise PolicyError(f"There is no policy {name!r}.", where=where, hint=f"{hint} Shipped: {', '.join(known)}.")


def _merge(document: Document, merged: _Merged, chain: tuple[str, ...]) -> None:
    data = document.data
    identity = _identity(document)
    if identity in chain:
        raise PolicyError("The policy extends itself.", where=document.source, hint="Remove the name from extends.")
    merged.files += 1
    if merged.files > _MAX_FILES:
        raise PolicyError(
            f"More than {_MAX_FILES} files are read through extends.",
            where=document.source,
            hint="Extend fewer policies, or join some of them.",
        )
    if not isinstance(data, dict):
        raise PolicyError(
            "A policy must be a mapping of keys to values.",
            where=document.where(),
            hint="Write one `key: value` a line; see docs/policies.md.",
        )
    _refuse_unknown(document, data, Policy, (), also=("extends",))
    for key in ("version", "name"):
        if key not in data:
            raise PolicyError(f"The policy has no {key}.", where=document.where(), hint="Start it with version: 1 and a name.")
    _extend(document, merged, (*chain, identity))
    for key in _OF_THE_FILE_ONLY:
        merged.data.pop(key, None)
    for key, value in data.items():
        if key == "rules":
            _merge_rules(document, value, merged)
        elif key == "waivers":
            for index, waiver in enumerate(_list(document, value, "waivers")):
                _copy_places(document, ("waivers", index), merged, ("waivers", len(merged.waivers)))
                merged.waivers.append(waiver)
        elif key != "extends":
            if key in _SECTIONS:
                _deep_merge(merged.data, key, value)
            else:
                merged.data[key] = value
            _copy_places(document, (key,), merged, (key,))


def _identity(document: Document) -> str:
    path = Path(document.source)
    return str(path.resolve()) if path.exists() else document.source


def _extend(document: Document, merged: _Merged, chain: tuple[str, ...]) -> None:
    names = document.data.get("extends", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        where = document.where(("extends",))
        raise PolicyError("extends must be a list of names or files.", where=where, hint="Write extends: [baseline].")
    beside = Path(document.source) if Path(document.source).exists() else None
    for index, name in enumerate(names):
        where = document.where(("extends", index))
        base = _find(name, beside, where)
        if _identity(base) in chain:
            raise PolicyError(f"The policy extends itself, through {name!r}.", where=where, hint="Remove one of the names from extends.")
        _merge(base, merged, chain)


def _list(document: Document, value: Any, key: str) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        raise PolicyError(f"{key} must be a list.", where=document.where((key,)), hint="Write `- ` in front of each entry.")
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise PolicyError(
                f"Each of {key} must be a mapping of keys to values.",
                where=document.where((key, index)),
                hint="Write `key: value` pairs after its `- `.",
            )
    return value


def _merge_rules(document: Document, value: Any, merged: _Merged) -> None:
    merged.places[("rules",)] = document.where(("rules",))
    seen: set[str] = set()
    for index, rule in enumerate(_list(document, value, "rules")):
        where = document.where(("rules", index))
        name = rule.get("id")
        if not isinstance(name, str) or not name:
            raise PolicyError("The rule has no id, or one that is not text.", where=where, hint="Give each rule an id such as defect-rate.")
        if name in seen:
            raise PolicyError(f"The rule id {name!r} stands twice in the file.", where=where, hint="Rename or remove one of the two.")
        seen.add(name)
        if "drop" in rule:
            _drop(document, index, rule, merged)
            continue
        merged.rules.setdefault(name, {}).update(rule)
        _copy_places(document, ("rules", index), merged, ("rules", name))


def _drop(document: Document, index: int, rule: dict[str, Any], merged: _Merged) -> None:
    where = document.where(("rules", index, "drop"))
    name = rule["id"]
    if rule["drop"] is not True or len(rule) > 2:
        raise PolicyError(
            "drop takes the value true and stands with nothing but the id.", where=where, hint="Write `- {id: ..., drop: true}`."
        )
    if name not in merged.rules:
        close = nearest(name, merged.rules)
        raise PolicyError(
            f"There is no inherited rule {name!r} to drop.", where=where, hint=f"Did you mean {close!r}?" if close else "Remove the entry."
        )
    del merged.rules[name]


def _deep_merge(into: dict[str, Any], key: str, value: Any) -> None:
    """Mappings merge key by key; a section that is no mapping stays as it is, for the schema to refuse."""
    if isinstance(value, dict) and isinstance(into.get(key, {}), dict):
        into[key] = dict(into.get(key, {}))
        for inner, item in value.items():
            _deep_merge(into[key], inner, item)
    else:
        into[key] = value


def _copy_places(document: Document, start: _Path, merged: _Merged, to: _Path) -> None:
    for path, line in document.lines.items():
        if path[: len(start)] == start:
            merged.places[(*to, *path[len(start) :])] = f"{document.source}:{line}"


def _refuse_unknown(document: Document, data: Mapping[str, Any], model: type[BaseModel], path: _Path, also: tuple[str, ...] = ()) -> None:
    known = [*model.model_fields, *also]
    for key, value in data.items():
        here = (*path, key)
        if key not in known:
            close = nearest(key, known)
            hint = f"Did you mean {close!r}?" if close else f"Known keys: {', '.join(known)}."
            raise PolicyError(f"Unknown key {key!r}.", where=document.where(here), hint=hint)
        inner = _model_in(model.model_fields[key].annotation) if key in model.model_fields else None
        if inner is None:
            continue
        extra = ("drop",) if inner is Rule else ()
        many = typing.get_origin(model.model_fields[key].annotation) is tuple
        if isinstance(value, dict) and not many:
            _refuse_unknown(document, value, inner, here)
        elif isinstance(value, list) and many:
            for index, item in enumerate(value):
                if isinstance(item, dict):
                    _refuse_unknown(document, item, inner, (*here, index), extra)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model in ``Model``, ``Model | None`` or ``tuple[Model, ...]``."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in typing.get_args(annotation) if (model := _model_in(part)) is not None), None)


def _checked(merged: _Merged, document: Document, source: str) -> LoadedPolicy:
    if not merged.rules:
        raise PolicyError(
            "The policy has no rules, so it could never say anything.",
            where=merged.place(("rules",)) or document.where(),
            hint="Add a rule, or extend a policy that has some.",
        )
    names = list(merged.rules)
    rules = tuple(_with_limits(rule, merged) for rule in merged.rules.values())
    try:
        policy = Policy.model_validate({**_tuples(merged.data), "rules": rules, "waivers": _tuples(merged.waivers)})
    except ValidationError as error:
        raise _explained(error, names, merged, document) from error
    _check_waivers(policy, merged)
    info = PolicyInfo(name=policy.name, digest=_digest(policy), source=source, description=policy.description, criterion=policy.criterion)
    lines = {name: merged.place(("rules", name)) or document.where() for name in names}
    return LoadedPolicy(policy, info, types.MappingProxyType(lines), types.MappingProxyType(dict(merged.places)))


def _with_limits(rule: dict[str, Any], merged: _Merged) -> dict[str, Any]:
    """The rule with ``fail`` and ``warn`` as limits; they can only be read where the metric is known."""
    name = rule["id"]
    metric = rule.get("metric")
    if not isinstance(metric, str) or metric not in CATALOGUE:
        close = nearest(metric, CATALOGUE) if isinstance(metric, str) else None
        what = f"The rule {name!r} has no metric." if metric is None else f"Unknown metric {metric!r}."
        hint = f"Did you mean {close!r}?" if close else f"Known metrics: {', '.join(CATALOGUE)}."
        meant = nearest(name, [other for other in merged.rules if other != name]) if metric is None else None
        if meant is not None:
            what, hint = (
                f"The rule {name!r} has no metric, and no policy that this one extends has a rule of that name.",
                f"Did you mean {meant!r}?",
            )
        raise PolicyError(what, where=merged.place(("rules", name, "metric")), hint=hint)
    result = _tuples(rule)
    for key in ("fail", "warn"):
        if rule.get(key) is not None:
            try:
                result[key] = Threshold.parse(rule[key], CATALOGUE[metric])
            except ValueError as error:
                says = str(error)
                raise PolicyError(
                    f"rules.{name}.{key}: {says}{'' if says.endswith('?') else '.'}", where=merged.place(("rules", name, key))
                ) from error
    return typing.cast(dict[str, Any], result)


def _tuples(value: Any) -> Any:
    """YAML lists become tuples: strict validation takes no list where a tuple is declared."""
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _explained(error: ValidationError, names: list[str], merged: _Merged, document: Document) -> PolicyError:
    first = error.errors()[0]
    path: list[str | int] = list(first["loc"])
    if len(path) > 1 and path[0] == "rules" and isinstance(path[1], int):
        path[1] = names[path[1]]
    key = ".".join(str(part) for part in path)
    message, hint = refusal(first, key)
    return PolicyError(f"{key}: {message}", where=merged.place(path) or document.where(), hint=hint)


def _check_waivers(policy: Policy, merged: _Merged) -> None:
    rules = {rule.id: rule for rule in policy.rules}
    for index, waiver in enumerate(policy.waivers):
        if waiver.rule not in rules:
            close = nearest(waiver.rule, rules)
            raise PolicyError(
                f"The waiver names a rule {waiver.rule!r} that the policy does not have.",
                where=merged.place(("waivers", index, "rule")),
                hint=f"Did you mean {close!r}?" if close else f"Rules: {', '.join(rules)}.",
            )
        if waiver.slice is not None and rules[waiver.rule].slice is None:
            raise PolicyError(
                f"The waiver is for a slice, but the rule {waiver.rule!r} is not judged by slices, so it would never apply.",
                where=merged.place(("waivers", index, "slice")),
                hint="Remove the slice, or give the rule one.",
            )


def _digest(policy: Policy) -> str:
    """sha256 over canonical JSON (sorted keys, no spaces) of what decides: all but the description and the wording of limits."""
    data = policy.model_dump(mode="json", exclude={"description": True})
    for rule in data["rules"]:
        for key in ("fail", "warn"):
            if rule[key] is not None:
                del rule[key]["text"]
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
