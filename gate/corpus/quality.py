"""How good an entry is to go on from: what it covered, how simple it is, and whether the model answers it the same every time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gate.corpus.corpus import Corpus

__all__ = ["COMPLEXITY", "COVERAGE", "STABILITY", "quality", "quality_of"]

COVERAGE, COMPLEXITY, STABILITY = 0.4, 0.3, 0.3  # parts of the whole

Floats = npt.NDArray[np.float64]


def quality(new_items: Floats, lengths: npt.NDArray[np.int64], distances: Floats, stabilities: Floats) -> Floats:
    """The quality of every entry of a corpus, 0 to 1.

    40 % is new coverage: the logarithm of the items it covered first, over that of the entry which covered most, so that one lucky entry
    does not make all others worthless. 30 % is complexity, where simpler is better: half of it how short its chain of operators is, half
    how near it lies to the seed input that it came from, each beside the corpus's longest and farthest. 30 % is stability: the share
    of replays that gave the commonest answer.

    Args:
        new_items: [N], items that each covered first; of a statistic, that gain.
        lengths: [N], natural steps in each recipe.
        distances: [N], mean absolute difference from the seed input, in any unit.
        stabilities: [N], 0 to 1.

    Returns:
        float64 [N].
    """
    covered = _share(np.log1p(np.maximum(new_items, 0.0)))
    simple = 1.0 - 0.5 * _share(lengths.astype(np.float64)) - 0.5 * _share(distances)
    result: Floats = COVERAGE * covered + COMPLEXITY * simple + STABILITY * stabilities
    return result


def quality_of(corpus: Corpus) -> Floats:
    """float64 [N]: the quality of every entry of ``corpus``."""
    everything = np.arange(len(corpus))
    return quality(corpus.new_items, corpus.lengths(everything), corpus.distances, corpus.stabilities)


def _share(values: Floats) -> Floats:
    """Of the largest; zeros where that is zero."""
    most = float(values.max(initial=0.0))
    return values / most if most > 0 else np.zeros(len(values))
