"""Mutants that cover nothing new, and yet are of use: each may stand for an entry that covers just the same and is less simple."""

from __future__ import annotations

import numpy as np

from gate.campaign.batch import Batch, Outcome
from gate.corpus.corpus import Corpus
from gate.domains.chains import Chains

__all__ = ["simplify"]


def simplify(corpus: Corpus, batch: Batch, outcome: Outcome, labels: np.ndarray) -> int:
    """Offers the corpus the valid mutants of a search step that covered nothing first; see ``Corpus.simplify``.

    Args:
        corpus: has taken in what the step covered first.
        batch: of the search arm.
        outcome: of the batch.
        labels: int64 [S], of the seed inputs.

    Returns:
        How many entries have been replaced.
    """
    assert isinstance(batch.recipes, Chains)
    if outcome.signatures is None:
        return 0
    rows = np.flatnonzero(batch.valid & (outcome.new_items == 0) & (outcome.signatures != 0))
    rows = rows[corpus.knows(outcome.signatures[rows])]
    if not len(rows):
        return 0
    own = outcome.probabilities[rows]
    mine = (np.arange(len(rows)), labels[batch.seeds[rows]])
    others = own.copy()
    others[mine] = -np.inf
    return corpus.simplify(
        batch.x[rows],
        batch.seeds[rows],
        [batch.recipes[row] for row in rows.tolist()],
        lengths=batch.recipes.lengths[rows],
        severities=batch.recipes.severities[rows],
        margins=np.where(outcome.predicted[rows] >= 0, own[mine] - others.max(axis=1), 0.0),
        open_=batch.recipes.assisted[rows] == 0,
        step=batch.step,
        signatures=outcome.signatures[rows],
    )
