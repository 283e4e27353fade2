"""Descents over the decision boundary: within the bound, as files hold them, no further than needed, and what they cost is what is said."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from known_model import images
from saved_models import Stripes, load_parameters, save
from torch import Tensor

from gate.campaign.answers import Answers
from gate.campaign.descent import descend
from gate.campaign.descent_options import Descent
from gate.campaign.iterates import Iterates
from gate.campaign.session import Session
from gate.errors import WorkerError

PULL = torch.tensor([[2.0, 1.0, 0.5, 0.0], [0.0, -3.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]]) / 255
"""Three classes' logits per file value of a picture of four pixels."""


class Model:
    """Linear; counts its passes."""

    def __init__(self, bias: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> None:
        self.bias = torch.tensor(bias)
        self.work = 0

    def __call__(self, x: Tensor, gradients: bool) -> tuple[Tensor, Tensor]:
        self.work += 3 * len(x) if gradients else len(x)
        scores = x.flatten(1) @ PULL.T + self.bias
        return scores.detach() * 2, scores


def run(
    model: Model, x: Tensor, labels: list[int], targets: list[int], epsilon: float = 20.0, *, whole: bool = True, **how: Any
) -> Iterates:
    return descend(
        model,
        lambda raw: raw,
        x,
        torch.tensor(labels),
        torch.tensor(targets),
        descent=Descent(**how),
        epsilon=epsilon,
        bounds=(0.0, 255.0),
        whole=whole,
    )


def grey(count: int, value: float = 100.0) -> Tensor:
    return torch.full((count, 2, 2, 1), value)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("direction", ["sign", "normalised"])
def test_every_step_is_a_file_within_the_bound_and_its_answer_is_kept(whole: bool, direction: Any) -> None:
    model, x = Model(), grey(3, 120.0) + torch.arange(3).view(3, 1, 1, 1)
    found = run(model, x, [0, 0, 0], [2, 1, 0], 50.5, whole=whole, direction=direction, hopeless=100.0, overshoot=0.3)
    assert len(found.mutants) >= 6
    assert (found.mutants - x[found.rows]).abs().max() <= (50 if whole else 50.5)
    if whole:
        assert torch.equal(found.mutants, found.mutants.round())
    scores = found.mutants.flatten(1) @ PULL.T
    torch.testing.assert_close(found.raw, scores)
    torch.testing.assert_close(found.flat, 2 * scores)
    assert found.work == model.work
    assert found.work <= 3 * Descent(num_steps=4).work()


def test_it_stops_at_the_class_it_is_after_and_no_sooner() -> None:
    # Class 1 lies a little below class 0, class 2 farther off.
    x = grey(2)
    bias = (0.0, 3.5 * 100 / 255 + 2 * 100 / 255 - 0.05, 0.9)
    nearest = run(Model(bias), x[:1], [0], [0], 90.0)
    assert len(nearest.mutants) == 1  # one step was enough
    assert nearest.raw.argmax(1).tolist() == [1]
    other = run(Model(bias), x[:1], [0], [2], 90.0, num_steps=8, hopeless=100.0)
    assert other.raw[-1].argmax() == 2
    assert (other.raw[:-1].argmax(1) != 2).all()


def test_a_boundary_far_beyond_the_bound_costs_one_gradient_and_no_execution() -> None:
    model = Model((50.0, 0.0, 0.0))
    found = run(model, grey(4), [0] * 4, [1, 2, 0, 1])
    assert len(found.mutants) == len(found.rows) == 0
    assert found.work == model.work == 12
    assert found.flat.shape == (0, 3)
    assert found.raw.shape == (0, 3)


def test_the_step_is_as_long_as_the_boundary_is_far_or_as_the_settings_say() -> None:
    bias = (0.05, 3.5 * 100 / 255 + 2 * 100 / 255, 0.0)  # 0.05 in logits from class 1
    x = grey(1)
    by_margin = run(Model(bias), x, [0], [1], num_steps=1)
    dual = float((PULL[0] - PULL[1]).abs().sum())
    assert float((by_margin.mutants - x).abs().max()) == round(1.5 * 0.05 / dual)
    by_settings = run(Model(bias), x, [0], [1], num_steps=1, step_size=0.5)
    assert float((by_settings.mutants - x).abs().max()) == 10
    alike = run(Model(bias), x, [0], [1], num_steps=1, step_size=0.5, direction="normalised", whole=False)
    moved = (alike.mutants - x).flatten()
    torch.testing.assert_close(moved / moved.abs().max(), -(PULL[0] - PULL[1]) / (PULL[0] - PULL[1]).abs().max())


# In the session.

X, Y = images(40)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    made = Session()
    folder: Path = save(Stripes(), tmp_path_factory.mktemp("stripes") / "model")
    made.do_load({}, **load_parameters(folder))
    made.do_watch({"x": X[:3]}, coverage={"criteria": ["kmnc"]}, kind="logits")
    made.do_profile({"x": X, "y": Y})
    made.do_cover_seeds({"x": X})
    made.do_open_arms({}, arms=["search", "random", "noise"])
    return made


def asked(session: Session, token: int, bound: float = 0.35, **how: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    descent = json.loads(json.dumps(asdict(Descent(**how))))
    return session.do_descend({"x": X, "labels": Y, "targets": (Y + 1) % 4}, token=token, bound=bound, descent=descent)


def test_what_a_descent_ran_is_counted_without_running_it_again(session: Session) -> None:
    before = session.do_describe({})[0]["model_calls"]
    said, made = asked(session, -1)
    assert session.do_describe({})[0]["model_calls"] - before == said["work"]
    assert made["x"].dtype == np.uint8
    assert np.abs(made["x"].astype(int) - X[made["rows"]]).max() <= int(0.35 * 255)
    earns = np.ones(len(made["x"]), dtype=bool)
    _, counted = session.do_run_kept({"earns": earns}, arm="search", token=-1)
    assert session.do_describe({})[0]["model_calls"] - before == said["work"]
    np.testing.assert_allclose(counted["raw"], session.do_forward({"x": made["x"]})[1]["raw"], rtol=1e-4, atol=1e-5)
    last = {int(row): int(answer) for row, answer in zip(made["rows"], counted["raw"].argmax(axis=1), strict=True)}
    assert np.mean([answer == (Y[row] + 1) % 4 for row, answer in last.items()]) > 0.9
    with pytest.raises(KeyError):
        session.do_run_kept({"earns": earns}, arm="search", token=-1)


def test_only_what_a_descent_can_answer_is_believed(session: Session) -> None:
    said, made = asked(session, -2)
    sent, parameters = {"x": X, "labels": Y, "targets": (Y + 1) % 4}, {"token": -2, "bound": 0.35, "descent": asdict(Descent())}
    check = Answers()
    check.check("descend", parameters, sent, said, made)
    for fields, arrays in [
        ({"work": 0}, made),
        ({"work": 10**9}, made),
        ({"work": said["work"], "more": 1}, made),
        (said, {**made, "rows": made["rows"] + 40}),
        (said, {**made, "rows": made["rows"][1:]}),
        (said, {**made, "x": made["x"].astype(np.float32)}),
        (said, {**made, "x": made["x"][:, :4]}),
        (said, {"x": np.repeat(X, 5, axis=0), "rows": np.repeat(np.arange(40), 5)}),
        (said, {"x": made["x"]}),
    ]:
        with pytest.raises(WorkerError, match="can't be true"):
            check.check("descend", parameters, sent, fields, arrays)
