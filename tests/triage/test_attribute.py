"""Each root cause gets one defect attributed before any gets two, and no more is spent than there is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gate.campaign.attribution_work import heat_work, patch_work
from gate.campaign.budget import BudgetSpent
from gate.domains.image.domain import ImageDomain
from gate.domains.image.limits import Domain
from gate.errors import ModelError, WorkerError
from gate.result import Defect
from gate.triage.allowance import Allowance
from gate.triage.attribute import NEURONS, Attributing, Inside

DOMAIN = ImageDomain(Domain(), (8, 8, 1), np.uint8, (0.0, 255.0))
HEAT, PATCH = 6, 9  # what the worker below takes; patching beside the neurons


class Worker:
    """Says the same of every pair; notes what it was asked."""

    def __init__(self, fail: dict[str, Exception] | None = None, method: str | None = "grad_cam_pp") -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.fail = fail or {}
        self.method = method

    def call(self, operation: str, parameters: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
        self.asked.append((operation, parameters))
        assert arrays["x"].shape == (2, 8, 8, 1)
        if operation in self.fail:
            raise self.fail[operation]
        if operation == "heat":
            if self.method is None:
                return {"method": None, "layer": None, "work": HEAT}, {}
            return {"method": self.method, "layer": "b", "work": HEAT}, {"maps": np.eye(4, dtype=np.float32)[None].repeat(2, 0)}
        fields = {"tried": parameters["most"], "of": 500, "skipped": {}, "reason": None, "work": PATCH + parameters["most"]}
        named = {"layers": [1, 0], "neurons": [4, 7], "effects": [0.9, 0.3], "restores": [True, False]}
        return fields, {name: np.array(values) for name, values in named.items()}


def defect(number: int, cause: str, folder: Path, **changes: Any) -> Defect:
    identity = f"d-{number:012x}"
    place = folder / "defects" / identity
    place.mkdir(parents=True)
    sample = np.full((8, 8, 1), 50, dtype=np.uint8)
    for name in ("original", "mutant"):
        DOMAIN.save(place / name, sample)
        sample = sample + 90
    values: dict[str, Any] = {
        "id": identity,
        "arm": "search",
        "seed_id": f"s{number}",
        "label": 1,
        "predicted": 2,
        "confidence_before": 0.9,
        "confidence_after": 0.8,
        "oracle": "changed_prediction",
        "operator": "brightness",
        "family": "photometry",
        "families": ("photometry",),
        "natural": True,
        "severity": 0.5,
        "recipe": (),
        "root_cause": cause,
        "files": {f"{name}_data": f"defects/{identity}/{name}.png" for name in ("original", "mutant")},
    }
    return Defect(**{**values, **changes})


def attributed(
    folder: Path, defects: list[Defect], worker: Worker, *, calls: int = 100_000, each: int = 3
) -> tuple[Attributing, Allowance, list[Defect]]:
    allowance = Allowance(calls)
    inside = Inside(worker, ["a", "b"], gradients=True, batch=32)  # type: ignore[arg-type]
    attributing = Attributing(inside, DOMAIN, folder, allowance, each)
    attributing.run(defects)
    return attributing, allowance, defects


def causes_of(defects: list[Defect]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in defects:
        found[one.root_cause] = found.get(one.root_cause, 0) + (one.attribution is not None)
    return found


def test_what_was_found_is_in_the_defect_and_in_its_folder(tmp_path: Path) -> None:
    attributing, allowance, (one,) = attributed(tmp_path, [defect(1, "rc-a", tmp_path)], Worker())
    assert attributing.reason is None
    assert one.neurons == ("b[4]", "a[7]")
    assert one.attribution is not None
    assert one.attribution.neurons[0].restores
    assert one.attribution.heat is not None
    assert (one.attribution.patched, one.attribution.of) == (NEURONS[1], 500)
    assert one.attribution.model_calls == allowance.spent == HEAT + PATCH + NEURONS[1]
    for name in ("cam_before", "cam"):
        assert (tmp_path / one.files[name]).is_file()
    written = json.loads((tmp_path / "defects" / one.id / "defect.json").read_text())
    assert Defect.model_validate(written) == one


def test_every_root_cause_gets_one_before_any_gets_two(tmp_path: Path) -> None:
    sizes = {"rc-small": 1, "rc-large": 5, "rc-middle": 2}
    made = [cause for cause, size in sizes.items() for _ in range(size)]
    defects = [defect(row, cause, tmp_path) for row, cause in enumerate(made)]
    least = HEAT + PATCH + NEURONS[0]
    # One more than three could be paid for only if heat were sure to take no more than it did.
    _, allowance, found = attributed(tmp_path, defects, Worker(), calls=2 * least + heat_work(4) + patch_work(NEURONS[0]))
    assert causes_of(found) == {"rc-small": 1, "rc-large": 1, "rc-middle": 1}
    assert allowance.spent <= allowance.calls


def test_no_more_than_a_few_of_each_and_the_mildest_first(tmp_path: Path) -> None:
    defects = [defect(row, "rc-a", tmp_path, severity=1 - row / 10) for row in range(6)]
    attributing, _, found = attributed(tmp_path, defects, Worker(), each=2)
    assert attributing.reason is None
    assert causes_of(found) == {"rc-a": 2}
    assert found[5].attribution is not None


@pytest.mark.parametrize("calls", [0, 10, 60, 200, 1000, 5000])
def test_never_more_than_the_allowance(tmp_path: Path, calls: int) -> None:
    defects = [defect(row, f"rc-{row % 7}", tmp_path) for row in range(20)]
    worker = Worker()
    attributing, allowance, found = attributed(tmp_path, defects, worker, calls=calls)
    done = sum(one.attribution is not None for one in found)
    assert allowance.spent <= calls
    assert (attributing.reason is None) == (done == 20)
    tried = [asked["most"] for operation, asked in worker.asked if operation == "patch"]
    assert all(NEURONS[0] <= most <= NEURONS[1] for most in tried)
    if calls >= 1000:
        assert set(causes_of(found).values()) <= {2, 3}  # enough for all
    if calls < heat_work(4) + patch_work(NEURONS[0]):
        assert not worker.asked
        assert attributing.reason == "the share of the budget for explaining was spent"


def test_more_budget_tries_more_neurons(tmp_path: Path) -> None:
    tried = []
    for number, calls in enumerate((600, 3000)):
        folder = tmp_path / str(number)
        worker = Worker()
        attributed(folder, [defect(row, f"rc-{row}", folder) for row in range(10)], worker, calls=calls)
        tried.append([asked["most"] for operation, asked in worker.asked if operation == "patch"])
    assert len(tried[0]) == len(tried[1]) == 10
    assert max(tried[0]) < min(tried[1])


def test_the_clock_ends_it_with_its_own_reason(tmp_path: Path) -> None:
    allowance = Allowance(1000, lambda: True)
    inside = Inside(Worker(), ["a", "b"], gradients=True, batch=32)  # type: ignore[arg-type]
    attributing = Attributing(inside, DOMAIN, tmp_path, allowance, 3)
    attributing.run([defect(1, "rc-a", tmp_path)])
    assert attributing.reason == "the time for explaining was up"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"label": None, "predicted": None, "seed_id": "probe:black"}, "a probe has no seed input to compare it with"),
        ({"oracle": "crash", "predicted": None}, "the model gives no answer to the mutant"),
        ({"oracle": "timeout", "predicted": None}, "the model gives no answer to the mutant"),
    ],
)
def test_what_can_not_be_run_is_not_run_and_says_why(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    worker = Worker()
    _, _, (one,) = attributed(tmp_path, [defect(1, "rc-a", tmp_path, **changes)], worker)
    assert not worker.asked
    assert one.attribution is not None
    assert (one.attribution.neurons_reason, one.attribution.heat_reason) == (reason, reason)


def test_a_mutant_without_a_finite_answer_has_neurons_and_no_heat(tmp_path: Path) -> None:
    worker = Worker()
    _, _, (one,) = attributed(tmp_path, [defect(1, "rc-a", tmp_path, oracle="non_finite", predicted=None)], worker)
    assert [operation for operation, _ in worker.asked] == ["patch"]
    assert one.neurons
    assert one.attribution is not None
    assert one.attribution.heat is None
    assert one.attribution.heat_reason == "the answer to the mutant is not finite, so it comes from no place"
    assert "cam" not in one.files


@pytest.mark.parametrize("failing", ["heat", "patch"])
def test_what_the_model_refuses_is_a_reason_and_the_rest_is_kept(tmp_path: Path, failing: str) -> None:
    worker = Worker({failing: ModelError("the model can't be looked into: TypeError: x\nmore")})
    attributing, _, (one,) = attributed(tmp_path, [defect(1, "rc-a", tmp_path)], worker)
    assert attributing.reason is None
    assert one.attribution is not None
    said = one.attribution.heat_reason if failing == "heat" else one.attribution.neurons_reason
    assert said == "the model can't be looked into: TypeError: x"
    assert bool(one.neurons) == (failing == "heat")
    assert (one.attribution.heat is not None) == (failing == "patch")


def test_a_worker_that_lies_or_dies_is_no_reason_but_an_error(tmp_path: Path) -> None:
    with pytest.raises(WorkerError):
        attributed(tmp_path, [defect(1, "rc-a", tmp_path)], Worker({"patch": WorkerError("it lies")}))


def test_what_was_attributed_before_the_time_was_up_stays(tmp_path: Path) -> None:
    class Ending(Worker):
        def call(self, operation: str, parameters: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
            if len(self.asked) >= 4:
                raise BudgetSpent("it is over")
            return super().call(operation, parameters, arrays)

    defects = [defect(row, f"rc-{row}", tmp_path) for row in range(3)]
    inside = Inside(Ending(), ["a", "b"], gradients=True, batch=32)  # type: ignore[arg-type]
    attributing = Attributing(inside, DOMAIN, tmp_path, Allowance(10_000), 3)
    with pytest.raises(BudgetSpent):
        attributing.run(defects)
    assert sum(one.attribution is not None for one in defects) == 2
    assert attributing.reason == "the budget ended"


def test_no_place_is_said_to_be_none(tmp_path: Path) -> None:
    _, _, (one,) = attributed(tmp_path, [defect(1, "rc-a", tmp_path)], Worker(method=None))
    assert one.attribution is not None
    assert one.attribution.heat_reason == "no part of the picture speaks for the answers"
