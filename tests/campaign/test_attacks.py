"""The attacks on models whose boundary is known: what they find, what they cost, and what they leave alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gate.campaign.attacks import attack
from gate.campaign.starting_points import starting_points
from gate.domains.model_operators import MODEL_OPERATORS

ATTACKS = tuple(name for name, one in MODEL_OPERATORS.items() if one.family == "adversarial")
MINIMAL = ("deepfool", "deepfool_linf", "carlini_wagner", "boundary")
SHAPE = (6, 6, 1)


class Brightness(nn.Module):
    """File values -> three logits; the class follows from the picture's mean: below 100, below 150, above. Counts its samples."""

    def __init__(self, *, gradients: bool = True) -> None:
        super().__init__()
        self.forwards = self.backwards = 0
        self.gradients = gradients
        self.training = False

    def forward(self, x: Tensor) -> Tensor:
        self.forwards += len(x)
        mean = x.flatten(1).mean(dim=1)
        if not self.gradients:
            mean = mean.detach()
        logits = torch.stack([100 - mean, torch.minimum(mean - 100, 150 - mean), mean - 150], dim=1) / 10
        if logits.requires_grad:
            logits.register_hook(self._back)
        return logits

    def _back(self, gradient: Tensor) -> None:
        self.backwards += len(gradient)


