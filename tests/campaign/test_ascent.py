"""The coverage gradient: bound, bytes, targets, early stop and lengths, on networks whose every answer is known."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gate.campaign.ascent import climb
from gate.campaign.ascent_options import Ascent
from gate.campaign.iterates import Iterates
from gate.coverage import criterion
from gate.coverage.activations import ActivationBatch
from gate.coverage.items import NeuronCriterion

BOUNDS = (0.0, 255.0)


class Mean(nn.Module):
    """Neuron j of two reads the mean of one half of the picture, in 0..1."""

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(len(x), 2, -1).mean(2) / 255


def open_above(highs: list[float]) -> NeuronCriterion:
    """SNAC with these upper limits."""
    made = criterion("snac")
    assert isinstance(made, NeuronCriterion)
    made.fit({"mean": torch.tensor([[0.0] * len(highs), highs])})
    made.update({"mean": torch.zeros(1, len(highs))})
    return made


def climbed(
    x: Tensor, criteria: list[NeuronCriterion], *, module: nn.Module | None = None, epsilon: float = 15.0, **options: Any
) -> Iterates:
    model = Mean() if module is None else module
    whole, targets = options.pop("whole", True), options.pop("goal", torch.zeros(len(x), dtype=torch.int64))

    def watched(values: Tensor) -> tuple[ActivationBatch, Tensor]:
        flat = model(values)
        return ActivationBatch({"mean": flat.shape[1]}, flat), flat.detach()

    def seen(values: Tensor) -> tuple[ActivationBatch, Tensor]:
        with torch.no_grad():
            return watched(values)

    return climb(
        watched,
        seen,
        criteria,
        x,
        targets,
        torch.full((criteria[0].neurons,), 0.1),
        ascent=Ascent(**options),
        epsilon=epsilon,
        bounds=BOUNDS,
        whole=whole,
        luck=torch.full((len(x), criteria[0].neurons), 0.5),
    )


def pictures(*greys: float) -> Tensor:
    return torch.tensor(greys).view(-1, 1, 1, 1).expand(-1, 4, 4, 1).clone()


@pytest.mark.parametrize("direction", ["sign", "normalised"])
@pytest.mark.parametrize("whole", [True, False])
def test_every_step_keeps_the_bound_the_range_and_the_files_values(direction: str, whole: bool) -> None:
    x = pictures(100.0, 250.0, 3.0)
    found = climbed(x, [open_above([5.0, 5.0])], direction=direction, num_steps=4, step_size=0.6, epsilon=15.7, whole=whole)
    assert len(found.mutants) >= 12
    assert float((found.mutants - x[found.rows]).abs().max().detach()) <= (15.0 if whole else 15.7 + 1e-4)
    assert float(found.mutants.min()) >= 0
    assert float(found.mutants.max()) <= 255
    assert torch.equal(found.mutants, found.mutants.round()) == whole


def test_what_was_recorded_is_what_the_file_shows() -> None:
    found = climbed(pictures(100.0, 30.0), [open_above([5.0, 5.0])], num_steps=3)
    assert torch.allclose(found.flat, Mean()(found.mutants))
    assert torch.allclose(found.raw, found.flat)


def test_work_is_three_for_a_gradient_and_one_for_another_length() -> None:
    options = Ascent(num_steps=3, multiples=(1.0, 0.5, 2.0), step_size=0.2)
    found = climbed(pictures(100.0), [open_above([5.0, 5.0])], num_steps=3, multiples=(1.0, 0.5, 2.0), step_size=0.2)
    assert len(found.mutants) == options.executions() == 9
    assert found.work == options.work() == 3 * 3 + 3 * 2 + 1


def test_a_reachable_item_is_reached_by_a_step_of_just_the_length_it_needs() -> None:
    item = open_above([0.42, 5.0])
    found = climbed(pictures(100.0), [item], num_steps=1, multiples=(1.0,), targets=0)
    assert item.update({"mean": found.flat}).tolist() == [1]
    # 0.42 of 255 is 107.1; what is asked for beyond it is a two-hundredth of the range.
    assert 107 < float(found.mutants.flatten(1)[0, :8].mean()) < 110
    assert torch.equal(found.mutants.flatten(1)[0, 8:], torch.full((8,), 100.0))


def test_samples_climb_to_the_neuron_that_each_was_chosen_for() -> None:
    found = climbed(pictures(100.0, 100.0), [open_above([0.42, 0.42])], num_steps=1, multiples=(1.0,), targets=0, goal=torch.tensor([0, 1]))
    left, right = found.mutants.flatten(1)[:, :8].mean(1), found.mutants.flatten(1)[:, 8:].mean(1)
    assert left.tolist()[0] > 105 > left.tolist()[1]
    assert right.tolist()[1] > 105 > right.tolist()[0]


def test_other_targets_are_those_that_lack_least() -> None:
    item = open_above([0.42, 0.43, 0.9])

    class Thirds(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.flatten(1)[:, :15].reshape(len(x), 3, -1).mean(2) / 255

    found = climbed(pictures(100.0), [item], module=Thirds(), num_steps=1, multiples=(1.0,), targets=2)
    moved = (found.mutants - 100).flatten(1)[0, :15].view(3, 5).mean(1)
    assert moved[0] > 0
    assert moved[1] > 0
    assert moved[2] == 0


def test_criteria_are_told_apart_by_the_target() -> None:
    snac, nbc = open_above([0.42, 5.0]), criterion("nbc")
    assert isinstance(nbc, NeuronCriterion)
    nbc.fit({"mean": torch.tensor([[0.38, 0.0], [0.9, 1.0]])})
    nbc.update({"mean": torch.full((1, 2), 0.5)})
    found = climbed(pictures(100.0, 100.0), [snac, nbc], num_steps=1, multiples=(1.0,), targets=0, goal=torch.tensor([0, 2]))
    means = found.mutants.flatten(1)[:, :8].mean(1).tolist()
    assert means[0] > 100 > means[1]


def test_a_sample_that_lacks_nothing_stops_at_once() -> None:
    item = open_above([0.1, 0.1])
    item.update({"mean": torch.ones(1, 2)})
    found = climbed(pictures(100.0, 50.0), [item], num_steps=5)
    assert len(found.mutants) == 0
    assert found.work == 2 * 3


def test_a_sample_that_can_move_no_further_stops() -> None:
    found = climbed(pictures(100.0), [open_above([5.0, 5.0])], num_steps=20, multiples=(1.0,), step_size=0.5, targets=4)
    # Half of 15 values, rounded, twice; then the bound holds it.
    assert len(found.mutants) == 2
    assert found.work == 3 * 3 + (0 if len(found.mutants) else 1)


def test_a_sample_whose_progress_is_negligible_stops() -> None:
    far: dict[str, Any] = {"step_size": 0.1, "multiples": (1.0,), "num_steps": 8, "targets": 0}
    assert len(climbed(pictures(100.0), [open_above([5.0, 5.0])], **far).mutants) == 8
    # A step of 1.5 values out of the 1175 that lack is little progress.
    assert len(climbed(pictures(100.0), [open_above([5.0, 5.0])], least_progress=0.05, **far).mutants) == 1


def test_progressive_steps_grow() -> None:
    found = climbed(pictures(100.0), [open_above([5.0, 5.0])], num_steps=3, multiples=(1.0,), step_size=0.4, progressive=True)
    greys = [100.0, *found.mutants[:, 0, 0, 0].tolist()]
    steps = [after - before for before, after in pairwise(greys)]
    assert steps == [2.0, 4.0, 6.0]


def test_equal_mutants_are_not_run_twice() -> None:
    found = climbed(pictures(254.0), [open_above([5.0, 5.0])], num_steps=1, multiples=(1.0, 2.0, 3.0))
    assert len(found.mutants) == 1


def test_the_normalised_direction_moves_what_matters_more() -> None:
    class Weighted(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            weights = torch.linspace(0.1, 1.0, 16).to(x)
            return torch.stack([(x.flatten(1) * weights).mean(1) / 255] * 2, 1)

    even = climbed(pictures(100.0), [open_above([0.3, 5.0])], module=Weighted(), num_steps=1, multiples=(1.0,), targets=0)
    uneven = climbed(
        pictures(100.0), [open_above([0.3, 5.0])], module=Weighted(), num_steps=1, multiples=(1.0,), targets=0, direction="normalised"
    )
    assert len(set((even.mutants - 100).flatten().tolist())) == 1
    change = (uneven.mutants - 100).flatten()
    assert change[-1] > change[0]
    assert bool((change[1:] >= change[:-1]).all())


def test_without_criteria_there_is_nowhere_to_go() -> None:
    with pytest.raises(ValueError, match="none of the criteria"):
        climb(
            lambda x: (ActivationBatch({"mean": 2}, Mean()(x)), x),
            lambda x: (ActivationBatch({"mean": 2}, Mean()(x)), x),
            [],
            pictures(1.0),
            torch.zeros(1, dtype=torch.int64),
            torch.ones(2),
            ascent=Ascent(),
            epsilon=1.0,
            bounds=BOUNDS,
            whole=True,
            luck=torch.zeros(1, 2),
        )
