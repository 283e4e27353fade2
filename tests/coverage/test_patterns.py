"""Distinct patterns are counted as the slow, obvious way counts them, however they are coded, batched, saved and merged."""

from __future__ import annotations

import collections
import copy
import io
import itertools
import time
from typing import Any

import numpy as np
import pytest
import slow_patterns
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from same_state import same_state

from gate.config import CoverageSettings
from gate.coverage import criteria_from, criterion
from gate.coverage.base import Criterion
from gate.coverage.patterns import Codes, keys_of
from gate.errors import ConfigError

NARROW = {"a": 5, "b": 9, "coarse": 3, "dead": 4}  # codes are exact
WIDE = {"a": 40, "b": 29, "coarse": 23, "dead": 15}  # with k = 14, or all neurons in a row, codes are sums of keys
CASES: list[tuple[str, dict[str, Any], dict[str, int]]] = [
    ("tknp", {"k": 1}, NARROW),
    ("tknp", {"k": 3}, NARROW),
    ("tknp", {"k": 2, "joint": True}, NARROW),
    ("tknp", {"k": 2}, WIDE),
    ("tknp", {"k": 14}, WIDE),
    ("tknp", {"k": 14, "joint": True}, WIDE),
    ("map", {}, NARROW),
    ("map", {"window": 1}, NARROW),
    ("map", {"window": 3, "threshold": 0.5}, NARROW),
    ("map", {"threshold": -0.25}, WIDE),
    ("map", {"window": 1}, WIDE),
    ("map", {"window": 2}, WIDE),
]


def _draw(seed: int, samples: int, widths: dict[str, int]) -> slow_patterns.Layers:
    """Rows that come again, also slightly changed; ties, a dead layer, now and then NaN or an infinite value."""
    rng = np.random.default_rng(seed)
    rows = np.random.default_rng(7).normal(size=(6, sum(widths.values())))[rng.integers(0, 6, samples)]
    rows = np.where(rng.random(rows.shape) < 0.05, -rows, rows)
    parts = np.split(rows, np.cumsum(list(widths.values()))[:-1], axis=1)
    layers = {name: part.astype(np.float32) for name, part in zip(widths, parts, strict=True)}
    layers["coarse"] = np.round(layers["coarse"])
    layers["dead"] *= 0
    for values in layers.values():
        for bad in (np.nan, np.inf, -np.inf):
            values[rng.random(values.shape) < 0.003] = bad
    return layers


def _torch(layers: slow_patterns.Layers, rows: slice = slice(None)) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(values[rows].copy()) for name, values in layers.items()}


def _worker(name: str, options: dict[str, Any], widths: dict[str, int], seed: int) -> Criterion:
    c = criterion(name, **options)
    c.update(_torch(_draw(seed, 9, widths)), earns=torch.arange(9) % 3 != seed % 3)
    return c


def _same(one: Criterion, other: Criterion) -> bool:
    return same_state(one, other) and (one.covered, one.raw_covered, one.nonfinite) == (other.covered, other.raw_covered, other.nonfinite)


@pytest.mark.parametrize(("name", "options", "widths"), CASES)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), cuts=st.lists(st.integers(0, 40), max_size=4))
def test_fast_and_slow_patterns_agree_for_any_batches(
    name: str, options: dict[str, Any], widths: dict[str, int], seed: int, cuts: list[int]
) -> None:
    samples = _draw(seed, 40, widths)
    earns = np.random.default_rng(seed).random(40) < 0.7
    new, valid, raw = slow_patterns.run(name, options, samples, earns)
    c = criterion(name, **options)
    got: list[int] = []
    for start, stop in itertools.pairwise([0, *sorted(cuts), 40]):
        got += c.update(_torch(samples, slice(start, stop)), earns=torch.from_numpy(earns[start:stop])).tolist()
    assert got == new
    assert (c.covered, c.raw_covered, c.value, c.raw_value) == (len(valid), len(raw), len(valid), len(raw))
    assert c.total is None
    by_group = collections.Counter(group for group, *_ in valid)
    if c.by_layer():
        assert sorted(filter(None, c.by_layer().values())) == sorted(by_group.values())


