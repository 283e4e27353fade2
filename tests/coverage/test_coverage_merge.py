"""Coverage merges by union, so resuming and collecting from several workers are one operation."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from same_state import same_state

from gate.coverage import criterion
from gate.coverage.base import Criterion
from gate.coverage.kmnc import KMultisection

CASES: list[tuple[str, dict[str, Any]]] = [
    ("nc", {"threshold": 0.5}),
    ("kmnc", {"sections": 5}),
    ("nbc", {}),
    ("snac", {}),
    ("snac", {"margin": 0.1}),
    ("nbc", {"bounds": [-0.5, 0.5]}),
    ("tknc", {"k": 2}),
]


def _acts(seed: int, samples: int) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    acts = {"a": torch.randn(samples, 6, generator=g), "b": torch.randn(samples, 3, generator=g)}
    acts["a"][torch.rand(samples, 6, generator=g) < 0.03] = torch.nan
    return acts


def _worker(name: str, options: dict[str, Any], seed: int) -> Criterion:
    c = criterion(name, **options).fit(_acts(0, 10))
    c.update(_acts(seed, 7), earns=torch.arange(7) % 3 != seed % 3)
    return c


def _same(one: Criterion, other: Criterion) -> bool:
    return same_state(one, other) and (one.covered, one.raw_covered, one.nonfinite) == (other.covered, other.raw_covered, other.nonfinite)


@pytest.mark.parametrize(("name", "options"), CASES)
@settings(max_examples=15, deadline=None)
@given(seeds=st.tuples(*[st.integers(1, 10**6)] * 3))
def test_merging_is_a_union(name: str, options: dict[str, Any], seeds: tuple[int, int, int]) -> None:
    a, b, c = (_worker(name, options, seed) for seed in seeds)
    together = criterion(name, **options).fit(_acts(0, 10))
    for seed in seeds:
        together.update(_acts(seed, 7), earns=torch.arange(7) % 3 != seed % 3)
    assert _same(a.copy().merge(b).merge(c), together)
    assert _same(c.copy().merge(a).merge(b), together)
    assert _same(a.copy().merge(b.copy().merge(c)), together)
    assert _same(a.copy().merge(a), a)
    assert _same(a.empty().merge(a), a)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_saved_state_goes_on_as_if_nothing_had_happened(name: str, options: dict[str, Any]) -> None:
    first = _worker(name, options, 3)
    state = first.state_dict()
    state["options"] = json.loads(json.dumps(state["options"]))
    again = criterion(name, **options)
    again.load_state_dict(state)
    assert _same(first, again)
    assert again.update(_acts(8, 9)).tolist() == first.update(_acts(8, 9)).tolist()
    assert _same(first, again)


def test_a_copy_covers_for_itself() -> None:
    first = _worker("kmnc", {"sections": 5}, 3)
    before = first.covered
    twin = first.copy()
    twin.update(_acts(9, 20))
    assert first.covered == before < twin.covered


def test_copies_share_what_was_learnt_and_nothing_else() -> None:
    first = criterion("lsa").fit({"l": torch.randn(40, 50)}, torch.arange(40) % 2)
    first.update({"l": torch.randn(9, 50)}, torch.randn(9, 2))
    twin = first.copy()
    addresses = [{key: getattr(one, f"_{key}") for key in one.merging} for one in (first, twin)]
    assert addresses[0]["references"].data_ptr() == addresses[1]["references"].data_ptr()
    assert addresses[0]["hit"].words.data_ptr() != addresses[1]["hit"].words.data_ptr()
    # Learning goes on in one of them only.
    one = criterion("kmnc", sections=3).fit({"l": torch.zeros(2, 2)})
    other = one.copy().fit({"l": torch.ones(2, 2)})
    assert isinstance(one, KMultisection)
    assert isinstance(other, KMultisection)
    assert (one.high.tolist(), other.high.tolist()) == ([0, 0], [1, 1])


@pytest.mark.parametrize("name", ["nc", "kmnc", "nbc", "snac", "tknc", "tknp", "map", "output", "nlc", "lsa", "dsa", "mdsa", "kmnc+output"])
def test_merging_into_one_that_has_seen_nothing_gives_the_other(name: str) -> None:
    g = torch.Generator().manual_seed(0)
    full = criterion(name)
    full.fit({"l": torch.randn(40, 6, generator=g)}, torch.arange(40) % 3 if full.needs_labels else None)
    batches = [({"l": 2 * torch.randn(9, 6, generator=g)}, torch.randn(9, 3, generator=g)) for _ in range(2)]
    full.update(*batches[0])
    joined = criterion(name).merge(full)
    assert (joined.layers, joined.covered, joined.value) == (full.layers, full.covered, full.value)
    assert full.copy().merge(criterion(name)).value == full.value
    before = full.value
    added = joined.update(*batches[1])
    assert full.value == before, "the two are independent"
    assert torch.equal(added, full.update(*batches[1]))
    assert joined.value == full.value


def test_states_that_do_not_belong_are_refused() -> None:
    c = _worker("kmnc", {"sections": 5}, 3)
    good = c.state_dict()
    with pytest.raises(ValueError, match="sections"):
        criterion("kmnc", sections=6).load_state_dict(good)
    with pytest.raises(ValueError, match="'kmnc'"):
        criterion("nbc").load_state_dict(good | {"number": good["low"], "mean": good["low"], "squares": good["low"]})
    for change in (
        {"hit": good["hit"][:-1]},
        {"hit": good["hit"] | -1},
        {"hit": good["hit"].float()},
        {"raw": good["raw"] & 0},
        {"low": good["low"][:2]},
        {"layers": {"a": 6}},
        {"layers": {"a": "6"}},
        {"format": 1},
        {"more": 1},
    ):
        with pytest.raises(ValueError, match="state"):
            criterion("kmnc", sections=5).load_state_dict(good | change)
    other = criterion("kmnc", sections=5).fit(_acts(1, 10))
    with pytest.raises(ValueError, match="another profile set"):
        other.load_state_dict(good)
    with pytest.raises(ValueError, match="another profile set"):
        other.merge(c)
    with pytest.raises(ValueError, match="can't be joined"):
        c.merge(_worker("nbc", {}, 3))
    narrow = criterion("nc")
    narrow.update({"a": torch.randn(2, 6)})
    with pytest.raises(ValueError, match="other layers"):
        narrow.merge(_worker("nc", {}, 3))
