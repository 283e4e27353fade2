"""Several criteria as one: sums that are honest about what has no total."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gate.coverage import criterion
from gate.coverage.activations import ActivationBatch
from gate.coverage.base import Criterion
from gate.coverage.combination import Combination
from gate.coverage.merging import Merging
from gate.coverage.ranges import RangedCriterion

NAMES = "kmnc+tknc+tknp+output"
OPTIONS: dict[str, dict[str, Any]] = {"kmnc": {"sections": 5}, "tknc": {"k": 2}, "tknp": {"k": 2}, "output": {"sections": 3}}


def _acts(seed: int, samples: int) -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(seed)
    acts = {"a": torch.randn(samples, 6, generator=g), "b": torch.randn(samples, 3, generator=g)}
    acts["a"][torch.rand(samples, 6, generator=g) < 0.03] = torch.nan
    return acts


def _logits(seed: int, samples: int) -> Tensor:
    return 3 * torch.randn(samples, 4, generator=torch.Generator().manual_seed(seed))


def _worker(seed: int, names: str = NAMES) -> Criterion:
    made = criterion(names, **{name: OPTIONS[name] for name in names.split("+")}).fit(_acts(0, 10))
    made.update(_acts(seed, 7), _logits(seed, 7), earns=torch.arange(7) % 3 != seed % 3)
    return made


def _flat(state: dict[str, Any]) -> dict[str, Any]:
    flat = {}
    for key, value in state.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{inner}": found for inner, found in _flat(value).items()}
        else:
            flat[key] = value.tolist() if isinstance(value, Tensor) else value
    return flat


def _same(one: Criterion, other: Criterion) -> bool:
    numbers = [(c.value, c.raw_value, c.covered, c.raw_covered, c.total, c.nonfinite) for c in (one, other)]
    return _flat(one.state_dict()) == _flat(other.state_dict()) and numbers[0] == numbers[1]


class _Average(Criterion):
    """A statistic, with the name of one: what each sample is above or below nothing at all."""

    name = "nlc"
    merging = {"nonfinite": Merging.UNION}  # noqa: RUF012
    options: dict[str, Any] = {}  # type: ignore[assignment]  # noqa: RUF012
    value = raw_value = 0.25  # type: ignore[assignment]
    covered = raw_covered = 1000  # type: ignore[assignment]
    total = None  # type: ignore[assignment]

    def _learn(self, batch: ActivationBatch, y: Tensor | None) -> None:
        pass

    def _count(self, batch: ActivationBatch, *, earning: bool) -> Tensor:
        return batch.flat[:, 0].double()

    def empty(self) -> _Average:
        return _Average()


def test_a_sample_adds_what_it_adds_to_every_part() -> None:
    together = criterion(NAMES, **OPTIONS).fit(_acts(0, 10))
    parts = [criterion(name, **OPTIONS[name]).fit(_acts(0, 10)) for name in NAMES.split("+")]
    earns = torch.tensor([True, False, True, True, False, True])
    for seed in (1, 2, 3):
        acts, logits = _acts(seed, 6), _logits(seed, 6)
        expected = sum(part.update(acts, logits, earns=earns) for part in parts)
        got = together.update(acts, logits, earns=earns)
        assert isinstance(expected, Tensor)
        assert got.tolist() == expected.tolist()
        assert got.dtype == torch.int64
    assert together.covered == sum(part.covered for part in parts)
    assert together.raw_covered == sum(part.raw_covered for part in parts)
    assert together.nonfinite == parts[0].nonfinite > 0
    assert together.raw_covered > together.covered > 0


def test_the_value_is_a_share_only_where_every_part_has_a_total() -> None:
    shares = _worker(1, "kmnc+tknc+output")
    assert shares.total == 9 * 5 + 9 + 4 * 3
    assert (shares.value, shares.raw_value) == (shares.covered / 66, shares.raw_covered / 66)
    counts = _worker(1)
    assert counts.total is None
    assert (counts.value, counts.raw_value) == (float(counts.covered), float(counts.raw_covered))
    assert criterion("nc+tknc").value == 0.0


def test_a_statistic_guides_without_being_counted() -> None:
    made = Combination([criterion("tknc", k=1), _Average()])
    acts = {"l": torch.tensor([[0.5, 0.0], [-2.0, 0.0], [-3.0, 0.0]])}
    assert made.update(acts).tolist() == [1.5, 1.0, 0.0]  # where the statistic falls it takes nothing away
    assert (made.covered, made.total, made.value) == (2, 2, 1.0)
    with pytest.raises(ValueError, match="a criterion that counts items"):
        Combination([_Average()])


@settings(max_examples=10, deadline=None)
@given(seeds=st.tuples(*[st.integers(1, 10**6)] * 3))
def test_combinations_merge_by_union(seeds: tuple[int, int, int]) -> None:
    a, b, c = (_worker(seed) for seed in seeds)
    together = criterion(NAMES, **OPTIONS).fit(_acts(0, 10))
    for seed in seeds:
        together.update(_acts(seed, 7), _logits(seed, 7), earns=torch.arange(7) % 3 != seed % 3)
    assert _same(a.copy().merge(b).merge(c), together)
    assert _same(c.copy().merge(a).merge(b), together)
    assert _same(a.copy().merge(a), a)
    assert _same(a.empty().merge(a), a)
    assert (a.empty().covered, a.empty().nonfinite) == (0, 0)


def test_a_saved_combination_goes_on_as_if_nothing_had_happened() -> None:
    first = _worker(3)
    state = first.state_dict()
    state["options"] = json.loads(json.dumps(state["options"]))
    again = criterion(NAMES, **OPTIONS)
    again.load_state_dict(state)
    assert _same(first, again)
    twin = first.copy()
    assert again.update(_acts(8, 9), _logits(8, 9)).tolist() == twin.update(_acts(8, 9), _logits(8, 9)).tolist()
    assert _same(twin, again)
    assert again.covered > first.covered
    with pytest.raises(ValueError, match="make a new criterion"):
        again.fit(_acts(0, 10))


def test_where_one_part_does_not_fit_nothing_is_taken_over() -> None:
    made = _worker(3)
    before = _flat(made.state_dict())
    state = _worker(4).state_dict()
    damaged = state | {"parts": state["parts"] | {"output": state["parts"]["output"] | {"hit": torch.zeros(9, dtype=torch.int32)}}}
    for wrong in (damaged, state | {"parts": {}}, state | {"options": {}}, state | {"more": 1}):
        with pytest.raises(ValueError, match="state"):
            made.load_state_dict(wrong)
    with pytest.raises(ValueError, match="can't be joined"):
        made.merge(_worker(3, "kmnc+tknc"))
    assert _flat(made.state_dict()) == before
    made = _worker(3, "tknc+kmnc")
    before = _flat(made.state_dict())
    other = criterion("tknc+kmnc", kmnc=OPTIONS["kmnc"]).fit(_acts(1, 10))
    other.update(_acts(5, 20))
    with pytest.raises(ValueError, match="another profile set"):
        made.merge(other)
    assert _flat(made.state_dict()) == before


def test_what_one_part_misses_the_combination_misses() -> None:
    made = criterion(NAMES, **OPTIONS)
    with pytest.raises(ValueError, match="kmnc needs the range"):
        made.update(_acts(1, 2), _logits(1, 2))
    made.fit(_acts(0, 10))
    with pytest.raises(ValueError, match="needs what the model answered"):
        made.update(_acts(1, 2))
    assert made.raw_covered == 0  # and no part has counted
    assert (made.needs_logits, criterion("nc+tknc").needs_logits) == (True, False)


def test_directions_are_what_most_parts_want() -> None:
    with pytest.raises(ValueError, match="no activations yet"):
        criterion("nc+tknp").directions(_acts(1, 2))
    profile = {"l": torch.tensor([[0.0, 0.0], [1.0, 1.0]])}
    made = criterion("kmnc+nbc+snac+tknp", kmnc={"sections": 2}).fit(profile)
    made.update({"l": torch.tensor([[0.2, 2.0], [0.3, 2.0]])})
    # Neuron 0: kmnc up; nbc up or down, whichever is nearer; snac up. Neuron 1, far above: kmnc and nbc down, snac has it all.
    found = made.directions({"l": torch.tensor([[0.1, 3.0], [0.9, 3.0], [torch.nan, 3.0]])})["l"]
    assert found.dtype == torch.int8
    assert found.tolist() == [[1, -1], [1, -1], [0, -1]]
    assert criterion("map+tknp", tknp={"k": 1}).fit(profile).directions(profile)["l"].tolist() == [[0, 0], [0, 0]]


def test_parts_that_have_seen_other_layers_or_come_twice_are_refused() -> None:
    seen = criterion("nc").fit(_acts(1, 2))
    with pytest.raises(ValueError, match="other layers"):
        Combination([seen, criterion("tknc").fit({"c": torch.rand(1, 3)})])
    for parts in ([], [criterion("nc"), criterion("nc", threshold=0.5)], [criterion("nc+tknc"), criterion("nbc")]):
        with pytest.raises(ValueError, match=r"once|needs a criterion"):
            Combination(parts)
    taken_over = Combination([criterion("tknc"), seen])
    assert taken_over.layers == seen.layers == taken_over.parts["tknc"].layers
    assert taken_over.total == 18


def test_what_any_part_knows_of_values_that_are_not_finite_the_combination_knows() -> None:
    seen = criterion("nc")
    seen.update({"l": torch.tensor([[torch.nan, 1.0, torch.inf]])})
    assert Combination([criterion("tknc"), seen]).nonfinite == 2


def test_parts_with_the_same_ranges_share_them() -> None:
    made = criterion("kmnc+tknc+nbc")
    made.fit(_acts(0, 10)).fit(_acts(1, 10))
    assert isinstance(made, Combination)
    kmnc, nbc = made.parts["kmnc"], made.parts["nbc"]
    assert isinstance(kmnc, RangedCriterion)
    assert isinstance(nbc, RangedCriterion)
    assert kmnc.low is nbc.low
