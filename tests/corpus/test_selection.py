"""Draws are in proportion to weights."""

from __future__ import annotations

import numpy as np
import pytest

from gate.corpus.selection import draw


def test_draws_are_in_proportion_and_never_of_weight_zero() -> None:
    weights = np.array([0.0, 1.0, 0.0, 3.0, 0.0])
    drawn = draw(weights, 20_000, np.random.default_rng(0))
    counts = np.bincount(drawn, minlength=5)
    assert counts[[0, 2, 4]].sum() == 0
    assert counts[3] / 20_000 == pytest.approx(0.75, abs=0.02)
    assert drawn.dtype == np.int64
    assert draw(np.array([2.0]), 3, np.random.default_rng(0)).tolist() == [0, 0, 0]
