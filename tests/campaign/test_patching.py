"""Putting one neuron back to what it was for the seed input finds the neuron that turns the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from planted_neurons import PLANTED, PlantedConv, PlantedLinear, PlantedTransformer, in_one, pair, restored
from torch import Tensor, nn

# Beside the transformer's plant another place carries the corner just as well: the tokens themselves.
PLANTS: list[tuple[Callable[[], nn.Module], str, Any]] = [
    (PlantedConv, "hidden", "auto"),
    (PlantedLinear, "hidden", "auto"),
    (PlantedTransformer, "down", ("attention", "down")),
]


@pytest.mark.parametrize(("make", "layer", "watched"), PLANTS)
@pytest.mark.parametrize("gradients", [True, False])
def test_the_planted_neuron_comes_first_with_all_of_the_effect(
    make: Callable[[], nn.Module], layer: str, watched: Any, gradients: bool
) -> None:
    module, both = make().eval(), pair()
    answers = module(both.permute(0, 3, 1, 2)).argmax(1).tolist()
    assert answers == [0, 1]  # or the plant does not work
    named, found, _ = restored(module, both, gradients=gradients, layers=watched)
    name, neuron, effect, back = named[0]
    assert (name, neuron, back) == (layer, PLANTED, True)
    assert effect == pytest.approx(1.0, abs=0.1)
    assert found.tried == found.of
    assert all(other[2] < 0.5 for other in named[1:] if other[1] != PLANTED)


@pytest.mark.parametrize(("make", "layer", "watched"), PLANTS)
def test_few_tries_are_enough_for_it(make: Callable[[], nn.Module], layer: str, watched: Any) -> None:
    named, found, _ = restored(make().eval(), pair(), most=4, layers=watched)
    assert named[0][:2] == (layer, PLANTED)
    assert found.tried == 4 < found.of


def test_a_neuron_that_a_relu_has_shut_is_tried_although_its_gradient_at_the_mutant_is_zero() -> None:
    module = PlantedLinear(width=200).eval()
    named, found, _ = restored(module, pair(), most=1)
    assert found.tried == 1
    assert named[0][1] == PLANTED


def test_an_exported_program_is_patched_like_the_model_it_was_exported_from() -> None:
    module, both = PlantedConv(in_place=False).eval(), pair()
    inputs = both.permute(0, 3, 1, 2)
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.unflatten(torch.export.export(module, (inputs,), dynamic_shapes=({0: batch},)))
    plain, _, _ = restored(module, both)
    exported, _, _ = restored(program, both)
    assert exported[0][:2] == ("hidden", PLANTED)
    assert [row[:2] for row in exported] == [row[:2] for row in plain]


class Twice(nn.Module):
    """Calls its hidden layer twice; both calls carry the corner on."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = PlantedLinear()
        self.hidden, self.head = self.inner.hidden, self.inner.head

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        return self.head((self.hidden(flat).relu() + self.hidden(flat).relu()) / 2)


def test_a_layer_that_is_called_twice_is_restored_both_times() -> None:
    named, _, _ = restored(Twice().eval(), pair())
    assert named[0][1] == PLANTED
    assert named[0][2] == pytest.approx(1.0, abs=0.1)


def test_what_is_changed_in_place_behind_a_layer_is_restored_as_it_was_before() -> None:
    class Negated(PlantedLinear):
        def forward(self, x: Tensor) -> Tensor:
            hidden = self.hidden(x.flatten(1))
            hidden.neg_()
            return self.head((-hidden).relu())

    for most in (1000, 4):  # all of them, and a few that gradients choose
        named, _, _ = restored(Negated().eval(), pair(), most=most)
        assert named[0][:2] == ("hidden", PLANTED)
        assert named[0][2] == pytest.approx(1.0, abs=0.1)


