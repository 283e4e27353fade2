"""Which entry is mutated next: one strategy a file."""

from __future__ import annotations

from gate.corpus.strategies.coverage import Coverage
from gate.corpus.strategies.diversity import Diversity, novelty
from gate.corpus.strategies.margin import Margin
from gate.corpus.strategies.recency import Recency
from gate.corpus.strategies.strategy import Pool, Strategy
from gate.corpus.strategies.uncertainty import Uncertainty, doubt, entropies
from gate.corpus.strategies.uniform import Uniform

__all__ = [
    "STRATEGIES",
    "Coverage",
    "Diversity",
    "Margin",
    "Pool",
    "Recency",
    "Strategy",
    "Uncertainty",
    "Uniform",
    "doubt",
    "entropies",
    "novelty",
]

STRATEGIES: tuple[Strategy, ...] = (Coverage(), Diversity(), Uncertainty(), Recency(), Uniform())
