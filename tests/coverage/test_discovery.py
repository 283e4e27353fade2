"""What is left to find: counted as a slow reference counts it, however the executions are cut, and near the truth where that is known."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gate.coverage import criterion, discovery
from gate.coverage.base import Criterion
from gate.coverage.bits import Bits
from gate.coverage.discovery import ENOUGH, Estimate
from gate.coverage.dsa import DistanceSurprise
from gate.coverage.suite import Suite

LAYERS = {"a": 7, "b": 12}


def acts(samples: int, seed: int, spread: float = 1.0) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(seed)
    return {name: spread * torch.randn(samples, width, generator=random) for name, width in LAYERS.items()}


def fitted(name: str, **options: Any) -> Criterion:
    made = criterion(name, **options)
    made.fit(acts(60, 1))
    made.update(acts(15, 2), torch.randn(15, 4, generator=torch.Generator().manual_seed(2)))
    return made


def searched(made: Criterion, batches: Iterable[dict[str, Tensor]], earns: Tensor | None = None) -> Estimate | None:
    """What a suite with this one criterion estimates after the batches; ``made`` stays as it is."""
    suite = Suite({"it": made.copy()})
    suite.estimate_discovery()
    at = 0
    for batch in batches:
        size = len(batch["a"])
        suite.update(batch, logits(batch), earns=None if earns is None else earns[at : at + size])
        at += size
    return suite.discovery()["it"]


def logits(batch: dict[str, Tensor]) -> Tensor:
    return batch["a"][:, :4]


def cut(batch: dict[str, Tensor], sizes: Iterable[int]) -> list[dict[str, Tensor]]:
    ends = np.cumsum([0, *sizes]).tolist()
    return [{name: values[start:stop] for name, values in batch.items()} for start, stop in itertools.pairwise(ends)]


def met(made: Criterion, batch: dict[str, Tensor]) -> list[set[Hashable]]:
    """The items that each sample meets and that ``made`` had not covered, found one sample and one item at a time."""
    known = _items(made, made.copy().empty(), None)
    return [_items(made, made.copy().empty(), one) - known for one in cut(batch, [1] * len(batch["a"]))]


def _items(made: Criterion, empty: Criterion, sample: dict[str, Tensor] | None) -> set[Hashable]:
    """The items in a map: of ``made``, or of an empty one that has seen one sample."""
    if sample is not None:
        empty.update(sample, logits(sample))
    hit = made._hit if sample is None else empty._hit  # type: ignore[attr-defined]
    return set((hit.unfolded().nonzero().flatten() if isinstance(hit, Bits) else hit.numbers()).tolist())


def expected(sets: list[set[Hashable]], made: Criterion, covered: int, scale: float = 1.0) -> Estimate:
    """By the definitions, from the sets of items that executions met."""
    n = len(sets)
    times = Counter(item for items in sets for item in items)
    once = {item for item, number in times.items() if number == 1}
    twice = sum(number == 2 for number in times.values())
    owners = sum(bool(items & once) for items in sets)
    unseen = scale * (n - 1) / n * len(once) ** 2 / (2 * twice) if once and twice else 0.0
    if made.total is not None:
        unseen = min(unseen, made.total - covered)
    seen = None if once and not twice else covered / (covered + unseen)
    return Estimate(n, 1 - (1 - owners / n) ** scale, seen)


def same(one: Estimate | None, other: Estimate | None) -> None:
    assert one is not None
    assert other is not None
    assert (one.executions, one.chance) == (other.executions, pytest.approx(other.chance))
    assert one.seen == (None if other.seen is None else pytest.approx(other.seen))


CRITERIA = [
    ("nc", {"threshold": 0.9}),
    ("kmnc", {"sections": 40}),
    ("nbc", {}),
    ("snac", {}),
    ("tknc", {"k": 1}),
    ("tknp", {"k": 3}),
    ("map", {"window": 1}),
    ("output", {"sections": 50}),
]


@pytest.mark.parametrize(("name", "options"), CRITERIA, ids=[name for name, _ in CRITERIA])
@pytest.mark.parametrize("sizes", [[80], [1] * 80, [33, 0, 40, 7]], ids=["whole", "one by one", "uneven"])
def test_items_are_counted_as_a_slow_reference_counts_them_however_they_come(name: str, options: dict[str, Any], sizes: list[int]) -> None:
    made, batch = fitted(name, **options), acts(80, 3, spread=1.3)
    after = made.copy()
    after.update(batch, logits(batch))
    assert after.covered > made.covered
    same(searched(made, cut(batch, sizes)), expected(met(made, batch), made, after.covered))


@pytest.mark.parametrize("name", ["kmnc", "tknp"])
def test_what_does_not_earn_is_not_counted(name: str) -> None:
    made, batch = fitted(name), acts(80, 3)
    earns = torch.arange(80) % 3 != 0
    alone = {layer: values[earns] for layer, values in batch.items()}
    same(searched(made, cut(batch, [50, 30]), earns), searched(made, [alone]))


def test_a_value_that_is_not_finite_meets_nothing() -> None:
    made, batch = fitted("kmnc", sections=40), acts(60, 3)
    broken = {name: values.clone() for name, values in batch.items()}
    broken["a"][:, 2] = torch.nan
    alone = criterion("kmnc", sections=40)
    alone.fit({name: values[:, [0, 1, 3, 4, 5, 6]] if name == "a" else values for name, values in acts(60, 1).items()})
    sets = met(made, broken)
    assert all(not 2 * 40 <= int(str(item)) < 3 * 40 for items in sets for item in items)
    after = made.copy()
    after.update(broken)
    same(searched(made, [broken]), expected(sets, made, after.covered))


def test_of_many_items_those_of_a_sample_of_the_neurons_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    made, batch = fitted("kmnc", sections=40), acts(80, 3)
    monkeypatch.setattr(discovery, "LIMIT", 200)
    suite = Suite({"it": made.copy()})
    suite.estimate_discovery()
    for part in cut(batch, [30, 50]):
        suite.update(part)
    counters = suite._discovery["it"]
    columns = counters._columns.tolist()  # type: ignore[attr-defined]
    assert len(columns) == len(set(columns)) == 5
    assert len(counters._times) == 200  # type: ignore[attr-defined]
    sets = [{item for item in items if int(str(item)) // 40 in columns} for items in met(made, batch)]
    same(suite.discovery()["it"], expected(sets, made, suite.criteria["it"].covered, scale=19 / 5))
    same(searched(made, cut(batch, [1] * 80)), suite.discovery()["it"])


def test_of_many_patterns_a_share_is_counted_and_it_does_not_matter_when_it_was_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    made, batch = fitted("tknp", k=3), acts(300, 3)
    whole = searched(made, [batch])
    monkeypatch.setattr(discovery, "LIMIT", 100)
    found = [searched(made, cut(batch, sizes)) for sizes in ([300], [1] * 300, [100, 150, 50])]
    same(found[0], found[1])
    same(found[0], found[2])
    assert found[0] != whole
    assert found[0] is not None
    assert whole is not None
    assert found[0].chance == pytest.approx(whole.chance, abs=0.15)
    assert found[0].seen == pytest.approx(whole.seen, abs=0.15)


def test_below_a_few_executions_and_for_statistics_there_is_no_estimate() -> None:
    made = fitted("kmnc")
    assert searched(made, [acts(ENOUGH - 1, 3)]) is None
    assert searched(made, [acts(ENOUGH, 3)]) is not None
    suite = Suite({"nlc": fitted("nlc"), "nbc": fitted("nbc")})
    suite.estimate_discovery()
    suite.update(acts(50, 3))
    found = suite.discovery()
    assert found["nlc"] is None
    assert found["nbc"] is not None


def test_before_it_is_asked_for_nothing_is_kept() -> None:
    suite = Suite({"nbc": fitted("nbc")})
    suite.update(acts(50, 3))
    assert suite.discovery() == {"nbc": None}


def test_where_all_is_covered_or_nothing_new_comes_all_is_seen() -> None:
    made = fitted("tknc", k=7)
    assert made.covered == made.total
    found = searched(made, [acts(400, 3)])
    assert found == Estimate(400, 0.0, 1.0)
    batch = acts(15, 2)
    again = searched(fitted("nbc"), [batch, batch])
    assert again == Estimate(30, 0.0, 1.0)


def test_looking_on_changes_no_count() -> None:
    one = Suite({"kmnc": fitted("kmnc"), "tknp": fitted("tknp")})
    other = one.copy()
    one.estimate_discovery()
    for batch in cut(acts(80, 3), [40, 40]):
        assert torch.equal(one.update(batch), other.update(batch))
    assert all(one.criteria[name].covered == other.criteria[name].covered for name in one.criteria)


# Known distributions: 400 items, each met by an execution with a chance of its own and independently of the others.


class Species:
    """Independent executions over items of known chances."""

    def __init__(self, chances: np.ndarray) -> None:
        self.chances = chances

    def campaign(self, executions: int, seed: int) -> tuple[Estimate, float, float]:
        """The estimate, the true chance that the next execution meets something new, and the true share of items met."""
        met = np.random.default_rng(seed).random((executions, len(self.chances))) < self.chances
        suite = Suite({"nc": criterion("nc", threshold=0.5, scale="none")})
        suite.update({"a": torch.zeros(1, len(self.chances))})
        suite.estimate_discovery()
        suite.update({"a": torch.from_numpy(met.astype(np.float32))})
        estimate = suite.discovery()["nc"]
        assert estimate is not None
        open_ = ~met.any(0)
        return estimate, float(1 - np.prod(1 - self.chances[open_])), float(met.any(0).sum() / (self.chances > 0).sum())


SKEWED = 0.3 / np.arange(1, 401) ** 1.2


@pytest.mark.parametrize("executions", [50, 200, 1000])
@pytest.mark.parametrize("limit", [1 << 18, 100])
def test_the_chance_is_right_on_average(executions: int, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "LIMIT", limit)
    runs = [Species(SKEWED).campaign(executions, seed)[:2] for seed in range(60)]
    estimated, true = (np.array(values) for values in zip(*((run[0].chance, run[1]) for run in runs), strict=True))
    error = estimated - true
    # Of a quarter of the neurons the error is larger, and the sample, chosen once, may have more or fewer of the rare items than its share.
    allowed = 3 * error.std() / np.sqrt(len(runs)) + (0.005 if limit > 400 else 0.25 * true.mean())
    assert abs(error.mean()) < allowed
    assert error.std() < (2 * np.sqrt(true.mean() * (1 - true.mean()) / executions) + 0.005 if limit > 400 else 0.2)


def test_where_all_items_are_equally_rare_the_share_that_was_seen_is_right() -> None:
    chances = np.concatenate([np.full(300, 0.01), np.zeros(100)])
    for executions in (60, 150, 300):
        runs = [Species(chances).campaign(executions, seed) for seed in range(20)]
        seen = np.array([estimate.seen for estimate, _, _ in runs], dtype=float)
        true = np.array([run[2] for run in runs])
        assert seen.mean() == pytest.approx(true.mean(), rel=0.03)
        assert np.abs(seen - true).max() < 0.2


def test_where_some_are_far_rarer_than_others_it_claims_too_much_and_never_less_than_what_was_met() -> None:
    # Chao's estimate is a lower bound of what is unseen, so this share is an upper one.
    for executions in (100, 400):
        estimates, _, true = zip(*(Species(SKEWED).campaign(executions, seed) for seed in range(20)), strict=True)
        assert np.mean([estimate.seen for estimate in estimates]) > np.mean(true)
        assert all(estimate.seen is not None and estimate.seen >= share - 0.05 for estimate, share in zip(estimates, true, strict=True))


def test_the_surprise_of_a_batch_is_worked_out_once_for_all_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []
    measure = DistanceSurprise._within

    def counted(self: DistanceSurprise, index: int, rows: Tensor, own: Tensor | None) -> Tensor:
        measured.append(len(rows))
        return measure(self, index, rows, own)

    suite = Suite({"dsa": criterion("dsa")}).fit({"l": torch.randn(60, 4)}, torch.arange(60) % 2)
    suite.update({"l": torch.randn(30, 4)}, torch.randn(30, 2))
    suite.estimate_discovery()
    monkeypatch.setattr(DistanceSurprise, "_within", counted)
    suite.update({"l": torch.randn(30, 4)}, torch.randn(30, 2))
    assert sum(measured) == 30
    assert suite.discovery()["dsa"] is not None