@pytest.mark.parametrize(("name", "options", "widths"), CASES)
@settings(max_examples=10, deadline=None)
@given(seeds=st.tuples(*[st.integers(1, 10**6)] * 3))
def test_patterns_merge_by_union(name: str, options: dict[str, Any], widths: dict[str, int], seeds: tuple[int, int, int]) -> None:
    a, b, c = (_worker(name, options, widths, seed) for seed in seeds)
    together = criterion(name, **options)
    for seed in seeds:
        together.update(_torch(_draw(seed, 9, widths)), earns=torch.arange(9) % 3 != seed % 3)
    assert _same(a.copy().merge(b).merge(c), together)
    assert _same(c.copy().merge(a).merge(b), together)
    assert _same(a.copy().merge(b.copy().merge(c)), together)
    assert _same(a.copy().merge(a), a)
    assert _same(a.empty().merge(a), a)
    assert _same(criterion(name, **options).merge(a), a)
    assert (a.empty().covered, a.empty().raw_covered, a.empty().nonfinite) == (0, 0, 0)
    assert a.empty().state_dict()["begun"]


@pytest.mark.parametrize(("name", "options", "widths"), CASES)
def test_saved_patterns_go_on_as_if_nothing_had_happened(name: str, options: dict[str, Any], widths: dict[str, int]) -> None:
    first = _worker(name, options, widths, 3)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    again = criterion(name, **options)
    again.load_state_dict(torch.load(file, weights_only=True))
    assert _same(first, again)
    more = _torch(_draw(8, 20, widths))
    assert again.update(more).tolist() == first.copy().update(more).tolist()
    assert again.covered > first.covered  # the copy has gone on, not this one


def test_pattern_states_that_do_not_belong_are_refused() -> None:
    c = _worker("tknp", {"k": 2}, NARROW, 3)
    good = c.state_dict()
    hit = good["hit"]
    for change in (
        {"hit": hit.flip(0)},
        {"hit": torch.cat([hit, hit[-1:]])},
        {"hit": hit.to(torch.int32)},
        {"hit": hit[:, None]},
        {"raw": torch.cat([torch.tensor([-1]), good["raw"]])},
        {"raw": hit[:-1]},
        {"nonfinite": good["nonfinite"][1:]},
        {"options": {"k": 3, "joint": False}},
        {"layers": {}},
    ):
        with pytest.raises(ValueError, match="state"):
            criterion("tknp").load_state_dict(good | change)
    bounded = criterion("tknp", k=1)
    bounded.update({"a": torch.rand(2, 3), "b": torch.rand(2, 3), "c": torch.rand(2, 3)})
    with pytest.raises(ValueError, match="holds numbers beyond"):
        criterion("tknp", k=1).load_state_dict(bounded.state_dict() | {"raw": torch.tensor([3 << 61])})
    with pytest.raises(ValueError, match="other layers"):
        c.merge(_worker("tknp", {"k": 2}, WIDE, 3))
    with pytest.raises(ValueError, match="can't be joined"):
        c.merge(_worker("tknp", {"k": 3}, NARROW, 3))


def test_the_top_neurons_are_a_set_and_of_equal_ones_the_first_counts() -> None:
    c = criterion("tknp", k=2)
    rows = [[3.0, 2.0, 1.0], [2.0, 3.0, 1.0], [1.0, 1.0, 1.0], [5.0, 1.0, 1.0], [0.0, 1.0, 2.0]]
    assert c.update({"l": torch.tensor(rows)}).tolist() == [1, 0, 0, 0, 1]
    assert c.by_layer() == {"l": 2.0}


def test_one_pattern_in_two_layers_counts_in_each() -> None:
    row = torch.tensor([[1.0, 2.0, 3.0]])
    c = criterion("tknp", k=1)
    assert c.update({"a": row, "b": row, "c": row.flip(1)}).tolist() == [3]
    assert c.by_layer() == {"a": 1.0, "b": 1.0, "c": 1.0}
    joint = criterion("tknp", k=1, joint=True)
    assert joint.update({"a": row, "b": row, "c": row.flip(1)}).tolist() == [1]
    assert joint.by_layer() == {}


