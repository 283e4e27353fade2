"""Equal signatures mean equal coverage beyond what was known, in every criterion with items, however a batch is cut."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from gate.coverage import criterion
from gate.coverage.base import Criterion
from gate.coverage.hits import hits_beyond, hits_of_each, known_to
from gate.coverage.signing import Signatures
from gate.coverage.suite import Suite


def acts(count: int, seed: int, scale: float = 1.0) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(seed)
    return {"a": scale * torch.randn(count, 5, generator=random), "b": scale * torch.randn(count, 3, generator=random)}


def joined(*parts: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def covering(*names: str) -> Suite:
    """Criteria that were fitted, and have covered some samples."""
    made: dict[str, Criterion] = {name: criterion(name, **({"sections": 4} if name == "kmnc" else {})) for name in names}
    suite = Suite(made)
    suite.fit(acts(40, 0))
    suite.update(acts(1, 1, 0.3))
    return suite


def sets(suite: Suite, x: dict[str, Tensor]) -> list[frozenset[tuple[str, int]]]:
    found: list[set[tuple[str, int]]] = [set() for _ in x["a"]]
    for name, (sample, item) in hits_of_each(suite, x, torch.zeros(len(x["a"]), 2)).items():
        for row, one in zip(sample.tolist(), item.tolist(), strict=True):
            assert (name, one) not in found[row]  # an item once only
            found[row].add((name, one))
    return [frozenset(one) for one in found]


CRITERIA = ("kmnc", "nbc", "nc", "snac", "tknc", "tknp", "map")


@pytest.mark.parametrize("names", [*((name,) for name in CRITERIA), ("kmnc", "nbc", "tknp")], ids="+".join)
def test_signatures_are_equal_where_the_items_are_and_nowhere_else(names: tuple[str, ...]) -> None:
    suite = covering(*names)
    some = acts(60, 2, 1.5)
    x = joined(some, {name: values + 1e-6 for name, values in some.items()}, acts(1, 1, 0.3))
    signed = Signatures(suite.criteria).of(suite.batch(x)).tolist()
    items = sets(suite, x)
    assert len(set(items)) > 5
    for one, other in itertools.combinations(range(len(items)), 2):
        assert (signed[one] == signed[other]) == (items[one] == items[other])
    assert signed[-1] == 0  # known already
    assert [value == 0 for value in signed] == [not one for one in items]


def test_what_is_signed_does_not_change_with_what_is_covered_later_or_how_batches_are_cut() -> None:
    suite = covering("kmnc", "nbc", "map")
    x = acts(30, 3, 2.0)
    signing = Signatures(suite.criteria)
    before = signing.of(suite.batch(x))
    suite.update(x)
    parts = [signing.of(suite.batch({name: values[rows] for name, values in x.items()})) for rows in (slice(0, 7), slice(7, None))]
    torch.testing.assert_close(torch.cat(parts), before)


def test_the_hits_are_what_an_update_would_add() -> None:
    suite = covering(*CRITERIA)
    for seed in range(5):
        x = acts(1, 10 + seed, 2.0)
        expected = {name: int(added[0]) for name, added in suite.copy().update_each(x).items()}
        found = hits_of_each(suite, x, torch.zeros(1, 2))
        assert {name: len(item) for name, (_, item) in found.items()} == expected
    for one in suite.criteria.values():
        known = known_to(one)
        assert known is not None
        assert len(hits_beyond(one, suite.batch(acts(1, 1, 0.3)), known)[0]) == 0


def test_a_statistic_among_the_criteria_leaves_nothing_signed() -> None:
    suite = covering("kmnc", "nlc")
    assert Signatures(suite.criteria).of(suite.batch(acts(20, 5, 3.0))).tolist() == [0] * 20


def test_the_same_numbers_of_another_criterion_are_other_items() -> None:
    suite = covering("nbc")
    never = criterion("snac", bounds=(-1e9, 1e9)).fit(acts(40, 0))
    x = suite.batch(acts(20, 6, 3.0))
    alone, beside = Signatures(suite.criteria).of(x), Signatures({"a": never, **suite.criteria}).of(x)
    assert ((alone == beside) == (alone == 0)).all()
    assert (alone != 0).any()


def test_signatures_are_fixed_numbers() -> None:
    """Kept in files: another version must not sign otherwise without the format saying so."""
    suite = covering("nbc")
    x = {"a": torch.full((1, 5), 100.0), "b": torch.full((1, 3), -100.0)}
    assert sets(suite, x)[0] == {*(("nbc", 2 * neuron + 1) for neuron in range(5)), *(("nbc", 2 * neuron) for neuron in range(5, 8))}

    def mixed(number: int) -> int:
        mask = (1 << 64) - 1
        z = (number + 1) * 0x9E3779B97F4A7C15 & mask
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        return z ^ z >> 31

    expected = sum(mixed(item) for item in (1, 3, 5, 7, 9, 10, 12, 14)) & (1 << 64) - 1
    assert Signatures(suite.criteria).of(suite.batch(x)).item() & (1 << 64) - 1 == expected
