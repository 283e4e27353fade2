"""What was never reached is told place by place, most first, in words that say what to look for."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gate.coverage import criterion
from gate.coverage.base import Criterion
from gate.coverage.unreached import unreached
from gate.result import UNREACHED_EXAMPLES, UNREACHED_PLACES, Unreached

PROFILE = {"a": torch.tensor([[0.0, -1.0, 5.0], [10.0, 1.0, 5.0]]), "b": torch.tensor([[0.0, 0.0], [1.0, 1.0]])}


def _reached(name: str, samples: dict[str, list[list[float]]], **options: Any) -> Criterion:
    one = criterion(name, **options).fit(PROFILE)
    one.update({layer: torch.tensor(values) for layer, values in samples.items()})
    return one


def _examples(one: Criterion) -> dict[str, list[str]]:
    return {row["place"]: row["examples"] for row in unreached(one)}


def test_sections_are_told_in_stretches_and_neurons_without_any_left_out() -> None:
    values = [[float(v), 0.05, 5.0] for v in (3, 4, 5, 7)]
    one = _reached("kmnc", {"a": values, "b": [[0.05, 0.95]] * 4}, sections=10)
    rows = unreached(one)
    assert [row["place"] for row in rows] == ["b", "a"]
    assert rows[0] == {
        "place": "b",
        "items": 18,
        "total": 20,
        "untouched": 0,
        "examples": ["neuron 0: sections 1-9 of 10", "neuron 1: sections 0-8 of 10"],
    }
    assert rows[1] == {
        "place": "a",  # its third neuron never varies, so it has no sections
        "items": 15,
        "total": 20,
        "untouched": 0,
        "examples": ["neuron 1: sections 0-4 and 6-9 of 10", "neuron 0: sections 0-2, 6 and 8-9 of 10"],
    }
    assert sum(row["items"] for row in rows) == one.total - one.covered
    assert all(Unreached.model_validate(row) for row in rows)


def test_only_the_longest_stretches_are_named() -> None:
    one = _reached("kmnc", {"a": [[v + 0.05, 0.0, 5.0] for v in (1, 3, 5, 7.5)], "b": [[0.0, 0.0]] * 4}, sections=100)
    assert "neuron 0: sections 11-29, 51-74, 76-99 and 2 more stretches of 100" in _examples(one)["a"]
    last = _reached("kmnc", {"a": [[float(v), 0.0, 5.0] for v in range(9)], "b": [[0.0, 0.0]] * 9}, sections=10)
    assert "neuron 0: section 9 of 10" in _examples(last)["a"]


def test_neurons_of_which_nothing_is_covered_are_counted() -> None:
    one = _reached("kmnc", {"a": [[50.0, 0.0, 5.0]], "b": [[9.0, -9.0]]}, sections=10)
    rows = unreached(one)
    assert [(row["place"], row["untouched"]) for row in rows] == [("b", 2), ("a", 1)]
    assert rows[0]["examples"] == ["neuron 0: all of its 10 sections", "neuron 1: all of its 10 sections"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, ("below and above its range", "below its range", "above its range")),
        ({"margin": 0.1}, ("below and above its widened range", "below its widened range", "above its widened range")),
        ({"bounds": (-0.5, 2)}, ("below -0.5 and above 2", "below -0.5", "above 2")),
    ],
)
def test_boundaries_are_told_by_their_side(options: dict[str, Any], words: tuple[str, str, str]) -> None:
    one = _reached("nbc", {"a": [[1.0, 30.0, -30.0]], "b": [[-30.0, -30.0]]}, **options)
    both, below, above = words
    assert _examples(one) == {
        "a": [f"neuron 0: {both}", f"neuron 1: {below}", f"neuron 2: {above}"],
        "b": [f"neuron 0: {above}", f"neuron 1: {above}"],
    }
    upper = _reached("snac", {"a": [[1.0, 30.0, -30.0]], "b": [[30.0, 30.0]]}, **options)
    assert _examples(upper) == {"a": [f"neuron 0: {above}", f"neuron 2: {above}"]}


def test_thresholds_and_ranks_are_told() -> None:
    samples = {"a": [[0.0, 0.0, 9.0]], "b": [[0.0, 1.0]]}
    assert _examples(_reached("nc", samples, threshold=0.75))["a"][0] == "neuron 0: above 0.75 of its layer's range"
    assert _examples(_reached("nc", samples, threshold=3, scale="none"))["a"] == ["neuron 0: above 3", "neuron 1: above 3"]
    assert _examples(_reached("tknc", samples, k=1))["b"] == ["neuron 0: the most active of its layer"]
    assert _examples(_reached("tknc", samples, k=2)) == {"a": ["neuron 1: among the 2 most active of its layer"]}


def test_classes_are_told_by_their_number_and_confidence() -> None:
    one = criterion("output", sections=5)
    logits = torch.tensor([[9.0, 0.0], [0.0, 0.1], [0.6, 0.0]])
    one.update({"a": torch.zeros(3, 2)}, logits)
    assert unreached(one) == [
        {"place": "1", "items": 4, "total": 5, "untouched": 0, "examples": ["confidence 0.60 to 1.00"]},
        {"place": "0", "items": 3, "total": 5, "untouched": 0, "examples": ["confidence 0.70 to 0.90", "confidence 0.50 to 0.60"]},
    ]
    one = criterion("output", sections=5)
    one.update({"a": torch.zeros(1, 2)}, torch.tensor([[9.0, 0.0, 0.0]]))
    assert [(row["place"], row["examples"]) for row in unreached(one)][:2] == [("1", ["never answered"]), ("2", ["never answered"])]


def test_the_list_is_short_and_begins_where_most_is_left() -> None:
    wide = {f"layer {number}": torch.randn(4, 30 + number) for number in range(20)}
    one = criterion("snac").fit(wide)
    one.update({name: values[:1] for name, values in wide.items()})
    rows = unreached(one)
    assert [row["place"] for row in rows] == [f"layer {number}" for number in range(19, 19 - UNREACHED_PLACES, -1)]
    assert all(len(row["examples"]) == UNREACHED_EXAMPLES for row in rows)


def test_where_nothing_is_left_or_nothing_has_a_name_there_is_nothing_to_tell() -> None:
    assert unreached(_reached("snac", {"a": [[99.0] * 3], "b": [[99.0] * 2]})) == []
    assert unreached(criterion("nc")) == []
    assert unreached(criterion("output")) == []
    assert unreached(_reached("tknp", {"a": [[1.0, 2.0, 3.0]], "b": [[1.0, 2.0]]})) == []
    assert unreached(_reached("nlc", {"a": [[1.0, 2.0, 3.0]], "b": [[1.0, 2.0]]})) == []
