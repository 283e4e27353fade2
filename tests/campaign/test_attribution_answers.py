"""What the supervisor believes of a worker that says where a defect comes from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gate.campaign.answers import Answers
from gate.campaign.attribution_work import MOST_NAMED, heat_work, patch_work
from gate.errors import WorkerError

PAIR = {"x": np.zeros((2, 8, 6, 1), dtype=np.uint8)}
PATCH = {"label": 1, "most": 4, "batch": 32, "gradients": True}
HEAT = {"classes": [1, 0], "grid": 4, "batch": 32, "gradients": True}

Answer = tuple[dict[str, Any], dict[str, np.ndarray]]


def patched() -> Answer:
    fields = {"tried": 4, "of": 5, "reason": None, "work": 12}
    return fields, {
        "layers": np.array([0, 1]),
        "neurons": np.array([1, 2]),
        "effects": np.array([0.9, 0.2]),
        "restores": np.array([True, False]),
    }


def heated() -> Answer:
    return {"method": "grad_cam_pp", "layer": "a", "work": 6}, {"maps": np.ones((2, 4, 3), dtype=np.float32)}


@pytest.fixture
def answers() -> Answers:
    made = Answers()
    watched = {"layers": {"a": 2, "b": 3}, "gradients": True, "steerable": True}
    made.check("watch", {"coverage": {}}, {}, watched, {})
    return made


def test_what_can_be_true_is_believed(answers: Answers) -> None:
    answers.check("patch", PATCH, PAIR, *patched())
    answers.check("heat", HEAT, PAIR, *heated())
    answers.check("heat", HEAT, PAIR, {"method": None, "layer": None, "work": heat_work(4)}, {})


def put(part: int, name: str, value: Any) -> Callable[[Answer], None]:
    def change(answer: Answer) -> None:
        answer[part][name] = value  # type: ignore[index]

    return change


@pytest.mark.parametrize(
    "change",
    [
        put(0, "work", patch_work(4) + 1),
        put(0, "work", -1),
        put(0, "tried", 5),
        put(0, "of", 6),
        put(0, "of", 3),
        put(0, "reason", "y" * 1000),
        put(0, "reason", 1),
        put(0, "extra", 1),
        put(1, "layers", np.array([0, 2])),
        put(1, "layers", np.array([-1, 1])),
        put(1, "layers", np.array([0.0, 1.0])),
        put(1, "neurons", np.array([2, 2])),
        put(1, "neurons", np.array([-1, 2])),
        put(1, "neurons", np.array([1])),
        put(1, "effects", np.array([0.2, 0.9])),
        put(1, "effects", np.array([np.nan, 0.1])),
        put(1, "effects", np.array([0.9, 0.2], dtype=np.float32)),
        put(1, "restores", np.array([1, 0])),
        lambda answer: answer[1].update(layers=np.array([0, 0]), neurons=np.array([1, 1])),
        lambda answer: answer[1].update(
            layers=np.zeros(MOST_NAMED + 1, dtype=np.int64),
            neurons=np.zeros(MOST_NAMED + 1, dtype=np.int64),
            effects=np.zeros(MOST_NAMED + 1),
            restores=np.zeros(MOST_NAMED + 1, dtype=bool),
        ),
    ],
)
def test_no_impossible_neuron_is_believed(answers: Answers, change: Callable[[Answer], None]) -> None:
    answer = patched()
    change(answer)
    with pytest.raises(WorkerError):
        answers.check("patch", PATCH, PAIR, *answer)


@pytest.mark.parametrize(
    "change",
    [
        put(0, "work", heat_work(4) + 1),
        put(0, "method", "magic"),
        put(0, "layer", "y" * 1000),
        put(1, "maps", np.ones((1, 4, 3), dtype=np.float32)),
        put(1, "maps", np.ones((2, 4, 3))),
        put(1, "maps", np.ones((2, 9, 3), dtype=np.float32)),
        put(1, "maps", np.ones((2, 4, 7), dtype=np.float32)),
        put(1, "maps", np.zeros((2, 4, 3), dtype=np.float32)),
        put(1, "maps", -np.ones((2, 4, 3), dtype=np.float32)),
        put(1, "maps", np.full((2, 4, 3), np.inf, dtype=np.float32)),
        put(0, "method", None),
    ],
)
def test_no_impossible_heat_is_believed(answers: Answers, change: Callable[[Answer], None]) -> None:
    answer = heated()
    change(answer)
    with pytest.raises(WorkerError):
        answers.check("heat", HEAT, PAIR, *answer)
