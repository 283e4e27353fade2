"""Searches are compared pair by pair at equal work, and a difference is only shown where the interval leaves no doubt."""

from __future__ import annotations

import numpy as np
import pytest

from gate.metrics.comparison import LEAST_REPEATS, Trace, compared, equal_work


def trace(*values: float, work: float = 100.0) -> Trace:
    return Trace(np.linspace(0, work, len(values)), {"kmnc": np.array(values)})


def test_a_trace_is_read_between_the_ends_of_its_steps() -> None:
    found = trace(0.0, 0.4, 0.5)
    assert found.at("kmnc", np.array([0, 25, 50, 75, 100, 1000])).tolist() == pytest.approx([0, 0.2, 0.4, 0.45, 0.5, 0.5])
    assert equal_work([trace(0, 1, work=300), trace(0, 1, work=70), trace(0, 1)]) == 70


def test_ways_are_compared_at_the_same_work_and_not_at_their_ends() -> None:
    dear = [trace(0, 0.5, work=1000)] * LEAST_REPEATS
    cheap = [trace(0, 0.4, work=100)] * LEAST_REPEATS
    found = compared(dear, cheap, "kmnc", 100, seed=0)
    assert found.mean == pytest.approx(0.05)
    assert found.reference == pytest.approx(0.4)
    assert found.words == "less"


def test_pairs_that_all_point_one_way_show_a_difference_however_the_seeds_vary() -> None:
    random = np.random.default_rng(0)
    level = random.random(8)
    reference = [trace(0, base) for base in level]
    better = [trace(0, base + 0.01 + 0.001 * random.random()) for base in level]
    found = compared(better, reference, "kmnc", 100, seed=0)
    assert found.words == "more"
    assert (found.wins, found.losses, found.pairs) == (8, 0, 8)
    assert found.interval is not None
    assert 0.01 < found.interval[0] < found.difference < found.interval[1] < 0.011
    # Unpaired, the spread of the seeds would hide it.
    assert level.std() > 10 * found.difference


def test_pairs_that_disagree_show_none() -> None:
    reference = [trace(0, 0.5)] * 6
    found = compared([trace(0, 0.5 + apart) for apart in (0.3, -0.2, 0.1, -0.1, 0.2, -0.1)], reference, "kmnc", 100, seed=0)
    assert found.words == "no difference shown"
    assert found.interval is not None
    assert found.interval[0] < 0 < found.interval[1]


def test_few_pairs_show_none_whatever_they_say_and_equal_pairs_have_no_interval() -> None:
    few = LEAST_REPEATS - 1
    assert compared([trace(0, 0.9)] * few, [trace(0, 0.1)] * few, "kmnc", 100, seed=0).words == "no difference shown"
    same = compared([trace(0, 0.5)] * LEAST_REPEATS, [trace(0, 0.5)] * LEAST_REPEATS, "kmnc", 100, seed=0)
    assert (same.interval, same.difference, same.words) == (None, 0, "no difference shown")
    alone = compared([trace(0, 0.9)], [trace(0, 0.1)], "kmnc", 100, seed=0)
    assert alone.interval is None
    with pytest.raises(ValueError, match="can't be paired"):
        compared([trace(0, 1)], [], "kmnc", 100, seed=0)


def test_a_difference_is_seldom_shown_where_there_is_none() -> None:
    random = np.random.default_rng(1)
    shown = 0
    for turn in range(200):
        one, other = ([trace(0, 0.5 + 0.1 * random.normal()) for _ in range(20)] for _ in range(2))
        shown += compared(one, other, "kmnc", 100, seed=turn).words != "no difference shown"
    assert shown <= 24  # about 1 in 20, and a little more for the narrowness of the bootstrap
