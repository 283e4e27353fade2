"""Where attacks without gradients begin: with a seed input of another class, which the model classifies as that class."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["starting_points"]


def starting_points(labels: npt.NDArray[np.int64], of_seeds: npt.NDArray[np.int64], random: np.random.Generator) -> npt.NDArray[np.int64]:
    """For each label the position of a seed input of another class, each as likely as the other; -1 where there is none.

    Args:
        labels: int64 [N].
        of_seeds: int64 [S], the classes of the seed inputs.
        random: where the draws come from.
    """
    order = np.argsort(of_seeds, kind="stable")
    first = np.searchsorted(of_seeds[order], labels, side="left")
    own = np.searchsorted(of_seeds[order], labels, side="right") - first
    others = len(of_seeds) - own
    drawn = np.minimum((random.random(len(labels)) * others).astype(np.int64), np.maximum(others - 1, 0))
    place = drawn + np.where(drawn >= first, own, 0)  # the class's own seed inputs stand together and are passed over
    return np.where(others > 0, order[np.minimum(place, len(order) - 1)], -1)
