"""A campaign goes on from the simplest mutant that covers what an entry covers."""

from __future__ import annotations

import numpy as np
from known_model import Scene, images

from gate.campaign.batch import Batch, Outcome
from gate.campaign.simplify import simplify
from gate.corpus.corpus import Corpus
from gate.domains.chains import Chains


def test_a_simpler_mutant_that_covers_the_same_takes_an_entrys_place() -> None:
    made = Scene(executions=900, gradients=False)
    made.run()
    corpus, seeds = made.corpus, len(made.seeds.x)
    open_ = np.flatnonzero(corpus.open)
    kept = open_[open_ >= seeds]
    assert len(kept) == len(set(corpus.signatures[kept].tolist())) > 5
    closed = np.flatnonzero(~corpus.open)
    assert len(closed) > 3
    for entry in closed.tolist():
        successor = next(one for one in range(entry + 1, len(corpus)) if corpus.signatures[one] == corpus.signatures[entry])
        simple = [(len(corpus.recipes[one]), corpus.distances[one]) for one in (successor, entry)]
        assert simple[0] < simple[1]
        assert corpus.new_items[successor] == corpus.new_items[entry]


def test_answers_without_signatures_replace_nothing() -> None:
    x, labels = images(4)
    corpus = Corpus(x)
    batch = Batch("search", 0, x, np.arange(4), Chains.none(4), np.ones(4, dtype=bool), 0)
    answer = Outcome(np.full((4, 4), 0.25), labels, np.full(4, -1), np.zeros(4))
    assert simplify(corpus, batch, answer, labels) == 0
    assert len(corpus) == 4
