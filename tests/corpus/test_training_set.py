"""The augmentation that comes with a training set runs, keeps what a picture is, and covers the range in which the network failed."""

from __future__ import annotations

import importlib.util
import json
import math
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from test_export import make_run

from gate.corpus.export import Training, export, half_of
from gate.corpus.trainable import failing_operators
from gate.domains.image import picture
from gate.domains.image.albumentations_adapter import pipeline
from gate.domains.image.augmentation import augmentation_of, change_in_words, limit_of
from gate.domains.image.limits import Domain
from gate.domains.image.operators import OPERATORS
from gate.errors import UsageError
from gate.result import Minimal, Result

EVERYTHING = Domain.model_validate(
    {
        "geometry": {"horizontal_flip": 0.5, "vertical_flip": 0.5, "transpose": 0.5},
        "photometry": {"solarize": 0.3, "invert": 0.5, "equalize": 1.0, "clahe": 1.0, "sepia": 1.0},
        "weather": {"fog": 0.7},
    }
)


def step(operator: str, severity: float) -> dict[str, Any]:
    return {"operator": operator, "severity": severity, "draw": 1, "parameters": {}}


def exported(tmp_path: Path, recipe: tuple[dict[str, Any], ...], *, domain: Domain | None = None, **changes: Any) -> tuple[Result, Path]:
    result = make_run(tmp_path / "run", recipe=recipe, **changes)
    training = Training(domain or Domain(), (0.0, 255.0))
    export(result, tmp_path / "run", tmp_path / "out", half="a", load=picture.load, training=training)
    return result, tmp_path / "out"


