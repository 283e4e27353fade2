"""Features are made of a declared sample, booked, and read as groups and as a map."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from known_model import NumpyWorker, images, reads_stripes
from test_types_of_defects import defect

from gate.campaign.loop import Seeds
from gate.domains.image.domain import ImageDomain
from gate.domains.image.image_set import sample_ids
from gate.domains.image.limits import Domain
from gate.errors import ModelError
from gate.models.outputs import OutputKind, probabilities
from gate.result import Defect
from gate.triage.allowance import Allowance
from gate.triage.feature_map import feature_map
from gate.triage.feature_space import FeatureSample, by_turns, gather
from gate.triage.subgroups import subgroups, subgroups_of

X, Y = images(80)
IDS = sample_ids(X, Y)
SEEDS = Seeds(X, Y, IDS, probabilities(reads_stripes(X), OutputKind.LOGITS))
DOMAIN = ImageDomain(Domain(), (8, 8, 1), np.uint8, (0.0, 255.0))


def stored(folder: Path, number: int, **changes: Any) -> Defect:
    found = defect(number, label=int(Y[number % 80]), predicted=int(Y[number % 80] + 1) % 4, **changes)
    path = DOMAIN.save(folder / found.id, np.roll(X[number % 80], 2, axis=1))
    return found.model_copy(update={"files": {"mutant_data": path.name}})


def gathered(folder: Path, defects: list[Defect], allowance: Allowance, worker: Any = None, batch_size: int = 16) -> FeatureSample:
    return gather(
        defects,
        SEEDS,
        worker=worker or NumpyWorker(reads_stripes),
        domain=DOMAIN,
        folder=folder,
        allowance=allowance,
        batch_size=batch_size,
        campaign_seed=5,
    )


def test_a_quarter_of_what_is_left_is_spent_and_every_pass_is_booked(tmp_path: Path) -> None:
    found = [stored(tmp_path, n) for n in range(40)]
    allowance, worker = Allowance(200), NumpyWorker(reads_stripes)
    sample = gathered(tmp_path, found, allowance, worker)
    assert len(sample.defects) + len(sample.labels) == allowance.spent == 50
    assert sum(len(arrays["x"]) for name, _, arrays in worker.calls if name == "features") == 50
    assert len(sample.labels) == 25
    assert np.bincount(sample.labels).min() >= 6  # every class that takes part alike
    assert np.linalg.norm(sample.mutants, axis=1) == pytest.approx(np.ones(25))
    assert sample.reason is None


def test_the_same_seed_takes_the_same_inputs(tmp_path: Path) -> None:
    found = [stored(tmp_path, n) for n in range(40)]
    first, second = (gathered(tmp_path, order, Allowance(200), batch_size=size) for order, size in ((found, 16), (found[::-1], 7)))
    assert first.defects == second.defects
    assert (first.seeds == second.seeds).all()


def test_one_root_cause_after_the_other_gets_its_turn_the_mildest_defect_first() -> None:
    large = [defect(n, root_cause="rc-large", severity=1.0 - n / 100) for n in range(10)]
    small = [defect(n, root_cause="rc-small") for n in range(20, 22)]
    assert [one.root_cause for one in by_turns([*small, *large], 5, 10)] == ["rc-large", "rc-small", "rc-large", "rc-small", "rc-large"]
    assert by_turns([*small, *large], 1, 10)[0].id == "d-000000000009"
    assert len(by_turns(large, 99, 3)) == 3
    assert by_turns(large, -1, 3) == []


def test_what_a_worker_may_not_survive_and_what_is_of_no_class_is_not_run(tmp_path: Path) -> None:
    crash = stored(tmp_path, 1, oracle="crash")
    probe = stored(tmp_path, 2).model_copy(update={"label": None})
    worker = NumpyWorker(reads_stripes)
    sample = gathered(tmp_path, [crash, probe], Allowance(400), worker)
    assert worker.calls == []
    assert sample.reason
    assert gathered(tmp_path, [crash, probe, stored(tmp_path, 3)], Allowance(400)).defects == ("d-000000000003",)


class Other(NumpyWorker):
    """Has no head, or features that are no numbers."""

    def __init__(self, features: np.ndarray | None) -> None:
        super().__init__(reads_stripes)
        self.features = features

    def call(self, operation: str, parameters: Any = None, arrays: Mapping[str, np.ndarray] | None = None, **_: Any) -> Any:
        if self.features is None:
            raise ModelError("The model has no classifier head whose input could be compared.", where="the model")
        return {"head": "head"}, {"features": np.repeat(self.features[None], len((arrays or {})["x"]), axis=0)}


def test_without_a_head_the_reason_is_said_everywhere(tmp_path: Path) -> None:
    found = [stored(tmp_path, n) for n in range(12)]
    sample = gathered(tmp_path, found, Allowance(400), Other(None))
    assert "no classifier head" in str(sample.reason)
    drawn = feature_map(sample, found, 0, late=False)
    assert drawn.points == ()
    assert drawn.reason == sample.reason
    assert subgroups_of(found, sample)["rc-1"].reason == sample.reason


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_features_that_point_nowhere_are_left_out(tmp_path: Path, value: float) -> None:
    sample = gathered(tmp_path, [stored(tmp_path, 1)], Allowance(400), Other(np.full(3, value)))
    assert sample.defects == ()
    assert sample.reason


def test_without_budget_or_time_there_is_a_reason(tmp_path: Path) -> None:
    found = [stored(tmp_path, n) for n in range(4)]
    assert "budget" in str(gathered(tmp_path, found, Allowance(3)).reason)
    asked = iter([False, False, False])  # the clock runs out after the two batches of mutants
    sample = gathered(tmp_path, found, Allowance(400, lambda: next(asked, True)), batch_size=2)
    assert "time" in str(sample.reason)


def unit(*rows: np.ndarray) -> np.ndarray:
    points = np.concatenate(rows)
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))


def cloud(axis: int, count: int, *, spread: float = 0.05) -> np.ndarray:
    return np.asarray(np.eye(6)[axis] + np.random.default_rng(axis).normal(0, spread, (count, 6)))


def test_two_clouds_are_two_subgroups_and_a_stray_belongs_to_none() -> None:
    points = unit(cloud(0, 20), cloud(1, 12), -np.ones((1, 6)))
    ids = [f"d-{n:012x}" for n in range(33)]
    found = subgroups(ids, points)
    assert [group.size for group in found.subgroups] == [20, 12]
    assert found.outside == 1
    assert found.looked_at == 33
    middle = points[:20] @ points[:20].sum(axis=0)
    assert found.subgroups[0].example == ids[int(middle.argmax())]
    order = np.random.default_rng(1).permutation(33)
    assert subgroups([ids[n] for n in order], points[order]) == found


def test_one_cloud_is_no_subgroup_and_few_defects_are_not_searched() -> None:
    one = subgroups([f"d-{n}" for n in range(30)], unit(cloud(0, 30)))
    assert one.subgroups == ()
    assert one.outside == 0
    assert one.reason
    few = subgroups([f"d-{n}" for n in range(7)], unit(cloud(0, 4), cloud(1, 3)))
    assert few.subgroups == ()
    assert "8" in str(few.reason)


def sampled(mutants: int, seeds: int) -> tuple[FeatureSample, list[Defect]]:
    found = [defect(n, root_cause=f"rc-{n % 3}") for n in range(mutants)]
    halves = unit(cloud(0, seeds // 2, spread=0.2), cloud(1, seeds - seeds // 2, spread=0.2))
    labels = np.repeat([0, 1], [seeds // 2, seeds - seeds // 2])
    return FeatureSample(tuple(one.id for one in found), unit(cloud(1, mutants, spread=0.2)), labels, halves, None), found


def test_mutants_lie_on_the_map_among_the_class_that_their_features_are_like() -> None:
    sample, found = sampled(20, 60)
    drawn = feature_map(sample, found, 3, late=False)
    assert len(drawn.points) == 80
    assert {point.defect for point in drawn.points} == {None, *(one.id for one in found)}
    at = np.array([(point.x, point.y) for point in drawn.points])
    assert at.min() == 0.0
    assert at.max() == 1.0
    first, second = (at[[point.defect is None and point.label == label for point in drawn.points]].mean(axis=0) for label in (0, 1))
    mutants = at[[point.defect is not None for point in drawn.points]]
    nearer = np.linalg.norm(mutants - second, axis=1) < np.linalg.norm(mutants - first, axis=1)
    assert nearer.mean() > 0.9
    assert feature_map(sample, found, 3, late=False) == drawn
    assert feature_map(sample, found, 4, late=False).points


def test_few_inputs_and_inputs_that_are_all_alike_still_give_an_answer() -> None:
    sample, found = sampled(3, 8)
    assert "12" in str(feature_map(sample, found, 0, late=False).reason)
    sample, found = sampled(4, 8)
    assert len(feature_map(sample, found, 0, late=False).points) == 12
    alike = FeatureSample(sample.defects, np.ones((4, 1)), sample.labels, np.ones((8, 1)), None)
    assert len(feature_map(alike, found, 0, late=False).points) == 12
    assert "time" in str(feature_map(sample, found, 0, late=True).reason)


def test_no_more_mutants_are_drawn_than_a_map_can_show() -> None:
    sample, found = sampled(500, 40)
    drawn = feature_map(sample, found, 0, late=False)
    shown = [point.defect for point in drawn.points if point.defect is not None]
    assert len(shown) == 300
    assert len({one.root_cause for one in found if one.id in set(shown)}) == 3
