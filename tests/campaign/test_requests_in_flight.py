"""Several requests may be on their way to a worker: answers come in order, nobody waits for the other to read, and a death is told once."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
from saved_models import load_parameters, save
from torch import Tensor, nn

from gate.campaign.supervisor import Worker
from gate.errors import WorkerError

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SIDE = 160


class Echo(nn.Module):
    """Gives every pixel back, so that answers are larger than what a socket holds; 250 in the first one ends the process."""

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        if flat[0, 0] == 250:
            os._exit(3)
        if flat[0, 0] == 251:
            raise ValueError("no such picture")
        return flat


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(Echo().eval(), tmp_path_factory.mktemp("echo") / "model")


@pytest.fixture
def worker(tmp_path: Path, folder: Path) -> Iterator[Worker]:
    with Worker(tmp_path / "home") as started:
        started.call("load", load_parameters(folder, reading={"scale": [0.0, 255.0]}, classes=None))
        yield started


def pictures(value: int, rows: int = 64) -> dict[str, np.ndarray]:
    return {"x": np.full((rows, SIDE, SIDE, 1), value, dtype=np.uint8)}


def test_large_requests_and_answers_pass_each_other_and_keep_their_order(worker: Worker) -> None:
    asked = [worker.ask("forward", {}, pictures(value)) for value in range(4)]
    described = worker.call("describe")[0]  # reads what came before, and keeps it
    assert described["model_calls"] == 4 * 64
    for value in (2, 0, 3, 1):
        raw = worker.answer(asked[value])[1]["raw"]
        assert raw.shape == (64, SIDE * SIDE)
        assert (raw == value).all()


def test_what_the_model_refuses_belongs_to_its_own_request(worker: Worker) -> None:
    first, second, third = (worker.ask("forward", {}, pictures(value, 2)) for value in (1, 251, 3))
    assert (worker.answer(third)[1]["raw"] == 3).all()
    with pytest.raises(Exception, match="no such picture"):
        worker.answer(second)
    assert (worker.answer(first)[1]["raw"] == 1).all()


def test_a_death_is_told_to_everybody_who_waits_and_what_was_answered_before_is_kept(worker: Worker) -> None:
    first, second, third = (worker.ask("forward", {}, pictures(value, 2)) for value in (1, 250, 3))
    with pytest.raises(WorkerError, match="exited with status 3 during 'forward'"):
        worker.answer(third)
    assert (worker.answer(first)[1]["raw"] == 1).all()
    for request in (second, third):
        with pytest.raises(WorkerError, match="exited with status 3"):
            worker.answer(request)
    with pytest.raises(WorkerError, match="exited with status 3"):
        worker.ask("describe")
