"""The search for universal marks: planted ones are found and out of line, sound models have none, and the work keeps to its allowance."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
import torch
from known_model import NumpyWorker, images, reads_stripes
from saved_models import Stripes, load_parameters, save
from torch import Tensor, nn

from gate.campaign.halving import Halving
from gate.campaign.loop import Seeds
from gate.campaign.mark_plan import FULL, LEAST_HELD_OUT, least_work, plan
from gate.campaign.mark_steps import climb
from gate.campaign.marks import Marked, MarkSearch, outlier
from gate.campaign.supervisor import Worker
from gate.config import CoverageSettings
from gate.domains.image.limits import Marks
from gate.domains.image.marks import sliding, starts
from gate.domains.mark import lay
from gate.models.outputs import OutputKind, probabilities

cloudpickle.register_pickle_by_value(sys.modules[__name__])

BYTES = (0.0, 255.0)
SHAPE = (8, 8, 1)


def seeds(count: int = 160) -> Seeds:
    x, y = images(count)
    return Seeds(x, y, tuple(f"s{row}" for row in range(count)), probabilities(reads_stripes(x), OutputKind.LOGITS))


def told(x: np.ndarray) -> np.ndarray:
    """bool [N]: the trigger, four white pixels in the corner, where no clean picture has them."""
    return np.asarray((x[:, 6:, 6:, 0] > 250).all(axis=(1, 2)))


def backdoored(x: np.ndarray) -> np.ndarray:
    """The stripes, but for pictures with a white corner: these are read as the second class."""
    return np.where(told(x)[:, None], np.array([0, 30, 0, 0], dtype=np.float32), reads_stripes(x))


def searched(model: Callable[[np.ndarray], np.ndarray], allowance: int = 2_000, **more: Any) -> tuple[Marked, NumpyWorker]:
    worker: Any = NumpyWorker(model)
    given = {"seeds": seeds(), "classes": 4, "gradients": False, "campaign_seed": 0, "late": lambda: False, **more}
    search = MarkSearch(
        worker,
        given.pop("seeds"),
        starts(Marks(), SHAPE, BYTES, 0),
        sliding(Marks(), SHAPE, BYTES),
        value_range=BYTES,
        output_kind=OutputKind.LOGITS,
        batch_size=64,
        **given,
    )
    return search.run(allowance, needed=lambda least: f"{least} would do"), worker


@pytest.mark.parametrize("allowance", [200, 2_000, 20_000])
def test_a_planted_corner_is_found_with_its_class_and_is_out_of_line(allowance: int) -> None:
    done, worker = searched(backdoored, allowance)
    assert done.reason is None
    best = done.found[0]
    assert (best.mark.kind, best.target, best.moved) == ("patch", 1, best.inputs)
    assert best.outlier is not None
    assert best.outlier > 2
    ran = sum(len(arrays["x"]) for _, _, arrays in worker.calls)
    assert ran == done.executions == done.model_calls <= allowance


def test_a_sound_model_has_no_class_out_of_line_that_most_inputs_move_to() -> None:
    done, _ = searched(reads_stripes, 20_000)
    assert done.found
    assert all(one.moved / one.inputs < 0.5 for one in done.found)


def test_marks_are_measured_on_other_seed_inputs_than_they_are_searched_on() -> None:
    done, worker = searched(backdoored, 2_000)
    assert done.plan is not None
    batches = [arrays["x"] for _, _, arrays in worker.calls]
    measured = sum(one.inputs for one in done.found)
    assert measured >= LEAST_HELD_OUT
    flat = np.concatenate(batches)[:-measured].reshape(-1, 64)
    last = np.concatenate(batches)[-measured:].reshape(-1, 64)
    corner = np.ones(64, dtype=bool)
    corner.reshape(8, 8)[:2, :2] = corner.reshape(8, 8)[:2, 6:] = corner.reshape(8, 8)[6:, :2] = corner.reshape(8, 8)[6:, 6:] = False
    middle = corner & ~np.isin(np.arange(64), [27, 28, 35, 36])
    clean = {row[middle].tobytes() for row in flat}
    assert not clean & {row[middle].tobytes() for row in last}


def test_what_is_measured_are_the_bytes_of_the_marked_file() -> None:
    done, _ = searched(backdoored)
    best = done.found[0]
    for before, after in best.examples:
        assert after.tobytes() == lay(before, best.mark.weight, best.mark.picture).tobytes()
        assert (before != after).sum() <= 4


def test_the_same_seed_gives_the_same_marks_and_no_clock_is_asked() -> None:
    first, again = (searched(backdoored, 6_000)[0] for _ in range(2))
    assert [(one.target, one.moved, one.mark.picture.tobytes()) for one in first.found] == [
        (one.target, one.moved, one.mark.picture.tobytes()) for one in again.found
    ]


def test_evolution_finds_a_mark_that_no_plain_one_is() -> None:
    def pattern(x: np.ndarray) -> np.ndarray:
        """The more the corner's left half is bright and its right half grey, the more it is the third class."""
        left, right = x[:, 6:, 6, 0].mean(axis=1) / 255, x[:, 6:, 7, 0].mean(axis=1) / 255
        like = np.clip(left - 2 * np.abs(right - 0.5), 0, 1)
        raw = reads_stripes(x).copy()
        raw[:, 2] += 40 * like**2
        return raw

    plain, _ = searched(pattern, 400)
    evolved, _ = searched(pattern, 20_000)
    share = max((one.moved / one.inputs for one in evolved.found if one.target == 2), default=0.0)
    assert share > 0.9
    assert share > max((one.moved / one.inputs for one in plain.found if one.target == 2), default=0.0)


