"""Whether two criteria hold the same, part by part."""

from __future__ import annotations

import torch

from gate.coverage.base import Criterion


def same_state(one: Criterion, other: Criterion) -> bool:
    a, b = one.state_dict(), other.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) if isinstance(a[key], torch.Tensor) else a[key] == b[key] for key in a)
