"""Saved states whose parts are each in order and can't be true together, and activations at the ends of float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gate.coverage import criterion
from gate.errors import ConfigError

PROFILE = {"l": torch.tensor([[0.0, 1.0, 5.0], [1.0, 3.0, 5.0]])}  # the last neuron never varies
SEEN = {"l": torch.tensor([[0.2, 2.0, 5.0], [2.0, 0.0, 6.0]])}


def state_of(name: str, **options: Any) -> dict[str, Any]:
    c = criterion(name, **options).fit(PROFILE)
    c.update(SEEN)
    return c.state_dict()


def changed(state: dict[str, Any], part: str, change: Callable[[Tensor], Any]) -> dict[str, Any]:
    return state | {part: change(state[part])}


def item(number: int) -> Callable[[Tensor], Tensor]:
    """Puts an item into the int32 words of a set."""

    def put(words: Tensor) -> Tensor:
        words = words.clone()
        words[number // 32] |= 1 << number % 32
        return words

    return put


@pytest.mark.parametrize(
    ("name", "options", "parts"),
    [
        ("kmnc", {"sections": 4}, {"hit": item(9), "raw": item(9)}),  # of the neuron that has no sections
        ("kmnc", {"sections": 4}, {"raw": item(9)}),
        ("kmnc", {"sections": 4}, {"low": lambda part: part[:0], "high": lambda part: part[:0]}),  # covered, but never fitted
        ("nbc", {}, {"low": lambda part: part[:0], "high": lambda part: part[:0]}),
        ("snac", {}, {"high": lambda part: part[:0]}),
        ("kmnc", {"sections": 4}, {"low": lambda part: part * torch.nan}),
        ("nbc", {"margin": 1.0}, {"squares": lambda part: -part - 1}),
        ("nbc", {"margin": 1.0}, {"mean": lambda part: part * torch.inf}),
        ("nlc", {}, {"products": lambda part: part * 0 + 2.0**900}),
        ("nlc", {}, {"sums": lambda part: part * 0 - 2.0**20}),
        ("nlc", {}, {"peak": lambda part: part[:0]}),
        ("nc", {}, {"format": lambda part: torch.zeros(2)}),
        ("nc", {}, {"begun": lambda part: 1}),
        ("nc+nbc", {}, {"layers": lambda part: {"l": 4}}),
        ("nc+nbc", {}, {"format": lambda part: torch.zeros(2)}),
    ],
)
def test_a_state_that_can_not_be_true_is_refused(name: str, options: dict[str, Any], parts: dict[str, Callable[[Tensor], Any]]) -> None:
    state = state_of(name, **options)
    criterion(name, **options).load_state_dict(state)
    for part, change in parts.items():
        state = changed(state, part, change)
    c = criterion(name, **options)
    with pytest.raises(ValueError, match="state"):
        c.load_state_dict(state)
    assert c.layers == {}


@pytest.mark.parametrize("wrong", [np.zeros((2, 3)), [[0.0]], torch.zeros(2, 3).to_sparse(), torch.zeros(2, 3, dtype=torch.complex64)])
def test_what_is_no_tensor_of_activations_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="must be a floating tensor"):
        criterion("nc").update({"l": wrong})


def test_labels_logits_and_masks_that_are_none_are_refused() -> None:
    two = {"l": torch.tensor([[0.0, 1.0], [1.0, 0.0]])}
    for y in ([0, 1], np.array([0, 1]), torch.zeros(2, dtype=torch.complex64)):
        with pytest.raises(ValueError, match="class numbers"):
            criterion("dsa").fit(two, y)  # type: ignore[arg-type]
    fitted = criterion("dsa", upper=2.0).fit(two, torch.tensor([0, 1]))
    for logits in (torch.zeros(2, 0), [[0.0], [1.0]]):
        with pytest.raises(ValueError, match="logits must be"):
            fitted.update(two, logits)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="earns must be"):
        criterion("nc").update(two, earns=[True, False])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not a Tensor"):
        criterion("nc").update(two["l"])  # type: ignore[arg-type]


def test_a_profile_set_without_one_finite_sample_is_named_as_the_cause() -> None:
    for name in ("lsa", "dsa", "mdsa"):
        c = criterion(name)
        with pytest.raises(ValueError, match="call fit"):
            c.update({"l": torch.zeros(2, 2)}, torch.zeros(2, 2))
        c.fit({"l": torch.tensor([[0.0, torch.nan], [torch.inf, 1.0]])}, torch.tensor([0, 1]))
        with pytest.raises(ValueError, match="are all finite"):
            c.update({"l": torch.zeros(2, 2)}, torch.zeros(2, 2))


def test_where_no_neuron_ever_gave_a_finite_value_there_is_nothing_to_leave() -> None:
    for name in ("nbc", "snac", "kmnc"):
        with pytest.raises(ValueError, match="no neuron"):
            criterion(name).fit({"l": torch.full((2, 2), torch.nan)}).update({"l": torch.zeros(1, 2)})
    assert criterion("snac", bounds=(0.1, 0.9)).fit({"l": torch.full((2, 2), torch.nan)}).update({"l": torch.ones(1, 2)}).tolist() == [2]


@pytest.mark.parametrize(("name", "width"), [("nlc", 20_000), ("tknp", 1 << 40), ("map", 1 << 31), ("lsa", 1 << 31)])
def test_layers_too_wide_to_be_counted_are_refused_before_memory_is_taken(name: str, width: int) -> None:
    state = criterion(name).state_dict() | {"layers": {"l": width}}
    with pytest.raises(ConfigError, match="neurons"):
        criterion(name).load_state_dict(state)


def test_outputs_farther_apart_than_float32_can_hold_are_scaled_all_the_same() -> None:
    far = {"l": torch.tensor([[-3e38, 0.0, 3e38], [-1.0, 0.0, 1.0]]), "other": torch.tensor([[0.0, 1.0], [0.0, 1.0]])}
    one = criterion("nc", threshold=0.4)
    assert one.update({name: values[:1] for name, values in far.items()}).tolist() == [3]
    assert criterion("nc", threshold=0.6).update(far).tolist() == [2, 0]
    with_nan = {"l": torch.tensor([[-3e38, torch.nan, 3e38]])}
    assert criterion("nc", threshold=0.4).update(with_nan).tolist() == [1]


def test_values_that_are_not_finite_are_seen_wherever_they_stand() -> None:
    for value in (torch.nan, torch.inf, -torch.inf):
        for place in range(24):
            acts = torch.full((3, 8), 3.4e38)
            acts.view(-1)[place] = value
            c = criterion("nc", scale="none", threshold=0.0)
            assert c.update({"l": acts}).sum() == 8
            assert c.nonfinite == 1
