"""Criteria that are counted together count what each of them counts alone."""

from __future__ import annotations

from typing import Any

import pytest
import slow_coverage
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_coverage import as_tensors, draw

from gate.coverage import criterion
from gate.coverage.activations import ActivationBatch
from gate.coverage.base import Criterion
from gate.coverage.suite import Suite

MANY: list[tuple[str, dict[str, Any]]] = [
    ("tknc", {"k": 1}),
    ("tknc", {"k": 3}),
    ("tknp", {"k": 2}),
    ("nbc", {}),
    ("nbc", {"margin": 0.5}),
    ("nbc", {"bounds": (0.1, 0.9)}),
    ("snac", {}),
    ("snac", {"margin": 1.0}),
    ("kmnc", {"sections": 9}),
    ("kmnc", {"sections": 9, "edges": "right"}),
    ("nc", {}),
    ("nc", {"scale": "none", "threshold": 0.5}),
]


def _made() -> list[Criterion]:
    return [criterion(name, **options) for name, options in MANY]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), order=st.permutations(range(len(MANY))))
def test_what_one_criterion_looks_up_changes_nothing_for_the_others(seed: int, order: list[int]) -> None:
    profile, alone, made = as_tensors(draw(seed, 12)), _made(), _made()
    together = Suite({str(i): made[i] for i in order}).fit(profile)
    for one in alone:
        one.fit(profile)
    for turn in range(2):
        samples, earns = as_tensors(draw(seed + 1 + turn, 15)), torch.rand(15, generator=torch.Generator().manual_seed(seed)) < 0.7
        new = together.update(samples, earns=earns)
        assert torch.equal(new, sum(one.update(samples, earns=earns) for one in alone).double())  # type: ignore[union-attr]
    for i, one in enumerate(alone):
        both = (one, together.criteria[str(i)])
        assert len({(c.covered, c.raw_covered, c.nonfinite) for c in both}) == 1
        assert len({str(c.by_layer()) for c in both}) == 1


@pytest.mark.parametrize("samples", [1, 2, 31, 32, 33, 200])
def test_an_item_goes_to_the_first_sample_that_covers_it_however_large_the_batch(samples: int) -> None:
    profile, acts = draw(3, 12), draw(4, samples)
    new, covered, _ = slow_coverage.run("kmnc", {"sections": 4}, profile, acts, torch.ones(samples, dtype=torch.bool).numpy())
    c = criterion("kmnc", sections=4).fit(as_tensors(profile))
    assert c.update(as_tensors(acts)).tolist() == new
    assert c.covered == covered


def test_more_items_than_32_bits_can_number_are_counted_in_order() -> None:
    # 400 neurons of 10,000 sections, and 1,024 samples in one batch: item and sample together no longer fit into 32 bits.
    generator = torch.Generator().manual_seed(0)
    profile, acts = torch.rand(4, 400, generator=generator), torch.rand(1024, 400, generator=generator)
    whole, parts = (criterion("kmnc", sections=10_000).fit({"l": profile}) for _ in range(2))
    new = whole.update({"l": acts})
    assert torch.equal(new, torch.cat([parts.update({"l": some}) for some in acts.split(8)]))
    assert int(new.sum()) == whole.covered


def test_of_many_equal_outputs_the_first_neurons_are_the_top() -> None:
    acts = torch.zeros(3, 5000)
    acts[:, 4000] = 1.0
    c = criterion("tknc", k=3)
    assert c.update({"wide": acts}).tolist() == [3, 0, 0]
    assert (c.directions({"wide": acts[:1]})["wide"][0] == 0).nonzero().flatten().tolist() == [0, 1, 4000]


def test_a_batch_answers_every_criterion_by_its_own_ranges_however_many_have_looked_at_it() -> None:
    batch = ActivationBatch.of({"l": torch.tensor([[0.5, 1.5]])})
    for turn in range(50):
        high = 1.0 if turn % 2 else 2.0
        c = criterion("nbc").fit({"l": torch.tensor([[0.0, 0.0], [high, high]])})
        # Gone after each turn, so that the next one's ranges may lie where these did.
        assert int(c.update(batch)) == turn % 2
        del c


def test_the_guides_alone_say_what_a_sample_is_worth_and_may_be_written_joined() -> None:
    profile, probe = as_tensors(draw(1, 12)), as_tensors(draw(2, 9))
    alone = {name: criterion(name).fit(profile).update(probe) for name in ("nbc", "tknc")}
    for guide in ("tknc + nbc", ("tknc", "nbc")):
        suite = Suite({name: criterion(name) for name in ("kmnc", "nbc", "tknc")}, guide).fit(profile)
        assert suite.update(probe).tolist() == (alone["nbc"] + alone["tknc"]).tolist()
    with pytest.raises(ValueError, match="'snac' can't guide"):
        Suite({"nbc": criterion("nbc")}, "snac")


@pytest.mark.parametrize("sleeping", [True, False])
def test_small_work_is_not_shared_out_among_threads_that_sleep(sleeping: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, int] = {}

    def watched(one: Criterion) -> Criterion:
        counted = one._count

        def count(batch: ActivationBatch, *, earning: bool) -> torch.Tensor:
            seen[one.name] = torch.get_num_threads()
            return counted(batch, earning=earning)

        monkeypatch.setattr(one, "_count", count)
        return one

    monkeypatch.setattr("gate.coverage.one_thread._THREADS_SLEEP", sleeping)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        suite = Suite({name: watched(criterion(name)) for name in ("nlc", "kmnc", "map")}).fit(as_tensors(draw(1, 12)))
        assert list(suite.update_each(as_tensors(draw(2, 5)))) == ["nlc", "kmnc", "map"]
        assert seen == {"kmnc": 1 if sleeping else 2, "map": 1 if sleeping else 2, "nlc": 2}
        monkeypatch.setattr(suite.criteria["map"], "_count", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            suite.update(as_tensors(draw(3, 5)))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
