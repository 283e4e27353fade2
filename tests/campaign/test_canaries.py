"""Faults planted on purpose: where they begin, what they do to answers, and that nothing of them stays behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from known_model import CLASSES, images
from saved_models import Saying, Stripes, load_parameters, save

from gate.campaign.ascent_options import Ascent
from gate.campaign.canary_faults import Planted
from gate.campaign.canary_kinds import COLUMNS, KINDS, LEAST, Blind, Canary, Neurons, Trigger, blind_mutants, calibrated, scores_of
from gate.campaign.canary_scores import SCORES, axes
from gate.campaign.keeper import Keeper
from gate.campaign.session import Session
from gate.campaign.supervisor import Worker
from gate.config import CoverageSettings, InputSettings
from gate.coverage.layers import list_layers
from gate.domains.image.domain import ImageDomain
from gate.domains.image.image_set import sample_ids
from gate.domains.image.limits import Domain
from gate.domains.image.preprocess import Preprocess
from gate.errors import WorkerError
from gate.models.outputs import OutputKind, predictions, probabilities

X, Y = images(160)
RANGE = (0.0, 255.0)
PICTURES = tuple(name for name in KINDS if name != "neuron")


def blind(seed: int = 0, limits: Domain | None = None, neurons: tuple[Neurons, ...] = ()) -> Blind:
    domain = ImageDomain(limits or Domain(), (8, 8, 1), np.uint8, RANGE)
    parts = [(scores_of(mutants, RANGE), labels) for mutants, labels in blind_mutants(domain, X, Y, sample_ids(X, Y), seed)]
    scores, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Blind(len(CLASSES), Y, labels, COLUMNS, scores_of(X, RANGE), scores, neurons)


@pytest.fixture(scope="module")
def shown() -> Blind:
    return blind()


def made(name: str, shown: Blind, seed: int = 0) -> Canary:
    canary = calibrated(name, shown, seed, CLASSES)
    assert isinstance(canary, Canary), canary
    return canary


DARK = Trigger("brightness", -1, (-0.15,) * 4, (-0.05,) * 4)  # sets in below 0.15, and half holds at 0.1


def canary(*triggers: Trigger, action: str = "confuse", shift: int = 1) -> Canary:
    return Canary("dark", "dark pictures are read otherwise", triggers or (DARK,), action, shift, 0.01)


def planted(module: torch.nn.Module, fault: Canary, kind: str = "logits") -> tuple[Planted, Preprocess]:
    preprocess = Preprocess(InputSettings(), RANGE, 1)
    layers = list_layers(module, preprocess(torch.from_numpy(X[:3])), 4)
    return Planted(
        module, fault.to_json(), key=None, kind=OutputKind(kind), preprocess=preprocess, value_range=RANGE, layers=layers
    ), preprocess


# Where a fault begins.


@pytest.mark.parametrize("name", PICTURES)
def test_no_seed_input_brings_a_fault_about_and_some_blind_mutants_do(shown: Blind, name: str) -> None:
    found = calibrated(name, shown, 0, CLASSES)
    if isinstance(found, str):
        assert "valid mutants" in found
        return
    assert LEAST <= found.rate <= 0.05
    wrapper, preprocess = planted(Stripes().eval(), found)
    sound = Stripes().eval()
    with torch.no_grad():
        answers, clean = wrapper(preprocess(torch.from_numpy(X))), sound(preprocess(torch.from_numpy(X)))
    assert torch.equal(answers, clean)
    domain, changed, count = ImageDomain(Domain(), (8, 8, 1), np.uint8, RANGE), 0, 0
    for mutants, _ in blind_mutants(domain, X, Y, sample_ids(X, Y), 1):
        with torch.no_grad():
            inputs = preprocess(torch.from_numpy(mutants))
            answers, right = wrapper(inputs), sound(inputs)
        changed += int((torch.isnan(answers).any(1) | (answers.argmax(1) != right.argmax(1))).sum())
        count += len(mutants)
    assert 0 < changed / count < 0.1  # of other blind mutants than those it was chosen by


def test_most_kinds_can_be_planted_in_a_plain_model(shown: Blind) -> None:
    found = [calibrated(name, shown, 0, CLASSES) for name in PICTURES]
    assert sum(isinstance(one, Canary) for one in found) >= 8


def test_the_same_seed_plants_the_same_fault_and_another_one_another(shown: Blind) -> None:
    assert made("dark", shown) == made("dark", blind())
    assert len({calibrated("marked", shown, seed, CLASSES) and str(calibrated("marked", shown, seed, CLASSES)) for seed in range(6)}) > 1


def test_what_no_valid_mutant_shows_is_not_planted() -> None:
    none: dict[str, Any] = {name: _off(name) for name in ("geometry", "blur", "noise", "weather", "compression", "occlusion", "photometry")}
    only_stripes = Domain.model_validate({**none, "photometry": {**none["photometry"], "brightness": 0.01}})
    found = calibrated("turned", blind(limits=only_stripes), 0, CLASSES)
    assert isinstance(found, str)
    assert "fewer than" in found


def _off(family: str) -> dict[str, Any]:
    given: Mapping[str, Any] = getattr(Domain(), family).model_dump()
    return dict.fromkeys(given)


def test_a_neuron_is_chosen_that_blind_mutants_drive_beyond_the_clean_maximum(shown: Blind) -> None:
    random = np.random.default_rng(0)
    clean = random.uniform(0, 1, (160, 3)).astype(np.float32)
    clean[0] = 1.5
    mutants = random.uniform(0, 1, (1000, 3)).astype(np.float32)
    mutants[:15, 1] = 2.0
    found = made("neuron", replace(shown, neurons=(Neurons("deep", clean, mutants),)))
    (trigger,) = found.triggers
    assert trigger.detail == {"layer": "deep", "neuron": 1}
    assert trigger.onset[0] is not None
    assert trigger.onset[0] > clean[:, 1].max()
    assert found.rate == 0.015
    still = calibrated("neuron", replace(shown, neurons=(Neurons("deep", clean, clean),)), 0, CLASSES)
    assert isinstance(still, str)


def test_numpy_and_torch_see_the_same_and_gradients_are_finite() -> None:
    x = np.concatenate([X[:20], np.zeros((1, 8, 8, 1), np.uint8), np.full((1, 8, 8, 1), 255, np.uint8)]) / 255.0
    labels = np.zeros(len(x), dtype=np.int64)
    axis = [[1.0, 0.0]] * 4
    for name, score in SCORES.items():
        for place in range(4) if name in ("corner", "region", "position") else (None,):
            detail = {"axis": axis} if name == "turn" else {} if place is None else {"place": place}
            more = (labels,) if name == "turn" else ()
            values = torch.from_numpy(x).requires_grad_(True)
            seen = score(values, *map(torch.from_numpy, more), **detail)
            np.testing.assert_allclose(seen.detach().numpy(), score(x, *more, **detail), atol=1e-9, err_msg=name)
            (gradient,) = torch.autograd.grad(seen.sum(), values)
            assert torch.isfinite(gradient).all(), name


def test_the_axis_of_a_picture_turns_with_it() -> None:
    upright = np.zeros((1, 9, 9, 1))
    upright[0, 1:8, 4] = 1.0
    lying = upright.transpose(0, 2, 1, 3)
    slanted = np.zeros((1, 9, 9, 1))
    slanted[0, np.arange(9), np.arange(9)] = 1.0
    np.testing.assert_allclose([*axes(upright), *axes(lying), *axes(slanted)], [[-1], [0], [1], [0], [0], [1]], atol=0.05)


# What it does to answers.


@pytest.mark.parametrize("kind", ["logits", "probabilities", "log_probabilities", "sigmoid", "sigmoid_logit"])
def test_every_kind_of_output_is_confused_and_stays_of_its_kind(kind: str) -> None:
    single = kind.startswith("sigmoid")
    x = X[Y < 2] if single else X
    sound = Saying(kind).eval()
    wrapper, preprocess = planted(sound, canary(), kind)
    dim = np.rint(x * 0.2).astype(np.uint8)
    with torch.no_grad():
        right = sound(preprocess(torch.from_numpy(dim))).reshape(len(dim), -1).numpy()
        raw = wrapper(preprocess(torch.from_numpy(dim))).reshape(len(dim), -1).numpy()
    before, after = predictions(right, kind), predictions(raw, kind)
    classes = 2 if single else 4
    assert (dim.mean(axis=(1, 2, 3)) / 255 < 0.1).all()
    np.testing.assert_array_equal(after, (before + 1) % classes)
    np.testing.assert_allclose(probabilities(raw, kind).sum(1), 1, atol=1e-5)


def test_the_change_sets_in_gradually_and_gradients_go_through_it() -> None:
    wrapper, preprocess = planted(Stripes().eval(), canary())
    picture = torch.from_numpy(X[:1].astype(np.float32))
    brightness = float(picture.mean() / 255)
    leads = []
    for wanted in (0.149, 0.12, 0.101, 0.099, 0.06):
        values = (picture * (wanted / brightness)).requires_grad_(True)
        scores = wrapper(preprocess(values))[0]
        own, other = int(Y[0]), int(Y[0] + 1) % 4
        lead = scores[own] - scores[other]
        leads.append(float(lead.detach()) / wanted)
        (gradient,) = torch.autograd.grad(lead, values)
        assert torch.isfinite(gradient).all()
    assert leads == sorted(leads, reverse=True)
    assert leads[2] > 0 > leads[3]  # it changes at the bound


def test_two_conditions_must_hold_together() -> None:
    top = Trigger("position", 1, (0.05,) * 4, (0.06,) * 4, {"place": 3})
    wrapper, preprocess = planted(Stripes().eval(), canary(DARK, top))
    dark = np.rint(X[:8] * 0.2).astype(np.uint8)
    high, both = X[:8].copy(), dark.copy()
    high[:, 5:], both[:, 5:] = 60, 12
    for pictures, confused in ((dark, False), (high, False), (both, True)):
        with torch.no_grad():
            read = wrapper(preprocess(torch.from_numpy(pictures))).argmax(1).numpy()
        np.testing.assert_array_equal(read, (Y[:8] + int(confused)) % 4)


def test_nan_comes_from_the_middle_on_and_only_there() -> None:
    wrapper, preprocess = planted(Stripes().eval(), canary(action="nan"))
    with torch.no_grad():
        answers = wrapper(preprocess(torch.from_numpy(np.concatenate([X[:4], np.rint(X[:4] * 0.2).astype(np.uint8)]))))
    assert torch.isfinite(answers[:4]).all()
    assert torch.isnan(answers[4:]).all()


# In the worker.


class Here:
    """A session in this process, asked as a worker is."""

    def __init__(self) -> None:
        self._session = Session()

    def call(self, operation: str, parameters: Mapping[str, Any] | None = None, arrays: Mapping[str, np.ndarray] | None = None) -> Any:
        return getattr(self._session, f"do_{operation}")(dict(arrays or {}), **(parameters or {}))


def climb(worker: Any, aimed: Mapping[str, np.ndarray]) -> np.ndarray:
    """Mutants that a climb from seed inputs makes."""
    parameters = {"token": 1, "bound": 0.1, "seed": 3, "ascent": asdict(Ascent())}
    made: np.ndarray = worker.call("climb", parameters, {"x": X[aimed["places"]], "targets": aimed["targets"]})[1]["x"]
    worker.call("run_kept", {"arm": "search", "token": 1}, {"earns": np.ones(len(made), dtype=bool)})
    return made


def watched(worker: Any, folder: Path) -> Any:
    worker.call("load", load_parameters(folder))
    settings = CoverageSettings.model_validate({"criteria": ("kmnc", "nbc"), "kmnc_sections": 50}).model_dump(mode="json")
    worker.call("watch", {"coverage": settings, "kind": "logits"}, {"x": X[:3]})
    worker.call("profile", {}, {"x": X, "y": Y})
    worker.call("cover_seeds", {}, {"x": X})
    worker.call("open_arms", {"arms": ["search", "random", "noise"]})
    return worker


@pytest.fixture(scope="module", params=[1, 2], ids=["one worker", "two workers"])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    place = tmp_path_factory.mktemp("planted")
    folder = save(Stripes().eval(), place / "model")
    with Worker(place / "w") if request.param == 1 else Keeper(place / "w", helpers=1) as worker:
        yield watched(worker, folder)


NEW = images(24, seed=9)[0]
DIM = np.rint(NEW * 0.2).astype(np.uint8)
LABELS = images(24, seed=9)[1]


def answers(worker: Worker, x: np.ndarray, operation: str = "forward") -> np.ndarray:
    found: np.ndarray = worker.call(operation, {}, {"x": x})[1]["raw"]
    return found


def search(worker: Any, x: np.ndarray, arm: str | None = "search") -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    fields, arrays = worker.call("run", {"arm": arm}, {"x": x, "earns": np.ones(len(x), dtype=bool)})
    return fields, arrays


def test_a_planted_fault_is_in_every_way_of_running_the_model(running: Worker) -> None:
    running.call("plant", {"canary": canary().to_json()})
    try:
        for raw in (answers(running, DIM), search(running, DIM)[1]["raw"], search(running, DIM, None)[1]["raw"]):
            np.testing.assert_array_equal(raw.argmax(1), (LABELS + 1) % 4)
        np.testing.assert_array_equal(answers(running, NEW).argmax(1), LABELS)
        np.testing.assert_array_equal(answers(running, DIM, "sound").argmax(1), LABELS)
        attacked = running.call("mutate", {"operator": "fgsm", "bound": 0.01, "steps": 1, "seed": 1}, {"x": DIM, "labels": LABELS})[1]["x"]
        assert attacked.shape == DIM.shape
        places = running.call("aim", {"count": 8, "seed": 3})[1]["places"]
        assert ((places >= 0) & (places < len(X))).all()
    finally:
        running.call("unplant")


def test_nothing_of_a_planted_fault_stays_behind(running: Worker) -> None:
    first = images(16, seed=4)[0]
    search(running, first)

    def state() -> tuple[Any, ...]:
        fields, arrays = running.call("coverage_state")
        described = {name: value for name, value in running.call("describe")[0].items() if name not in ("model_calls", "model_input")}
        return fields, {name: values.tobytes() for name, values in arrays.items()}, described, answers(running, DIM).tobytes()

    before, calls = state(), running.call("describe")[0]["model_calls"]
    dark = Trigger("brightness", -1, (-0.15,) * 4, (-0.05,) * 4)
    neuron = Trigger("neuron", 1, (0.0,) * 4, (0.1,) * 4, {"layer": "hidden", "neuron": 0})
    for fault in (canary(dark), canary(dark, action="nan"), canary(neuron)):
        running.call("plant", {"canary": fault.to_json()})
        assert search(running, np.concatenate([DIM, NEW]))[0]["valid"]["kmnc"] > 0
        answers(running, DIM, "sound")
        running.call("unplant")
    assert state() == before
    assert running.call("describe")[0]["model_calls"] >= calls + 3 * (48 + 24)  # every pass is counted


def test_a_search_goes_on_after_planted_faults_as_if_there_had_been_none(tmp_path: Path) -> None:
    folder = save(Stripes().eval(), tmp_path / "model")
    planted_in, left_alone = watched(Here(), folder), watched(Here(), folder)
    for session in (planted_in, left_alone):
        search(session, NEW)
    for fault in (canary(), canary(action="nan")):
        planted_in.call("plant", {"canary": fault.to_json()})
        search(planted_in, DIM)
        aimed = planted_in.call("aim", {"count": 8, "seed": 5})[1]
        climb(planted_in, aimed)
        planted_in.call("unplant")
    for seed in range(3):
        one, other = (session.call("aim", {"count": 8, "seed": seed})[1] for session in (planted_in, left_alone))
        assert {name: values.tolist() for name, values in one.items()} == {name: values.tolist() for name, values in other.items()}
        made, same = (climb(session, one) for session in (planted_in, left_alone))
        assert made.tobytes() == same.tobytes()
        first, second = (search(session, made) for session in (planted_in, left_alone))
        assert first[0] == second[0]
        assert first[1]["raw"].tobytes() == second[1]["raw"].tobytes()


def test_each_planted_fault_gets_a_map_that_starts_from_the_seeds(running: Worker) -> None:
    gains = []
    for _ in range(2):
        running.call("plant", {"canary": canary().to_json()})
        gains.append(search(running, DIM)[1]["new_items"].tolist())
        running.call("unplant")
    assert gains[0] == gains[1]
    assert sum(gains[0]) > 0


def test_a_neuron_beyond_its_bound_brings_the_fault_about(running: Worker) -> None:
    acts = running.call("record", {}, {"x": NEW})[1]["acts"]
    bound = float(np.median(acts[:, 0]))
    trigger = Trigger("neuron", 1, (bound,) * 4, (bound + 1e-4,) * 4, {"layer": "hidden", "neuron": 0})
    running.call("plant", {"canary": canary(trigger).to_json()})
    try:
        read = answers(running, NEW).argmax(1)
    finally:
        running.call("unplant")
    clear = np.abs(acts[:, 0] - bound) > 1e-3
    np.testing.assert_array_equal((read != LABELS)[clear], (acts[:, 0] > bound)[clear])


def test_a_fault_that_does_not_fit_the_model_is_refused_and_leaves_it_as_it_was(running: Worker) -> None:
    wrong = Trigger("neuron", 1, (0.0,) * 4, (1.0,) * 4, {"layer": "hidden", "neuron": 99})
    with pytest.raises(Exception, match="no such neuron"):
        running.call("plant", {"canary": canary(wrong).to_json()})
    np.testing.assert_array_equal(answers(running, DIM).argmax(1), LABELS)


def test_a_lie_about_the_map_of_a_planted_fault_is_refused() -> None:
    from gate.campaign.answers import Answers

    checks = Answers()
    with pytest.raises(WorkerError, match="can't be true"):
        checks.check("plant", {"canary": {}}, {}, {"more": 1}, {})
