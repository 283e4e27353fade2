"""Do the failures we made also happen in the world? Compares natural defects with misclassified long-tail samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from gate.domains.domain import InputDomain
from gate.randomness import generator
from gate.result import Defect
from gate.triage.defect_files import write_description

__all__ = ["LongTailMatch", "match", "save_matches"]

RADIUS_PERCENTILE = 95.0
PERMUTATIONS = 200


@dataclass(frozen=True)
class LongTailMatch:
    """Which defects have a counterpart among the long-tail errors."""

    radius: float
    hits: tuple[bool, ...]  # one per defect
    chance: float  # mean share of hits with the class pairs of the defects permuted
    nearest: tuple[int | None, ...]  # one per defect: the row of the nearest error that makes it a hit


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
    distance = 1.0 - _unit(defects) @ _unit(tail).T  # [D, M]
    near = distance <= radius
    tail_ids = np.array([_pair_number(pair) for pair in tail_pairs], dtype=np.int64)
    defect_ids = np.array([_pair_number(pair) for pair in defect_pairs], dtype=np.int64)
    matching = near & (defect_ids[:, None] == tail_ids[None, :])
    hits = matching.any(axis=1)
    closest = np.where(matching, distance, np.inf).argmin(axis=1) if len(tail_ids) else np.zeros(len(hits), dtype=np.int64)
    random = generator(seed, "long-tail", "chance")
    rates = []
    for _ in range(PERMUTATIONS):
        permuted = random.permutation(defect_ids)
        rates.append(float((near & (permuted[:, None] == tail_ids[None, :])).any(axis=1).mean()))
    nearest = tuple(int(row) if hit else None for row, hit in zip(closest, hits, strict=True))
    return LongTailMatch(radius, tuple(bool(hit) for hit in hits), float(np.mean(rates)), nearest)


def save_matches(
    found: list[Defect],
    matches: dict[str, int | None],
    *,
    samples: np.ndarray,
    kinds: Sequence[str],
    domain: InputDomain,
    folder: Path,
) -> None:
    """Puts the picture of the nearest matching long-tail error beside each defect that has one, and notes it in the defect, also on disk.

    Args:
        found: all defects; those that match are replaced in place.
        matches: by defect id, a row of ``samples``.
        samples: [M, ...] in the file dtype, the long-tail errors.
        kinds: of the same rows; empty where the set names none.
        domain: makes the pictures.
        folder: the run's.

    Raises:
        OSError: a picture can't be written.
    """
    for place, defect in enumerate(found):
        row = matches.get(defect.id)
        if row is None:
            continue
        relative = f"defects/{defect.id}/long_tail.png"
        Image.fromarray(domain.picture(samples[row])).save(folder / relative)
        kind = str(kinds[row]) if len(kinds) else None
        found[place] = defect.model_copy(update={"files": {**defect.files, "long_tail": relative}, "long_tail_kind": kind})
        write_description(folder, found[place])


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
