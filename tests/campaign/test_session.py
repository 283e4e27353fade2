"""What the worker keeps apart: each arm's map, valid and raw coverage, one model and the next."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from known_model import images
from preflight_models import Answering
from saved_models import Saying, Stripes, load_parameters, save

from gate.campaign.ascent_options import Ascent
from gate.campaign.supervisor import Worker
from gate.config import CoverageSettings
from gate.demo.network import DigitsNet
from gate.errors import ConfigError
from gate.models.outputs import OutputKind, predictions, probabilities


def watch(
    worker: Worker, folder: Path, x: np.ndarray, *, classes: int = 4, y: np.ndarray | None = None, kind: str = "logits", **coverage: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the worker answered to ``watch`` and ``open_arms``."""
    worker.call("load", load_parameters(folder, classes=classes))
    settings = CoverageSettings.model_validate(coverage).model_dump(mode="json")
    fields, _ = worker.call("watch", {"coverage": settings, "kind": kind}, {"x": x[:3]})
    assert fields["gradients"]
    worker.call("profile", {}, {"x": x, "y": np.arange(len(x)) % classes if y is None else y})
    worker.call("cover_seeds", {}, {"x": x})
    return fields, worker.call("open_arms", {"arms": ["search", "random", "noise"]})[0]


@pytest.fixture
def watching(worker: Worker, tmp_path: Path) -> Worker:
    watch(worker, save(Stripes(trap=0.15).eval(), tmp_path / "model"), images(40)[0], criteria=("kmnc", "nbc"), kmnc_sections=50)
    return worker


def covered(worker: Worker) -> dict[str, int]:
    return {name: found["covered"] for name, found in worker.call("coverage")[0]["criteria"].items()}


def run(worker: Worker, arm: str | None, x: np.ndarray, earns: bool) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    return worker.call("run", {"arm": arm}, {"x": x, "earns": np.full(len(x), earns)})


def climb(worker: Worker, x: np.ndarray, token: int = 1) -> dict[str, np.ndarray]:
    """Mutants of seed inputs ``x``, all of which the worker was shown, that reach for what is not covered; and which input each is of."""
    places = worker.call("aim", {"count": len(x), "seed": 3})[1]
    parameters = {"token": token, "bound": 0.1, "seed": 3, "ascent": asdict(Ascent())}
    made = worker.call("climb", parameters, {"x": x[places["places"]], "targets": places["targets"]})[1]
    return {"x": made["x"], "of": places["places"][made["rows"]]}


NEW = images(60, seed=9)[0]
DARK = (NEW * 0.3).astype(np.uint8)


def test_what_is_invalid_is_seen_and_earns_nothing(watching: Worker) -> None:
    before = covered(watching)
    fields, arrays = run(watching, "search", DARK, False)
    assert covered(watching) == before
    assert not arrays["new_items"].any()
    assert all(fields["raw"][name] > fields["valid"][name] for name in before)
    earned, arrays = run(watching, "search", DARK, True)
    after = covered(watching)
    assert all(after[name] > before[name] for name in before)
    assert arrays["new_items"].sum() == sum(after.values()) - sum(before.values())
    assert earned["valid"] == fields["raw"]


@pytest.mark.parametrize("arm", ["random", "noise", None])
def test_no_other_arm_touches_the_searchs_map(watching: Worker, arm: str | None) -> None:
    before = covered(watching)
    first, arrays = run(watching, arm, DARK, True)
    assert covered(watching) == before
    assert arrays["raw"].shape == (60, 4)
    if arm is not None:
        assert arrays["new_items"].sum() > 0
        again, arrays = run(watching, arm, DARK, True)
        assert again == first
        assert not arrays["new_items"].any()


def test_looking_at_inputs_covers_nothing(watching: Worker) -> None:
    before = covered(watching)
    watching.call("forward", {}, {"x": DARK})
    _, arrays = watching.call("features", {}, {"x": DARK})
    assert arrays["features"].shape == (60, 4)
    for operator in ("fgsm", "pgd"):
        watching.call("mutate", {"operator": operator, "bound": 0.1, "steps": 2, "seed": 1}, {"x": NEW, "labels": images(60)[1]})
    climb(watching, images(40)[0])
    assert covered(watching) == before