def loaded(out: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("augment", out / "augment.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("shape", [(8, 8, 1), (28, 28, 1), (64, 48, 3), (32, 32, 4)])
def test_every_transform_runs_and_keeps_shape_dtype_and_range(shape: tuple[int, int, int]) -> None:
    levels = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    ran = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # how the library says that it does not know an argument
        for name, operator in OPERATORS.items():
            if not operator.fits(shape):
                continue
            limit = limit_of(EVERYTHING, name)
            assert limit is not None, name
            made = augmentation_of(name, limit, shape)
            assert made.transforms or made.remark, name
            assert "{" not in change_in_words(name, limit)
            if not made.transforms:
                continue
            composed, described = pipeline([(one, 1.0) for one in made.transforms], 1.0)
            json.dumps(described)
            for x in (levels, (levels / 255).astype(np.float32)):
                changed = composed(image=x)["image"]
                assert (changed.shape, changed.dtype) == (x.shape, x.dtype), name
                assert 0 <= changed.min() <= changed.max() <= (255 if x.dtype == np.uint8 else 1), name
            ran += 1
    assert ran > 25


def test_the_pipeline_runs_on_the_exported_pictures(tmp_path: Path) -> None:
    _, out = exported(tmp_path, (step("gamma", 0.2), step("rotation", 0.5)))
    module = loaded(out)
    changes = module.augmentation()
    with np.load(out / "train.npz") as stored:
        x = stored["x"]
    changes.set_random_seed(0)
    changed = np.stack([module.augmented(one, changes) for one in x for _ in range(100)])
    assert (changed.dtype, changed.shape[1:]) == (x.dtype, x.shape[1:])
    share = np.mean([not np.array_equal(one, x[row // 100]) for row, one in enumerate(changed)])
    assert 0.6 < share < 0.85  # three pictures in four are changed; a draw of next to nothing changes none
    import albumentations

    same = albumentations.load(out / "augment.json")
    assert albumentations.to_dict(same) == albumentations.to_dict(changes)


def test_floats_keep_their_own_range_of_values(tmp_path: Path) -> None:
    result = make_run(tmp_path / "run", recipe=(step("brightness", 0.5),))
    for defect in result.defects:
        sample = np.random.default_rng(1).uniform(-2, 2, (8, 8, 1)).astype(np.float32)
        picture.save(tmp_path / "run" / "defects" / defect.id / "mutant", sample, (-2.0, 2.0))
    files = {d.id: {**d.files, "mutant_data": f"defects/{d.id}/mutant.npz"} for d in result.defects}
    result = result.model_copy(update={"defects": tuple(d.model_copy(update={"files": files[d.id]}) for d in result.defects)})
    training = Training(Domain(), (-2.0, 2.0))
    export(result, tmp_path / "run", tmp_path / "out", half="a", load=picture.load, training=training)
    module = loaded(tmp_path / "out")
    with np.load(tmp_path / "out" / "train.npz") as stored:
        x = stored["x"]
    changes = module.augmentation()
    changed = np.stack([module.augmented(x[0], changes) for _ in range(50)])
    assert changed.dtype == np.float32
    assert -2.0 <= changed.min() < changed.max() <= 2.0
    means = (changed - x[0]).mean(axis=(1, 2, 3))
    assert 0.4 < means.max() <= 1.01  # a quarter of the range of 4 either way
    assert -1.01 <= means.min() < -0.4


def test_rotations_are_drawn_over_the_whole_failing_range(tmp_path: Path) -> None:
    """Measured on the picture of one bright pixel: its angle about the middle."""
    _, out = exported(tmp_path, (step("rotation", 0.4),), domain=Domain.model_validate({"geometry": {"rotation": 30.0}}))
    changes = loaded(out).augmentation()
    picture_ = np.zeros((65, 65, 1), np.uint8)
    picture_[32, 57:60] = 255
    angles = []
    for _ in range(600):
        changed = changes(image=picture_)["image"][..., 0].astype(float)
        rows, columns = np.indices(changed.shape)
        y, x = (rows * changed).sum() / changed.sum() - 32, (columns * changed).sum() / changed.sum() - 32
        angles.append(math.degrees(math.atan2(y, x)))
    assert 28 < max(angles) < 31
    assert -31 < min(angles) < -28
    beyond = np.abs(angles) > 12  # where the defects were found: 0.4 of 30 degrees
    assert 0.3 < beyond.mean() < 0.6


@pytest.mark.parametrize(
    ("operator", "reach"),
    [("translation", 0.08), ("gamma", 2.0), ("gaussian_noise", 0.1), ("gaussian_blur", 0.02 * 28), ("patch", 0.05), ("jpeg", 25)],
)
def test_the_range_ends_at_the_policys_limit(operator: str, reach: float) -> None:
    (transform,) = augmentation_of(operator, limit_of(Domain(), operator), (28, 28, 1)).transforms
    arguments = transform.arguments
    ends = {
        "translation": lambda: arguments["translate_percent"]["x"][1],
        "gamma": lambda: arguments["gamma_limit"][1] / 100,
        "gaussian_noise": lambda: arguments["std_range"][1],
        "gaussian_blur": lambda: arguments["sigma_limit"][1],
        "patch": lambda: arguments["hole_height_range"][1] * arguments["hole_width_range"][1],
        "jpeg": lambda: arguments["quality_range"][0],
    }
    assert ends[operator]() == pytest.approx(reach)


def test_what_the_library_lacks_is_said_and_left_out(tmp_path: Path) -> None:
    _, out = exported(tmp_path, (step("snow", 0.4), step("fog", 0.2)))
    assert not (out / "augment.py").exists()
    said = (out / "README.md").read_text()
    assert "| snow | 12 |" in said
    assert "left out" in said
    assert "gate regress" in said


def test_an_edited_record_puts_nothing_into_the_program(tmp_path: Path) -> None:
    hostile = "rotation', p=1)\nimport os\nos.system('touch pwned')#"
    recipe = ({**step(hostile, 0.5)}, step("rotation", 0.5), step("fog", float(10**9)), {"operator": ["x"]}, {"operator": "gamma"})
    _, out = exported(tmp_path, recipe)
    text = (out / "augment.py").read_text()
    assert "os.system" not in text + (out / "README.md").read_text()
    assert "A.Rotate(" in text
    assert "RandomGamma" not in text


def test_an_operator_that_the_policy_switches_off_is_left_out(tmp_path: Path) -> None:
    _, out = exported(tmp_path, (step("rotation", 0.5), step("gamma", 0.1)), domain=Domain.model_validate({"geometry": {"rotation": 0}}))
    text = (out / "augment.py").read_text()
    assert "A.Rotate" not in text
    assert "# rotation: left out. The policy switches it off." in text


def test_for_training_one_half_stays_back(tmp_path: Path) -> None:
    result = make_run(tmp_path / "run", recipe=(step("rotation", 0.5),))
    training = Training(Domain(), (0.0, 255.0))
    with pytest.raises(UsageError, match="none is left"):
        export(result, tmp_path / "run", tmp_path / "out", half="all", load=picture.load, training=training)
    assert not (tmp_path / "out").exists()
    written = export(result, tmp_path / "run", tmp_path / "out", half="b", load=picture.load, training=training)
    assert written.augmentation
    assert written.held_out == sum(half_of(defect.seed_id) == "a" for defect in result.defects) > 0


@pytest.mark.parametrize("oracle", ["crash", "timeout", "numeric_path", "baseline_disagreement", "batch_dependence", "saturated", "flaky"])
def test_what_other_weights_would_not_change_is_never_exported(tmp_path: Path, oracle: str) -> None:
    result = make_run(tmp_path / "run")
    defects = tuple(d.model_copy(update={"oracle": oracle}) if n % 2 else d for n, d in enumerate(result.defects))
    run = result.model_copy(update={"defects": defects})
    written = export(run, tmp_path / "run", tmp_path / "out", half="all", load=picture.load)
    assert written.exported == sum(d.oracle == "changed_prediction" for d in defects) == len(defects) // 2


def test_a_minimised_defect_fails_from_its_own_severity_up_to_the_one_it_was_found_at() -> None:
    result = make_run_of_one(step("rotation", 0.3), step("rotation", 0.8), step("fog", 0.1))
    (operator,) = failing_operators(result)
    assert (operator.name, operator.defects, operator.mildest, operator.severest) == ("rotation", 1, 0.3, 0.8)


def make_run_of_one(now: dict[str, Any], *found: dict[str, Any]) -> Any:
    from gate.result import Defect

    minimal = Minimal(found_recipe=found, found_severity=0.9, found_area=1.0, area=1.0, model_calls=3, complete=True)
    return (
        Defect(
            id="d-000000000000",
            arm="search",
            seed_id="s",
            label=0,
            predicted=1,
            confidence_before=1.0,
            confidence_after=1.0,
            oracle="changed_prediction",
            operator="rotation",
            family="geometry",
            families=("geometry",),
            natural=True,
            severity=0.3,
            recipe=(now,),
            root_cause="rc-000000000000",
            minimal=minimal,
        ),
    )
