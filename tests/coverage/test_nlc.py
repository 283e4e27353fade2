"""NLC is the norm of the layers' covariances, exactly the same however the samples came."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from same_state import same_state

from gate.coverage import criterion
from gate.coverage.nlc import LayerCovariance

WIDTHS = {"a": 6, "b": 3, "one": 1}


def _acts(seed: int, samples: int, scale: float = 1.0) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    acts = {name: scale * torch.randn(samples, width, generator=g) for name, width in WIDTHS.items()}
    acts["a"] = acts["a"] @ torch.rand(6, 6, generator=g) + 0.5
    return acts


def _made(**options: Any) -> LayerCovariance:
    made = criterion("nlc", **options).fit(_acts(0, 50))
    assert isinstance(made, LayerCovariance)
    return made


def _same(one: LayerCovariance, other: LayerCovariance) -> bool:
    return same_state(one, other) and (one.value, one.raw_value, one.by_layer()) == (other.value, other.raw_value, other.by_layer())


def _plain(acts: dict[str, torch.Tensor], norm: str = "L1", reduction: str = "neurons") -> dict[str, float]:
    result = {}
    for name, values in acts.items():
        covariance = np.atleast_2d(np.cov(values.double().numpy(), rowvar=False, bias=True))
        size = np.abs(covariance).sum() if norm == "L1" else np.sqrt((covariance**2).sum())
        result[name] = float(size / {"neurons": len(covariance), "entries": len(covariance) ** 2, "none": 1}[reduction])
    return result


def _snapped(acts: dict[str, torch.Tensor], bits: int = 8) -> dict[str, torch.Tensor]:
    """Multiples of 2^-bits, which every unit here divides."""
    return {name: (values * 2**bits).round() / 2**bits for name, values in acts.items()}


@pytest.mark.parametrize("norm", ["L1", "L2"])
@pytest.mark.parametrize("reduction", ["neurons", "entries", "none"])
def test_the_value_is_the_norm_of_the_covariances(norm: str, reduction: str) -> None:
    c = _made(norm=norm, reduction=reduction)
    whole = _snapped(_acts(1, 40))
    c.update(whole)
    assert c.by_layer() == pytest.approx(_plain(whole, norm, reduction), rel=1e-12)
    assert c.value == pytest.approx(sum(_plain(whole, norm, reduction).values()), rel=1e-12)
    assert (c.total, c.covered) == (None, 40)


def test_rounding_to_units_changes_little() -> None:
    c = _made()
    acts = _acts(1, 200)
    c.update(acts)
    assert c.value == pytest.approx(sum(_plain(acts).values()), rel=1e-4)
    assert c.exact


@pytest.mark.parametrize("gains", ["first_order", "exact"])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(1, 10**6), cuts=st.lists(st.integers(0, 30), max_size=4), order=st.randoms())
def test_neither_batches_nor_their_order_change_a_bit(gains: str, seed: int, cuts: list[int], order: Any) -> None:
    acts, earns = _acts(seed, 30, 3.0), torch.arange(30) % 3 != 1
    acts["b"][4, 1] = torch.inf
    whole = _made(gains=gains)
    whole.update(acts, earns=earns)
    parts = _made(gains=gains)
    rows = list(range(30))
    order.shuffle(rows)
    edges = sorted({0, 30, *cuts})
    for start, stop in itertools.pairwise(edges):
        index = torch.tensor(rows[start:stop])
        parts.update({name: values[index] for name, values in acts.items()}, earns=earns[index])
    assert _same(whole, parts)


@settings(max_examples=15, deadline=None)
@given(seeds=st.tuples(*[st.integers(1, 10**6)] * 3))
def test_merging_adds_up_in_any_order(seeds: tuple[int, int, int]) -> None:
    def worker(seed: int) -> LayerCovariance:
        c = _made()
        c.update(_acts(seed, 7), earns=torch.arange(7) % 3 != seed % 3)
        return c

    a, b, c = (worker(seed) for seed in seeds)
    together = _made()
    for seed in seeds:
        together.update(_acts(seed, 7), earns=torch.arange(7) % 3 != seed % 3)
    assert _same(a.copy().merge(b).merge(c), together)
    assert _same(c.copy().merge(b.copy().merge(a)), together)
    assert _same(a.empty().merge(a), a)
    assert a.copy().merge(a).covered == 2 * a.covered  # disjoint evidence: the same part twice counts twice


def test_a_sample_near_the_middle_lowers_the_value() -> None:
    c = _made()
    c.update(_acts(1, 40))
    before, middle = c.value, {name: values.mean(0, keepdim=True) for name, values in _acts(1, 40).items()}
    (gain,) = c.update(middle).tolist()
    assert c.value < before
    assert gain < 0


def test_samples_that_do_not_earn_are_summed_apart() -> None:
    c, good, bad = _made(), _snapped(_acts(1, 20)), _snapped(_acts(2, 10, 5.0))
    both = {name: torch.cat([good[name], bad[name]]) for name in good}
    gains = c.update(both, earns=torch.arange(30) < 20)
    assert gains[20:].tolist() == [0.0] * 10
    assert c.value == pytest.approx(sum(_plain(good).values()), rel=1e-12)
    assert c.raw_value == pytest.approx(sum(_plain(both).values()), rel=1e-12)
    assert (c.covered, c.raw_covered) == (20, 30)


@pytest.mark.parametrize("norm", ["L1", "L2"])
def test_exact_gains_add_up_to_the_change_and_do_not_depend_on_batches(norm: str) -> None:
    c = _made(gains="exact", norm=norm)
    first = c.update(_acts(1, 10))
    assert first.dtype == torch.float64
    assert first[0] == 0
    assert float(first.sum()) == pytest.approx(c.value, rel=1e-9)
    one_by_one = _made(gains="exact", norm=norm)
    singly = [float(one_by_one.update({name: values[i : i + 1] for name, values in _acts(1, 10).items()})) for i in range(10)]
    assert first.tolist() == singly


@pytest.mark.parametrize("norm", ["L1", "L2"])
def test_first_order_gains_are_close_to_the_true_ones_and_never_above(norm: str) -> None:
    acts, probe = _acts(1, 2000), _acts(2, 25, 1.5)
    acts["a"][:, 2] = 0.75  # a neuron that has been constant so far
    quick = _made(norm=norm)
    quick.update(acts)
    start = quick.copy()
    found = quick.update(probe)
    for i in range(25):
        alone = start.copy()
        alone.update({name: values[i : i + 1] for name, values in probe.items()})
        true = alone.value - start.value
        assert float(found[i]) <= true + 1e-7
        assert float(found[i]) == pytest.approx(true, rel=0.02, abs=1e-5)


def test_what_only_a_constant_neuron_does_is_gained() -> None:
    c = _made()
    flat = {name: torch.full((10, width), 0.5) for name, width in WIDTHS.items()}
    assert c.update(flat).tolist() == [0.0] * 10
    assert c.value == 0
    flat["a"] = flat["a"].clone()
    flat["a"][3, 0] = 1.5
    gains = c.update(flat)
    alone = _made()
    alone.update({name: torch.cat([values.new_full((10, values.shape[1]), 0.5), values[3:4]]) for name, values in flat.items()})
    assert gains[3] == pytest.approx(alone.value, rel=1e-6)
    assert gains[[0, 1, 2, *range(4, 10)]].tolist() == [0.0] * 9


def test_a_broken_sample_takes_no_part_in_that_layer_only() -> None:
    for bad in (torch.nan, torch.inf, -torch.inf):
        acts = _snapped(_acts(1, 12))
        acts["a"][5, 2] = bad
        c = _made()
        c.update(_acts(9, 0))
        c.update(acts)
        kept = torch.arange(12) != 5
        expected = _plain({"a": acts["a"][kept], "b": acts["b"], "one": acts["one"]})
        assert c.by_layer() == pytest.approx(expected, rel=1e-12)
        assert (c.covered, c.nonfinite) == (12, 1)
        all_bad = {name: torch.full((1, width), bad) for name, width in WIDTHS.items()}
        assert c.update(all_bad).tolist() == [0.0]
        assert c.covered == 12


def test_outputs_beyond_reach_are_clamped_and_counted() -> None:
    c = _made()
    acts = _acts(1, 5)
    acts["b"][0, 0] = 1e30
    acts["b"][1, 0] = -1e30
    c.update(acts)
    assert c.clamped == 2
    assert np.isfinite(c.value)
    large = _made()
    large.fit({name: values * 1e6 for name, values in _acts(0, 5).items()})
    large.update(acts)
    assert large.clamped == 2


def test_it_says_when_sums_may_have_been_rounded() -> None:
    c = _made()
    c.update(_acts(1, 5))
    state = c.state_dict()
    state["products"][0, 0] = 2.0**53
    state["counts"][0], state["samples"][0] = 1 << 24, 1 << 24  # so many can come to that
    c.load_state_dict(state)
    assert not c.exact
    assert criterion("nlc").exact  # type: ignore[attr-defined]


def test_half_precision_and_tiny_and_dead_layers_have_units_too() -> None:
    for scale in (0.0, 1e-42, 1e-20, 1e20, 3e38):
        acts = {name: (values.clamp(-1, 1) * scale) for name, values in _acts(1, 30).items()}
        c = criterion("nlc").fit(acts)
        c.update(acts)
        assert c.clamped == 0
        assert c.value >= 0
        if 1e-30 < scale < 1e30:
            assert c.value == pytest.approx(sum(_plain(acts).values()), rel=1e-3)
    half = {name: values.half() for name, values in _acts(1, 30).items()}
    c = _made()
    c.update(half)
    assert c.value == pytest.approx(sum(_plain(half).values()), rel=1e-3)


def test_a_saved_state_goes_on_as_if_nothing_had_happened() -> None:
    first = _made(norm="L2")
    first.update(_acts(3, 7), earns=torch.arange(7) % 2 == 0)
    state = first.state_dict()
    state["options"] = json.loads(json.dumps(state["options"]))
    again = criterion("nlc", norm="L2")
    assert isinstance(again, LayerCovariance)
    again.load_state_dict(state)
    assert _same(first, again)
    assert again.update(_acts(8, 9)).tolist() == first.update(_acts(8, 9)).tolist()
    assert _same(first, again)
    twin = first.copy()
    twin.update(_acts(4, 9))
    assert not _same(first, twin)
    assert _same(first, again)


def test_damaged_and_foreign_states_are_refused() -> None:
    c = _made()
    c.update(_acts(3, 7))
    good = c.state_dict()
    for change, words in (
        ({"sums": good["sums"] + 0.5}, "whole numbers"),
        ({"products": good["products"][:, :-1]}, "shape"),
        ({"counts": good["counts"] + 1}, "more samples than there were"),
        ({"samples": -good["samples"]}, "negative"),
        ({"peak": good["peak"] * torch.nan}, "finite"),
    ):
        with pytest.raises(ValueError, match=words):
            _made().load_state_dict(good | change)
    other = criterion("nlc").fit(_acts(5, 50))
    with pytest.raises(ValueError, match="another profile set"):
        other.load_state_dict(good)
    with pytest.raises(ValueError, match="another profile set"):
        other.merge(c)


def test_mistakes_in_use_are_told() -> None:
    with pytest.raises(ValueError, match="call fit"):
        criterion("nlc").update(_acts(1, 2))
    with pytest.raises(ValueError, match="6 neurons, these activations have 5"):
        _made().update({**_acts(1, 2), "a": torch.zeros(2, 5)})
    for option in ({"norm": "max"}, {"reduction": "mean"}, {"gains": "fast"}):
        with pytest.raises(ValueError, match="must be one of"):
            criterion("nlc", **option)
    assert (criterion("nlc").value, criterion("nlc").by_layer()) == (0, {})