@pytest.mark.parametrize(("operator", "steps"), [("fgsm", 1), ("pgd", 5)])
def test_mutants_of_the_model_keep_the_bound_the_dtype_and_repeat(watching: Worker, operator: str, steps: int) -> None:
    x, y = images(40)
    parameters = {"operator": operator, "bound": 0.1, "steps": steps, "seed": 3}
    _, arrays = watching.call("mutate", parameters, {"x": x, "labels": y})
    mutants = arrays["x"]
    assert mutants.dtype == np.uint8
    change = np.abs(mutants.astype(int) - x.astype(int)).max(axis=(1, 2, 3))
    assert (change <= np.ceil(0.1 * 255)).all()
    assert (change > 0).mean() > 0.9
    np.testing.assert_array_equal(watching.call("mutate", parameters, {"x": x, "labels": y})[1]["x"], mutants)


def test_climbs_keep_the_bound_and_the_dtype(watching: Worker) -> None:
    x = images(40)[0]
    made = climb(watching, x)
    assert made["x"].dtype == np.uint8
    change = np.abs(made["x"].astype(int) - x[made["of"]].astype(int)).max(axis=(1, 2, 3))
    assert len(change) > len(x)
    assert (change > 0).mean() > 0.9
    assert (change <= 0.1 * 255).all()


def test_a_new_model_starts_from_nothing(watching: Worker, tmp_path: Path) -> None:
    x, _ = images(8)
    watching.call("load", load_parameters(save(Answering("dict").eval(), tmp_path / "other")))
    raw = watching.call("forward", {}, {"x": x})[1]["raw"]
    assert raw.shape == (8, 4)
    assert watching.call("describe")[0]["model_calls"] == 8


def test_model_calls_are_counted(watching: Worker) -> None:
    def calls() -> int:
        return int(watching.call("describe")[0]["model_calls"])

    before = calls()
    run(watching, "search", DARK, True)
    assert calls() == before + 60
    watching.call("mutate", {"operator": "fgsm", "bound": 0.1, "steps": 1, "seed": 1}, {"x": NEW, "labels": images(60)[1]})
    assert calls() == before + 60 + 3 * 60


