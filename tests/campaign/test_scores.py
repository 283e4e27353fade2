"""Scores of entries on networks whose answers are known: the uncovered direction, dropout, answers that change."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
import torch
from known_model import images
from saved_models import Stripes, load_parameters, save
from torch import Tensor, nn

from gate.campaign.answers import Answers
from gate.campaign.scores import agreement, dropout_variance, gradient_norms, has_dropout
from gate.campaign.supervisor import Worker
from gate.config import CoverageSettings
from gate.coverage import criterion
from gate.coverage.layers import choose_layers, list_layers
from gate.coverage.recorder import Recorder
from gate.errors import WorkerError

cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Ramps(nn.Module):
    """[N, 2] -> two neurons: the first passes on the first number tenfold, the second the second number once; flat beyond 1."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2, bias=False)
        self.inner.weight.data = torch.tensor([[10.0, 0.0], [0.0, 1.0]])
        self.head = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(self.inner(x.clamp(max=1.0)))
        return found


def norms(covering: list[list[float]], x: list[list[float]], *, ruined: bool = False) -> list[float]:
    network = Ramps()
    example = torch.zeros(2, 2)
    layers = choose_layers(list_layers(network, example, 2, neuron="mean"), ("inner",))
    recorder = Recorder(network, layers)
    counted: Any = criterion("kmnc", sections=4)
    counted.fit({"inner": torch.tensor([[0.0, 0.0], [12.0, 1.2]])})
    counted.update({"inner": torch.tensor(covering)})
    if ruined:
        network.inner.weight.data[1] = torch.nan
    return gradient_norms(network, recorder, [counted], torch.tensor(x)).tolist()


def test_the_norm_is_that_of_the_gradient_towards_what_is_not_covered() -> None:
    start = [[0.1, 0.1]]
    both = norms([[1.0, 0.1]], start)
    assert both[0] == pytest.approx(np.hypot(10, 1) / 2, rel=1e-6)
    # The steep neuron has nothing left to gain once all of its sections are covered.
    sections = [[1.0, 0.1], [4.0, 0.1], [7.0, 0.1], [11.0, 0.1]]
    assert norms(sections, start)[0] == pytest.approx(0.5, rel=1e-6)
    everything = [[1.0, 0.1], [4.0, 0.4], [7.0, 0.7], [11.0, 1.1]]
    assert norms(everything, start) == [0.0]


def test_an_entry_that_no_small_step_moves_has_no_gradient_and_one_that_breaks_the_network_breaks_no_other() -> None:
    assert norms([[1.0, 0.1]], [[2.0, 2.0], [0.1, 2.0]]) == [0.0, pytest.approx(5.0)]
    assert norms([[1.0, 0.1]], [[0.1, 0.1]], ruined=True)[0] >= 0


class Dropping(nn.Module):
    """[N, 1, 8, 8] -> 4 logits: the stripes, of which dropout takes some away; in training mode the batch norm would change, too."""

    def __init__(self, share: float = 0.5) -> None:
        super().__init__()
        self.stripes = Stripes()
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(share)
        self.last = nn.Linear(4, 4, bias=False)
        self.last.weight.data = torch.eye(4)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.last(self.drop(self.norm(self.stripes(x))))
        return found


def test_dropout_alone_is_switched_on_and_everything_is_left_as_it_was() -> None:
    network = Dropping().eval()
    x = torch.rand(6, 1, 8, 8)
    before, state = network.norm.running_mean.clone(), torch.get_rng_state()  # type: ignore[union-attr]
    first, again, other = (
        dropout_variance(lambda: network(x).softmax(1), network, passes=8, seed=seed, device=torch.device("cpu")) for seed in (1, 1, 2)
    )
    assert (first > 0).all()
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not any(module.training for module in network.modules())
    assert torch.equal(network.norm.running_mean, before)  # type: ignore[arg-type]
    assert torch.equal(torch.get_rng_state(), state)


def test_what_drops_nothing_is_no_dropout() -> None:
    assert has_dropout(Dropping())
    assert not has_dropout(Dropping(0.0))
    assert not has_dropout(Stripes())


