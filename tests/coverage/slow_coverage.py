"""Coverage as the definitions say it, one sample and one neuron at a time, in NumPy: what the fast criteria are held against."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

Layers = dict[str, np.ndarray]


def draw(seed: int, samples: int) -> Layers:
    """Layers as nets give them: equally wide ones in a row, ties as after a ReLU, dead neurons, now and then NaN or an infinite value."""
    rng = np.random.default_rng(seed)
    layers = {
        "a": rng.normal(size=(samples, 5)),
        "b": rng.normal(size=(samples, 9)),
        "b.relu": np.maximum(rng.normal(size=(samples, 9)), 0),
        "coarse": rng.integers(-2, 3, size=(samples, 3)) / 2,
        "dead": np.zeros((samples, 4)),
    }
    result = {name: values.astype(np.float32) for name, values in layers.items()}
    for values in result.values():
        for bad in (np.nan, np.inf, -np.inf):
            values[rng.random(values.shape) < 0.02] = bad
    return result


def as_tensors(layers: Layers, rows: slice = slice(None)) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(values[rows].copy()) for name, values in layers.items()}


def ranges(profile: Layers) -> dict[tuple[str, int], tuple[np.float32, np.float32]]:
    result = {}
    for layer, values in profile.items():
        for neuron in range(values.shape[1]):
            column = [v for v in values[:, neuron] if np.isfinite(v)]
            if column:
                result[layer, neuron] = (min(column), max(column))
    return result


def items_of(name: str, options: dict[str, Any], profile: Layers, sample: dict[str, np.ndarray]) -> set[tuple[Any, ...]]:
    """The items that one sample covers, {layer: [neurons]}."""
    found: set[tuple[Any, ...]] = set()
    known = ranges(profile)
    for layer, values in sample.items():
        finite = [v for v in values if np.isfinite(v)]
        if name == "tknc":
            ranked = sorted((n for n in range(len(values)) if np.isfinite(values[n])), key=lambda n: (-values[n], n))
            found |= {(layer, n) for n in ranked[: options["k"]]}
            continue
        for n, value in enumerate(values):
            if not np.isfinite(value):
                continue
            if name == "nc":
                if options.get("scale") == "none":
                    covered = value > np.float32(options["threshold"])
                else:
                    low, high = min(finite), max(finite)
                    covered = low < high and (value - low) / (high - low) > np.float32(options["threshold"])
                if covered:
                    found.add((layer, n))
                continue
            if (layer, n) not in known:
                continue
            low, high = known[layer, n]
            if name == "kmnc":
                if low < high and low <= value <= high:
                    k = options["sections"]
                    found.add((layer, n, min(math.floor((value - low) / (high - low) * np.float32(k)), k - 1)))
            elif value > high:
                found.add((layer, n, "above"))
            elif value < low and name == "nbc":
                found.add((layer, n, "below"))
    return found


def total(name: str, options: dict[str, Any], profile: Layers) -> int:
    neurons = sum(values.shape[1] for values in profile.values())
    known = ranges(profile)
    if name == "kmnc":
        return options["sections"] * sum(low < high for low, high in known.values())
    return {"nc": neurons, "tknc": neurons, "nbc": 2 * len(known), "snac": len(known)}[name]


def run(name: str, options: dict[str, Any], profile: Layers, samples: Layers, earns: np.ndarray) -> tuple[list[int], int, int]:
    """(newly covered items by sample, covered, covered by any sample)."""
    valid: set[tuple[Any, ...]] = set()
    raw: set[tuple[Any, ...]] = set()
    new = []
    for i in range(len(earns)):
        found = items_of(name, options, profile, {layer: values[i] for layer, values in samples.items()})
        raw |= found
        new.append(len(found - valid) if earns[i] else 0)
        if earns[i]:
            valid |= found
    return new, len(valid), len(raw)
