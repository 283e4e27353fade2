"""A strict reader of OpenMetrics 1.0 text (the parts that gauges, statesets and infos use), independent of the writer.

Follows the specification's ABNF: metadata before samples, families not interleaved, no family twice, no empty line, escapes only
``\\\\``, ``\\"`` and ``\\n``, label names unique, one ``# EOF`` at the very end.
"""

from __future__ import annotations

import re

__all__ = ["Sample", "parse"]

Sample = tuple[str, frozenset[tuple[str, str]]]

_META = re.compile(r"# (TYPE|HELP|UNIT) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.*)")
_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (-?(?:\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|Inf)|\+Inf|NaN)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
_SUFFIX = {"gauge": "", "stateset": "", "info": "_info"}


def parse(text: str) -> dict[Sample, float]:
    """Every sample by name and labels.

    Raises:
        ValueError: the text breaks a rule.
    """
    lines = text.split("\n")
    if lines[-2:] != ["# EOF", ""]:
        raise ValueError("does not end in # EOF and a line feed")
    kinds: dict[str, str] = {}
    family = ""
    samples: dict[Sample, float] = {}
    sampled = False
    for number, line in enumerate(lines[:-2], 1):
        if any(ord(character) < 32 or 0xD800 <= ord(character) <= 0xDFFF for character in line):
            raise ValueError(f"line {number}: control character or surrogate")
        meta = _META.fullmatch(line)
        if meta:
            what, name, rest = meta.groups()
            if name != family or sampled:
                if name in kinds or what != "TYPE":
                    raise ValueError(f"line {number}: family {name} stands twice or starts without its type")
                family, sampled = name, False
            if what == "TYPE":
                if name in kinds or rest not in _SUFFIX:
                    raise ValueError(f"line {number}: type {rest!r}")
                kinds[name] = rest
            elif re.search(r'\\(?![\\n"])', rest.replace("\\\\", "")):
                raise ValueError(f"line {number}: bad escape")
            continue
        sample = _SAMPLE.fullmatch(line)
        if not sample:
            raise ValueError(f"line {number}: {line!r}")
        name, inside, value = sample.groups()
        if name != family + _SUFFIX[kinds[family]]:
            raise ValueError(f"line {number}: sample {name} outside its family")
        labels = _labels(inside or "", number)
        if kinds[family] == "stateset" and (family not in dict(labels) or value not in ("0", "1")):
            raise ValueError(f"line {number}: bad stateset")
        key = (name, frozenset(labels))
        if key in samples:
            raise ValueError(f"line {number}: {key} stands twice")
        samples[key] = float(value)
        sampled = True
    return samples


def _labels(inside: str, number: int) -> list[tuple[str, str]]:
    labels: list[tuple[str, str]] = []
    at = 0
    while at < len(inside):
        found = _LABEL.match(inside, at)
        if not found:
            raise ValueError(f"line {number}: labels {inside!r}")
        labels.append((found[1], re.sub(r"\\(.)", lambda escape: "\n" if escape[1] == "n" else escape[1], found[2])))
        at = found.end()
        if at < len(inside):
            if inside[at] != ",":
                raise ValueError(f"line {number}: labels {inside!r}")
            at += 1
    if len({name for name, _ in labels}) != len(labels):
        raise ValueError(f"line {number}: a label stands twice")
    return labels
