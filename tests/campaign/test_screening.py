"""Mutants told from others without a pass: exact where the network is linear, chosen for what they cover together, and natural ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from saved_models import save
from test_guide import Dusk, InProcess, arm_of, bright_images, domain_of, run
from torch import Tensor

from gate.campaign.ascent import Watched
from gate.campaign.joint_ascent import climb_jointly
from gate.campaign.paths import SHARES, Paths
from gate.campaign.screening import best_together, expected
from gate.coverage.activations import ActivationBatch
from gate.coverage.kmnc import KMultisection
from gate.coverage.nbc import Boundary

LAYERS = {"only": 3}


def batch_of(values: list[list[float]]) -> ActivationBatch:
    return ActivationBatch(LAYERS, torch.tensor(values))


def kmnc() -> KMultisection:
    """Ten sections of 0 to 1 a neuron; the lowest and the highest are covered."""
    criterion = KMultisection(sections=10)
    ends = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    criterion.fit({"only": ends})
    criterion.update({"only": ends})
    return criterion


def test_an_output_in_between_is_read_off_the_straight_line() -> None:
    low, high = batch_of([[0.05, 0.05, 0.5]] * 3), batch_of([[0.45, 0.05, -0.5]] * 3)
    owner, item = expected([kmnc()], low, high, torch.tensor([0.5, 0.0, 1.25]))
    found = {(int(way), int(one) // 10, int(one) % 10) for way, one in zip(owner, item, strict=True)}
    # Half way 0.25 and 0.0, at the start 0.05 and 0.5, and a quarter beyond the end 0.55 and -0.75, which is no section's.
    assert found == {(0, 0, 2), (1, 2, 5), (2, 0, 5)}


def test_beyond_the_end_outputs_are_told_that_no_sample_has_shown() -> None:
    criterion = Boundary()
    ends = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    criterion.fit({"only": ends})
    criterion.update({"only": ends})
    owner, item = expected([criterion], batch_of([[0.5, 0.5, 0.5]] * 2), batch_of([[0.9, 0.5, 0.1]] * 2), torch.tensor([1.0, 2.0]))
    assert [(int(way), int(one)) for way, one in zip(owner, item, strict=True)] == [(1, 1), (1, 4)]


def test_items_of_several_criteria_are_not_taken_for_one_another() -> None:
    one = kmnc()
    low = batch_of([[0.55, 0.0, 0.0]])
    _, item = expected([one, kmnc()], low, low, torch.tensor([0.0]))
    assert item.tolist() == [5, 5 + 30]


def test_what_one_choice_covers_counts_for_no_other() -> None:
    # 0 covers a, b, c; 1 covers b, c, d; 2 covers d; 3 covers a. After 0 only d is left, whichever covers it.
    owner = torch.tensor([0, 0, 0, 1, 1, 1, 2, 3])
    item = torch.tensor([10, 20, 30, 20, 30, 40, 40, 10])
    chosen, added = best_together(owner, item, 4, 4)
    assert chosen.tolist()[0] == 0
    assert len(chosen) == 2
    assert added.tolist() == [3, 1]
    assert best_together(owner, item, 4, 1)[0].tolist() == [0]
    assert best_together(owner[:0], item[:0], 4, 4)[0].tolist() == []


def test_the_choice_covers_nearly_what_one_maximum_after_the_other_does() -> None:
    random = np.random.default_rng(0)
    covers = random.random((200, 2_000)) < random.random((200, 1)) * 0.05
    owner, item = (torch.from_numpy(part) for part in np.nonzero(covers))
    chosen, added = best_together(owner, item, 200, 20)
    together = covers[chosen.numpy()].any(axis=0).sum()
    assert len(set(chosen.tolist())) == 20
    assert int(added.sum()) == together
    left, greedy = covers.copy(), 0
    for _ in range(20):
        best = left.sum(axis=1).argmax()
        greedy += int(left[best].sum())
        left &= ~covers[best]
    assert together >= 0.9 * greedy


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def test_stretches_lie_between_neighbouring_severities_of_one_path() -> None:
    paths = Paths(20)
    # Entry 0 by operator 4 with draw 7 at 0.6 and 0.2, with draw 8 at 0.5; entry 9, which has no place, at 0.1 and 0.9.
    paths.put(ints(10, 11, 12, 13, 14), ints(0, 0, 0, 9, 9), ints(4, 4, 4, 4, 4), ints(7, 7, 8, 7, 7), np.array([0.6, 0.2, 0.5, 0.1, 0.9]))
    place_of = np.full(10, -1, dtype=np.int64)
    place_of[0] = 3
    found = paths.stretches(place_of, np.full(10, 1.0))
    assert sorted(zip(found.low.tolist(), found.high.tolist(), strict=True)) == [(3, 11), (3, 12), (11, 10), (13, 14)]
    by_end = dict(zip(found.high.tolist(), found.most.tolist(), strict=True))
    assert by_end[11] == 1.0  # there is a higher one on this path
    assert by_end[10] == pytest.approx((1.0 - 0.2) / 0.4)  # up to severity 1
    severities = found.severities(np.full(len(found), 0.5))
    assert dict(zip(found.high.tolist(), severities.tolist(), strict=True)) == pytest.approx({11: 0.1, 12: 0.25, 10: 0.4, 14: 0.5})
    # A place that is taken over takes its point away.
    paths.put(ints(11), ints(-1), ints(0), ints(0), np.zeros(1))
    again = paths.stretches(place_of, np.full(10, 1.0))
    assert (3, 10) in zip(again.low.tolist(), again.high.tolist(), strict=True)
    assert 11 not in again.high


@pytest.fixture(scope="module")
def dusk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(Dusk(), tmp_path_factory.mktemp("screened") / "model")


STRIPES = {"criteria": ["kmnc"], "kmnc_sections": 200, "layers": ["stripes"]}


def test_picks_cover_what_was_expected_of_them_where_the_network_is_linear(dusk: Path) -> None:
    x, y = bright_images()
    x = x.astype(np.float32)  # so that nothing is rounded
    worker, domain = InProcess(dusk, x, y, STRIPES), domain_of(x)
    brightness, count = np.full(40, domain.natural.index("brightness")), len(x)
    draws = np.arange(count)
    ends = domain.apply(x, domain.steps(brightness, np.full(count, 0.3), draws))
    worker.call("run", {"arm": "search"}, {"x": ends, "earns": np.ones(count, dtype=bool)})
    places = np.arange(count)
    worker.call("join", {}, {"fresh": np.stack([np.zeros(count, dtype=np.int64), places, count + places], 1)})
    before = worker.spent()
    asked = {"count": 16, "shares": list(SHARES)}
    _, best = worker.call("screen", asked, {"ends": np.stack([places, count + places], 1), "most": np.ones(count)})
    assert worker.spent() == before  # without a pass
    rows, shares = best["stretches"], np.array(SHARES)[best["shares"]]
    assert len(rows) == 16
    assert (shares <= 1).all()
    told = domain.apply(x[rows], domain.steps(brightness[rows], 0.3 * shares, draws[rows]))
    _, made = worker.call("run", {"arm": "search"}, {"x": told, "earns": np.ones(16, dtype=bool)})
    assert (made["new_items"] >= 1).all()
    assert (np.diff(made["new_items"]) <= 1).all()  # the best first


def test_what_the_search_tells_from_others_are_natural_mutants_and_most_of_them_cover_something(dusk: Path) -> None:
    x, y = bright_images()
    worker, domain = InProcess(dusk, x, y, STRIPES), domain_of(x)
    arm = arm_of(worker, domain, x, y, 3)
    found: list[bool] = []
    for step in range(8):
        batch = arm.propose(step, 64)
        outcome, _ = run(worker, batch)
        assert arm._guide is not None
        if step in arm._guide._screened:
            assert batch.kept is None
            found.extend((outcome.new_items > 0).tolist())
            for mutant, seed, recipe in zip(batch.x, batch.seeds, batch.recipes, strict=True):
                assert {one.operator for one in recipe} <= set(domain.natural)
                np.testing.assert_array_equal(domain.replay(x[seed], recipe), mutant)
        arm.take(batch, outcome, np.zeros(len(batch.x), dtype=bool))
    assert len(found) >= 32
    assert np.mean(found) > 0.6


def test_one_step_brings_several_neurons_to_items_of_their_own() -> None:
    criterion = kmnc()
    weight = torch.randn(3, 16, generator=torch.Generator().manual_seed(0)) / 400

    def watched(x: Tensor) -> tuple[ActivationBatch, Tensor]:
        flat = 0.05 + x.flatten(1) @ weight.T
        return ActivationBatch(LAYERS, flat), flat

    seen: Watched = watched
    start = torch.zeros(2, 4, 4, 1)
    common: dict[str, Any] = {"together": 3, "epsilon": 100.0, "bounds": (-255.0, 255.0), "whole": False}
    climbed, targets = climb_jointly(seen, seen, [criterion], start, torch.ones(3), luck=torch.Generator().manual_seed(1), **common)
    assert sorted(targets.tolist()) == [0, 0, 1, 1, 2, 2]
    assert climbed.work == 2 * (1 + 2 * 3) + len(climbed.mutants)
    assert len(climbed.mutants) <= 2 * 2 * 3
    # From section 0 the nearest open one is section 1 for all three; the first mutant is there with more than one of them.
    first = climbed.flat[0]
    assert int(((first > 0.1) & (first < 0.9)).sum()) >= 2
    added = criterion.update({"only": climbed.flat})
    assert (added >= 1).all()
    np.testing.assert_allclose(climbed.flat, watched(climbed.mutants)[0].flat)
