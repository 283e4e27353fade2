"""The control arms: what the search's own operators reach without guidance, and what mere noise reaches."""

from __future__ import annotations

import numpy as np

from gate.campaign.batch import Batch
from gate.domains.chains import Chains
from gate.domains.domain import InputDomain
from gate.randomness import generator

__all__ = ["noise_batch", "random_batch"]


def random_batch(domain: InputDomain, seeds: np.ndarray, campaign_seed: int, step: int, count: int) -> Batch:
    """Seed inputs, operators, severities and chain lengths drawn evenly: the search's natural operators with nothing learnt.

    Args:
        domain: operators and validity.
        seeds: [S, H, W, C].
        campaign_seed: of the campaign.
        step: number of the step, which the draws depend on.
        count: mutants wanted.
    """
    random = generator(campaign_seed, "random", step)
    chosen = random.integers(len(seeds), size=count)
    lengths = random.integers(1, domain.chain_length + 1, size=count)
    origins = seeds[chosen]
    mutants = origins.copy()
    chains = Chains.none(count)
    for link in range(int(lengths.max())):
        rows = np.flatnonzero(lengths > link)
        # The severities of a chain share its bound evenly, so that no chain is invalid by its length alone.
        limits = np.minimum(1.0, domain.chain_severity / lengths[rows])
        operators = random.integers(len(domain.natural), size=len(rows))
        severities = limits * (1.0 - random.random(len(rows)))
        steps = domain.steps(operators, severities, random.integers(2**31, size=len(rows)))
        mutants[rows] = domain.apply(mutants[rows], steps)
        chains = chains.then(rows, steps, severities)
    faults = domain.check(mutants, origins, chains)
    return Batch("random", step, mutants, chosen.astype(np.int64), chains, faults < 0, 0, faults=faults)


def noise_batch(domain: InputDomain, campaign_seed: int, step: int, count: int) -> Batch:
    """Uniform noise: no seed input, no recipe, never valid; its coverage is kept apart."""
    mutants = domain.noise(count, generator(campaign_seed, "noise", step))
    return Batch("noise", step, mutants, np.full(count, -1, dtype=np.int64), Chains.none(count), np.zeros(count, dtype=bool), 0)
