"""Do the failures we made also happen in the world? Compares natural defects with misclassified long-tail samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gate.randomness import generator

__all__ = ["LongTailMatch", "match"]

RADIUS_PERCENTILE = 95.0
PERMUTATIONS = 200


@dataclass(frozen=True)
class LongTailMatch:
    """Which defects have a counterpart among the long-tail errors."""

    radius: float
    hits: tuple[bool, ...]  # one per defect
    chance: float  # mean share of hits with the class pairs of the defects permuted


def match(
    *,
    clean: np.ndarray,
    clean_labels: np.ndarray,
    tail: np.ndarray,
    tail_pairs: Sequence[tuple[int, int]],
    defects: np.ndarray,
    defect_pairs: Sequence[tuple[int, int]],
    seed: int,
) -> LongTailMatch:
    """A defect is a hit where some long-tail error has its (true, predicted) pair and lies within r of it.

    r is the 95th percentile of the distances between each clean sample and its nearest neighbour of the same class. Distances are
    cosine distances between penultimate features.

    Args:
        clean: float [N, F], features of correctly classified clean samples; clean_labels int [N].
        clean_labels: their classes.
        tail: float [M, F], features of the misclassified long-tail samples.
        tail_pairs: their (true, predicted) pairs.
        defects: float [D, F], features of natural defects.
        defect_pairs: their pairs.
        seed: campaign seed, for the permutations.

    Raises:
        ValueError: no class has two clean samples, so that there is no distance to measure by.
    """
    radius = _radius(_unit(clean), np.asarray(clean_labels))
    near = 1.0 - _unit(defects) @ _unit(tail).T <= radius  # [D, M]
    tail_ids = np.array([_pair_number(pair) for pair in tail_pairs], dtype=np.int64)
    defect_ids = np.array([_pair_number(pair) for pair in defect_pairs], dtype=np.int64)
    hits = (near & (defect_ids[:, None] == tail_ids[None, :])).any(axis=1)
    random = generator(seed, "long-tail", "chance")
    rates = []
    for _ in range(PERMUTATIONS):
        permuted = random.permutation(defect_ids)
        rates.append(float((near & (permuted[:, None] == tail_ids[None, :])).any(axis=1).mean()))
    return LongTailMatch(radius, tuple(bool(hit) for hit in hits), float(np.mean(rates)))


def _pair_number(pair: tuple[int, int]) -> int:
    """One number for a (true, predicted) pair."""
    return (pair[0] << 32) | pair[1]


def _unit(features: np.ndarray) -> np.ndarray:
    features = np.asarray(features, dtype=np.float64)
    norm = np.linalg.norm(features, axis=1, keepdims=True)
    result: np.ndarray = features / np.where(norm > 0, norm, 1.0)
    return result


def _radius(clean: np.ndarray, labels: np.ndarray) -> float:
    nearest: list[np.ndarray] = []
    for label in np.unique(labels):
        own = clean[labels == label]
        if len(own) < 2:
            continue
        distance = 1.0 - own @ own.T
        np.fill_diagonal(distance, np.inf)
        nearest.append(distance.min(axis=1))
    if not nearest:
        raise ValueError("no class has two correctly classified clean samples")
    return float(np.percentile(np.concatenate(nearest), RADIUS_PERCENTILE))
