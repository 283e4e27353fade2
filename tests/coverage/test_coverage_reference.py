"""The fast criteria agree with the slow, obvious ones in every count, however the samples are cut into batches."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import slow_coverage
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_coverage import as_tensors, draw

from gate.coverage import criterion

CASES: list[tuple[str, dict[str, Any]]] = [
    ("nc", {"threshold": 0.75}),
    ("nc", {"threshold": 0.1}),
    ("nc", {"threshold": 0.1, "scale": "none"}),
    ("kmnc", {"sections": 1}),
    ("kmnc", {"sections": 7}),
    ("kmnc", {"sections": 1000}),
    ("nbc", {}),
    ("snac", {}),
    ("tknc", {"k": 1}),
    ("tknc", {"k": 3}),
]


@pytest.mark.parametrize(("name", "options"), CASES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), cuts=st.lists(st.integers(0, 30), max_size=4))
def test_fast_and_slow_agree_for_any_batches(name: str, options: dict[str, Any], seed: int, cuts: list[int]) -> None:
    profile, samples = draw(seed, 12), draw(seed + 1, 30)
    earns = np.random.default_rng(seed).random(30) < 0.7
    new, covered, raw = slow_coverage.run(name, options, profile, samples, earns)
    c = criterion(name, **options).fit(as_tensors(profile))
    edges = [0, *sorted(cuts), 30]
    got: list[int] = []
    for start, stop in itertools.pairwise(edges):
        got += c.update(as_tensors(samples, slice(start, stop)), earns=torch.from_numpy(earns[start:stop])).tolist()
    assert got == new
    assert (c.covered, c.raw_covered) == (covered, raw)
    assert c.total == slow_coverage.total(name, options, profile)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), cut=st.integers(1, 11))
@pytest.mark.parametrize(("name", "options"), [("kmnc", {"sections": 9}), ("nbc", {"margin": 0.5}), ("snac", {"margin": 0.5})])
def test_a_profile_set_may_come_in_batches(name: str, options: dict[str, Any], seed: int, cut: int) -> None:
    profile, samples = draw(seed, 12), draw(seed + 1, 30)
    whole = criterion(name, **options).fit(as_tensors(profile))
    parts = criterion(name, **options).fit(as_tensors(profile, slice(0, cut)))
    parts.directions(as_tensors(samples))  # whoever looks at the ranges half-way must not pin them down
    parts.fit(as_tensors(profile, slice(cut, None)))
    assert parts.update(as_tensors(samples)).tolist() == whole.update(as_tensors(samples)).tolist()
    assert parts.total == whole.total


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_directions_lead_to_the_nearest_open_section(seed: int) -> None:
    profile, seen, probe = draw(seed, 6), draw(seed + 1, 8), draw(seed + 2, 5)
    k = 6
    c = criterion("kmnc", sections=k).fit(as_tensors(profile))
    c.update(as_tensors(seen))
    covered = set().union(
        *(slow_coverage.items_of("kmnc", {"sections": k}, profile, {layer: v[i] for layer, v in seen.items()}) for i in range(8))
    )
    known = slow_coverage.ranges(profile)
    found = c.directions(as_tensors(probe))
    for layer, values in probe.items():
        for i, row in enumerate(values):
            for n, value in enumerate(row):
                low, high = known.get((layer, n), (1, 0))
                expected = 0
                if np.isfinite(value) and low < high:
                    here = -1 if value < low else k if value > high else min(int((value - low) / (high - low) * np.float32(k)), k - 1)
                    free = [j for j in range(k) if (layer, n, j) not in covered and j != here]
                    up, down = [j - here for j in free if j > here], [here - j for j in free if j < here]
                    if free:
                        expected = 1 if min(up, default=99) <= min(down, default=99) else -1
                assert found[layer][i, n] == expected, (layer, i, n)