class Recurrent(nn.Module):
    """An LSTM whose output is a tuple; only its first unit is read."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm = nn.LSTM(8, 4, batch_first=True)
        self.head = nn.Linear(4, 2)
        with torch.no_grad():
            self.lstm.weight_ih_l0[:, 0] *= 20
            self.head.weight.zero_()
            self.head.weight[1, 2] = 50.0

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x[:, 0])[0].mean(1))


def test_of_a_tuple_the_first_tensor_is_restored() -> None:
    module, both = Recurrent().eval(), pair()
    label = int(module(both[:1].permute(0, 3, 1, 2)).argmax())
    lead = module(both.permute(0, 3, 1, 2))[:, label] - module(both.permute(0, 3, 1, 2))[:, 1 - label]
    if lead[1] > lead[0]:
        both = both.flip(0)
        label = int(module(both[:1].permute(0, 3, 1, 2)).argmax())
    named, _, layers = restored(module, both, label=label)
    assert layers == ["lstm"]
    assert named[0][:2] == ("lstm", 2)
    assert named[0][2] == pytest.approx(1.0, abs=1e-4)


def test_elements_are_restored_one_number_at_a_time() -> None:
    named, found, _ = restored(PlantedConv().eval(), pair(), neuron="element")
    assert found.of == 8 * 64
    assert named[0][1] == PLANTED * 64  # its top left position
    assert named[0][2] == pytest.approx(1.0, abs=0.1)


def test_time_first_outputs_are_restored_for_the_right_sample() -> None:
    named, _, _ = restored(PlantedTransformer(batch_first=False).eval(), pair(), layers=("attention", "down"))
    assert named[0][:2] == ("down", PLANTED)


class Breaks(nn.Module):
    """Some hidden units become NaN where the corner is white."""

    def __init__(self, broken: tuple[int, ...]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(64, 12)
        self.log = _LogOfSome(broken)
        self.second = nn.Linear(12, 12)
        self.head = nn.Linear(12, 2)
        with torch.no_grad():
            self.first.weight.mul_(0.01)
            self.first.bias.fill_(0.5)
            self.first.weight[list(broken), 0] = -2.0  # below zero where the corner is white

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.second(self.log(self.first(x.flatten(1)))))


class _LogOfSome(nn.Module):
    def __init__(self, which: tuple[int, ...]) -> None:
        super().__init__()
        self.which = list(which)
        self.scale = nn.Parameter(torch.ones(12))  # so that it counts as a layer

    def forward(self, x: Tensor) -> Tensor:
        found = x * self.scale
        found[:, self.which] = found[:, self.which].log()
        return found


@pytest.mark.parametrize("broken", [(7,), (2, 7, 9)])
def test_a_broken_answer_is_traced_to_the_first_layer_that_is_not_finite(broken: tuple[int, ...]) -> None:
    module, both = Breaks(broken).eval(), pair()
    answers = module(both.permute(0, 3, 1, 2))
    assert torch.isfinite(answers[0]).all()
    assert not torch.isfinite(answers[1]).any()
    named, found, _ = restored(module, both, label=int(answers[0].argmax()), layers=("log", "second"))
    assert found.reason is None
    assert {(name, neuron) for name, neuron, _, _ in named} == {("log", neuron) for neuron in broken}
    assert all(effect == 1 and back for _, _, effect, back in named)


def test_a_prediction_that_was_kept_is_restored_by_half_of_its_margin() -> None:
    module = PlantedConv().eval()
    with torch.no_grad():
        module.head.weight[1, PLANTED] *= 0.2  # the margin falls, the prediction stays
        module.hidden.weight[2], module.hidden.bias[2] = module.hidden.weight[PLANTED], module.hidden.bias[PLANTED]
        module.head.weight[:, 2] = torch.tensor([0.0, 5.0])  # and another channel has a quarter as much to do with it
    answers = module(pair().permute(0, 3, 1, 2))
    assert answers.argmax(1).tolist() == [0, 0]
    named, _, _ = restored(module, pair())
    assert named[0][1] == PLANTED
    assert named[0][3]
    assert named[1][1] == 2
    assert 0.01 < named[1][2] < 0.5
    assert not named[1][3]


def test_what_has_nothing_to_win_says_so() -> None:
    both = pair()
    _, found, _ = restored(PlantedConv().eval(), torch.stack([both[0], both[0]]))
    assert found.reason is not None
    assert "as clear as" in found.reason
    _, found, _ = restored(PlantedConv().eval(), both, label=1)
    assert found.reason is not None
    assert "does not read the seed input" in found.reason


def test_a_layer_without_one_tensor_for_each_sample_is_left_out_and_named_where_nothing_is_left() -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = PlantedLinear()
            self.lstm = nn.LSTM(8, 4, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            lengths = torch.full((len(x),), 8)
            packed = nn.utils.rnn.pack_padded_sequence(x[:, 0], lengths, batch_first=True, enforce_sorted=False)
            self.lstm(packed)
            return self.inner(x)

    named, found, layers = restored(Packed().eval(), pair())
    assert "lstm" in layers
    assert found.of > 0
    assert "lstm" not in {layer for layer, *_ in named}
    _, alone, _ = restored(Packed().eval(), pair(), layers=("lstm",))
    assert alone.of == 0
    assert alone.reason == "none of the watched layers can be patched; lstm: its samples have different numbers of positions"
    assert named[0][:2] == ("inner.hidden", PLANTED)


def test_no_hook_is_left_and_the_model_answers_as_before() -> None:
    module, both = PlantedConv().eval(), pair()
    before = module(both.permute(0, 3, 1, 2))
    restored(module, both)
    assert not any(child._forward_hooks for child in module.modules())
    assert torch.equal(module(both.permute(0, 3, 1, 2)), before)


def test_a_device_that_is_too_small_for_two_samples_is_no_crash() -> None:
    def one_by_one(count: int, work: Any) -> list[Any]:
        return [work(slice(row, row + 1)) for row in range(count)]

    _, found, _ = restored(PlantedConv().eval(), pair(), parts=one_by_one)
    assert found.reason is not None
    assert "too small" in found.reason
    halves, _, _ = restored(PlantedConv().eval(), pair(), batch=3, parts=in_one)
    whole, _, _ = restored(PlantedConv().eval(), pair(), batch=100)
    assert [row[:2] for row in halves] == [row[:2] for row in whole]