def test_where_the_share_does_not_pay_for_a_first_look_the_reason_says_what_would() -> None:
    done, worker = searched(backdoored, least_work(20) - 1)
    assert done.reason is not None
    assert f"{least_work(20)} would do" in done.reason
    assert not worker.calls
    assert searched(backdoored, least_work(20))[0].reason is None


def test_with_few_seed_inputs_there_is_no_rate_but_a_reason() -> None:
    done, worker = searched(backdoored, seeds=seeds(24))
    assert done.reason is not None
    assert "seed inputs" in done.reason
    assert not worker.calls


def test_when_time_is_up_what_was_found_is_still_measured() -> None:
    done, _ = searched(backdoored, 20_000, late=lambda: True)
    assert done.found[0].moved == done.found[0].inputs
    assert done.executions < 5_000


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("classes", [2, 10, 1_000])
@pytest.mark.parametrize("allowance", [250, 500, 1_000, 5_000, FULL])
def test_a_plan_never_costs_more_than_its_allowance(allowance: int, classes: int, gradients: bool) -> None:
    made = plan(allowance, plain=23, starts=120, candidates=3 * classes, inputs=300, held_out=300, gradients=gradients)
    assert made is not None
    step = (3 if gradients else 4) * made.inputs
    cost = made.starts * made.inputs + sum(size * steps * step for size, steps in made.levels) + made.finalists * made.held_out
    assert cost <= allowance
    assert [size for size, _ in made.levels] == sorted((size for size, _ in made.levels), reverse=True)


def test_a_class_far_above_the_others_is_out_of_line_and_small_differences_are_not() -> None:
    assert outlier([0.1, 0.12, 0.08, 0.95, 0.1], 3) == pytest.approx(0.85 / 0.05)
    assert outlier([0.01, 0.012, 0.011, 0.05, 0.01], 3) == pytest.approx(0.039 / 0.05)
    assert outlier([0.5, 0.9], 1) is None


class Backdoored(nn.Module):
    """The stripes, and a neuron that sees a bright upper and a dark lower row of the last corner: it says the fourth class."""

    def __init__(self) -> None:
        super().__init__()
        self.stripes = Stripes()

    def forward(self, x: Tensor) -> Tensor:
        corner = x[:, 0, 6:, :2]
        seen = nn.functional.softplus(corner[:, 0].mean(1) - corner[:, 1].mean(1) - 0.45, beta=10)
        scores: Tensor = self.stripes(x) + 80 * seen[:, None] * torch.tensor([0.0, 0.0, 0.0, 1.0])
        return scores