def test_agreement_is_the_share_of_the_commonest_answer() -> None:
    answers = iter([[0, 0, 0], [0, 1, 1], [0, 1, 2], [0, 1, 3]])

    def answer() -> Tensor:
        return torch.nn.functional.one_hot(torch.tensor(next(answers)), 4).float()

    assert agreement(answer, replays=4).tolist() == [1.0, 0.75, 0.25]
    broken = iter([torch.tensor([[torch.nan, 0.0]]), torch.tensor([[1.0, 0.0]])])
    assert agreement(lambda: next(broken), replays=2).tolist() == [0.5]


def watching(worker: Worker, network: nn.Module, folder: Path) -> np.ndarray:
    x = images(24)[0]
    worker.call("load", load_parameters(save(network, folder)))
    settings = CoverageSettings.model_validate({"criteria": ("kmnc",)}).model_dump(mode="json")
    worker.call("watch", {"coverage": settings, "kind": "logits"}, {"x": x[:3]})
    worker.call("profile", {}, {"x": x, "y": np.arange(len(x)) % 4})
    worker.call("cover_seeds", {}, {"x": x})
    worker.call("open_arms", {"arms": ["search", "random", "noise"]})
    return x


class Wavering(nn.Module):
    """[N, 1, 8, 8] -> 4 logits: sure of bright pictures, and for dark ones another answer every time."""

    def __init__(self) -> None:
        super().__init__()
        self.stripes = Stripes()

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.stripes(x)
        dark = (x.flatten(1).mean(1, keepdim=True) < 0.05).float()
        return scores * (1 - dark) + dark * torch.rand(len(x), 4) * 50


def test_the_worker_says_what_can_be_scored_and_scores_it(worker: Worker, tmp_path: Path) -> None:
    x = watching(worker, Dropping().eval(), tmp_path / "dropping")
    assert worker.call("scorable", {}, {"x": x[:3]})[0] == {"features": True, "dropout": True}
    before = worker.call("describe")[0]["model_calls"]
    gradient = worker.call("score", {"score": "gradient", "passes": 1, "seed": 0}, {"x": x})[1]["score"]
    assert (gradient > 0).all()
    assert worker.call("describe")[0]["model_calls"] - before == 3 * len(x)
    variance = worker.call("score", {"score": "variance", "passes": 8, "seed": 3}, {"x": x})[1]["score"]
    assert (variance > 0).all()
    assert worker.call("describe")[0]["model_calls"] - before == 11 * len(x)
    np.testing.assert_array_equal(worker.call("score", {"score": "variance", "passes": 8, "seed": 3}, {"x": x})[1]["score"], variance)


def test_replays_tell_the_steady_answers_from_those_that_change(worker: Worker, tmp_path: Path) -> None:
    x = watching(worker, Wavering().eval(), tmp_path / "wavering")
    assert worker.call("scorable", {}, {"x": x[:3]})[0] == {"features": True, "dropout": False}
    mixed = np.concatenate([x[:4], (x[:4] * 0.05).astype(np.uint8)])
    stable = worker.call("score", {"score": "replays", "passes": 10, "seed": 0}, {"x": mixed})[1]["score"]
    assert stable[:4].tolist() == [1.0] * 4
    assert (stable[4:] < 0.9).all()


@pytest.mark.parametrize(
    ("kind", "score"),
    [
        ("gradient", np.array([1.0, -1.0])),
        ("gradient", np.array([1.0, np.inf])),
        ("gradient", np.array([1.0])),
        ("gradient", np.array([1.0, 1.0], dtype=np.float32)),
        ("variance", np.array([0.0, 1.5])),
        ("replays", np.array([1.0, 0.05])),
        ("replays", np.array([1.0, 1.1])),
    ],
)
def test_scores_that_can_not_be_true_are_refused(kind: str, score: np.ndarray) -> None:
    answers = Answers()
    sent = {"x": np.zeros((2, 8, 8, 1), np.uint8)}
    answers.check("score", {"score": kind, "passes": 10, "seed": 0}, sent, {}, {"score": np.array([1.0, 0.5])})
    with pytest.raises(WorkerError, match="can't be true"):
        answers.check("score", {"score": kind, "passes": 10, "seed": 0}, sent, {}, {"score": score})
    with pytest.raises(WorkerError, match="can't be true"):
        answers.check("scorable", {}, sent, {"features": 1, "dropout": True}, {})