def test_a_layer_with_too_few_finite_outputs_shows_no_pattern() -> None:
    bad = {"a": torch.tensor([[torch.nan, 1.0, torch.inf]]), "b": torch.tensor([[1.0, 2.0, 3.0]])}
    c = criterion("tknp", k=2)
    assert c.update(bad).tolist() == [1]
    assert c.by_layer() == {"a": 0.0, "b": 1.0}
    assert c.nonfinite == 2
    assert criterion("tknp", k=1).update(bad).tolist() == [2]
    assert criterion("tknp", k=2, joint=True).update(bad).tolist() == [0]


def test_active_is_strictly_above_the_threshold() -> None:
    c = criterion("map", threshold=0.5)
    assert c.update({"l": torch.tensor([[0.5, 1.0], [0.0, 0.6], [0.6, 0.6]])}).tolist() == [1, 0, 1]


def test_only_windows_with_a_value_that_is_not_finite_show_no_pattern() -> None:
    row = torch.ones(1, 2)
    acts = {"a": row, "b": row, "c": torch.tensor([[1.0, -torch.inf]]), "d": row, "e": row}
    c = criterion("map", window=2)
    assert c.update(acts).tolist() == [2]
    assert c.by_layer() == {"a to b": 1.0, "b to c": 0.0, "c to d": 0.0, "d to e": 1.0}
    assert criterion("map").update(acts).tolist() == [0]


def test_a_pattern_that_only_samples_without_earnings_showed_is_new_to_the_next() -> None:
    c = criterion("map")
    row = torch.tensor([[1.0, -1.0]])
    assert c.update({"l": row}, earns=torch.tensor([False])).tolist() == [0]
    assert (c.covered, c.raw_covered) == (0, 1)
    assert c.update({"l": row.expand(3, 2)}, earns=torch.tensor([False, True, True])).tolist() == [0, 1, 0]
    assert (c.value, c.raw_value) == (1.0, 1.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_patterns_of_other_precisions_are_those_of_the_same_values(dtype: torch.dtype) -> None:
    values = torch.randn(50, 12, generator=torch.Generator().manual_seed(1)).to(dtype)
    for name in ("tknp", "map"):
        exact = criterion(name)
        assert exact.update({"l": values}).sum() > 1
        assert exact.update({"l": values.float()}).tolist() == [0] * 50


def test_a_thousand_times_as_many_patterns_as_neurons_get_codes_of_their_own() -> None:
    pairs = torch.combinations(torch.arange(300))
    acts = -torch.ones(len(pairs), 300)
    acts.scatter_(1, pairs, 1.0)
    assert int(criterion("map").update({"l": acts}).sum()) == len(pairs) == 44_850
    top = criterion("tknp", k=8)  # 300^8 is more than 63 bits hold
    acts[:, :6] = 2.0
    shown = acts[pairs[:, 0] >= 6]
    assert int(top.update({"l": shown}).sum()) == len(shown)


def test_few_enough_patterns_have_numbers_of_their_own() -> None:
    acts = {"a": torch.tensor([[1.0, -1.0, 2.0], [1.0, 0.5, -1.0]]), "b": torch.tensor([[-1.0, 4.0], [-1.0, 4.0]])}
    for name, options, numbers in (
        ("tknp", {"k": 2}, [0 + 1 * 3, 0 + 2 * 3, (1 << 62) + 0 + 1 * 2]),
        ("tknp", {"k": 2, "joint": True}, [0 + 1 * 3 + 9 * (0 + 1 * 2), 0 + 2 * 3 + 9 * (0 + 1 * 2)]),
        ("map", {}, [0b10_011, 0b10_101]),
        ("map", {"window": 1}, [0b011, 0b101, (1 << 62) + 0b10_000]),
    ):
        c = criterion(name, **options)
        c.update(acts)
        assert c.state_dict()["hit"].tolist() == numbers


def test_keys_are_the_published_numbers() -> None:
    # First outputs of SplitMix64 from the seed 0, as its reference implementation gives them.
    reference = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC, 0x1B39896A51A8749B]
    assert keys_of(5, 63).tolist() == [number >> 1 for number in reference]
    assert keys_of(5, 40).tolist() == [number >> 24 for number in reference]