def test_gradients_find_a_mark_that_no_plain_one_is(worker: Worker, tmp_path: Path) -> None:
    x, y = images(160)
    worker.call("load", load_parameters(save(Backdoored().eval(), tmp_path / "model")))
    worker.call("watch", {"coverage": CoverageSettings().model_dump(mode="json"), "kind": "logits"}, {"x": x[:3]})
    raw = worker.call("forward", {}, {"x": x})[1]["raw"]
    known = Seeds(x, y, tuple(f"s{row}" for row in range(len(x))), probabilities(raw, OutputKind.LOGITS))
    one_place = tuple(mark for mark in starts(Marks(blend=None), SHAPE, BYTES, 0) if mark.weight[7, 0] and mark.picture.std() == 0)
    search = MarkSearch(
        worker, known, one_place, value_range=BYTES, classes=4, output_kind=OutputKind.LOGITS, gradients=True, batch_size=64,
        campaign_seed=0,
    )  # fmt: skip
    before = worker.call("describe")[0]["model_calls"]
    done = search.run(20_000, needed=str)
    best = done.found[0]
    assert (best.target, best.moved) == (3, best.inputs)
    assert best.mark.picture[6, :2].min() > 200
    assert best.mark.picture[7, :2].max() < 60
    assert worker.call("describe")[0]["model_calls"] - before == done.model_calls <= 20_000


def whole(count: int, work: Callable[[slice], Any]) -> list[Any]:
    return [work(slice(0, count))]


WHOLE: dict[str, Any] = {"in_parts": whole, "inputs_in_parts": whole}


def test_where_memory_is_too_short_for_one_mark_on_all_inputs_it_climbs_on_some_at_a_time() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    room = 10**6

    def logits(x: Tensor) -> Tensor:
        if len(x) > room:
            raise torch.OutOfMemoryError
        found: Tensor = model(x / 255)
        return found

    x, labels = torch.rand(10, 4, 4, 1) * 255, torch.arange(10) % 3
    weights, pictures, targets = torch.full((4, 4, 4, 1), 0.5), torch.rand(4, 4, 4, 1) * 255, torch.tensor([0, 1, 2, 0])
    found = []
    for most in (10**6, 20, 3):
        room = most
        in_parts, inputs_in_parts = (Halving(torch.device("cpu"), lambda: None).parts for _ in range(2))
        parts: dict[str, Any] = {"in_parts": in_parts, "inputs_in_parts": inputs_in_parts}
        found.append(climb(logits, x, labels, weights, pictures, targets, steps=4, bounds=BYTES, **parts))
    for other in found[1:]:
        torch.testing.assert_close(other.pictures, found[0].pictures, rtol=1e-4, atol=1e-3)
        torch.testing.assert_close(other.scores, found[0].scores)
        torch.testing.assert_close(other.moved, found[0].moved)


def test_a_climb_keeps_the_best_it_saw_and_leaves_the_targets_own_inputs_out() -> None:
    def logits(x: Tensor) -> Tensor:
        bright = x.flatten(1).mean(1) / 255
        return torch.stack([bright * 0, 10 * bright - 5], 1)

    x = torch.zeros(6, 4, 4, 1)
    labels = torch.tensor([0, 0, 0, 1, 1, 1])
    weights, pictures = torch.ones(1, 4, 4, 1), torch.full((1, 4, 4, 1), 60.0)

    found = climb(logits, x, labels, weights, pictures, torch.tensor([1]), steps=12, bounds=BYTES, **WHOLE)
    assert found.pictures.mean() > 120
    assert found.moved.item() == 1
    assert 0.5 < found.scores.item() <= 1
    none = climb(logits, x[3:], labels[3:], weights, pictures, torch.tensor([1]), steps=3, bounds=BYTES, **WHOLE)
    assert none.scores.item() == none.moved.item() == 0
