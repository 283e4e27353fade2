"""Output coverage: classes by how sure of them the model was."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import slow_patterns
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from same_state import same_state

from gate.config import CoverageSettings
from gate.coverage import criteria_from, criterion
from gate.coverage.output import OutputCoverage
from gate.coverage.suite import Suite


def _logits(seed: int, samples: int, columns: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    logits = (rng.normal(size=(samples, columns)) * rng.choice([0.1, 1, 5, 100], (samples, 1))).astype(np.float32)
    for bad in (np.nan, np.inf, -np.inf):
        logits[rng.random(logits.shape) < 0.02] = bad
    return logits


def _acts(samples: int) -> dict[str, torch.Tensor]:
    return {"l": torch.zeros(samples, 2)}


def _update(c: OutputCoverage, rows: list[list[float]] | torch.Tensor, **options: torch.Tensor) -> list[int]:
    logits = torch.as_tensor(rows) if isinstance(rows, torch.Tensor) else torch.tensor(rows, dtype=torch.float64)
    return c.update(_acts(len(logits)), logits, **options).tolist()


def _worker(seed: int, columns: int = 3) -> OutputCoverage:
    c = OutputCoverage(sections=6)
    _update(c, torch.from_numpy(_logits(seed, 9, columns)), earns=torch.arange(9) % 3 != seed % 3)
    return c


def _same(one: OutputCoverage, other: OutputCoverage) -> bool:
    return same_state(one, other) and (
        (one.covered, one.raw_covered, one.total, one.nonfinite_outputs)
        == (other.covered, other.raw_covered, other.total, other.nonfinite_outputs)
    )


@pytest.mark.parametrize("columns", [1, 2, 5])
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), cuts=st.lists(st.integers(0, 40), max_size=4))
def test_fast_and_slow_output_coverage_agree_for_any_batches(columns: int, seed: int, cuts: list[int]) -> None:
    logits = _logits(seed, 40, columns)
    earns = np.random.default_rng(seed).random(40) < 0.7
    new, valid, raw = slow_patterns.run("output", {"sections": 7}, {}, earns, logits)
    c = OutputCoverage(sections=7)
    got: list[int] = []
    for start, stop in itertools.pairwise([0, *sorted(cuts), 40]):
        got += _update(c, torch.from_numpy(logits[start:stop]), earns=torch.from_numpy(earns[start:stop]))
    assert got == new
    assert (c.covered, c.raw_covered, c.total) == (len(valid), len(raw), 7 * max(columns, 2))
    assert c.by_class() == [sum(label == k for k, _ in valid) / 7 for label in range(max(columns, 2))]
    assert c.nonfinite_outputs == (~np.isfinite(logits)).any(0).sum()


def test_every_section_can_be_reached_and_both_ends_belong() -> None:
    c = OutputCoverage(sections=4)
    assert (c.total, c.classes, c.by_class()) == (0, 0, [])
    # Of three classes the top one has at least a third.
    shares = [0.334, 0.49, 0.51, 0.66, 0.67, 0.83, 0.84, 0.9999]
    rows = [[math.log(2 * p / (1 - p)), 0.0, 0.0] for p in shares]
    assert _update(c, [[0.0, 0.0, 0.0], *rows, [1e4, 0.0, 0.0]]) == [1, 0, 0, 1, 0, 1, 0, 1, 0, 0]
    assert c.by_class() == [1.0, 0.0, 0.0]
    assert (c.value, c.total) == (4 / 12, 12)
    assert _update(c, [[0.0, 1e4, 0.0]]) == [1]
    assert c.by_class() == [1.0, 0.25, 0.0]


def test_of_equal_logits_the_first_class_is_the_answer() -> None:
    c = OutputCoverage()
    _update(c, [[2.0, 2.0, 2.0], [1.0, 2.0, 2.0]])
    assert c.by_class() == [0.1, 0.1, 0.0]


def test_a_single_logit_stands_for_two_classes() -> None:
    c = OutputCoverage(sections=2)
    # The sigmoid of 0 is 1/2: the lowest confidence there is, and class 0's.
    assert _update(c, [[0.0], [1e-3], [9.0], [-9.0], [2000.0], [-2000.0]]) == [1, 1, 1, 1, 0, 0]
    assert c.total == 4
    with pytest.raises(ValueError, match="2 columns, those before had 1"):
        _update(c, [[0.0, 1.0]])


def test_answers_that_are_not_finite_cover_nothing_and_are_told() -> None:
    c = OutputCoverage()
    assert _update(c, [[torch.nan, 0.0, 0.0], [torch.inf, 1.0, torch.nan], [0.0, 0.0, 0.0]]) == [0, 0, 1]
    assert (c.covered, c.raw_covered, c.nonfinite_outputs) == (1, 1, 2)
    assert c.nonfinite == 0  # no neuron of a watched layer


def test_half_precision_logits_are_read_as_what_they_are() -> None:
    values = (torch.randn(200, 4, generator=torch.Generator().manual_seed(1)) * 3).to(torch.bfloat16)
    c = OutputCoverage(sections=1000)
    assert sum(_update(c, values)) > 150
    assert sum(_update(c, values.double())) == 0


def test_output_coverage_needs_logits_of_the_same_classes() -> None:
    c = OutputCoverage()
    with pytest.raises(ValueError, match=r"needs what the model answered"):
        c.update(_acts(2))
    with pytest.raises(ValueError, match="logits must be"):
        c.update(_acts(2), torch.zeros(2, 0))
    with pytest.raises(ValueError, match="logits must be a floating tensor"):
        c.update(_acts(2), torch.zeros(3, 4))
    c.fit(_acts(2))
    _update(c, torch.zeros(0, 7))
    assert c.total == 0
    _update(c, torch.zeros(1, 3))
    with pytest.raises(ValueError, match="4 columns, those before had 3"):
        _update(c, torch.zeros(1, 4))
    with pytest.raises(ValueError, match="must be"):
        OutputCoverage(sections=0)


@settings(max_examples=15, deadline=None)
@given(seeds=st.tuples(*[st.integers(1, 10**6)] * 3))
def test_output_coverage_merges_by_union(seeds: tuple[int, int, int]) -> None:
    a, b, c = (_worker(seed) for seed in seeds)
    together = OutputCoverage(sections=6)
    for seed in seeds:
        _update(together, torch.from_numpy(_logits(seed, 9, 3)), earns=torch.arange(9) % 3 != seed % 3)
    assert _same(a.copy().merge(b).merge(c), together)
    assert _same(c.copy().merge(a).merge(b), together)
    assert _same(a.copy().merge(b.copy().merge(c)), together)
    assert _same(a.copy().merge(a), a)
    assert _same(a.empty().merge(a), a)
    assert (a.empty().covered, a.empty().nonfinite_outputs, a.empty().total) == (0, 0, 18)


def test_one_that_has_seen_no_logits_yet_takes_over_the_classes() -> None:
    seen, laid_out, untouched = _worker(1), OutputCoverage(sections=6).fit(_acts(1)), OutputCoverage(sections=6)
    for one in (laid_out, untouched):
        assert _same(seen.copy().merge(one), seen)
        assert one.total == 0
        assert _same(one.copy().merge(seen), seen)
        again = one.copy()
        again.load_state_dict(seen.state_dict())
        assert _same(again, seen)
        state = one.state_dict()
        again = OutputCoverage(sections=6)
        again.load_state_dict(state)
        assert _same(again, one)
        _update(again, torch.zeros(1, 5))
        assert again.total == 30


def test_saved_output_coverage_goes_on_as_if_nothing_had_happened() -> None:
    first = _worker(3)
    again = OutputCoverage(sections=6)
    again.load_state_dict(first.state_dict())
    more = torch.from_numpy(_logits(8, 20, 3))
    assert _update(again, more) == _update(first.copy(), more)
    assert again.covered > first.covered


def test_output_states_that_do_not_belong_are_refused() -> None:
    good = _worker(3).state_dict()
    for change in ({"broken": torch.zeros(2, dtype=torch.bool)}, {"broken": torch.zeros(3)}, {"layers": {}}, {"hit": ~good["hit"]}):
        with pytest.raises(ValueError, match="state"):
            OutputCoverage(sections=6).load_state_dict(good | change)
    with pytest.raises(ValueError, match="other classes"):
        _worker(3, columns=4).load_state_dict(good)
    with pytest.raises(ValueError, match="other classes"):
        _worker(3, columns=4).merge(_worker(3))


def test_the_settings_reach_output_coverage_and_the_suite_brings_the_logits() -> None:
    made = criteria_from(CoverageSettings(criteria=("output", "nc"), output_sections=5))
    assert made["output"].options == {"sections": 5}
    suite = Suite(made, guide=["output"])
    logits = torch.tensor([[0.0, 9.0], [9.0, 0.0], [0.0, 9.0]])
    assert suite.update(_acts(3), logits, earns=torch.tensor([False, True, True])).tolist() == [0.0, 1.0, 1.0]
    assert criterion("output").needs_logits
