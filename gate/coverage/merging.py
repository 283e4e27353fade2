"""How the parts of two criteria's states become one. Every criterion declares it, part by part, in ``merging``."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import torch
from torch import Tensor

__all__ = ["Merging", "join"]


class Merging(StrEnum):
    """What becomes of one part of the state."""

    UNION = "union"  # of sets: in any order, as often as one likes
    SUM = "sum"  # of disjoint evidence: in any order, but each part once
    SAME = "same"  # must be equal in both: what was learnt from the profile set


def join(how: Merging, one: Any, other: Any, what: str) -> Any:
    """One part made of two: tensors, or sets with a ``union`` of their own.

    Args:
        how: what the criterion declares.
        one: of the state that goes on.
        other: of the state that is taken in.
        what: names the part in messages.

    Raises:
        ValueError: parts that must be the same are not.
    """
    if how is Merging.SAME:
        equal = _equal(one, other) if isinstance(one, Tensor) else one == other
        if not equal:
            raise ValueError(f"{what}: they come from another profile set, or were measured on another device or in other batches")
        return one
    if not isinstance(one, Tensor):
        return one.union(other)
    other = other.to(one.device)
    return one | other if how is Merging.UNION else one + other


def _equal(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one.cpu(), other.cpu())
