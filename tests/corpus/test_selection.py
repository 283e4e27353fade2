"""What promises more is mutated more, and what was mutated often less."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.corpus.selection import draw, promise


def one(new_items: int, picks: int, margin: float) -> float:
    return float(promise(np.array([new_items]), np.array([picks]), np.array([margin]))[0])


@given(st.integers(0, 10_000), st.integers(0, 1000), st.floats(-1, 1))
def test_promise_rises_with_new_items_and_falls_with_picks_and_margin(new: int, picks: int, margin: float) -> None:
    here = one(new, picks, margin)
    assert here > 0
    assert one(new + 1, picks, margin) > here
    assert one(new, picks + 1, margin) < here
    if margin > 0.01:
        assert one(new, picks, margin - 0.01) > here
    assert one(new, picks, min(margin, 0)) == one(new, picks, 0 if margin > 0 else -1)


def test_one_lucky_entry_does_not_take_over() -> None:
    assert one(10_000, 0, 1.0) < 12 * one(0, 0, 1.0)


def test_draws_are_in_proportion_and_never_of_weight_zero() -> None:
    weights = np.array([0.0, 1.0, 0.0, 3.0, 0.0])
    drawn = draw(weights, 20_000, np.random.default_rng(0))
    counts = np.bincount(drawn, minlength=5)
    assert counts[[0, 2, 4]].sum() == 0
    assert counts[3] / 20_000 == pytest.approx(0.75, abs=0.02)
    assert drawn.dtype == np.int64
    assert draw(np.array([2.0]), 3, np.random.default_rng(0)).tolist() == [0, 0, 0]
