"""Patterns and answers as the definitions say it, one sample at a time, in NumPy: what the fast criteria are held against."""

from __future__ import annotations

from typing import Any

import numpy as np

Layers = dict[str, np.ndarray]


def found(name: str, options: dict[str, Any], sample: dict[str, np.ndarray], logits: np.ndarray | None = None) -> set[tuple[Any, ...]]:
    """What one sample shows: (group, pattern) each, or (class, section)."""
    if name == "output":
        assert logits is not None
        return _answer(options["sections"], logits)
    if name == "tknp":
        return _top(options["k"], options.get("joint", False), sample)
    return _active(options.get("threshold", 0.0), options.get("window"), sample)


def _top(k: int, joint: bool, sample: dict[str, np.ndarray]) -> set[tuple[Any, ...]]:
    tops = {}
    for layer, values in sample.items():
        ranked = sorted((n for n in range(len(values)) if np.isfinite(values[n])), key=lambda n: (-values[n], n))
        tops[layer] = frozenset(ranked[:k]) if len(ranked) >= k else None
    if joint:
        return set() if None in tops.values() else {("all", *tops.items())}
    return {(layer, top) for layer, top in tops.items() if top is not None}


def _active(threshold: float, window: int | None, sample: dict[str, np.ndarray]) -> set[tuple[Any, ...]]:
    layers = list(sample)
    width = window or len(layers)
    shown = set()
    for start in range(len(layers) - width + 1):
        values = [v for layer in layers[start : start + width] for v in sample[layer]]
        if all(np.isfinite(v) for v in values):
            shown.add((start, tuple(bool(v > np.float32(threshold)) for v in values)))
    return shown


def _answer(sections: int, logits: np.ndarray) -> set[tuple[Any, ...]]:
    scores = [float(v) for v in logits]
    if not all(np.isfinite(v) for v in scores):
        return set()
    if len(scores) == 1:
        scores = [0.0, scores[0]]
    label = scores.index(max(scores))
    confidence = 1 / sum(np.exp(np.float64(score) - max(scores)) for score in scores)
    least = 1 / len(scores)
    return {(label, min(max(int((confidence - least) / (1 - least) * sections), 0), sections - 1))}


def run(
    name: str, options: dict[str, Any], samples: Layers, earns: np.ndarray, logits: np.ndarray | None = None
) -> tuple[list[int], set[tuple[Any, ...]], set[tuple[Any, ...]]]:
    """(newly covered by each sample, all covered, all covered by any sample)."""
    valid: set[tuple[Any, ...]] = set()
    raw: set[tuple[Any, ...]] = set()
    new = []
    for i in range(len(earns)):
        shown = found(name, options, {layer: values[i] for layer, values in samples.items()}, None if logits is None else logits[i])
        raw |= shown
        new.append(len(shown - valid) if earns[i] else 0)
        if earns[i]:
            valid |= shown
    return new, valid, raw
