"""The benchmark's own arithmetic: what a pair is, and how sure a median is."""

from __future__ import annotations

import time

import numpy as np
import torch

from benchmarks.pairs import measure, median


def test_the_interval_of_a_median_holds_the_true_one_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    for n, least in ((60, 0.95), (20, 0.95), (12, 0.95), (6, 0.95)):
        inside = 0
        for _ in range(2000):
            found = median(rng.exponential(size=n).tolist())
            assert found.lower <= found.value <= found.upper
            inside += found.lower <= np.log(2) <= found.upper
        assert least - 0.02 < inside / 2000 < 0.99


def test_both_sides_see_every_batch_and_take_turns() -> None:
    seen: list[tuple[str, int]] = []

    def side(name: str, seconds: float) -> object:
        def run(x: torch.Tensor) -> None:
            seen.append((name, int(x)))
            time.sleep(seconds)

        return run

    pairs = measure(side("bare", 0.01), side("with", 0.03), [torch.tensor(i) for i in range(4)])  # type: ignore[arg-type]
    assert seen == [
        ("with", 0),
        ("bare", 0),
        ("bare", 1),
        ("with", 1),
        ("with", 2),
        ("bare", 2),
        ("bare", 3),
        ("with", 3),
    ]
    assert all(ratio > 1 for ratio in pairs.ratios)
