"""What a corpus file holds, in a few numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gate.corpus.corpus_file import CorpusFile
from gate.corpus.quality import quality
from gate.domains.image.operators import OPERATORS
from gate.domains.image.splicing import FAMILY, SPLICING
from gate.domains.model_operators import MODEL_OPERATORS

__all__ = ["Summary", "summary_of"]


@dataclass(frozen=True)
class Summary:
    """Of the entries that no later one stands for."""

    entries: int
    replaced: int  # entries that a simpler one stands for
    seed_inputs: int  # that they come from
    families: Mapping[str, int]  # entries with an operator of the family, the commonest first
    chains: Mapping[int, int]  # entries by number of steps, rising
    quality: tuple[float, float, float] | None  # lowest, median, highest; None where there are no entries


def summary_of(corpus: CorpusFile) -> Summary:
    """Counts a corpus file's entries."""
    current, entries = corpus.current, corpus.entries
    families: Counter[str] = Counter()
    chains: Counter[int] = Counter()
    for number in current.tolist():
        recipe = entries.recipes[number]
        chains[len(recipe)] += 1
        families.update({_family(step) for step in recipe})
    lengths = np.array([len(entries.recipes[number]) for number in current.tolist()], dtype=np.int64)
    worth = quality(entries.new_items[current], lengths, entries.distances[current], entries.stabilities[current])
    return Summary(
        entries=len(current),
        replaced=len(entries) - len(current),
        seed_inputs=len({entries.seed_ids[number] for number in current.tolist()}),
        families=dict(sorted(families.items(), key=lambda one: (-one[1], one[0]))),
        chains=dict(sorted(chains.items())),
        quality=(float(worth.min()), float(np.median(worth)), float(worth.max())) if len(worth) else None,
    )


def _family(step: object) -> str:
    name = step.get("operator") if isinstance(step, dict) else None
    if isinstance(name, str) and name in OPERATORS:
        return OPERATORS[name].family
    if name in SPLICING:
        return FAMILY
    return MODEL_OPERATORS[name].family if isinstance(name, str) and name in MODEL_OPERATORS else "unknown"