class Deaf(Brightness):
    """Answers the first class whatever it sees, with gradients that lead nowhere in time."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 1e-3 + torch.tensor([100.0, 0.0, 0.0], device=x.device)


def inputs(count: int = 12) -> tuple[Tensor, Tensor]:
    """Pictures of the first two classes, two to six levels from the nearest boundary."""
    random = np.random.default_rng(0)
    labels = np.arange(count) % 2
    means = 100 + np.where(labels == 1, 1, -1) * random.uniform(2, 6, count)
    x = means[:, None, None, None] + random.permuted(np.tile(np.linspace(-30, 30, 36), (count, 1)), axis=1).reshape(count, *SHAPE)
    return torch.tensor(np.rint(x), dtype=torch.float32), torch.tensor(labels)


def run(name: str, model: nn.Module, x: Tensor, labels: Tensor, *, seed: int = 1, whole: bool = True, **given: Any) -> tuple[Tensor, int]:
    starts = torch.where((labels == 0).reshape(-1, 1, 1, 1), torch.full_like(x, 130.0), torch.full_like(x, 60.0))
    return attack(
        name,
        model,
        x,
        labels,
        epsilon=given.get("epsilon", 8.0),
        bounds=(0.0, 255.0),
        steps=MODEL_OPERATORS[name].steps,
        seed=seed,
        device=torch.device("cpu"),
        whole=whole,
        starts=given.get("starts", starts),
    )


@pytest.mark.parametrize("name", ATTACKS)
def test_each_crosses_a_boundary_that_is_near_and_what_it_finds_survives_rounding(name: str) -> None:
    x, labels = inputs()
    made, _ = run(name, Brightness(), x, labels)
    assert made.shape == x.shape
    rounded = made.round().clamp(0, 255)
    assert (Brightness()(rounded).argmax(1) != labels).float().mean() >= 0.9
    if name in MINIMAL:
        torch.testing.assert_close(made, rounded, atol=1e-3, rtol=0)
        distance = (made - x).flatten(1).square().mean(1).sqrt()
        needed = (x.flatten(1).mean(1) - 100).abs()
        # The nearest misclassified picture is so far away; where an attack doubles its step to get past rounding, a few times that.
        assert (distance <= (12 if name == "boundary" else 5) * needed + 1).all()


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("model", [Brightness, Deaf])
def test_the_work_is_what_the_model_saw_and_never_more_than_declared(name: str, model: type[Brightness]) -> None:
    x, labels = inputs()
    seen = model()
    _, calls = run(name, seen, x, labels)
    assert calls == seen.forwards + 2 * seen.backwards
    assert calls <= MODEL_OPERATORS[name].calls * len(x)
    assert MODEL_OPERATORS[name].cost == MODEL_OPERATORS[name].calls + 1


@pytest.mark.parametrize(("name", "least"), [("fgsm", 3), ("pgd", 30), ("deepfool", 22), ("deepfool_linf", 22), ("carlini_wagner", 63)])
def test_against_a_model_that_nothing_moves_it_is_all_that_was_declared(name: str, least: int) -> None:
    x, labels = inputs()
    _, calls = run(name, Deaf(), x, labels * 0)
    assert calls == least * len(x) == MODEL_OPERATORS[name].calls * len(x)


@pytest.mark.parametrize("name", MINIMAL)
def test_where_nothing_is_found_the_input_stays(name: str) -> None:
    x, labels = inputs()
    made, _ = run(name, Deaf(), x, labels * 0)
    if name in ("carlini_wagner", "boundary"):
        torch.testing.assert_close(made, x, atol=1e-3, rtol=0)
    assert torch.isfinite(made).all()


@pytest.mark.parametrize("name", ATTACKS)
def test_the_same_seed_gives_the_same_mutants_and_torchs_own_generator_is_left_alone(name: str) -> None:
    x, labels = inputs()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, _ = run(name, Brightness(), x, labels, seed=4)
    torch.testing.assert_close(torch.rand(3), expected, atol=0, rtol=0)
    again, _ = run(name, Brightness(), x, labels, seed=4)
    torch.testing.assert_close(first, again, atol=0, rtol=0)


def test_a_boundary_attack_needs_no_gradients_and_comes_nearer_than_its_starting_points() -> None:
    x, labels = inputs()
    model = Brightness(gradients=False)
    starts = torch.where((labels == 0).reshape(-1, 1, 1, 1), 200.0, 20.0).expand_as(x).contiguous()
    made, calls = run("boundary", model, x, labels, starts=starts)
    assert model.backwards == 0
    assert calls == model.forwards
    assert (model(made).argmax(1) != labels).all()
    near, far = ((one - x).flatten(1).square().mean(1) for one in (made, starts))
    assert (near < 0.1 * far).all()


def test_a_boundary_attack_leaves_alone_what_has_no_starting_point_or_is_misclassified_already() -> None:
    x, labels = inputs()
    starts = x.clone()
    starts[0] = 130.0
    labels = labels.clone()
    labels[2] = 1  # the model says 0
    made, calls = run("boundary", Brightness(), x, labels, starts=starts)
    torch.testing.assert_close(made[1:], x[1:], atol=1e-3, rtol=0)
    assert not torch.equal(made[0], x[0])
    assert calls < 0.5 * MODEL_OPERATORS["boundary"].calls * len(x)


def test_an_answer_that_depends_on_the_batch_is_no_error() -> None:
    class Moody(Brightness):
        def forward(self, x: Tensor) -> Tensor:
            logits = super().forward(x)
            return logits.roll(1, dims=1) if self.forwards % 5 == 0 else logits

    x, labels = inputs(7)
    for name in ATTACKS:
        made, _ = run(name, Moody(), x, labels)
        assert torch.isfinite(made).all()


def test_two_classes_and_float_files_are_no_obstacle() -> None:
    class Two(Brightness):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x)[:, :2]

    x, labels = inputs()
    for name in ATTACKS:
        made, _ = run(name, Two(), x, labels, whole=False)
        assert (Two()(made).argmax(1) != labels).float().mean() >= 0.9, name


def test_starting_points_are_near_seed_inputs_of_other_classes() -> None:
    random = np.random.default_rng(3)
    of_seeds = random.integers(0, 5, 200)
    seeds = (of_seeds[:, None] * 40 + random.integers(0, 30, (200, 9))).astype(np.uint8)
    labels = of_seeds[:120]
    parents = seeds[:120]
    found = starting_points(parents, labels, seeds, of_seeds, np.random.default_rng(0))
    classes = {seed.tobytes(): label for seed, label in zip(seeds, of_seeds, strict=True)}
    of_found = np.array([classes[one.tobytes()] for one in found])
    assert (of_found != labels).all()
    assert np.mean(np.abs(of_found - labels) == 1) > 0.8
    again = starting_points(parents, labels, seeds, of_seeds, np.random.default_rng(0))
    np.testing.assert_array_equal(found, again)


def test_where_all_seed_inputs_are_of_one_class_there_is_no_starting_point() -> None:
    seeds = np.arange(12, dtype=np.uint8).reshape(4, 3)
    none = starting_points(seeds, np.zeros(4, dtype=np.int64), seeds, np.zeros(4, dtype=np.int64), np.random.default_rng(0))
    np.testing.assert_array_equal(none, seeds)
