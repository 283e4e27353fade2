"""Each strategy prefers what its name says, by the order of scores and not by their scale; quality is made of its three parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gate.corpus.quality import quality
from gate.corpus.selection import by_rank
from gate.corpus.strategies import Coverage, Diversity, Margin, Pool, Recency, Strategy, Uncertainty, Uniform, doubt, entropies, novelty


def pool(count: int, **columns: Any) -> Pool:
    nothing = np.full(count, np.nan)
    told: dict[str, Any] = {
        "quality": np.full(count, 0.5),
        "room": np.ones(count),
        "picks": np.zeros(count, dtype=np.int64),
        "margins": np.full(count, 0.9),
        "entropies": nothing,
        "gradients": nothing,
        "novelties": nothing,
        "variances": nothing,
    }
    return Pool(**{name: np.asarray(value) for name, value in {**told, **columns}.items()})


def test_weights_by_rank_halve_with_every_eighth_and_know_no_scale() -> None:
    scores = np.arange(64.0)
    weights = by_rank(scores)
    assert weights[63] == 1
    assert weights[63 - 8] == pytest.approx(0.5)
    assert weights[0] == pytest.approx(0.5 ** (8 * 63 / 64))
    np.testing.assert_array_equal(by_rank(np.exp(scores) * 1e-30), weights)


def test_equal_scores_have_equal_weights_and_what_has_no_score_has_none() -> None:
    weights = by_rank(np.array([3.0, np.nan, 3.0, 1.0]))
    assert weights[0] == weights[2] > weights[3] > 0
    assert weights[1] == 0
    assert not by_rank(np.full(3, np.nan)).any()
    assert len(by_rank(np.empty(0))) == 0


@pytest.mark.parametrize(
    ("strategy", "columns"),
    [
        (Coverage(), {"gradients": [1e-9, 3e-9, 2e-9, np.nan]}),
        (Diversity(), {"novelties": [0.1, 0.5, 0.2, 0.3]}),
        (Uncertainty(), {"margins": [0.9, 0.02, 0.5, 0.8]}),
        (Uncertainty(), {"margins": [0.9, -0.02, 0.5, -0.8]}),
        (Uncertainty(), {"entropies": [0.1, 0.9, 0.2, 0.3]}),
        (Uncertainty(dropout=True), {"variances": [0.01, 0.2, np.nan, 0.1], "margins": [0.0, 1.0, 0.0, 0.0]}),
        (Margin(), {"margins": [0.9, 0.02, 0.5, 0.8]}),
    ],
    ids=["gradient", "far out", "near the boundary", "just beyond it", "entropy", "dropout", "defects wanted"],
)
def test_a_strategy_prefers_the_entry_that_its_name_says(strategy: Strategy, columns: dict[str, Any]) -> None:
    weights = strategy.weights(pool(4, **columns))
    assert weights.argmax() == 1
    assert weights[1] > 2 * np.delete(weights, 1).max()


def test_an_entry_with_better_quality_more_room_or_fewer_picks_is_preferred_but_not_by_the_references() -> None:
    same = {"gradients": np.ones(2), "novelties": np.ones(2), "variances": np.ones(2)}
    better = {"quality": [0.5, 0.9]}, {"room": [0.2, 1.0]}, {"picks": [5, 0]}
    for columns in better:
        told = pool(2, **same, **columns)
        for strategy in (Coverage(), Diversity(), Uncertainty(), Uncertainty(dropout=True)):
            first, second = strategy.weights(told)
            assert second > 1.5 * first
        assert Uniform().weights(told).tolist() == [1, 1]


def test_the_newest_are_preferred_by_recency_alone() -> None:
    weights = Recency().weights(pool(300))
    assert (np.diff(weights) > 0).all()
    assert weights[-65] == pytest.approx(weights[-1] / 2)


def test_what_lies_far_from_all_others_is_novel() -> None:
    random = np.random.default_rng(0)
    features = random.normal(size=(30, 5)) + 1e4  # far from the origin, where differences are small beside the values
    features[7] += 50
    found = novelty(features)
    assert found.argmax() == 7
    apart = np.sqrt(((features[:, None] - features[None]) ** 2).sum(-1))
    np.testing.assert_allclose(found, np.sort(apart, axis=1)[:, 1:6].mean(1), rtol=1e-6)


def test_novelty_of_few_or_of_broken_features_is_a_number() -> None:
    assert novelty(np.ones((1, 3))).tolist() == [0]
    assert novelty(np.array([[0.0], [3.0]])).tolist() == [3, 3]
    assert np.isfinite(novelty(np.array([[np.nan, 1], [np.inf, 2], [0, 3]]))).all()


def test_doubt_is_highest_at_an_even_answer_and_lowest_at_a_sure_one() -> None:
    answers = np.array([[1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0.0], [np.nan, 0, 1]])
    entropy = entropies(answers)
    np.testing.assert_allclose(entropy, [0, 1, np.log(2) / np.log(3), np.nan], atol=1e-12)
    found = doubt(np.array([1.0, 0.0, 0.0, 0.0]), entropy)
    np.testing.assert_allclose(found, [0, 1, 0.5 + 0.5 * np.log(2) / np.log(3), 1])


def one(new: float = 0.0, length: int = 0, distance: float = 0.0, stability: float = 1.0) -> float:
    """The quality of an entry beside one that covered 100 items with 4 operators at a distance of 20."""
    rows = [(new, length, distance, stability), (100.0, 4, 20.0, 1.0)]
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    return float(quality(*columns)[0])


def test_quality_is_two_fifths_coverage_three_tenths_simplicity_and_three_tenths_stability() -> None:
    assert one(100, 0, 0, 1) == pytest.approx(1)
    assert one(0, 0, 0, 1) == pytest.approx(0.6)
    assert one(100, 4, 20, 1) == pytest.approx(0.7)
    assert one(100, 4, 0, 1) == one(100, 0, 20, 1) == pytest.approx(0.85)
    assert one(100, 0, 0, 0.1) == pytest.approx(0.73)
    assert one(0, 4, 20, 0) == 0


@given(arrays.arrays(np.float64, st.tuples(st.integers(1, 20), st.just(3)), elements=st.floats(0, 1e9)))
def test_quality_lies_between_nothing_and_one(columns: np.ndarray) -> None:
    found = quality(columns[:, 0], columns[:, 1].astype(np.int64), columns[:, 2], np.linspace(0.1, 1, len(columns)))
    assert (found >= 0).all()
    assert (found <= 1 + 1e-12).all()
