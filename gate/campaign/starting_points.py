"""Where attacks without gradients begin: with a seed input of another class, which the model classifies as that class."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["starting_points"]

_TRIES = 8  # the nearest of so many is taken: the search for the boundary begins on the line to it


def starting_points(
    parents: npt.NDArray[Any],
    labels: npt.NDArray[np.int64],
    seeds: npt.NDArray[Any],
    of_seeds: npt.NDArray[np.int64],
    random: np.random.Generator,
) -> npt.NDArray[Any]:
    """For each parent a near seed input of another class; the parent itself where all seed inputs are of its class.

    Args:
        parents: [N, ...] in the file dtype.
        labels: int64 [N], their classes.
        seeds: [S, ...] seed inputs.
        of_seeds: int64 [S], their classes.
        random: where the draws come from.
    """
    order = np.argsort(of_seeds, kind="stable")
    first = np.searchsorted(of_seeds[order], labels, side="left")
    own = np.searchsorted(of_seeds[order], labels, side="right") - first
    others = len(of_seeds) - own
    alone = others == 0
    nearest = parents.copy()
    distance = np.full(len(parents), np.inf)
    distance[alone] = 0.0
    for _ in range(_TRIES):
        drawn = np.minimum((random.random(len(labels)) * others).astype(np.int64), np.maximum(others - 1, 0))
        # The class's own seed inputs stand together in that order, and are passed over.
        chosen = seeds[order[np.minimum(drawn + np.where(drawn >= first, own, 0), len(order) - 1)]]
        apart = np.square(chosen.astype(np.float32) - parents.astype(np.float32)).reshape(len(parents), -1).sum(axis=1, dtype=np.float64)
        nearer = apart < distance
        nearest[nearer], distance[nearer] = chosen[nearer], apart[nearer]
    return nearest
