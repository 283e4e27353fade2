"""Surprise coverage: a scale cut into sections, over what the profile set has taught. The surprise itself: test_surprise_formulas.py."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from same_state import same_state

from gate.coverage import criterion
from gate.coverage.surprise import SurpriseCriterion

NAMES = ("lsa", "dsa", "mdsa")
CASES: list[tuple[str, dict[str, Any]]] = [
    ("lsa", {"sections": 20}),
    ("lsa", {"sections": 20, "lower": -5.0, "upper": 50.0, "max_neurons": 3}),
    ("dsa", {"sections": 20}),
    ("mdsa", {"sections": 20}),
    ("mdsa", {"sections": 20, "covariance": "shared", "upper": 9.0}),
]


def _acts(seed: int, samples: int, spread: float = 1.0) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 3, (samples,), generator=g)
    middle = torch.tensor([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])[y]
    a = torch.cat([middle, torch.zeros(samples, 2)], 1) + spread * torch.randn(samples, 4, generator=g)
    return {"a": a, "b": spread * torch.randn(samples, 2, generator=g) + y[:, None]}, y


def _logits(y: torch.Tensor, classes: int = 3) -> torch.Tensor:
    return torch.nn.functional.one_hot(y, classes).float()


def _fitted(name: str, **options: Any) -> SurpriseCriterion:
    made = criterion(name, **options).fit(*_acts(0, 150))
    assert isinstance(made, SurpriseCriterion)
    return made


def _worker(name: str, options: dict[str, Any], seed: int) -> SurpriseCriterion:
    c = _fitted(name, **options)
    acts, y = _acts(seed, 9, 2.0)
    c.update(acts, _logits(y), earns=torch.arange(9) % 3 != seed % 3)
    return c


def _same(one: SurpriseCriterion, other: SurpriseCriterion) -> bool:
    return same_state(one, other) and (one.covered, one.raw_covered, one.bounds) == (other.covered, other.raw_covered, other.bounds)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_each_section_counts_once_for_the_first_sample_in_it(name: str, options: dict[str, Any]) -> None:
    c = _fitted(name, **options)
    acts, y = _acts(1, 60, 2.0)
    lower, upper = c.bounds
    seen: set[int] = set()
    expected = []
    for value in c.surprise(acts, _logits(y)).tolist():
        section = min(int((value - lower) / (upper - lower) * 20), 19) if lower <= value <= upper else None
        expected.append(int(section is not None and section not in seen))
        seen |= {section} if section is not None else set()
    assert c.update(acts, _logits(y)).tolist() == expected
    assert (c.covered, c.total, c.value) == (len(seen), 20, len(seen) / 20)
    assert len(seen) > 3
    assert c.by_layer() == {}


def test_both_ends_of_the_scale_belong_to_it_and_beyond_counts_for_none() -> None:
    profile = {"a": torch.tensor([[0.0], [10.0]])}
    c = criterion("dsa", sections=4, upper=0.5).fit(profile, torch.tensor([0, 1]))
    samples = {"a": torch.tensor([[0.0], [1.25], [1.24], [5.0], [5.1], [-6.0]])}
    zeros = _logits(torch.zeros(6, dtype=torch.int64), 2)
    assert c.surprise(samples, zeros).tolist() == pytest.approx([0, 0.125, 0.124, 0.5, 0.51, 0.6])  # type: ignore[attr-defined]
    assert c.update(samples, zeros).tolist() == [1, 1, 0, 1, 0, 0]
    scale = criterion("lsa", lower=2.0, upper=3.0).fit(*_acts(0, 150))
    assert scale.bounds == (2.0, 3.0)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "options"), CASES)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(1, 10**6), cuts=st.lists(st.integers(0, 30), max_size=4))
def test_batches_change_nothing(name: str, options: dict[str, Any], seed: int, cuts: list[int]) -> None:
    acts, y = _acts(seed, 30, 2.0)
    acts["b"][4, 1] = torch.inf
    earns = torch.arange(30) % 3 != 1
    whole, parts = _fitted(name, **options), _fitted(name, **options)
    new = whole.update(acts, _logits(y), earns=earns).tolist()
    edges, found = sorted({0, 30, *cuts}), []
    for start, stop in zip(edges, [*edges[1:], 30], strict=True):
        rows = slice(start, stop)
        found += parts.update({layer: values[rows] for layer, values in acts.items()}, _logits(y)[rows], earns=earns[rows]).tolist()
    assert found == new
    assert _same(whole, parts)


@pytest.mark.parametrize("name", NAMES)
def test_the_profile_set_may_come_in_batches_and_the_first_of_each_class_are_kept(name: str) -> None:
    acts, y = _acts(0, 150)
    acts["a"][3, 0] = torch.nan
    whole = criterion(name, references=20).fit(acts, y)
    parts = criterion(name, references=20)
    for start in range(0, 150, 11):
        parts.fit({layer: values[start : start + 11] for layer, values in acts.items()}, y[start : start + 11])
    state = parts.state_dict()
    assert all(torch.equal(state[key], whole.state_dict()[key]) for key in ("references", "classes"))
    first = [i for i in range(150) if i != 3 and y[i] == 2][:20]
    assert torch.equal(state["references"][state["classes"] == 2], torch.cat([acts["a"], acts["b"]], 1)[first])
    assert whole.bounds == parts.bounds  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "options"), CASES)
@settings(max_examples=8, deadline=None)
@given(seeds=st.tuples(*[st.integers(1, 10**6)] * 3))
def test_merging_is_a_union(name: str, options: dict[str, Any], seeds: tuple[int, int, int]) -> None:
    a, b, c = (_worker(name, options, seed) for seed in seeds)
    together = _fitted(name, **options)
    for seed in seeds:
        acts, y = _acts(seed, 9, 2.0)
        together.update(acts, _logits(y), earns=torch.arange(9) % 3 != seed % 3)
    assert _same(a.copy().merge(b).merge(c), together)
    assert _same(c.copy().merge(b.copy().merge(a)), together)
    assert _same(a.copy().merge(a), a)
    assert _same(a.empty().merge(a), a)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_saved_state_goes_on_as_if_nothing_had_happened(name: str, options: dict[str, Any]) -> None:
    first = _worker(name, options, 3)
    state = first.state_dict()
    state["options"] = json.loads(json.dumps(state["options"]))
    again = criterion(name, **options)
    again.load_state_dict(state)
    assert isinstance(again, SurpriseCriterion)
    assert _same(first, again)
    acts, y = _acts(8, 30, 2.0)
    assert torch.equal(first.surprise(acts, _logits(y)), again.surprise(acts, _logits(y)))
    assert again.update(acts, _logits(y)).tolist() == first.update(acts, _logits(y)).tolist()
    twin = first.copy()
    twin.update(*(_acts(9, 100, 4.0)[0], _logits(_acts(9, 100)[1])))
    assert twin.covered > first.covered
    assert _same(first, again)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_defined_covers_nothing(name: str) -> None:
    c = _fitted(name)
    acts, _ = _acts(1, 4)
    acts["a"][1, 2] = torch.nan
    logits = _logits(torch.tensor([0, 0, 3, 1]), 4)  # nobody has seen class 3
    logits[3, 0] = torch.nan
    assert c.surprise(acts, logits).isnan().tolist() == [False, True, True, True]
    assert int(c.update(acts, logits)[1:].sum()) == 0
    assert c.nonfinite == 1
    assert c.update({layer: values[:0] for layer, values in acts.items()}, logits[:0]).tolist() == []


def test_a_class_with_fewer_references_than_it_needs_has_no_surprise() -> None:
    acts, y = _acts(0, 60)
    y[7] = 3
    probe = {layer: values[:1] for layer, values in acts.items()}
    for name, defined in (("lsa", False), ("mdsa", False), ("dsa", True)):
        c = criterion(name).fit(acts, y)
        assert bool(c.surprise(probe, _logits(torch.tensor([3]), 4)).isfinite()) is defined  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", NAMES)
def test_a_single_logit_says_which_of_two_classes(name: str) -> None:
    acts, y = _acts(0, 150)
    c = criterion(name).fit(acts, (y > 0).long())
    assert isinstance(c, SurpriseCriterion)
    probe, _ = _acts(1, 3)
    two = c.surprise(probe, torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    one = c.surprise(probe, torch.tensor([[-1.0], [0.5], [0.0]]))
    assert torch.equal(one, two)


@pytest.mark.parametrize("name", NAMES)
def test_the_profile_sets_own_surprise_fills_the_lower_half_of_the_scale(name: str) -> None:
    c = _fitted(name, sections=10)
    fresh, y = _acts(5, 3000)
    lower, upper = c.bounds
    surprise = c.surprise(fresh, _logits(y))
    share = float(((surprise >= lower) & (surprise <= (lower + upper) / 2)).double().mean())
    assert 0.93 < share < 1
    far, y = _acts(5, 200, 2.0)
    assert float((c.surprise(far, _logits(y)) > (lower + upper) / 2).double().mean()) > 0.15


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_is_read_as_what_it_is(name: str) -> None:
    acts, y = _acts(0, 80)
    half = {layer: values.half() for layer, values in acts.items()}
    a, b = criterion(name).fit(half, y), criterion(name).fit({layer: values.float() for layer, values in half.items()}, y)
    assert a.bounds == b.bounds  # type: ignore[attr-defined]
    probe, y = _acts(2, 5)
    assert a.update({layer: values.bfloat16() for layer, values in probe.items()}, _logits(y).half()).shape == (5,)


@pytest.mark.parametrize("name", NAMES)
def test_mistakes_in_use_are_told(name: str) -> None:
    acts, y = _acts(0, 40)
    with pytest.raises(ValueError, match="call fit"):
        criterion(name).update(acts, _logits(y))
    with pytest.raises(ValueError, match="needs the classes of the profile set"):
        criterion(name).fit(acts)
    c = criterion(name).fit(acts, y)
    assert isinstance(c, SurpriseCriterion)
    with pytest.raises(ValueError, match="what the model answered"):
        c.update(acts)
    with pytest.raises(ValueError, match="what the model answered"):
        c.surprise(acts)
    with pytest.raises(ValueError, match="4 neurons, these activations have 5"):
        c.update({**acts, "a": torch.zeros(40, 5)}, _logits(y))
    c.update(acts, _logits(y))
    with pytest.raises(ValueError, match="make a new criterion"):
        c.fit(acts, y)
    with pytest.raises(ValueError, match="are all finite"):
        criterion(name).fit({layer: values * torch.nan for layer, values in acts.items()}, y).update(acts, _logits(y))
    flat = {layer: torch.ones_like(values) for layer, values in acts.items()}
    with pytest.raises(ValueError, match=r"gives no scale|no neuron varies"):
        criterion(name).fit(flat, y).update(acts, _logits(y))
    for options in ({"sections": 0}, {"references": 0}, {"upper": float("inf")}, {"upper": "2"}):
        with pytest.raises(ValueError, match="must be"):
            criterion(name, **options)


def test_options_of_one_criterion_are_checked() -> None:
    for name, options in (
        ("lsa", {"lower": 2.0, "upper": 1.0}),
        ("lsa", {"var_threshold": -1.0}),
        ("lsa", {"references": 1}),
        ("mdsa", {"max_neurons": 0}),
        ("mdsa", {"covariance": "tied"}),
        ("mdsa", {"upper": 0.0}),
        ("dsa", {"upper": -1.0}),
    ):
        with pytest.raises(ValueError, match="must be"):
            criterion(name, **options)


def test_distance_to_another_class_needs_one() -> None:
    acts, y = _acts(0, 40)
    with pytest.raises(ValueError, match="two classes at least: there is only class 0"):
        criterion("dsa").fit(acts, torch.zeros_like(y)).update(acts, _logits(y))


@pytest.mark.parametrize("name", NAMES)
def test_states_that_do_not_belong_are_refused(name: str) -> None:
    c = _worker(name, {}, 3)
    good = c.state_dict()
    for change, words in (
        ({"references": good["references"][:, :-1]}, "shape"),
        ({"references": good["references"] * torch.inf}, "finite"),
        ({"classes": good["classes"].flip(0)}, "rising"),
        ({"classes": good["classes"][:-1]}, "shape"),
    ):
        with pytest.raises(ValueError, match=words):
            criterion(name).load_state_dict(good | change)
    other = criterion(name).fit(*_acts(5, 150))
    for join in (lambda: other.load_state_dict(good), lambda: other.merge(c)):
        with pytest.raises(ValueError, match="another profile set"):
            join()


@pytest.mark.parametrize("name", ["lsa", "mdsa"])
def test_a_neuron_that_never_varies_counts_for_nothing_whatever_the_threshold(name: str) -> None:
    profile, y = torch.randn(60, 4, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 3
    # A number whose mean over these samples is rounded, so that its variance seems to be a little above 0.
    beside = torch.cat([profile, torch.full((60, 1), 0.1)], 1)
    logits = torch.nn.functional.one_hot(y).double()
    plain, widened = (criterion(name, var_threshold=0.0).fit({"l": acts}, y) for acts in (profile, beside))
    assert isinstance(plain, SurpriseCriterion)
    assert isinstance(widened, SurpriseCriterion)
    torch.testing.assert_close(widened.surprise({"l": beside}, logits), plain.surprise({"l": profile}, logits))
