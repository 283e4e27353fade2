"""A search that has not begun: its corpus holds the seed inputs, and it has learnt nothing yet."""

from __future__ import annotations

import numpy as np

from gate.campaign.loop import Seeds
from gate.campaign.search import SearchArm
from gate.campaign.supervisor import Worker
from gate.config import SearchSettings
from gate.corpus.corpus import Corpus
from gate.corpus.corpus_file import CorpusWriter
from gate.domains.domain import InputDomain

__all__ = ["fresh_search"]


def fresh_search(
    worker: Worker,
    domain: InputDomain,
    seeds: Seeds,
    *,
    settings: SearchSettings,
    campaign_seed: int,
    gradients: bool,
    steerable: bool,
    deterministic: bool,
    batch_size: int,
    memory: int,
    file: CorpusWriter | None = None,
) -> SearchArm:
    """The search arm of a campaign.

    Args:
        memory: bytes of mutants held in memory where there is a file to read the others from.
        file: where the corpus is written; None: nowhere.

    The others are those of ``SearchArm``.
    """
    corpus = Corpus(seeds.x, file=file, seed_ids=seeds.ids, memory=memory)
    own = seeds.probabilities[np.arange(len(seeds.labels)), seeds.labels]
    others = seeds.probabilities.copy()
    others[np.arange(len(seeds.labels)), seeds.labels] = -1.0
    corpus.set_margins(own - others.max(axis=1))
    return SearchArm(
        domain,
        corpus,
        seeds.labels,
        worker,
        gradients=gradients,
        steerable=steerable,
        campaign_seed=campaign_seed,
        settings=settings,
        probabilities=seeds.probabilities,
        deterministic=deterministic,
        batch_size=batch_size,
    )