def test_what_is_wider_or_longer_than_the_network_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigError, match="it has 3 neurons") as caught:
        criterion("tknp", k=4).fit({"l": torch.rand(2, 3)})
    assert caught.value.where == "coverage.tknp_k"
    with pytest.raises(ConfigError, match="1 are watched") as caught:
        criterion("map", window=2).update({"l": torch.rand(2, 3)})
    assert caught.value.where == "coverage.map_window"


@pytest.mark.parametrize("joint", [False, True])
def test_a_k_of_millions_is_no_power_to_wait_for(joint: bool) -> None:
    wide = 3_000_000  # to this power it has sixty million bits; a map that anybody made may say so
    c = criterion("tknp", k=wide, joint=joint)
    empty = torch.zeros(0, dtype=torch.int64)
    state = c.state_dict() | {"layers": {"l": wide}, "hit": empty, "raw": empty, "nonfinite": torch.zeros(wide, dtype=torch.bool)}
    started = time.monotonic()
    c.load_state_dict(state)
    assert time.monotonic() - started < 3


@pytest.mark.parametrize(
    ("name", "options"),
    [("tknp", {"k": 0}), ("tknp", {"joint": 1}), ("map", {"window": 0}), ("map", {"window": 1.5}), ("map", {"threshold": float("nan")})],
)
def test_pattern_options_out_of_range_are_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        criterion(name, **options)


def test_the_settings_reach_the_pattern_criteria() -> None:
    made = criteria_from(
        CoverageSettings(criteria=("tknp", "map"), tknp_k=3, tknp_joint=True, map_threshold=0.25, map_window=2),
    )
    assert made["tknp"].options == {"k": 3, "joint": True}
    assert made["map"].options == {"threshold": 0.25, "window": 2}
    assert [c.total for c in made.values()] == [None, None]


def test_an_update_does_not_copy_all_patterns_there_are() -> None:
    c = criterion("map")
    c.update({"l": torch.randn(2, 40)})
    many = torch.arange(0, 1 << 40, 1 << 20)
    c.load_state_dict(c.state_dict() | {"hit": many, "raw": many})
    c.update({"l": torch.randn(64, 40)})
    with torch.autograd.profiler.profile(profile_memory=True) as seen:
        assert int(c.update({"l": torch.randn(64, 40)}).sum()) == 64
    assert max(event.self_cpu_memory_usage for event in seen.key_averages()) < many.nbytes / 20


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), sizes=st.lists(st.sampled_from([0, 1, 3, 700, 5000, 30_000]), max_size=6))
def test_codes_are_a_set(seed: int, sizes: list[int]) -> None:
    rng = np.random.default_rng(seed)
    codes, known = Codes(), np.zeros(0, dtype=np.int64)
    for size in sizes:
        drawn = np.unique(rng.integers(0, 1 << 17, size))
        assert codes.has(torch.from_numpy(drawn)).tolist() == np.isin(drawn, known).tolist()
        codes.add(torch.from_numpy(np.setdiff1d(drawn, known)))
        known = np.union1d(known, drawn)
    assert len(codes) == len(known)
    assert codes.counts(15, 4) == np.bincount(known >> 15, minlength=4).tolist()
    twin = copy.deepcopy(codes)
    assert codes.numbers().tolist() == known.tolist()
    assert twin == codes
    twin.add(torch.tensor([1 << 18]))
    assert twin != codes
    other = Codes.of(torch.arange(0, 1 << 17, 997))
    assert codes.union(other) == other.union(codes)
    assert set(codes.union(other).numbers().tolist()) == set(known.tolist()) | set(range(0, 1 << 17, 997))
    assert codes.union(codes) == codes
