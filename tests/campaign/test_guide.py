"""Climbs as the search takes part in them: what earns, where they start, which way pays, and that they find what luck does not."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from known_model import NumpyWorker, Scene, images, reads_stripes
from saved_models import load_parameters, save
from torch import Tensor, nn

from gate.campaign.ascent_options import REMEMBERED
from gate.campaign.batch import Batch, Outcome
from gate.campaign.controls import random_batch
from gate.campaign.guide import OPERATOR, Guide, Ways
from gate.campaign.search import SearchArm
from gate.campaign.session import Session
from gate.campaign.supervisor import Request
from gate.config import SearchSettings
from gate.corpus.corpus import Corpus
from gate.domains.image.domain import ImageDomain
from gate.domains.image.limits import Domain
from gate.errors import WorkerError
from gate.models.outputs import OutputKind, predictions, probabilities
from gate.randomness import generator

LIGHT = 0.20  # share of full brightness below which the last neuron answers; the pictures have 0.42 and more
BUDGET = 1_500  # forward-equivalents


class Dusk(nn.Module):
    """The four stripes' brightness, and how far the picture lies below ``LIGHT``."""

    def __init__(self) -> None:
        super().__init__()
        self.stripes = nn.Linear(64, 5)
        weight = self.stripes.weight.detach().new_zeros(5, 8, 4, 2)
        for stripe in range(4):
            weight[stripe, :, stripe] = 20 / 16
        weight[4] = -1 / 64
        self.stripes.weight.data = weight.reshape(5, 64)
        self.stripes.bias.data = weight.new_tensor([0, 0, 0, 0, LIGHT])

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.stripes(x.flatten(1))[:, :4]
        return scores


class InProcess:
    """A session that answers as a worker does, without a process around it."""

    def __init__(self, folder: Path, x: np.ndarray, y: np.ndarray, coverage: Mapping[str, Any]) -> None:
        self.session = Session()
        self.call("load", load_parameters(folder))
        self.raw = self.call("forward", {}, {"x": x})[1]["raw"]
        self.call("watch", {"coverage": dict(coverage), "kind": "logits"}, {"x": x[:3]})
        self.call("profile", {}, {"x": x, "y": y})
        self.call("cover_seeds", {}, {"x": x})
        self.call("open_arms", {"arms": ["search", "random", "noise"]})

    def call(self, operation: str, parameters: Mapping[str, Any] | None = None, arrays: Any = None) -> tuple[dict[str, Any], Any]:
        asked = json.loads(json.dumps(dict(parameters or {})))
        found: tuple[dict[str, Any], Any] = getattr(self.session, f"do_{operation}")(dict(arrays or {}), **asked)
        return found

    def ask(self, operation: str, parameters: Mapping[str, Any], arrays: Any) -> Request:
        return Request(operation, {}, {}, 0.0, answered=self.call(operation, parameters, arrays))

    def answer(self, request: Request) -> tuple[dict[str, Any], Any]:
        assert request.answered is not None
        return request.answered

    def spent(self) -> int:
        return int(self.call("describe")[0]["model_calls"])


def arm_of(worker: InProcess, domain: ImageDomain, x: np.ndarray, y: np.ndarray, seed: int) -> SearchArm:
    return SearchArm(
        domain,
        Corpus(x),
        y,
        worker,  # type: ignore[arg-type]
        gradients=True,
        steerable=True,
        campaign_seed=seed,
        settings=SearchSettings(),
        probabilities=probabilities(worker.raw, OutputKind.LOGITS),
        deterministic=True,
        batch_size=64,
    )


def run(worker: InProcess, batch: Batch) -> tuple[Outcome, dict[str, Any]]:
    if batch.kept is None:
        said, made = worker.call("run", {"arm": batch.arm}, {"x": batch.x, "earns": batch.valid})
    else:
        said, made = worker.call("run_kept", {"arm": batch.arm, "token": batch.kept}, {"earns": batch.valid})
    none = np.full(len(batch.x), -1)
    predicted = predictions(made["raw"], OutputKind.LOGITS)
    return Outcome(probabilities(made["raw"], OutputKind.LOGITS), predicted, none, made["new_items"]), {**said, "raw_outputs": made["raw"]}


@pytest.fixture(scope="module")
def dusk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(Dusk(), tmp_path_factory.mktemp("dusk") / "model")


ONLY_DUSK = {"criteria": ["nc"], "nc_scale": "none", "nc_threshold": 0.0, "layers": ["stripes"]}


