"""What a neuron lacks: the change that leads to its nearest open item, for every criterion that has neurons' items."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from gate.coverage import criterion
from gate.coverage.activations import ActivationBatch
from gate.coverage.items import NeuronCriterion

WIDTH = 6


def made(name: str, **options: Any) -> NeuronCriterion:
    found = criterion(name, **options)
    assert isinstance(found, NeuronCriterion)
    random = torch.Generator().manual_seed(1)
    found.fit({"l": torch.rand(40, WIDTH, generator=random)})
    found.update({"l": torch.rand(1 if name in ("nc", "tknc") else 15, WIDTH, generator=random) * 0.5 + 0.25})
    return found


def gaps(one: NeuronCriterion, values: Tensor) -> Tensor:
    return one.gaps(ActivationBatch({"l": WIDTH}, values))


@pytest.mark.parametrize(
    ("name", "options"), [("kmnc", {"sections": 10}), ("nbc", {}), ("snac", {}), ("nc", {}), ("nc", {"scale": "none"}), ("tknc", {})]
)
def test_a_neuron_that_changes_by_its_gap_covers_something_new(name: str, options: dict[str, Any]) -> None:
    one, random = made(name, **options), torch.Generator().manual_seed(2)
    values = torch.rand(20, WIDTH, generator=random)
    lacking, tried = gaps(one, values), 0
    ways = one.directions({"l": values})["l"]
    assert torch.equal((lacking != 0), ways != 0)
    for row, neuron in lacking.nonzero().tolist():
        if name not in ("kmnc", "nbc"):  # where both ways are equally far either will do
            assert lacking[row, neuron].sign() == ways[row, neuron]
        if name == "nc" and values[row, neuron] == values[row].min():
            continue  # once it moves another one is the lowest of its layer, which the threshold is measured from
        moved = values[row].clone()
        moved[neuron] += lacking[row, neuron]
        before = one.copy()
        assert int(before.update({"l": moved[None]})) >= 1
        assert int(before.open_items()[neuron]) == int(one.open_items()[neuron]) - 1
        tried += 1
    assert tried >= 10


def test_what_is_covered_or_not_finite_lacks_nothing() -> None:
    one = made("snac")
    one.update({"l": torch.full((1, WIDTH), 9.0)})
    assert not gaps(one, torch.rand(3, WIDTH)).any()
    assert not one.open_items().any()
    other = made("snac")
    values = torch.tensor([[torch.nan, torch.inf, -torch.inf, 0.5, 0.5, 0.5]])
    assert (gaps(other, values) != 0).tolist() == [[False, False, False, True, True, True]]


def test_the_nearest_open_section_is_aimed_at_in_its_middle() -> None:
    one = criterion("kmnc", sections=4)
    assert isinstance(one, NeuronCriterion)
    one.fit({"l": torch.tensor([[0.0], [4.0]])})
    one.update({"l": torch.tensor([[1.5], [2.5]])})
    found = one.gaps(ActivationBatch({"l": 1}, torch.tensor([[1.1], [2.9], [-3.0], [9.0]])))
    torch.testing.assert_close(found.flatten(), torch.tensor([-0.6, 0.6, 3.5, -5.5]))


def test_gaps_can_be_differentiated_where_a_limit_depends_on_other_neurons() -> None:
    one = made("nc")
    values = torch.tensor([[0.0, 0.2, 0.3, 0.4, 0.5, 1.0]], requires_grad=True)
    lacking = one.gaps(ActivationBatch({"l": WIDTH}, values))
    neuron = next(one for one in (1, 2, 3, 4) if lacking[0, one] > 0)
    (slope,) = torch.autograd.grad(lacking[0, neuron], values)
    assert slope[0, neuron] == pytest.approx(-1)
    assert slope[0, 5] > 0.7  # the largest of the layer must come down for it