def test_the_coverage_gradient_reaches_more_than_random_steps_of_the_same_size(worker: Worker, tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = images(64)[0]
    watch(worker, save(DigitsNet().eval(), tmp_path / "model"), x, criteria=("nbc",), classes=10)
    made = climb(worker, x)
    change = np.abs(made["x"].astype(int) - x[made["of"]]).max(axis=(1, 2, 3), keepdims=True)
    steps = np.random.default_rng(0).choice([-1, 1], size=made["x"].shape) * change
    aimed = worker.call("run_kept", {"arm": "search", "token": 1}, {"earns": np.ones(len(made["x"]), dtype=bool)})[1]
    _, blind = run(worker, "random", np.clip(x[made["of"]].astype(int) + steps, 0, 255).astype(np.uint8), True)
    assert aimed["new_items"].sum() > 1.2 * blind["new_items"].sum()


@pytest.mark.parametrize("kind", list(OutputKind))
def test_answers_are_read_as_the_supervisor_reads_them_whatever_their_kind(kind: OutputKind, worker: Worker, tmp_path: Path) -> None:
    classes = 2 if kind.startswith("sigmoid") else 4
    x = images(40)[0]
    folder = save(Saying(str(kind)).eval(), tmp_path / "model")
    watch(worker, folder, x, classes=classes, kind=str(kind), layers=("stripes.hidden",), criteria=("output",), output_sections=7)
    answered = run(worker, "search", DARK, True)[1]["raw"]
    raw = np.concatenate([worker.call("forward", {}, {"x": x})[1]["raw"], answered])
    label, confidence = predictions(raw, kind), probabilities(raw, kind).max(1)
    section = np.minimum((confidence - 1 / classes) / (1 - 1 / classes) * 7, 6).astype(int)
    expected = [len(set(section[label == one])) / 7 for one in range(classes)]
    assert worker.call("coverage")[0]["criteria"]["output"]["by_class"] == pytest.approx(expected)
    assert len(set(label)) == classes
    assert 0 < sum(expected) < classes


def test_the_layers_are_told_with_their_ranges_over_the_profile_set(worker: Worker, tmp_path: Path) -> None:
    x = images(40)[0]
    folder = save(Stripes(trap=0.15).eval(), tmp_path / "model")
    _, opened = watch(worker, folder, x, layers=("hidden", "head"), criteria=("nc",))
    raw = worker.call("forward", {}, {"x": x})[1]["raw"]
    hidden, head = opened["layers"]
    assert (head["low"], head["high"]) == (float(raw.min()), float(raw.max()))
    assert [layer["name"] for layer in opened["layers"]] == ["hidden", "head"]
    assert [layer["head"] for layer in opened["layers"]] == [False, True]
    assert [layer["neurons"] for layer in opened["layers"]] == [5, 4]
    assert hidden["low"] < 0 < hidden["high"] == head["high"]
    assert (hidden["constant"], head["constant"]) == (0, 0)
    assert hidden["type"].endswith("Linear")
    black = np.zeros((5, 8, 8, 1), dtype=np.uint8)
    _, opened = watch(worker, folder, black, layers=("hidden",), criteria=("nc",))
    assert opened["layers"][0]["constant"] == 5
    assert (opened["layers"][0]["low"], opened["layers"][0]["high"]) == (0.0, pytest.approx(0.15))


def test_a_statistic_guides_with_its_gains_and_what_falls_takes_nothing_away(worker: Worker, tmp_path: Path) -> None:
    folder = save(Stripes(trap=0.15).eval(), tmp_path / "model")
    x = images(40)[0]
    fields, opened = watch(worker, folder, x, layers=("hidden",), criteria=("kmnc", "nlc"), kmnc_sections=500)
    assert fields["steerable"] is True
    told, arrays = run(worker, "search", DARK, True)
    new = arrays["new_items"]  # darker pictures vary less, so the statistic falls by them
    assert new.sum() == round(told["valid"]["kmnc"] * 2500) - round(opened["coverage"]["kmnc"] * 2500) > 0
    assert told["discovery"]["nlc"] is None
    assert told["discovery"]["kmnc"]["executions"] == 60
    fuller, arrays = run(worker, "search", NEW // 8 + 220, True)
    assert fuller["valid"]["nlc"] > told["valid"]["nlc"]
    assert (arrays["new_items"] != np.floor(arrays["new_items"])).any()
    assert run(worker, "random", DARK, True)[0]["discovery"] == {"kmnc": None, "nlc": None}
    watch(worker, folder, x, layers=("hidden",), criteria=("kmnc", "nlc"), guide=("kmnc",), kmnc_sections=500)
    before = covered(worker)["kmnc"]
    new = run(worker, "search", DARK, True)[1]["new_items"]
    assert new.sum() == covered(worker)["kmnc"] - before > 0


@pytest.mark.parametrize(
    ("criteria", "guide", "steerable"),
    [
        (("output",), None, False),
        (("output", "map", "tknp", "nlc"), None, False),
        (("output", "kmnc"), None, True),
        (("output", "kmnc"), ("output",), False),
        (("tknc",), None, True),
    ],
)
def test_where_no_guide_knows_the_way_nothing_is_steered(
    criteria: tuple[str, ...], guide: tuple[str, ...] | None, steerable: bool, worker: Worker, tmp_path: Path
) -> None:
    x = images(20)[0]
    folder = save(Stripes().eval(), tmp_path / "model")
    fields, _ = watch(worker, folder, x, layers=("hidden",), criteria=criteria, guide=guide)
    assert fields["steerable"] is steerable
    if steerable:
        assert climb(worker, x)["x"].shape[1:] == x.shape[1:]


def test_a_profile_set_that_a_criterion_can_do_nothing_with_is_a_fault_of_the_settings(worker: Worker, tmp_path: Path) -> None:
    folder = save(Stripes().eval(), tmp_path / "model")
    same = np.repeat(images(1)[0], 5, axis=0)
    with pytest.raises(ConfigError, match="varies over the profile set") as caught:
        watch(worker, folder, same, layers=("hidden",), criteria=("kmnc",))
    assert caught.value.exit_code == 2