def bright_images() -> tuple[np.ndarray, np.ndarray]:
    """The usual pictures with a grey ground, which can get darker."""
    x, y = images(40)
    return np.maximum(x, 80 + x // 4), y


def domain_of(x: np.ndarray) -> ImageDomain:
    return ImageDomain(Domain(), x.shape[1:], x.dtype, (0.0, 255.0))


def found_after(folder: Path, seed: int, *, guided: bool) -> int | None:
    """The work after which the neuron that only low light reaches was covered; None where the budget was not enough."""
    x, y = bright_images()
    worker, domain = InProcess(folder, x, y, ONLY_DUSK), domain_of(x)
    arm = arm_of(worker, domain, x, y, seed)
    begun, step = worker.spent(), 0
    while worker.spent() - begun < BUDGET:
        batch = arm.propose(step, 64) if guided else random_batch(domain, x, seed, step, 64)
        outcome, said = run(worker, batch)
        if guided:
            arm.take(batch, outcome, np.zeros(len(batch.x), dtype=bool))
        step += 1
        if said["valid"]["nc"] == 1.0:
            return worker.spent() - begun
    return None


@pytest.mark.slow
def test_guidance_finds_the_neuron_that_only_low_light_reaches_and_luck_does_not(dusk: Path) -> None:
    guided = [found_after(dusk, seed, guided=True) for seed in range(10)]
    assert sum(work is not None for work in guided) >= 9
    lucky = [found_after(dusk, seed, guided=False) for seed in range(10)]
    assert sum(work is not None for work in lucky) <= 3


def searched(folder: Path, seed: int, steps: int, x: np.ndarray, y: np.ndarray) -> list[Batch]:
    worker = InProcess(folder, x, y, {"criteria": ["kmnc"], "layers": ["stripes"]})
    arm = arm_of(worker, domain_of(x), x, y, seed)
    batches: list[Batch] = []
    for step in range(steps):
        batches.append(arm.propose(step, 64))
        arm.take(batches[-1], run(worker, batches[-1])[0], np.zeros(len(batches[-1].x), dtype=bool))
    return batches


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_climbs_are_valid_recorded_and_within_the_bound_of_the_natural_mutant_they_start_from(dusk: Path, dtype: Any) -> None:
    x, y = bright_images()
    x = x.astype(dtype)
    batches = searched(dusk, 3, 8, x, y)
    climbs = [batch for batch in batches if batch.kept is not None]
    assert len(climbs) >= 2
    domain = domain_of(x)
    bound = domain.model_bounds[OPERATOR] * 255
    starts = set()
    for batch in climbs:
        assert batch.x.dtype == dtype
        assert batch.valid.mean() > 0.8
        for mutant, seed, recipe in zip(batch.x, batch.seeds, batch.recipes, strict=True):
            assert recipe[-1].operator == OPERATOR
            assert all(step.operator in domain.natural for step in recipe[:-1])
            parent = domain.replay(x[seed], recipe[:-1])
            assert np.abs(mutant.astype(np.float64) - parent).max() <= bound * (1 + 1e-6)
            starts.add(len(recipe))
    assert starts >= {1, 2}  # from seed inputs and from natural mutants
    assert batches[0].kept is None  # cheap mutants first


def test_a_mutant_of_a_climb_is_counted_from_the_pass_it_was_made_in(dusk: Path) -> None:
    x, y = bright_images()
    worker = InProcess(dusk, x, y, {"criteria": ["kmnc"], "layers": ["stripes"]})
    arm = arm_of(worker, domain_of(x), x, y, 3)
    for step in range(8):
        batch = arm.propose(step, 64)
        before = worker.spent()
        outcome, said = run(worker, batch)
        assert worker.spent() - before == (len(batch.x) if batch.kept is None else 0)
        np.testing.assert_allclose(said["raw_outputs"], worker.call("forward", {}, {"x": batch.x})[1]["raw"], rtol=1e-4, atol=1e-5)
        arm.take(batch, outcome, np.zeros(len(batch.x), dtype=bool))
        if batch.kept is not None:
            with pytest.raises(KeyError):
                worker.call("run_kept", {"arm": "search", "token": batch.kept}, {"earns": batch.valid})
            return
    raise AssertionError("no climb in eight steps")


def test_what_the_bound_cuts_back_is_not_what_ran_and_earns_nothing() -> None:
    made = Scene(executions=400, cheat=lambda x: 255 - x)
    seen: list[Batch] = []
    original = made.search.propose

    def propose(step: int, count: int) -> Batch:
        seen.append(original(step, count))
        return seen[-1]

    made.search.propose = propose  # type: ignore[method-assign]
    made.run()
    climbs = [batch for batch in seen if batch.kept is not None]
    assert climbs
    assert not any(batch.valid.any() for batch in climbs)


def test_a_climb_from_an_input_that_there_is_not_is_the_workers_fault() -> None:
    made = Scene(executions=400)
    made.worker.climb_from = 10**6
    original = made.worker.call

    def call(operation: str, *given: Any, **options: Any) -> Any:
        fields, arrays = original(operation, *given, **options)
        if operation == "aim":
            arrays = {**arrays, "places": arrays["places"] + 10**6}
        return fields, arrays

    made.worker.call = call  # type: ignore[method-assign]
    with pytest.raises(WorkerError, match="that there is not"):
        made.run()


def test_the_same_seed_climbs_to_the_same_bytes(dusk: Path) -> None:
    x, y = bright_images()
    one, other, third = [searched(dusk, seed, 6, x, y) for seed in (5, 5, 6)]
    for mine, theirs in zip(one, other, strict=True):
        assert mine.x.tobytes() == theirs.x.tobytes()
        assert mine.kept == theirs.kept
    assert any(mine.x.tobytes() != theirs.x.tobytes() for mine, theirs in zip(one, third, strict=True))


def natural_batches(domain: ImageDomain, x: np.ndarray, count: int) -> Iterator[Batch]:
    """Of the search, each of 64 random mutants."""
    for step in range(count):
        yield replace(random_batch(domain, x, 7, step, 64), arm="search", entries=np.zeros(64, dtype=np.int64))


def guide_of(worker: Any, domain: ImageDomain, x: np.ndarray) -> Guide:
    return Guide(domain, Corpus(x), worker, campaign_seed=7, position=0)


def test_no_batch_is_held_for_the_rows_that_can_be_climbed_from() -> None:
    x, _ = bright_images()
    domain = domain_of(x)
    guide, batches = guide_of(None, domain, x), []
    for batch in natural_batches(domain, x, 12):
        batches.append(weakref.ref(batch.x))
        worth = np.zeros(64)
        worth[batch.valid.argmax()] = 1.0  # one of each that would have to be held for long
        guide.take(batch, worth, len(x))
    del batch
    gc.collect()
    assert [one for one in batches if one() is not None] == []


def test_the_worker_hears_of_everything_that_can_be_climbed_from_before_it_forgets_it() -> None:
    x, _ = bright_images()
    domain, worker = domain_of(x), NumpyWorker(reads_stripes)
    guide, told, able, taken = guide_of(worker, domain, x), [], 0, 0
    for batch in natural_batches(domain, x, 3 * REMEMBERED):
        guide.tell(due=True)
        for _, _, arrays in worker.calls:
            told += arrays["fresh"].tolist()
            assert all(taken - run < REMEMBERED - 1 for run, _, _ in arrays["fresh"])  # one more may have run than was taken
        worker.calls.clear()
        guide.take(batch, np.zeros(64), len(x))
        able, taken = able + int(batch.valid.sum()), taken + 1
    guide.tell()
    told += worker.calls[0][2]["fresh"].tolist()
    assert len({(run, row) for run, row, _ in told}) == len(told) == able > 0


def test_what_an_earlier_corpus_brings_says_nothing_of_the_ways_to_go() -> None:
    x, _ = bright_images()
    domain = domain_of(x)
    guide = guide_of(None, domain, x)
    (batch,) = natural_batches(domain, x, 1)
    guide.take(replace(batch, entries=None), np.ones(64), len(x))
    assert np.isinf(guide._ways.pays()).all()
    guide.take(batch, np.ones(64), len(x))
    assert guide._ways.pays()[0] == 1.0


def test_the_way_that_pays_more_for_its_work_is_gone_more_and_none_is_forgotten() -> None:
    ways = Ways(3)
    taken = np.zeros(3)
    for step in range(300):
        way = ways.next(generator(0, "way", step))
        taken[way] += 1
        ways.learn(way, [100.0, 900.0, 200.0][way], [100.0, 300.0, 400.0][way])
    assert taken[1] > 240
    assert taken.min() > 3
    # When it stops paying it is left.
    taken[:] = 0
    for step in range(300, 600):
        way = ways.next(generator(0, "way", step))
        taken[way] += 1
        ways.learn(way, [100.0, 0.0, 10.0][way], [100.0, 300.0, 400.0][way])
    assert taken[0] > 240


def test_every_way_is_tried_and_where_nothing_pays_natural_mutants_come_first() -> None:
    ways = Ways(3)
    first = []
    for step in range(3):
        first.append(ways.next(generator(1, "way", step)))
        ways.learn(first[-1], 0.0, 1.0)
    assert first == [0, 1, 2]
    taken = np.bincount([ways.next(generator(2, "way", step)) for step in range(300)], minlength=3)
    assert taken[0] > 150
    assert taken.min() > 20


def test_climbs_that_come_to_nothing_and_replays_behind_the_last_batch_are_work_all_the_same() -> None:
    made = Scene(executions=400)
    in_vain, billed, in_batches = 0, [0], 0
    call, spent, propose = made.worker.call, made.search.entries.spent, made.search.propose

    def climbs_in_vain(operation: str, *given: Any, **options: Any) -> Any:
        nonlocal in_vain
        fields, found = call(operation, *given, **options)
        if operation == "climb":
            in_vain += fields["work"]
            found = {"x": found["x"][:0], "rows": found["rows"][:0]}
        return fields, found

    def noted(step: int, count: int) -> Batch:
        nonlocal in_batches
        batch = propose(step, count)
        in_batches += len(batch.x) + batch.model_calls
        made.search.entries._unbilled += 10  # as of an entry that is kept once the batch has run
        return batch

    def bills() -> int:
        billed.append(spent())
        return billed[-1]

    made.worker.call = climbs_in_vain  # type: ignore[method-assign]
    made.search.entries.spent = bills  # type: ignore[method-assign]
    made.search.propose = noted  # type: ignore[method-assign]
    search = made.run().counts["search"]
    assert in_vain > 0
    assert billed[-1] >= 10
    assert search.model_calls == in_batches + in_vain + billed[-1]
    assert spent() == 0
