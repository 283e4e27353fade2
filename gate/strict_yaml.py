"""Strict YAML 1.2 for files that people write by hand, with the line of every key kept for messages.

Refused: duplicate keys, anchors and aliases (a "billion laughs" document needs them and a settings file does not), tags, keys that are
not plain strings, more than one document, files over 1 MiB, nesting over 32 levels. ``no`` is a string and ``1e-3`` a number.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import AliasEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from gate.errors import ConfigError, GateError

__all__ = ["Document", "nearest", "parse", "read"]

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
_PLAIN_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str", "timestamp")}

Path_ = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """A parsed file: plain Python values and the line (from 1) of every path in them."""

    data: Any
    source: str
    lines: dict[Path_, int] = field(default_factory=dict)

    def where(self, path: Iterable[str | int] = ()) -> str:
        """``source:line`` of the deepest part of ``path`` that the file has."""
        parts = tuple(path)
        while parts and parts not in self.lines:
            parts = parts[:-1]
        return f"{self.source}:{self.lines.get(parts, 1)}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like ``name``, or None where none is close."""
    found = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.5)
    return found[0] if found else None


def read(path: Path, *, error: type[GateError] = ConfigError) -> Document:
    """Reads and parses a file.

    Raises:
        error: the file can't be read or is not strict YAML.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)  # no more than decides: a device never ends
    except OSError as cause:
        raise error(f"The file can't be read: {cause.strerror or cause}.", where=str(path)) from cause
    return parse(raw, str(path), error=error)


def parse(raw: bytes, source: str, *, error: type[GateError] = ConfigError) -> Document:
    """Parses YAML text; see the module for what is refused.

    Raises:
        error: with ``source:line`` and what to do.
    """
    if len(raw) > MAX_BYTES:
        raise error(f"The file is longer than the {MAX_BYTES} bytes that are allowed.", where=source)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        raise error(f"The file is not UTF-8 text (byte {cause.start}).", where=source) from cause
    yaml = YAML(typ="safe", pure=True)
    try:
        for event in yaml.parse(text):
            if isinstance(event, AliasEvent) or getattr(event, "anchor", None):
                line = event.start_mark.line + 1
                raise error("Anchors and aliases are not allowed.", where=f"{source}:{line}", hint="Write the values out.")
        node = yaml.compose(text)
    except YAMLError as cause:
        mark = getattr(cause, "problem_mark", None) or getattr(cause, "context_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(cause, "problem", None) or str(cause).splitlines()[0]
        raise error(f"The file is not valid YAML: {problem}.", where=f"{source}{line}") from cause
    except RecursionError as cause:
        raise error(f"Nested deeper than {MAX_DEPTH} levels.", where=source) from cause
    lines: dict[Path_, int] = {}
    if node is None:
        return Document({}, source, {(): 1})
    return Document(_build(node, (), lines, source, error, yaml), source, lines)


def _build(node: Node, path: Path_, lines: dict[Path_, int], source: str, error: type[GateError], yaml: YAML) -> Any:
    line = node.start_mark.line + 1
    lines.setdefault(path, line)
    here = f"{source}:{line}"
    if len(path) > MAX_DEPTH:
        raise error(f"Nested deeper than {MAX_DEPTH} levels.", where=here)
    if isinstance(node, MappingNode):
        if str(node.tag) != "tag:yaml.org,2002:map":
            raise error(f"The tag {str(node.tag)!r} is not allowed.", where=here, hint="Use plain values.")
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            at = f"{source}:{key_node.start_mark.line + 1}"
            if not isinstance(key_node, ScalarNode):
                raise error("A key must be a plain word.", where=at)
            key = str(key_node.value)
            if key in result:
                raise error(f"The key {key!r} stands twice.", where=at, hint="Remove one of the two.")
            lines[(*path, key)] = key_node.start_mark.line + 1
            result[key] = _build(value_node, (*path, key), lines, source, error, yaml)
        return result
    if isinstance(node, SequenceNode):
        if str(node.tag) != "tag:yaml.org,2002:seq":
            raise error(f"The tag {str(node.tag)!r} is not allowed.", where=here, hint="Use plain values.")
        return [_build(item, (*path, i), lines, source, error, yaml) for i, item in enumerate(node.value)]
    tag = str(node.tag)
    if tag not in _PLAIN_TAGS:
        raise error(f"The tag {tag!r} is not allowed.", where=here, hint="Use plain values.")
    if tag.endswith("timestamp"):
        return str(node.value)  # dates stay text here; who wants a date checks it and says what is wrong
    try:
        value = yaml.constructor.construct_object(node)
        if isinstance(value, int) and abs(value) >= 2**64:
            raise ValueError("too large")
        return value
    except (YAMLError, ValueError) as cause:
        raise error(f"The value {str(node.value)[:80]!r} can't be read.", where=here) from cause
