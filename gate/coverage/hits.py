"""Which items each sample of a batch covers, asked of a criterion without counting anything."""

from __future__ import annotations

import torch
from torch import Tensor

from gate.coverage.activations import ActivationBatch, Activations
from gate.coverage.base import Criterion
from gate.coverage.bits import Bits
from gate.coverage.items import Hits, ItemCriterion
from gate.coverage.patterns import Codes, PatternCriterion
from gate.coverage.suite import Suite

__all__ = ["Known", "hits_beyond", "hits_of_each", "known_to"]

Known = Bits | Codes
"""Items or patterns, on one device."""


def known_to(one: Criterion) -> Known | None:
    """A copy of what a criterion has covered; None where it has neither items nor patterns."""
    if isinstance(one, ItemCriterion):
        known = one._hit.to(one._device)
        known.words = known.words.clone()
        return known
    return one._hit.moved_to(one._device) if isinstance(one, PatternCriterion) else None


def hits_beyond(one: Criterion, batch: ActivationBatch, known: Known) -> Hits:
    """Sample and item (of a pattern: its code) of each hit on what is not in ``known``, int64 [H] each; a sample hits an item once only.

    Args:
        one: has learnt what it needs, and lives on the batch's device.
        batch: the samples.
        known: of this criterion, on the batch's device.
    """
    if isinstance(one, ItemCriterion):
        assert isinstance(known, Bits)
        return one._fresh(batch, known)
    assert isinstance(one, PatternCriterion)
    assert isinstance(known, Codes)
    code, usable = one._patterns(batch)
    code = code | one._offsets
    fresh = ~known.has(code)
    if usable is not None:
        fresh &= usable
    sample, group = fresh.nonzero(as_tuple=True)
    found: Tensor = code[sample, group]
    return sample.to(torch.int64), found


def hits_of_each(suite: Suite, acts: Activations, logits: Tensor) -> dict[str, Hits]:
    """By criterion, of those with items or patterns, ``hits_beyond`` what it has covered itself."""
    batch = suite.batch(acts, logits)
    found = {}
    for name, one in suite.criteria.items():
        one._batch(batch, None)  # brings it to the batch's device
        if isinstance(one, ItemCriterion | PatternCriterion):
            found[name] = hits_beyond(one, batch, one._hit)
    return found
