"""gate regress asks on where the new model raises, ends its process or hangs: those samples have no answer, the others have theirs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from known_model import NumpyWorker, images, reads_stripes

import gate.regressing
from gate.afterwards import LoadedModel
from gate.campaign.supervisor import Refused, Silent, Worker
from gate.errors import GateError, WorkerError
from gate.models.outputs import OutputKind
from gate.regressing import _Sturdy
from gate.triage.regression import read_answers

X, Y = images(20)


class Fragile(NumpyWorker):
    """Ends in its own way wherever a batch holds one of the given samples."""

    def __init__(self, bad: list[np.ndarray], error: GateError) -> None:
        super().__init__(reads_stripes)
        self._bad, self._error, self._dead = [one.tobytes() for one in bad], error, False

    def call(self, operation: str, parameters: Any = None, arrays: Any = None, **more: Any) -> Any:
        assert not self._dead
        if arrays is not None and any(one.tobytes() in self._bad for one in arrays["x"]):
            self._dead = isinstance(self._error, WorkerError)
            raise self._error
        return super().call(operation, parameters, arrays)


def sturdy(monkeypatch: pytest.MonkeyPatch, bad: list[np.ndarray], error: GateError) -> tuple[_Sturdy, list[str]]:
    events: list[str] = []

    @contextmanager
    def started(*_: Any, **__: Any) -> Iterator[LoadedModel]:
        events.append("started")
        try:
            yield LoadedModel(cast(Worker, Fragile(bad, error)), "models:/m/2", "")
        finally:
            events.append("ended")

    monkeypatch.setattr(gate.regressing, "model_of", started)
    nothing = cast(Any, None)
    return _Sturdy(Path("run"), nothing, nothing, "models:/m/2", "cpu", None), events


@pytest.mark.parametrize("error", [Refused("no"), WorkerError("died"), Silent("hangs")])
def test_the_samples_that_it_dies_on_have_no_answer(monkeypatch: pytest.MonkeyPatch, error: GateError) -> None:
    asked, events = sturdy(monkeypatch, [X[3], X[17]], error)
    with asked:
        found = read_answers(cast(Worker, asked), X, OutputKind.LOGITS, 8)
    wanted = Y.copy()
    wanted[[3, 17]] = -1
    np.testing.assert_array_equal(found, wanted)
    assert events.count("started") == events.count("ended") == (1 if isinstance(error, Refused) else events.count("started"))
    assert (events.count("started") > 1) == isinstance(error, WorkerError)


def test_a_model_that_ends_on_everything_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, events = sturdy(monkeypatch, list(X), WorkerError("died"))
    with asked, pytest.raises(WorkerError, match="died"):
        read_answers(cast(Worker, asked), np.concatenate([X] * 10), OutputKind.LOGITS, 8)
    assert events.count("started") == events.count("ended") < 50
