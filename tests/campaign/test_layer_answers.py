"""What the supervisor believes of a worker that lists a model's layers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gate.campaign.answers import Answers
from gate.errors import WorkerError

SENT = {"x": np.zeros((3, 8, 8, 1), dtype=np.uint8)}
ROW = {
    **{"name": "a", "type": "torch.nn.Linear", "kind": "linear", "neurons": 4, "calls": 1},
    **{"head": False, "auto": None, "watchable": True, "watched": True},
}
LAYERS = {"layers": [ROW, {**ROW, "name": "b", "auto": "one neuron", "neurons": 1}], "problem": None}
NUMBERS = {"low": -1.0, "low_median": 0.0, "low_max": 0.5, "high_min": 1, "high_median": 2.0, "high": 3.0}
RANGES = {"ranges": {"a": {"range": NUMBERS, "constant": 1, "nonfinite": 0}, "b": {"range": None, "constant": 1, "nonfinite": 1}}}


def _ask(layers: dict[str, Any], ranges: dict[str, Any]) -> None:
    answers = Answers()
    answers.check("layers", {}, SENT, layers, {})
    answers.check("layer_ranges", {}, SENT, ranges, {})


def test_an_ordinary_list_is_believed() -> None:
    _ask(LAYERS, RANGES)
    _ask({**LAYERS, "problem": {"what": "no", "where": "there", "hint": "look"}}, {"ranges": {}})


@pytest.mark.parametrize(
    "change",
    [
        lambda said: said["layers"].append(ROW),
        lambda said: said["layers"][0].update(neurons=-1),
        lambda said: said["layers"][0].update(head="yes"),
        lambda said: said["layers"][0].update(auto=3),
        lambda said: said["layers"][0].pop("calls"),
        lambda said: said.update(problem={"what": "no"}),
        lambda said: said.update(layers={}),
    ],
)
def test_a_list_of_layers_that_makes_no_sense_is_refused(change: Callable[[dict[str, Any]], Any]) -> None:
    said = copy.deepcopy(LAYERS)
    change(said)
    with pytest.raises(WorkerError, match="answer to 'layers' can't be true"):
        _ask(said, RANGES)


@pytest.mark.parametrize(
    "change",
    [
        lambda said: said["ranges"].update(c=said["ranges"]["b"]),
        lambda said: said["ranges"]["a"].update(constant=5),
        lambda said: said["ranges"]["a"].update(nonfinite=-1),
        lambda said: said["ranges"]["a"]["range"].update(high=float("inf")),
        lambda said: said["ranges"]["a"]["range"].update(high="3"),
        lambda said: said["ranges"]["a"]["range"].pop("low"),
    ],
)
def test_ranges_that_make_no_sense_are_refused(change: Callable[[dict[str, Any]], Any]) -> None:
    said = copy.deepcopy(RANGES)
    change(said)
    with pytest.raises(WorkerError, match="answer to 'layer_ranges' can't be true"):
        _ask(LAYERS, said)
