"""Which natural mutants would cover something, told from others of their kind without a model pass. Runs in the worker.

Between two inputs that differ in nothing but the severity of one operator, a neuron's output changes smoothly: for a severity in between it
is read off the straight line between the outputs at both ends, and a little beyond the farther one off the same line. Over short ways that
is exact enough to say which items would be covered, and every mutant that ran makes the ways shorter.

What is best together is chosen greedily, with falling thresholds in place of one maximum after the other (Badanidiyuru and Vondrák, "Fast
algorithms for maximizing submodular functions", SODA 2014): an item that one choice is expected to cover counts for no other.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gate.coverage.activations import ActivationBatch
from gate.coverage.items import NeuronCriterion

__all__ = ["best_together", "expected", "uncovered"]

NEARLY = 0.75  # of what the best choice would add: what adds that much is chosen along with it
AT_ONCE = 4  # times as many as are wanted are looked at for one threshold


def expected(criteria: Sequence[NeuronCriterion], low: ActivationBatch, high: ActivationBatch, shares: Tensor) -> tuple[Tensor, Tensor]:
    """What inputs on the way between two others would cover.

    Args:
        criteria: what counts; they have counted something.
        low: activations of N inputs.
        high: those of N others, of the same layers.
        shares: float32 [N]: how far along the way; beyond 1 past the other input.

    Returns:
        The way, int64 [H], and the item, int64 [H], of each hit on what nothing has covered; the criteria's items are numbered through.
    """
    return uncovered(criteria, ActivationBatch(low.layers, torch.lerp(low.flat, high.flat, shares[:, None])))


def uncovered(criteria: Sequence[NeuronCriterion], batch: ActivationBatch) -> tuple[Tensor, Tensor]:
    """The sample and the item of each hit of a batch on what nothing has covered, int64 [H]; the criteria's items are numbered through."""
    samples, items, first = [], [], 0
    for criterion in criteria:
        sample, item = criterion.uncovered(batch)
        samples.append(sample)
        items.append(item + first)
        first += criterion.neurons * criterion.items_per_neuron
    return torch.cat(samples), torch.cat(items)


def best_together(owner: Tensor, item: Tensor, owners: int, count: int) -> tuple[Tensor, Tensor]:
    """Chooses those that cover most items together, as long as each adds any.

    Args:
        owner: int64 [H], who covers ...
        item: int64 [H], ... which item; each pair once.
        owners: how many there are.
        count: chosen at most.

    Returns:
        chosen: int64 [n], the best first.
        added: int64 [n], items that each adds to those before it.
    """
    # Numbered anew, so that nothing of the size of all items there are is needed.
    names, item = torch.unique(item, return_inverse=True)
    chosen, added, left = [owner[:0]], [owner[:0]], count
    while left and len(owner):
        gain = torch.bincount(owner, minlength=owners)
        best = int(gain.max())
        # Sorted stably, so that of equals the first is chosen on every device.
        order = torch.argsort(gain, descending=True, stable=True)[: AT_ONCE * left]
        rank = torch.full_like(gain, owners)
        rank[order] = torch.arange(len(order), device=rank.device)
        mine = rank[owner]
        first = torch.full_like(names, owners).scatter_reduce_(0, item, mine, "amin")
        adds = torch.bincount(mine[(mine == first[item]) & (mine < owners)], minlength=len(order))
        good = (adds >= max(1.0, NEARLY * best)).nonzero().flatten()[:left]
        chosen.append(order[good])
        added.append(adds[good])
        left -= len(good)
        gone = torch.zeros(len(names), dtype=torch.bool, device=item.device)
        gone[item[torch.isin(owner, order[good])]] = True
        open_ = ~gone[item]
        owner, item = owner[open_], item[open_]
    return torch.cat(chosen), torch.cat(added)
